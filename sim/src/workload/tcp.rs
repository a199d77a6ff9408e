use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::net::Ipv6Addr;
use std::rc::Rc;
use std::time::Duration;

use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::{Mac, PacketBuf};
use moorline_protected::Host;
use moorline_protected::world::Router;
use moorline_stack::address::{self, Given};
use moorline_stack::socket::Error;
use moorline_stack::stack::{Config, Stack, WireConfig, WireId};
use moorline_stack::tcp::{ListenerId, State, TcpId};
use moorline_types::{Instant, Locator, Prefix, Ulid, UlidPair};

use super::content::content;
use super::{Application, Side};
use crate::packet;
use crate::plan::Pace;

/// A connection of the TCP of the host stack: bytes from one side to the other.
#[derive(Debug)]
pub(crate) struct Tcp {
    port: u16,
    ulids: UlidPair,
    bytes: u64,
    pace: Option<Pace>,
    /// Time after which the application writes nothing more.
    until: Option<Instant>,
    ends: [End; 2],
    listener: ListenerId,
    out: TcpId,
    accepted: Option<TcpId>,
    /// Time of the application's next write; `None` if it has written all.
    next_write: Option<Instant>,
    written: u64,
    /// Octets that the socket of the sender has taken.
    sent: u64,
    received: u64,
    /// Whether the sender has a connection.
    is_open: bool,
    /// Whether the receiver has got the end of the stream.
    is_at_end: bool,
    /// Time of the last octets at the receiver, or when the sender had its connection.
    last: Instant,
    /// Why the connection is over before its end, and when it was.
    failure: Option<(Error, Instant)>,
}

/// The sockets at an end of a connection.
pub(crate) enum End {
    /// Those of a host stack.
    Stack(Rc<RefCell<Host>>),
    /// Those of a kernel: its packets go through the data planes of the simulated host.
    Kernel(Box<Kernel>),
}

/// A kernel with one address.
pub(crate) struct Kernel {
    stack: Stack,
    address: Ipv6Addr,
    packets: VecDeque<Vec<u8>>,
}

impl Tcp {
    /// Opens a connection. `None` if the side that connects has no address or route.
    pub(crate) fn open(
        port: u16,
        mut ends: [End; 2],
        to: Locator,
        (bytes, pace): (u64, Option<Pace>),
        until: Option<Instant>,
        now: Instant,
    ) -> Option<(Self, UlidPair)> {
        let [from, listens] = &mut ends;
        let listener = listens.with(now, |stack| stack.tcp_listen(None, port, 1)).ok()?;
        let connected = from.with(now, |stack| {
            let out = stack.tcp_connect((to.0, port), now)?;
            Ok::<_, Error>((out, stack.tcp_flow(out)?))
        });
        let Ok((out, flow)) = connected else {
            // The next try listens at the same port.
            let _ = listens.with(now, |stack| stack.tcp_unlisten(listener, now));
            return None;
        };
        let ulids = UlidPair::new(Ulid(flow.local.0), to.as_ulid());
        let tcp = Self {
            port,
            ulids,
            bytes,
            pace,
            until,
            ends,
            listener,
            out,
            accepted: None,
            next_write: Some(now),
            written: 0,
            sent: 0,
            received: 0,
            is_open: false,
            is_at_end: false,
            last: now,
            failure: None,
        };
        Some((tcp, ulids))
    }

    fn write(&mut self, now: Instant) {
        if self.until.is_some_and(|until| now >= until) {
            self.bytes = self.written;
        }
        let left = self.bytes - self.written;
        let (octets, next) = match self.pace {
            None => (left, None),
            Some(pace) => (left.min(pace.octets as u64), Some(now + pace.interval)),
        };
        self.written += octets;
        self.next_write = next.filter(|_| self.written < self.bytes);
    }

