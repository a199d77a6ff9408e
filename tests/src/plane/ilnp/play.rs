use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use moorline_datapath::ilnp::{Report, Socket, Sockets};
use moorline_plane::ilnp::{Outbound, Plane, Settings};
use moorline_types::{IlvPair, Instant};

use super::{Case, Check, Input, SocketText};
use crate::plane::{Fate, Hook, Packet, Player, compare};

/// The user-space plane of ILNP, with the sockets of a case.
#[derive(Debug)]
pub struct UserPlane {
    plane: Plane,
    sockets: SocketTable,
}

impl UserPlane {
    /// As a case finds it.
    #[must_use]
    pub fn new(case: &Case) -> Self {
        let (wanted, checksum) = case.settings();
        let settings = Settings { wanted, checksum, ..Settings::default() };
        let mut plane = Plane::new(settings, [0; 16]);
        plane.set_nids(case.nids().collect());
        Self { plane, sockets: SocketTable(case.sockets.clone()) }
    }
}

impl Player for UserPlane {
    type Input = Input;
    type Check = Check;

    fn packet(input: &Input) -> Option<&Packet> {
        input.packet()
    }

    fn update(&mut self, input: &Input, _now: u64) -> Result<(), String> {
        self.plane.handle_update(&input.update().ok_or("no update")?);
        Ok(())
    }

    fn run(&mut self, packet: &Packet, now: u64) -> Result<Fate, String> {
        if packet.segment.is_some() {
            return Err("super-packets are for the kernel alone".into());
        }
        let mut octets = packet.octets();
        let now = Instant::from_nanos(now);
        Ok(match packet.hook {
            Hook::UplinkEgress | Hook::MoorIngress => {
                let verdict = self.plane.handle_outbound(&mut octets, &self.sockets, now);
                fate_out(verdict, &packet.octets(), octets)
            }
            Hook::UplinkIngress => {
                let verdict = self.plane.handle_inbound(&mut octets, &self.sockets, now);
                Fate::inbound(verdict, octets)
            }
        })
    }

    fn check(&mut self, check: &Check) -> Result<(), String> {
        match check {
            Check::Reports(expected) => {
                let seen: Vec<_> = std::iter::from_fn(|| self.plane.poll_report()).collect();
                let expected: Vec<_> = expected.iter().map(Report::from).collect();
                compare("reports", &seen, &expected)
            }
            Check::Drops(expected) => {
                let seen: BTreeMap<_, _> =
                    self.plane.drops().map(|(reason, n)| (reason.to_string(), n)).collect();
                compare("drops", &seen, expected)
            }
        }
    }
}

fn fate_out(verdict: Outbound, before: &[u8], after: Vec<u8>) -> Fate {
    match verdict {
        Outbound::Pass => Fate::new("pass", after),
        Outbound::Send { .. } if after[ADDRESSES] == before[ADDRESSES] => Fate::new("send", after),
        Outbound::Send { source } => Fate { via: Some(source), ..Fate::new("redirect", after) },
        Outbound::Drop(reason) => Fate::dropped(reason),
    }
}

/// Source and destination in an IPv6 header.
const ADDRESSES: std::ops::Range<usize> = 8..40;

/// The sockets of a case.
#[derive(Debug)]
struct SocketTable(Vec<SocketText>);

impl Sockets for SocketTable {
    fn kind(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket {
        let local = (pair.local.address(), ports.0);
        let peer = Some((pair.remote.address(), ports.1));
        let of_protocol = || self.0.iter().filter(|socket| socket.protocol == protocol);
        let is_for_all = |socket: &SocketText| {
            let (address, port) = socket.local;
            socket.peer.is_none()
                && port == local.1
                && [local.0, Ipv6Addr::UNSPECIFIED].contains(&address)
        };
        if of_protocol().any(|socket| (socket.local, socket.peer) == (local, peer)) {
            Socket::Connected
        } else if of_protocol().any(is_for_all) {
            Socket::Unconnected
        } else {
            Socket::None
        }
    }

    fn any_between(&self, _pair: IlvPair) -> bool {
        unreachable!("a data plane does not ask")
    }
}
