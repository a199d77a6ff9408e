use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::icmp::Cause;
use moorline_ip::{Header, PacketBuf};
use moorline_types::Instant;

use super::super::{Engine, Event, Flow, ListenerId, Outgoing, Segment, Seq, State, TcpId, mss_to};
use super::connection::{Connection, Ending};
use super::time_wait::Answer;
use super::{Noticed, SmolEngine, device};
use crate::socket::Error;
use crate::{Drop, Drops};

impl Engine for SmolEngine {
    fn listen(
        &mut self,
        local: Option<Ipv6Addr>,
        port: u16,
        backlog: usize,
    ) -> Result<ListenerId, Error> {
        self.listeners.listen(local, port, backlog)
    }

    fn unlisten(&mut self, id: ListenerId) -> Result<(), Error> {
        self.half_open.remove_all(id);
        for connection in self.listeners.remove(id)? {
            self.abort(connection)?;
            self.close(connection)?;
        }
        Ok(())
    }

    fn connect(
        &mut self,
        local: (Ipv6Addr, u16),
        peer: (Ipv6Addr, u16),
        now: Instant,
    ) -> Result<TcpId, Error> {
        let flow = Flow { local, peer };
        let is_end = |(end, port): (Ipv6Addr, u16)| {
            !end.is_unspecified() && !end.is_multicast() && port != 0
        };
        if !is_end(local) || !is_end(peer) {
            return Err(Error::Invalid);
        }
        if !self.is_free(flow) {
            return Err(Error::AddrInUse);
        }
        if self.connections.len() >= self.config.max_connections {
            return Err(Error::NoBuffers);
        }
        let isn = self.isn.of(flow, now);
        self.interface = device::interface(self.isn.seed(isn));
        let connection = Connection::connecting(flow, isn, &self.config, &mut self.interface, now)?;
        let id = self.insert(flow, connection);
        self.wake(id);
        Ok(id)
    }

    fn accept(&mut self, id: ListenerId) -> Result<Option<TcpId>, Error> {
        self.listeners.accept(id)
    }

    fn send(&mut self, id: TcpId, octets: &[u8]) -> Result<usize, Error> {
        let sent = self.owned(id)?.send(octets)?;
        self.wake(id);
        Ok(sent)
    }

    fn recv(&mut self, id: TcpId, octets: &mut [u8]) -> Result<usize, Error> {
        let taken = self.owned(id)?.recv(octets)?;
        // The window may have become so much larger that the peer should hear of it.
        self.wake(id);
        Ok(taken)
    }

    fn shutdown(&mut self, id: TcpId) -> Result<(), Error> {
        self.owned(id)?.shutdown()?;
        self.wake(id);
        Ok(())
    }

    fn abort(&mut self, id: TcpId) -> Result<(), Error> {
        self.owned(id)?.abort(Some(Error::ConnectionAborted));
        self.wake(id);
        Ok(())
    }

    fn close(&mut self, id: TcpId) -> Result<(), Error> {
        let connection = self.owned(id)?;
        // RFC 9293 s3.6.1: a host that closes with octets unread shows the peer that they are lost.
        if connection.unread() > 0 || connection.shutdown().is_err() {
            connection.abort(None);
        }
        connection.is_owned = false;
        self.wake(id);
        Ok(())
    }

    fn set_nagle(&mut self, id: TcpId, is_on: bool) -> Result<(), Error> {
        self.owned(id)?.set_nagle(is_on);
        self.wake(id);
        Ok(())
    }

    fn set_keep_alive(&mut self, id: TcpId, interval: Option<Duration>) -> Result<(), Error> {
        self.owned(id)?.set_keep_alive(interval);
        self.wake(id);
        Ok(())
    }

    fn state(&self, id: TcpId) -> Result<State, Error> {
        self.owned_ref(id).map(Connection::state)
    }

    fn flow(&self, id: TcpId) -> Result<Flow, Error> {
        self.owned_ref(id).map(|connection| connection.flow)
    }

    fn all(&self) -> Vec<(Flow, State)> {
        let open = self.connections.values().map(|one| (one.flow, one.state()));
        let half_open = self.half_open.flows().map(|flow| (flow, State::SynReceived));
        let waiting = self.time_wait.flows().filter(|flow| !self.flows.contains_key(flow));
        open.chain(half_open).chain(waiting.map(|flow| (flow, State::TimeWait))).collect()
    }