    fn send(&mut self, now: Instant) {
        let Self { port, bytes, written, sent, out, ends: [from, _], .. } = self;
        let out = *out;
        let result = from.with(now, |stack| {
            while *sent < *written {
                let len = usize::try_from(*written - *sent).unwrap_or(CHUNK).min(CHUNK);
                *sent += stack.tcp_send(out, &content(*port, *sent, len), now)? as u64;
            }
            if *sent == *bytes { stack.tcp_shutdown(out, now) } else { Ok(()) }
        });
        let is_open = from.with(now, |stack| stack.tcp_state(out)) == Ok(State::Established);
        self.note(result, now);
        if is_open && !self.is_open {
            (self.is_open, self.last) = (true, now);
        }
    }

    /// Takes what has come. `None` if it differs from what was sent.
    fn receive(&mut self, now: Instant) -> Option<usize> {
        let Self { listener, accepted, ends: [_, to], .. } = self;
        if accepted.is_none() {
            *accepted = to.with(now, |stack| stack.tcp_accept(*listener)).ok().flatten();
        }
        let id = (*accepted)?;
        let (mut octets, mut new) = (vec![0; CHUNK], 0);
        loop {
            let result = self.ends[1].with(now, |stack| stack.tcp_recv(id, &mut octets, now));
            let len = match result {
                Ok(0) => {
                    self.is_at_end = true;
                    break;
                }
                Ok(len) => len,
                Err(error) => {
                    self.note(Err(error), now);
                    break;
                }
            };
            if octets[..len] != content(self.port, self.received, len) {
                return None;
            }
            self.received += len as u64;
            self.last = now;
            new += len;
        }
        Some(new)
    }

    /// Time without progress after which the connection may end.
    const fn patience(&self) -> Duration {
        match (self.is_open, self.accepted) {
            (true, None) => LAST_SYN_ACK,
            (true, Some(_)) | (false, _) => PATIENCE,
        }
    }

    fn note(&mut self, result: Result<(), Error>, now: Instant) {
        if let Err(error) = result
            && error != Error::WouldBlock
            && !self.is_at_end
        {
            self.failure.get_or_insert((error, now));
        }
    }
}

impl Application for Tcp {
    fn handle_packet(&mut self, side: Side, packet: &[u8], now: Instant) -> Option<usize> {
        if let End::Kernel(kernel) = &mut self.ends[side as usize] {
            kernel.handle_packet(packet, now);
        }
        self.advance(side, now)
    }

