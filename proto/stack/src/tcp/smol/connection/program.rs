//! What the program does with its connection, and hears of it.

use core::time::Duration;

use smoltcp::socket::tcp;
use smoltcp::time;

use super::super::super::{Event, State, TcpId};
use super::super::KEEP_ALIVE_PROBES;
use super::{Connection, Notices};
use crate::socket::Error;

impl Connection {
    pub(in super::super) fn send(&mut self, octets: &[u8]) -> Result<usize, Error> {
        match self.state() {
            State::Established | State::CloseWait if !self.ends => {}
            State::SynSent | State::SynReceived => {
                self.wants_room = true;
                return Err(Error::WouldBlock);
            }
            State::Closed => return Err(self.outcome.flatten().unwrap_or(Error::Closed)),
            State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait => return Err(Error::Closed),
        }
        let queued = self.socket_mut().send_slice(octets).map_err(|_| Error::Closed)?;
        self.wants_room = queued < octets.len();
        if queued == 0 && !octets.is_empty() { Err(Error::WouldBlock) } else { Ok(queued) }
    }

    pub(in super::super) fn recv(&mut self, octets: &mut [u8]) -> Result<usize, Error> {
        let is_empty = octets.is_empty();
        match self.socket_mut().recv_slice(octets) {
            Ok(0) if !is_empty => Err(Error::WouldBlock),
            Ok(taken) => Ok(taken),
            Err(tcp::RecvError::Finished) => Ok(0),
            Err(tcp::RecvError::InvalidState) => match self.outcome {
                None => Err(Error::WouldBlock),
                Some(None) => Ok(0),
                Some(Some(reason)) => Err(reason),
            },
        }
    }

    /// Octets that the program has not read.
    pub(in super::super) fn unread(&self) -> usize {
        self.socket().recv_queue()
    }

    pub(in super::super) fn shutdown(&mut self) -> Result<(), Error> {
        match self.state() {
            State::SynSent | State::SynReceived | State::Closed => Err(Error::NotConnected),
            State::Established
            | State::FinWait1
            | State::FinWait2
            | State::CloseWait
            | State::Closing
            | State::LastAck
            | State::TimeWait => {
                self.ends = true;
                self.end_behind_octets();
                Ok(())
            }
        }
    }

    /// Ends the direction of this host, if the program has ended it. smoltcp 0.14 takes no window from the peer in LAST-ACK unless the
    /// segment acknowledges octets as well: if the window was zero and octets behind it were lost, they never left again. So in CLOSE-WAIT
    /// the FIN comes behind the acknowledgment of the last octet.
    pub(super) fn end_behind_octets(&mut self) {
        let waits = self.state() == State::CloseWait && self.socket().send_queue() > 0;
        if self.ends && !waits {
            self.ends = false;
            self.socket_mut().close();
        }
    }

    pub(in super::super) fn set_nagle(&mut self, is_on: bool) {
        self.socket_mut().set_nagle_enabled(is_on);
    }

    pub(in super::super) fn set_keep_alive(&mut self, interval: Option<Duration>) {
        let interval = interval.map(time::Duration::from);
        self.socket_mut().set_timeout(interval.map(|interval| interval * KEEP_ALIVE_PROBES));
        self.socket_mut().set_keep_alive(interval);
    }

    pub(in super::super) const fn has_notice(&self) -> bool {
        let Notices { established, readable, writable, reachable, closed } = self.notices;
        reachable || self.is_owned && (established || readable || writable || closed)
    }

    /// Takes the next event for the program or the stack.
    pub(in super::super) fn take_event(&mut self, id: TcpId) -> Option<Event> {
        let reason = self.outcome.flatten();
        let notices = &mut self.notices;
        let take = core::mem::take::<bool>;
        if take(&mut notices.reachable) {
            return Some(Event::Reachable(self.flow));
        }
        if !self.is_owned {
            return None;
        }
        let [established, readable, writable, closed] = [
            Event::Established(id),
            Event::Readable(id),
            Event::Writable(id),
            Event::Closed(id, reason),
        ];
        if take(&mut notices.established) {
            return Some(established);
        }
        if take(&mut notices.readable) {
            return Some(readable);
        }
        if take(&mut notices.writable) {
            return Some(writable);
        }
        take(&mut notices.closed).then_some(closed)
    }
}
