//! A host with ILNP in user space. The host has an echo service or is idle.

use std::sync::Arc;
use std::time;

use moorline_datapath::ilnp::Socket;
use moorline_datapath::ilnp::Sockets;
use moorline_ilnp::{Admit, Config, LocalLocator, LocalState, Machine, Open, Policy};
use moorline_plane::ilnp::{Inbound, Outbound, Plane, Settings};
use moorline_types::{Ilv, IlvPair, Instant};
use moorline_wire::ilnp::transport_checksum;
use moorline_wire::ip6::{IP6_LEN, Ip6, UDP};

use super::PolicyName;

/// Machine and data plane of a host, as in the daemon, and its sockets.
#[derive(Debug)]
pub(super) struct Host {
    machine: Machine,
    plane: Plane,
    sockets: Service,
    begin: time::Instant,
}

/// An echo service on an unconnected socket. Without a port, the host is idle.
#[derive(Clone, Copy, Debug)]
struct Service {
    port: Option<u16>,
}

impl Sockets for Service {
    fn kind(&self, _pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket {
        if protocol == UDP && self.port == Some(ports.0) {
            Socket::Unconnected
        } else {
            Socket::None
        }
    }

    fn any_between(&self, _pair: IlvPair) -> bool {
        false
    }
}

impl Host {
    /// Makes a host whose cache has room for `room` entries.
    pub(super) fn new(policy: PolicyName, room: usize, me: Ilv, port: Option<u16>) -> Self {
        let policy: Arc<dyn Policy> = match policy {
            PolicyName::Open => Arc::new(Open),
            PolicyName::Admit => Arc::new(Admit::of(room)),
        };
        let settings =
            Settings { max_sessions: room, wanted: policy.wanted(), ..Settings::default() };
        let config = Config { policy, max_sessions: room, ..Config::default() };
        let mut machine = Machine::new(config, SEED, START);
        let locators = vec![LocalLocator::new(me.l64)];
        machine.handle_local(
            &LocalState { nids: vec![me.nid], locators, ..LocalState::default() },
            START,
        );
        let sockets = Service { port };
        let mut plane = Plane::new(settings, KEY);
        plane.set_nids([me.nid].into());
        Self { machine, plane, sockets, begin: time::Instant::now() }
    }

    /// Number of entries in the cache.
    pub(super) const fn entries(&self) -> usize {
        self.machine.session_count()
    }

    /// Handles a packet from the network, from its IPv6 header on. Gives whether the packet goes to the transport
    /// layer. All effects of the packet are complete at the return, as at the return of `ip6_input_finish` in the
    /// study.
    pub(super) fn receive(&mut self, packet: &mut Vec<u8>, at: time::Instant) -> bool {
        let now = self.clock(at);
        let inbound = self.plane.handle_inbound(packet, &self.sockets, now);
        if inbound == Inbound::Up {
            self.machine.handle_control(packet, now);
            self.machine.answer_all(&self.sockets, now);
        }
        self.settle(inbound == Inbound::Up, now);
        matches!(inbound, Inbound::Pass | Inbound::Deliver)
    }

    /// Handles a packet of the service to the network. Gives whether the packet is sent.
    pub(super) fn send(&mut self, packet: &mut Vec<u8>, at: time::Instant) -> bool {
        let now = self.clock(at);
        let outbound = self.plane.handle_outbound(packet, &self.sockets, now);
        self.settle(false, now);
        !matches!(outbound, Outbound::Drop(_))
    }

    /// Handles expired timers.
    pub(super) fn look_at_timers(&mut self) {
        let now = self.clock(time::Instant::now());
        if self.machine.poll_timeout().is_some_and(|due| due <= now) {
            self.machine.handle_timeout(now);
            self.machine.answer_all(&self.sockets, now);
            self.settle(true, now);
        }
    }

    /// The next control message to the network.
    pub(super) fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.machine.poll_transmit().map(|transmit| transmit.packet)
    }

