//! How a connection changes its state, and how it ends.

use core::time::Duration;

use moorline_types::Instant;
use smoltcp::iface::Interface;

use super::super::super::State;
use super::super::time_wait::TimeWait;
use super::super::{CONNECT_TIMEOUT, FIN_WAIT_2_TIMEOUT, TIME_WAIT, USER_TIMEOUT};
use super::{Connection, Ending, from_smoltcp, to_smoltcp};
use crate::socket::Error;

impl Connection {
    /// Ends the connection with an RST. In SYN-SENT, no peer knows of it yet (RFC 9293 s3.10.5).
    pub(in super::super) fn abort(&mut self, reason: Option<Error>) {
        let state = self.state();
        if state == State::Closed {
            return;
        }
        self.is_silent |= matches!(state, State::SynSent | State::TimeWait);
        self.socket_mut().abort();
        self.seen = State::Closed;
        self.end(reason);
    }

    /// Handles that the timer is due. The connection then has to be polled.
    pub(in super::super) fn handle_timeout(&mut self, now: Instant) {
        let Some(deadline) = self.deadline().filter(|deadline| *deadline <= now) else { return };
        debug_assert!(deadline >= self.since);
        if self.state() == State::FinWait2 {
            self.is_silent = true;
            self.abort(None);
        } else {
            self.abort(Some(self.soft.unwrap_or(Error::TimedOut)));
        }
    }

    /// When the connection wants to be polled next.
    pub(in super::super) fn poll_timeout(
        &mut self,
        interface: &mut Interface,
        now: Instant,
    ) -> Option<Instant> {
        if self.is_over() || self.lingers() && self.unread() > 0 {
            return None;
        }
        let poll_at = interface.poll_at(to_smoltcp(now), &self.sockets).map(from_smoltcp);
        let poll_at = poll_at.into_iter().chain(self.repeats_at()).min();
        // The connection has just been polled: a time that has passed must not make the caller spin.
        let poll_at = poll_at.map(|at| if at > now { at } else { now + POLL_AGAIN });
        poll_at.into_iter().chain(self.deadline()).min()
    }

    /// When the connection is given up.
    fn deadline(&self) -> Option<Instant> {
        let waits = self.unacknowledged != self.next;
        match self.state() {
            State::Closed | State::TimeWait => None,
            State::SynSent => Some(self.since + CONNECT_TIMEOUT),
            State::FinWait2 if !self.is_owned => Some(self.since + FIN_WAIT_2_TIMEOUT),
            State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck => waits.then(|| self.since + USER_TIMEOUT),
        }
    }

    /// Takes note of a new state.
    pub(in super::super) fn observe(&mut self, ending: Ending, now: Instant) {
        let state = self.state();
        if state != self.seen {
            let before = core::mem::replace(&mut self.seen, state);
            self.since = now;
            self.on_state(before, state, ending, now);
        }
        // RFC 9293 s3.6.1: octets that nobody will read are answered with an RST.
        if !self.is_owned && self.unread() > 0 && state != State::Closed {
            self.abort(None);
        }
    }

    fn on_state(&mut self, before: State, state: State, ending: Ending, now: Instant) {
        let has_opened = matches!(before, State::SynSent | State::SynReceived);
        if has_opened && self.is_synchronized() {
            self.notices.established = self.is_active;
            self.notices.writable |= core::mem::take(&mut self.wants_room);
        }
        if state.has_fin() && !before.has_fin() {
            self.received = self.received + 1;
            self.notices.readable = true;
        }
        match state {
            State::Closed => self.end(reason(before, ending)),
            State::TimeWait => {
                self.waiting = Some(now);
                self.end(None);
            }
            State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck => {}
        }
    }

    fn end(&mut self, reason: Option<Error>) {
        self.repeat = None;
        if self.outcome.is_none() {
            self.outcome = Some(reason);
            self.notices.closed = true;
        }
    }

    /// Whether nothing more comes from this connection, and its flow may be used again.
    pub(in super::super) fn is_over(&self) -> bool {
        let is_done = self.is_silent || self.socket().remote_endpoint().is_none();
        match self.state() {
            State::Closed => is_done,
            // A few octets of state do what is left to do.
            State::TimeWait => !self.is_owned && self.lingers(),
            State::SynSent
            | State::SynReceived
            | State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck => false,
        }
    }

    /// Whether the connection is in TIME-WAIT, and the peer has its acknowledgment.
    pub(super) fn lingers(&self) -> bool {
        self.state() == State::TimeWait && self.acknowledged == self.received
    }

    /// What is left for TIME-WAIT, if the connection was or is in it.
    pub(in super::super) fn time_wait(&self) -> Option<TimeWait> {
        let until = self.waiting? + TIME_WAIT;
        Some(TimeWait { sent: self.next, received: self.received, until })
    }
}

/// Why a connection went from this state to CLOSED.
const fn reason(before: State, ending: Ending) -> Option<Error> {
    match (before, ending) {
        (State::SynSent | State::SynReceived, Ending::Reset) => Some(Error::ConnectionRefused),
        (State::TimeWait, _) | (State::LastAck, Ending::Other) => None,
        (_, Ending::Reset) => Some(Error::ConnectionReset),
        (_, Ending::Other) => Some(Error::TimedOut),
    }
}

/// Time after which a connection that should have had something to send is asked again.
const POLL_AGAIN: Duration = Duration::from_millis(10);