    fn advance(&mut self, side: Side, now: Instant) -> Option<usize> {
        match side {
            Side::From => {
                self.send(now);
                Some(0)
            }
            Side::To if self.accepted.is_none() => Some(self.receive(now).unwrap_or(0)),
            Side::To => self.receive(now),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.next_write.is_some_and(|at| at <= now) {
            self.write(now);
        }
        for end in &mut self.ends {
            if let End::Kernel(kernel) = end
                && kernel.stack.poll_timeout().is_some_and(|at| at <= now)
            {
                kernel.stack.handle_timeout(now);
            }
        }
        self.send(now);
    }

    fn poll_packet(&mut self) -> Option<(Side, Vec<u8>)> {
        Side::BOTH.into_iter().find_map(|side| match &mut self.ends[side as usize] {
            End::Kernel(kernel) => Some((side, kernel.poll_packet()?)),
            End::Stack(_) => None,
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let kernels = self.ends.iter().filter_map(|end| match end {
            End::Kernel(kernel) => kernel.stack.poll_timeout(),
            End::Stack(_) => None,
        });
        kernels.chain(self.next_write).min()
    }

    fn handle_path_restored(&mut self, side: Side, now: Instant) {
        let UlidPair { local, peer } = side.pair(self.ulids);
        // A host stack tells its TCP itself.
        if let End::Kernel(kernel) = &mut self.ends[side as usize] {
            kernel.stack.handle_move(local.0, peer.0, now);
        }
    }

    fn is_finished(&self) -> bool {
        self.is_at_end || self.failure.is_some()
    }

    /// A connection that has brought nothing for long may end without its octets.
    fn is_intact(&self) -> Option<bool> {
        match self.failure {
            Some((_, at)) => (at.since(self.last) < self.patience()).then_some(false),
            None => self.is_at_end.then_some(self.received == self.bytes),
        }
    }

    #[cfg(test)]
    fn swallow_octet(&mut self) {
        self.received += 1;
    }
}

impl End {
    pub(crate) fn kernel(address: Locator, seed: [u8; 32], now: Instant) -> Self {
        Self::Kernel(Box::new(Kernel::new(address.0, seed, now)))
    }

    fn with<T>(&mut self, now: Instant, call: impl FnOnce(&mut Stack) -> T) -> T {
        match self {
            Self::Stack(host) => host.borrow_mut().with_stack(now, call),
            Self::Kernel(kernel) => call(&mut kernel.stack),
        }
    }
}

impl Kernel {
    /// A kernel that has an address at once, and a route.
    fn new(address: Ipv6Addr, seed: [u8; 32], now: Instant) -> Self {
        let mut stack = Stack::new(Config { intercepts: true, ..Config::default() }, seed, now);
        let addressing = address::Config {
            makes_global: false,
            dad_transmits: 0,
            ..address::Config::new(STATION)
        };
        let wire = stack.add_wire(WireConfig { mtu: MTU, addressing, ip4: None }, now);
        let forever = address::Lifetimes { preferred: None, valid: None };
        let given = Given {
            address,
            prefix_len: 64,
            is_generated: true,
            is_optimistic: true,
            lifetimes: forever,
        };
        // A new stack takes an address.
        let _ = stack.add_address(wire, &given, now);
        let mut router = Router::of_prefix(0, Prefix::new(address, 64));
        router.advertise();
        if let Some(frame) = router.poll_frame() {
            stack.handle_frame(wire, frame, now);
        }
        Self { stack, address, packets: VecDeque::new() }
    }

    fn handle_packet(&mut self, packet: &[u8], now: Instant) {
        let mut frame = PacketBuf::copy_of(packet);
        let link = Ethernet { destination: STATION, source: ROUTER, ether_type: ethernet::IPV6 };
        frame.prepend(&link.octets());
        self.stack.handle_frame(WireId(0), frame, now);
        while let Some((arrival, packet)) = self.stack.poll_inbound() {
            self.stack.handle_inbound(arrival, packet, now);
        }
    }

    /// The next packet of a socket. What the kernel says on its link goes nowhere.
    fn poll_packet(&mut self) -> Option<Vec<u8>> {
        while self.stack.poll_frame().is_some() || self.stack.poll_event().is_some() {}
        let own = Locator(self.address);
        let is_of_socket =
            |packet: &Vec<u8>| packet::header(packet).is_some_and(|(pair, _)| pair.local == own);
        while let Some(packet) = self.stack.poll_outbound() {
            self.packets.extend(Some(packet.to_vec()).filter(is_of_socket));
        }
        self.packets.pop_front()
    }
}

impl fmt::Debug for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Stack(_) => "Stack",
            Self::Kernel(_) => "Kernel",
        })
    }
}

/// Octets of a write or read.
const CHUNK: usize = 16 * 1024;
/// MTU of a kernel's link: a packet has room for the payload header.
const MTU: u32 = 1400;
const STATION: Mac = Mac([2, 0, 0, 2, 0, 1]);
const ROUTER: Mac = Mac([2, 0, 0, 2, 0, 2]);
/// Time without progress after which a connection may end: the shorter one of the stack is 180 s, for a connection that is not
/// established, and an acknowledgment may have been lost before.
const PATIENCE: Duration = Duration::from_secs(150);
/// Time after its last SYN-ACK at which a listener gives up a connection: 32 s, and the SYN-ACK was under way for a part of it.
const LAST_SYN_ACK: Duration = Duration::from_secs(30);
