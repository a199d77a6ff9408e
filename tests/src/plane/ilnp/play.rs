use std::net::Ipv6Addr;

use moorline_datapath::ilnp::{Socket, Sockets};
use moorline_plane::ilnp::{Outbound, Plane, Settings};
use moorline_types::{IlvPair, Instant};

use super::{Case, SocketText};
use crate::plane::{Bench, Fate, Hook, Packet};

/// The user-space plane of ILNP, with the sockets of a case.
#[derive(Debug)]
pub struct UserPlane {
    plane: Plane,
    sockets: SocketTable,
}

impl UserPlane {
    /// The plane at the start of a case.
    #[must_use]
    pub fn new(case: &Case) -> Self {
        let (wanted, checksum) = case.settings();
        let settings = Settings { wanted, checksum, ..Settings::default() };
        let mut plane = Plane::new(settings, [0; 16]);
        plane.set_nids(case.nids().collect());
        Self { plane, sockets: SocketTable(case.sockets.clone()) }
    }
}

impl Bench for UserPlane {
    type Plane = Plane;

    fn plane(&mut self) -> &mut Plane {
        &mut self.plane
    }

    fn run(&mut self, packet: &Packet, now: Instant) -> Result<Fate, String> {
        if packet.segment.is_some() {
            return Err("super-packets are for the kernel alone".into());
        }
        let (before, mut octets) = (packet.octets(), packet.octets());
        if packet.hook == Hook::UplinkIngress {
            let verdict = self.plane.handle_inbound(&mut octets, &self.sockets, now);
            return Ok(Fate::inbound(verdict, octets));
        }
        let verdict = self.plane.handle_outbound(&mut octets, &self.sockets, now);
        let is_sent = matches!(verdict, Outbound::Send { .. });
        Ok(if is_sent && octets[ADDRESSES] == before[ADDRESSES] {
            Fate::new("send", octets)
        } else {
            Fate::outbound(verdict, octets)
        })
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
