use core::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::address as addresses;
use crate::tcp::TcpId;
use crate::udp::UdpId;
use moorline_ip::Mac;

pub(super) const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(super) const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);

pub(super) const fn mapped(address: Ipv4Addr) -> Ipv6Addr {
    address.to_ipv6_mapped()
}

/// A host at 192.0.2.`number`, and its gateway.
pub(super) fn host(number: u8, gateway: Option<u8>) -> Stack {
    host_with(Config::default(), number, gateway)
}

pub(super) fn host_with(config: Config, number: u8, gateway: Option<u8>) -> Stack {
    let mut stack = Stack::new(config, [number; 32], Instant::ZERO);
    let mac = Mac([2, 0, 0, 0, 0, number]);
    let addressing =
        addresses::Config { mode: addresses::Mode::Eui64, ..addresses::Config::new(mac) };
    let at = |last| Ipv4Addr::new(192, 0, 2, last);
    let ip4 = v4::Config { address: at(number), prefix_len: 24, gateway: gateway.map(at) };
    stack.add_wire(WireConfig { mtu: 1500, addressing, ip4: Some(ip4) }, Instant::ZERO);
    stack
}

/// Two hosts on one link, 192.0.2.1 and 192.0.2.2.
pub(super) struct Pair {
    pub(super) hosts: [Stack; 2],
    pub(super) now: Instant,
    frames: Vec<Vec<u8>>,
}

impl Pair {
    pub(super) fn new() -> Self {
        let hosts = [host(1, None), host(2, None)];
        Self { hosts, now: Instant::ZERO, frames: vec![] }
    }

    /// Carries frames, and lets time pass.
    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        self.carry_frames();
        while let Some(due) =
            self.hosts.iter().filter_map(Stack::poll_timeout).min().filter(|due| *due <= until)
        {
            self.now = self.now.max(due);
            for host in &mut self.hosts {
                host.handle_timeout(self.now);
            }
            self.carry_frames();
        }
        self.now = until;
    }

    fn carry_frames(&mut self) {
        let [a, b] = &mut self.hosts;
        loop {
            let (from_a, from_b) = (a.poll_frame(), b.poll_frame());
            if from_a.is_none() && from_b.is_none() {
                return;
            }
            for (frame, to) in [(from_a, &mut *b), (from_b, &mut *a)] {
                let Some((_, frame)) = frame else { continue };
                self.frames.push(frame.to_vec());
                to.handle_frame(WireId(0), frame, self.now);
            }
        }
    }

    pub(super) fn events(&mut self, host: usize) -> Vec<Event> {
        core::iter::from_fn(|| self.hosts[host].poll_event()).collect()
    }

    /// All frames of this type so far.
    pub(super) fn frames_of(&self, ether_type: u16) -> Vec<Vec<u8>> {
        let is_it = |frame: &&Vec<u8>| frame[12..14] == ether_type.to_be_bytes();
        self.frames.iter().filter(is_it).cloned().collect()
    }

    pub(super) fn send(&mut self, host: usize, socket: UdpId, to: (Ipv6Addr, u16), payload: &[u8]) {
        let options = crate::udp::Options::default();
        self.hosts[host].udp_send_to(socket, payload, Some(to), options, self.now).expect("sent");
        self.run(Duration::from_millis(1));
    }

    /// Sends octets on a connection, and returns those that come out at the other end.
    pub(super) fn carry(
        &mut self,
        (from, sender): (usize, TcpId),
        (to, receiver): (usize, TcpId),
        mut octets: &[u8],
    ) -> Vec<u8> {
        let (wanted, mut received) = (octets.len(), vec![]);
        let mut buffer = vec![0; 65_536];
        for _ in 0..1000 {
            let sent = self.hosts[from].tcp_send(sender, octets, self.now).unwrap_or(0);
            octets = &octets[sent..];
            self.run(Duration::from_millis(1));
            while let Ok(len) = self.hosts[to].tcp_recv(receiver, &mut buffer, self.now) {
                received.extend(&buffer[..len]);
            }
            if received.len() == wanted {
                break;
            }
        }
        received
    }
}
