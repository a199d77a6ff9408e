//! A program that sends octets by TCP from one host to the other.

use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_stack::socket::Error;
use moorline_stack::stack::Event;
use moorline_stack::tcp::{self, ListenerId, TcpId};
use moorline_types::Instant;

use super::World;

/// Octets on their way from one host to the other.
///
/// The octets follow from a seed. The sender makes them, and gives what it has sent to `look`; so does the receiver with what it has
/// received. Each looks at its octets in order.
#[derive(Debug)]
pub struct Transfer {
    from: usize,
    to: usize,
    listener: ListenerId,
    out: TcpId,
    accepted: Option<TcpId>,
    total: u64,
    sent: u64,
    received: u64,
    seed: u64,
    buffer: Vec<u8>,
    last: Option<Instant>,
    pause: Pause,
    is_at_end: bool,
    failure: Option<Error>,
}

/// The longest time in which no octets came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Time of the last octets before it.
    pub from: Instant,
    /// Time of the first octets after it.
    pub to: Instant,
}

/// What a host looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    /// Octets that the sender has given to its socket.
    Sent(&'a [u8]),
    /// Octets that the receiver has got from its socket.
    Received(&'a [u8]),
}

impl Transfer {
    /// Has host `to` listen at a port, and host `from` connect to it.
    ///
    /// # Errors
    /// As [`Stack::tcp_listen`](moorline_stack::stack::Stack::tcp_listen) and
    /// [`Stack::tcp_connect`](moorline_stack::stack::Stack::tcp_connect).
    pub fn begin(
        world: &mut World,
        (from, to): (usize, usize),
        peer: (Ipv6Addr, u16),
        total: u64,
        seed: u64,
    ) -> Result<Self, Error> {
        let now = world.now();
        let listener = world.host_mut(to).tcp_listen(None, peer.1, 1)?;
        let out = world.host_mut(from).tcp_connect(peer, now)?;
        world.settle();
        Ok(Self {
            from,
            to,
            listener,
            out,
            accepted: None,
            total,
            sent: 0,
            received: 0,
            seed,
            buffer: vec![0; CHUNK],
            last: None,
            pause: Pause { from: now, to: now },
            is_at_end: false,
            failure: None,
        })
    }

    /// Takes an event of a host.
    pub fn handle_event(
        &mut self,
        world: &mut World,
        host: usize,
        event: &Event,
        mut look: impl FnMut(Seen<'_>),
    ) {
        let Event::Tcp(event) = *event else { return };
        if event == tcp::Event::Acceptable(self.listener) && host == self.to {
            self.accept(world, &mut look);
        } else if event == tcp::Event::Established(self.out)
            || event == tcp::Event::Writable(self.out)
        {
            if host == self.from {
                self.send(world, &mut look);
            }
        } else if let tcp::Event::Readable(id) = event
            && host == self.to
            && Some(id) == self.accepted
        {
            self.receive(world, &mut look);
        } else if let tcp::Event::Closed(id, Some(error)) = event
            && (host, id) == (self.from, self.out)
        {
            self.failure = Some(error);
        }
    }

    fn accept(&mut self, world: &mut World, look: &mut impl FnMut(Seen<'_>)) {
        if let Ok(Some(id)) = world.host_mut(self.to).tcp_accept(self.listener) {
            self.accepted = Some(id);
            self.receive(world, look);
        }
    }

    fn send(&mut self, world: &mut World, look: &mut impl FnMut(Seen<'_>)) {
        let now = world.now();
        while self.sent < self.total {
            let left = usize::try_from(self.total - self.sent).unwrap_or(usize::MAX);
            let chunk = &mut self.buffer[..left.min(CHUNK)];
            fill(self.seed, self.sent, chunk);
            let Ok(taken) = world.host_mut(self.from).tcp_send(self.out, chunk, now) else { break };
            look(Seen::Sent(&chunk[..taken]));
            self.sent += taken as u64;
        }
        if self.sent == self.total {
            // A connection that has failed says so by an event.
            let _ = world.host_mut(self.from).tcp_shutdown(self.out, now);
        }
        world.settle();
    }

    fn receive(&mut self, world: &mut World, look: &mut impl FnMut(Seen<'_>)) {
        let (now, Some(id)) = (world.now(), self.accepted) else { return };
        while let Ok(len) = world.host_mut(self.to).tcp_recv(id, &mut self.buffer, now) {
            if len == 0 {
                self.is_at_end = true;
                break;
            }
            look(Seen::Received(&self.buffer[..len]));
            self.received += len as u64;
            self.note_pause(now);
        }
        world.settle();
    }

    fn note_pause(&mut self, now: Instant) {
        let before = self.last.replace(now).unwrap_or(now);
        if now.since(before) > self.pause.to.since(self.pause.from) {
            self.pause = Pause { from: before, to: now };
        }
    }

    /// Octets that the receiver has got.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Whether the receiver has got all octets and the end of the stream.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.is_at_end && self.received == self.total
    }

    /// Why the connection of the sender has failed, if it has.
    #[must_use]
    pub const fn failure(&self) -> Option<Error> {
        self.failure
    }

    /// The states of the connection at sender and receiver; `None` before the receiver has it.
    #[must_use]
    pub fn states(&self, world: &World) -> [Option<tcp::State>; 2] {
        let state = |host: usize, id| world.host(host).stack().tcp_state(id).ok();
        [state(self.from, self.out), self.accepted.and_then(|id| state(self.to, id))]
    }

    /// The longest time in which no octets came to the receiver.
    #[must_use]
    pub const fn pause(&self) -> Pause {
        self.pause
    }

    /// The local and the peer address of the sender's connection.
    ///
    /// # Errors
    /// [`Error::BadHandle`] if the connection is over.
    pub fn addresses(&self, world: &World) -> Result<(Ipv6Addr, Ipv6Addr), Error> {
        let flow = world.host(self.from).stack().tcp_flow(self.out)?;
        Ok((flow.local.0, flow.peer.0))
    }
}

/// Fills in the octets of a stream from this offset on.
pub fn fill(seed: u64, offset: u64, octets: &mut [u8]) {
    for (at, octet) in (offset..).zip(octets) {
        let word = (at / 8).wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        *octet = word.to_le_bytes()[(at % 8) as usize];
    }
}

/// Octets that a program sends or receives at once.
const CHUNK: usize = 64 * 1024;
