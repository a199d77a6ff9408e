mod ilnp;
mod shim6;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_datapath::ilnp::{ChecksumMode, SessionEntry, Socket};
use moorline_datapath::shim6::ContextEntry;
use moorline_host::model::OneSocket;
use moorline_plane::{By, Inbound, Outbound, Planes};
use moorline_types::{ContextId, Instant, Locator, SessionId};

use crate::input::Input;
use crate::shared::polled;

/// The user-space data planes, one behind the other, between sockets that send any packets and a network that delivers
/// any packets. The first octet is the configuration.
///
/// Promises: no panic; a packet that is not rewritten is unchanged; no queue without end.
/// - Shim6: a packet with a payload header has the tag and locators of the context of its addresses. A packet delivered
///   from a payload header has the ULIDs of a context.
/// - ILNP: a sent packet has the locators of the session of its addresses. A delivered packet has the addresses of a
///   session, or its own. A right length stays right. A right checksum stays right, in the mode of the session.
///
/// An input is well formed if a packet was rewritten.
pub(crate) fn plane(input: &[u8]) -> bool {
    let mut input = Input::new(input);
    let mut world = World::new(input.octet());
    while let Some(step) = input.step() {
        world.step(step, &mut input);
        polled(MAX_POLLED, || world.planes.poll_report());
        let sessions = world.planes.ilnp.iter().map(|plane| plane.session_count()).sum::<usize>();
        assert!(sessions <= world.sessions.len());
    }
    world.rewritten > 0
}

struct World {
    planes: Planes,
    contexts: BTreeMap<ContextId, ContextEntry>,
    sessions: BTreeMap<SessionId, SessionEntry>,
    /// Sessions for which a packet with the nonce has left. Later packets have the checksum of the session (decision
    /// 131).
    told: BTreeSet<SessionId>,
    /// Checksum mode for incoming packets without a session.
    checksum: ChecksumMode,
    sockets: OneSocket,
    /// The last packet that left with a payload header.
    last: Vec<u8>,
    rewritten: usize,
    now: Instant,
}

impl World {
    fn new(flags: u8) -> Self {
        let checksum = if flags & 2 == 2 { ChecksumMode::Full } else { ChecksumMode::NidOnly };
        let ilnp = (flags & 4 == 0).then(|| ilnp::plane(flags & 1 == 1, checksum));
        Self {
            planes: Planes { shim6: shim6::plane(), ilnp },
            contexts: BTreeMap::new(),
            sessions: BTreeMap::new(),
            told: BTreeSet::new(),
            checksum,
            sockets: OneSocket(Socket::Connected),
            last: Vec::new(),
            rewritten: 0,
            now: Instant::from_nanos(1_000_000_000),
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % 14 {
            0 => self.upsert_context(input),
            1 => self.update_contexts(input),
            2 => self.send(&shim6::packet(input, shim6::LOCAL, shim6::PEER)),
            3 => self.receive(&shim6::packet(input, shim6::PEER, shim6::LOCAL)),
            4 => {
                let len = input.octet();
                let packet = input.take(len.into());
                self.send(packet);
                self.receive(packet);
            }
            5 => self.time(input),
            6 => self.change_locals(input),
            7 => self.return_last(input),
            8 => self.complain(input),
            9 => self.upsert_session(input),
            10 => self.remove_session(input),
            11 => self.send(&ilnp::packet(input, false)),
            12 => self.receive(&ilnp::packet(input, true)),
            _ => {
                let octet = input.octet();
                self.now = self.now + Duration::from_secs(u64::from(octet >> 2));
                self.sockets.0 = [Socket::None, Socket::Unconnected, Socket::Connected]
                    [usize::from(octet & 3).min(2)];
            }
        }
    }

    fn send(&mut self, packet: &[u8]) {
        let mut after = packet.to_vec();
        match self.planes.handle_outbound(&mut after, &self.sockets, self.now) {
            (_, Outbound::Pass) => assert_eq!(after, packet),
            (_, Outbound::Drop(_)) => {}
            (by, Outbound::Send { source }) => {
                assert_eq!(address(&after, 8), source);
                self.rewritten += 1;
                match by {
                    By::Shim6 => self.check_sent_by_context(packet, after),
                    By::Ilnp => self.check_sent_by_session(packet, &after),
                }
            }
        }
    }

    fn receive(&mut self, packet: &[u8]) {
        let mut after = packet.to_vec();
        match self.planes.handle_inbound(&mut after, &self.sockets, self.now) {
            (_, Inbound::Pass | Inbound::Up) => assert_eq!(after, packet),
            (_, Inbound::Drop(_)) => {}
            (by, Inbound::Deliver) => {
                self.rewritten += 1;
                match by {
                    By::Shim6 => self.check_delivered_by_context(packet, &after),
                    By::Ilnp => self.check_delivered_by_session(packet, &after),
                }
            }
        }
    }

    fn time(&mut self, input: &mut Input<'_>) {
        let plane = &mut self.planes.shim6;
        self.now = self.now + Duration::from_millis(u64::from(input.word()));
        plane.handle_timeout(self.now);
        assert!(plane.poll_timeout().is_none_or(|at| at > self.now), "a timeout in the past");
    }

    fn change_locals(&mut self, input: &mut Input<'_>) {
        let (mtu, local) = (usize::from(input.word()), Locator(input.pick(shim6::LOCAL)));
        match input.octet() % 2 {
            0 => self.planes.shim6.set_local_with_mtu(local, mtu),
            _ => self.planes.shim6.unset_local(local),
        }
    }
}

/// The address at an offset: 8 for the source, 24 for the destination.
fn address(packet: &[u8], at: usize) -> Ipv6Addr {
    let octets: [u8; 16] = std::array::from_fn(|i| packet[at + i]);
    octets.into()
}

/// More reports than any step causes.
const MAX_POLLED: usize = 10_000;