    fn is_free(&self, flow: Flow) -> bool {
        !self.flows.contains_key(&flow)
            && self.half_open.of(&flow).is_none()
            && !self.time_wait.contains(&flow)
    }

    fn set_mss(&mut self, mss: u16) {
        self.mss = mss;
    }

    fn handle_segment(
        &mut self,
        header: &Header,
        segment: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        // RFC 9293 s3.9.2.3 (MUST-63): a segment from or to a group or the unspecified address is dropped silently.
        if header.source.is_unspecified() || header.source.is_multicast() {
            return Err(Drop::BadSource);
        }
        if header.destination.is_multicast() {
            return Err(Drop::NotOurs);
        }
        let parsed = Segment::parse(segment)?;
        let flow = Flow {
            local: (header.destination, parsed.destination_port),
            peer: (header.source, parsed.source_port),
        };
        if let Some(&id) = self.flows.get(&flow) {
            return self.on_connection_segment(id, segment, now);
        }
        if self.half_open.of(&flow).is_some() {
            return self.on_half_open_segment(flow, segment, now);
        }
        match self.time_wait.handle(flow, &parsed, now) {
            None => self.on_new_flow(flow, &parsed, None, now),
            Some(Answer::Reopen(isn)) => self.on_new_flow(flow, &parsed, Some(isn), now),
            Some(Answer::Nothing) => Ok(()),
            Some(Answer::Acknowledge(segment)) => {
                let (source, destination) = (flow.local.0, flow.peer.0);
                self.reply(Outgoing { source, destination, segment, mss: self.mss });
                Ok(())
            }
        }
    }

    fn handle_error(
        &mut self,
        flow: Flow,
        cause: Cause,
        sequence: Seq,
        now: Instant,
    ) -> Result<(), Drop> {
        let Some(&id) = self.flows.get(&flow) else {
            return self.on_half_open_error(flow, cause, sequence);
        };
        let connection = self.connections.get_mut(&id).ok_or(Drop::ForeignError)?;
        connection.handle_error(Error::of_cause(cause), sequence)?;
        self.settle(id, Ending::Other, now);
        Ok(())
    }

    fn handle_move(&mut self, flow: Flow, now: Instant) -> Result<(), Error> {
        let Some(&id) = self.flows.get(&flow) else {
            let half = *self.half_open.of(&flow).ok_or(Error::NotConnected)?;
            self.send_syn_ack(flow, &half);
            return Ok(());
        };
        let connection = self.connections.get_mut(&id).ok_or(Error::NotConnected)?;
        let mss = mss_to(flow.peer.0, self.mss);
        let Self { interface, spares, .. } = self;
        if let Some(first) = connection.handle_move(interface, spares, mss, now) {
            self.reply(first);
        }
        self.settle(id, Ending::Other, now);
        Ok(())
    }

    fn poll_segment(&mut self, now: Instant) -> Option<Outgoing> {
        if let Some(reply) = self.replies.pop_front() {
            return Some(reply);
        }
        while let Some(id) = self.ready.pop_front() {
            if let Some(outgoing) = self.poll_connection(id, now) {
                return Some(outgoing);
            }
        }
        None
    }

    fn poll_event(&mut self) -> Option<Event> {
        loop {
            match *self.noticed.front()? {
                Noticed::Listener(id) => {
                    self.noticed.pop_front();
                    return Some(Event::Acceptable(id));
                }
                Noticed::Connection(id) => {
                    let connection = self.connections.get_mut(&id);
                    let event = connection.and_then(|connection| connection.take_event(id));
                    if event.is_some() {
                        return event;
                    }
                    self.noticed.pop_front();
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.is_noticed = false;
                    }
                }
            }
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let connection = self.timers.first().map(|(at, _)| *at);
        let others = [self.half_open.poll_timeout(), self.time_wait.poll_timeout()];
        others.into_iter().chain([connection]).flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.on_connection_timeout(now);
        self.on_half_open_timeout(now);
        self.time_wait.handle_timeout(now);
    }

    fn drops(&self) -> &Drops {
        &self.drops
    }
}
