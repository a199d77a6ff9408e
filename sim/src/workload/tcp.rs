use std::time::Duration;

use moorline_stack::socket::Error;
use moorline_stack::stack::Carried;
use moorline_stack::tcp::{ListenerId, State, TcpId};
use moorline_types::{Instant, Locator, Ulid, UlidPair};

use super::content::content;
use super::{Application, End, Side};
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
        self.ends[side as usize].handle_packet(packet, now);
        self.advance(side, now)
    }

    fn handle_too_big(&mut self, side: Side, packet: &[u8], now: Instant) {
        self.ends[side as usize].handle_packet(packet, now);
    }

    fn follow_path(&mut self, side: Side, carried: Option<Carried>) {
        self.ends[side as usize].follow_path(side.pair(self.ulids), carried);
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
        self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
        self.send(now);
    }

    fn poll_packet(&mut self) -> Option<(Side, Vec<u8>)> {
        End::poll_packet(&mut self.ends)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.ends.iter().filter_map(End::poll_timeout).chain(self.next_write).min()
    }

    fn handle_path_restored(&mut self, side: Side, now: Instant) {
        self.ends[side as usize].handle_move(side.pair(self.ulids), now);
    }

    /// The next connection listens at the same port. That listener must not take the SYN of this one.
    fn handle_reboot(&mut self, _side: Side, now: Instant) -> bool {
        let Self { listener, out, is_open, ends: [from, to], .. } = self;
        // What the host that has restarted had is not there.
        let _ = to.with(now, |stack| stack.tcp_unlisten(*listener, now));
        if !*is_open {
            let _ = from.with(now, |stack| stack.tcp_abort(*out, now));
        }
        false
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

/// Octets of a write or read.
const CHUNK: usize = 16 * 1024;
/// Time without progress after which a connection may end: the shorter one of the stack is 180 s, for a connection that is not
/// established, and an acknowledgment may have been lost before.
const PATIENCE: Duration = Duration::from_secs(150);
/// Time after its last SYN-ACK at which a listener gives up a connection: 32 s, and the SYN-ACK was under way for a part of it.
const LAST_SYN_ACK: Duration = Duration::from_secs(30);