    /// The service's answer to a packet. `None` if the packet is not for the service, or its checksum is wrong.
    pub(super) fn answer(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let header = Ip6::read(packet)?;
        let udp = packet.get(IP6_LEN..)?;
        let (source, destination) = header.upper(packet).ports?;
        let is_ours = header.next_header == UDP && Some(destination) == self.sockets.port;
        let ends = [header.source, header.destination];
        let [from, to] = ends.map(Ilv::of);
        (is_ours && transport_checksum(from, to, UDP, udp) == 0).then_some(())?;
        let mut answer = packet.to_vec();
        // The checksum stays right, because a sum does not depend on the order of its terms.
        let [from, to] = ends.map(|end| end.octets());
        answer[8..IP6_LEN].copy_from_slice(&[to, from].concat());
        let ports = [destination, source].map(u16::to_be_bytes);
        answer[IP6_LEN..IP6_LEN + 4].copy_from_slice(&ports.concat());
        Some(answer)
    }

    /// Exchanges reports and updates between machine and plane. Does nothing if there is no report and the machine is
    /// not busy: most packets concern the plane alone.
    fn settle(&mut self, mut is_busy: bool, now: Instant) {
        loop {
            while let Some(report) = self.plane.poll_report() {
                self.machine.handle_report(report, now);
                is_busy = true;
            }
            if !is_busy {
                return;
            }
            is_busy = false;
            while let Some(update) = self.machine.poll_update() {
                self.plane.handle_update(&update);
                is_busy = true;
            }
            while self.machine.poll_event().is_some() {}
        }
    }

    fn clock(&self, at: time::Instant) -> Instant {
        START + at.saturating_duration_since(self.begin)
    }
}

const SEED: [u8; 32] = [7; 32];
const KEY: [u8; 16] = [1; 16];
const START: Instant = Instant::from_nanos(1_000_000_000);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hop::{ETHERNET_LEN, Hop};
    use crate::workload::ilnp::{Datagram, made_up};
    use moorline_types::{L64, Nid, Nonce};

    fn datagram() -> Datagram {
        let at = |nid| Ilv::new(L64(0x2001_0db8_0001_0000), Nid(nid));
        let hop = Hop { interface: "cable".into(), own: [1; 6], next: [2; 6] };
        let nonce = Some(Nonce::Short([1; 4]));
        Datagram { hop, source: at(0xa), destination: at(0xb), ports: (4000, 7), nonce }
    }

    /// Numbers of answers and entries after `count` datagrams of made-up correspondents.
    fn after(count: usize, policy: PolicyName, port: Option<u16>) -> (usize, usize) {
        let mut host = Host::new(policy, 300, datagram().destination, port);
        let (mut frame, mut vary) = made_up(datagram(), 1);
        let mut answers = 0;
        for _ in 0..count {
            vary(&mut frame);
            let mut packet = frame[ETHERNET_LEN..].to_vec();
            assert!(
                host.receive(&mut packet, time::Instant::now()),
                "it goes on to the transport layer"
            );
            assert_eq!(packet.len(), 68, "without its nonce");
            if let Some(mut answer) = host.answer(&packet) {
                assert_eq!(&answer[8..24], &packet[24..40]);
                assert!(host.send(&mut answer, time::Instant::now()));
                answers += 1;
            }
        }
        (answers, host.entries())
    }

    #[test]
    fn the_open_policy_makes_an_entry_for_each_up_to_its_bound() {
        assert_eq!(after(200, PolicyName::Open, None), (0, 200));
        assert_eq!(after(500, PolicyName::Open, Some(7)), (500, 300));
    }

    #[test]
    fn admission_makes_none_and_all_are_served() {
        assert_eq!(after(200, PolicyName::Admit, None), (0, 0));
        assert_eq!(after(200, PolicyName::Admit, Some(7)), (200, 0));
    }
}
