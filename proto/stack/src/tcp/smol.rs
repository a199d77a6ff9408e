//! An [`Engine`](super::Engine) that runs the state machine of `smoltcp`.
//!
//! `smoltcp` polls all sockets of a set. So each connection has a set of its own, and one interface serves them all: it has no
//! addresses and takes all of them as its own (`any_ip`). Connections are found by their flow, and polled if something happened
//! to them or a timer is due.
//!
//! What `smoltcp` does not do is done here:
//! - Listeners keep half-open connections in a few octets each, until the last segment of the handshake (RFC 4987 s3.4).
//! - Initial sequence numbers follow RFC 9293 s3.4.1 (see the module `isn`).
//! - Segments that `smoltcp` would discard are checked first, answered and counted (RFC 9293 s3.10.7.4, RFC 5961).
//! - Reasons for which connections end, ICMPv6 errors (RFC 5927), and the time after which a silent peer counts as lost.
//! - TIME-WAIT in a few octets, for twice the MSL.
//!
//! `smoltcp` has no timestamps here (they need a clock of its own), no use for selective acknowledgments that come in, and no ECN. For
//! IPv6 it neither cuts nor marks super-segments: the interface has the largest MTU, and [`super::cut`] cuts.

mod connection;
mod device;
mod engine;
mod half_open;
mod isn;
mod listener;
mod time_wait;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_index::FairShares;
use moorline_ip::PacketBuf;
use moorline_ip::icmp::Cause;
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;
use smoltcp::iface::Interface;

use super::{Engine as _, Flags, Flow, ListenerId, Outgoing, Segment, Seq, Spares, TcpId, mss_to};
use crate::socket::{Error, Owner};
use crate::{Drop, Drops};
use connection::{Connection, Ending};
use half_open::{HalfOpen, HalfOpens};
use isn::Isn;
use listener::Listeners;
use time_wait::TimeWaits;

/// Sizes of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Octets of the receive buffer of a connection. From 65,536 octets on, the engine takes the next lower power of two, less
    /// one octet, up to 1 GiB.
    pub receive_buffer: usize,
    /// Octets of the send buffer of a connection.
    pub send_buffer: usize,
    /// Largest number of connections, without half-open ones and those in TIME-WAIT. Peers share them: listeners accept as many
    /// connections of one /64 as are free, of one address a quarter of that, and of a /48 four times as many. So one link
    /// gets a half of them, one address a fifth, and a site leaves a fifth free.
    pub max_connections: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self { receive_buffer: 256 * 1024, send_buffer: 256 * 1024, max_connections: 65_536 }
    }
}

/// All TCP connections of a host, with `smoltcp` as their state machine.
pub struct SmolEngine {
    config: Config,
    /// MSS that SYNs announce.
    mss: u16,
    interface: Interface,
    isn: Isn,
    connections: BTreeMap<TcpId, Connection>,
    /// Accepted connections by peer.
    shares: FairShares,
    flows: BTreeMap<Flow, TcpId>,
    listeners: Listeners,
    half_open: HalfOpens,
    time_wait: TimeWaits,
    /// Connections that may have something to send.
    ready: VecDeque<TcpId>,
    /// Answers to segments that came in.
    replies: VecDeque<Outgoing>,
    /// Owners of events.
    noticed: VecDeque<Noticed>,
    timers: BTreeSet<(Instant, TcpId)>,
    drops: Drops,
    spares: Spares,
    next: u64,
}

#[derive(Clone, Copy)]
enum Noticed {
    Connection(TcpId),
    Listener(ListenerId),
}

impl SmolEngine {
    /// Creates an engine without connections.
    #[must_use]
    pub fn new(config: Config, mut rng: ChaCha20Rng) -> Self {
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        Self {
            config: Config { receive_buffer: receive_buffer(config.receive_buffer), ..config },
            mss: DEFAULT_MSS,
            interface: device::interface(0),
            isn: Isn::new(rng),
            connections: BTreeMap::new(),
            shares: FairShares::new(config.max_connections, key),
            flows: BTreeMap::new(),
            listeners: Listeners::default(),
            half_open: HalfOpens::default(),
            time_wait: TimeWaits::default(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            noticed: VecDeque::new(),
            timers: BTreeSet::new(),
            drops: Drops::default(),
            spares: Spares::default(),
            next: 0,
        }
    }

    /// Number of half-open connections of all listeners.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Number of connections that have a state machine: open ones, and those that their program has not closed.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Memory for large segments. The engine takes some for each, and the caller gives it back.
    pub const fn spares(&mut self) -> &mut Spares {
        &mut self.spares
    }

    /// Whether a connection has this address at this host.
    #[must_use]
    pub fn has_address(&self, local: Ipv6Addr) -> bool {
        let first = Flow { local: (local, 0), peer: (Ipv6Addr::UNSPECIFIED, 0) };
        self.flows.range(first..).next().is_some_and(|(flow, _)| flow.local.0 == local)
    }

    /// The open connections between two addresses.
    pub(crate) fn flows_between(&self, local: Ipv6Addr, peer: Ipv6Addr) -> Vec<Flow> {
        let from = Flow { local: (local, 0), peer: (peer, 0) };
        let all = self.flows.range(from..).map(|(flow, _)| *flow);
        all.take_while(|flow| (flow.local.0, flow.peer.0) == (local, peer)).collect()
    }

    /// The socket that takes the segments of a flow.
    pub(crate) fn owner(&self, flow: Flow) -> Owner {
        if self.flows.contains_key(&flow) {
            Owner::Connection
        } else if !self.is_free(flow) {
            Owner::HalfConnection
        } else if self.listeners.find(flow.local).is_some() {
            Owner::Anyone
        } else {
            Owner::None
        }
    }

    fn on_connection_segment(
        &mut self,
        id: TcpId,
        segment: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        let connection = self.connections.get_mut(&id).ok_or(Drop::NoSocket)?;
        let mss = mss_to(connection.flow.peer.0, self.mss);
        let Self { interface, config, .. } = self;
        let handled = connection.handle(interface, segment, config, mss, now)?;
        if let Some(reply) = handled.reply {
            self.reply(reply);
        }
        self.settle(id, handled.ending, now);
        handled.dropped.map_or(Ok(()), Err)
    }

    /// A segment for a half-open connection.
    fn on_half_open_segment(
        &mut self,
        flow: Flow,
        segment: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        let parsed = Segment::parse(segment)?;
        let half = *self.half_open.of(&flow).ok_or(Drop::NoSocket)?;
        if parsed.flags.has(Flags::RST) {
            // RFC 5961 s3.2: only the exact sequence number resets.
            if parsed.sequence != half.received {
                return Err(Drop::Sequence);
            }
            self.half_open.remove(&flow);
            return Ok(());
        }
        if parsed.flags.has(Flags::SYN) {
            return self.on_half_open_syn(flow, half, &parsed, now);
        }
        if !parsed.flags.has(Flags::ACK) {
            return Err(Drop::Sequence);
        }
        // RFC 9293 s3.10.7.4, SYN-RECEIVED: an unacceptable acknowledgment has an RST as its answer.
        if parsed.acknowledgment != half.isn + 1 {
            return Err(Drop::NoSocket);
        }
        if parsed.sequence.since(half.received) > u16::MAX.into() {
            return Err(Drop::Sequence);
        }
        self.complete(flow, half, segment, now)
    }

    /// An ICMPv6 error about the SYN-ACK of a half-open connection.
    fn on_half_open_error(&mut self, flow: Flow, cause: Cause, sequence: Seq) -> Result<(), Drop> {
        let half = self.half_open.of(&flow).ok_or(Drop::ForeignError)?;
        // RFC 5927 s4.1: the quoted number is that of a segment in flight, here of the SYN alone.
        if sequence != half.isn {
            return Err(Drop::ForeignError);
        }
        // RFC 9293 s3.9.2.2: a hard error SHOULD abort, a soft error MUST NOT (MUST-56).
        let is_hard = Error::of_cause(cause).is_some_and(Error::is_hard);
        if is_hard {
            self.half_open.remove(&flow);
            self.drops.count(Drop::HalfOpen);
        }
        Ok(())
    }

    /// A SYN for a half-open connection: a copy gets the SYN-ACK again, and time to answer it; another SYN begins anew (RFC 9293
    /// s3.10.7.4).
    fn on_half_open_syn(
        &mut self,
        flow: Flow,
        half: HalfOpen,
        syn: &Segment<'_>,
        now: Instant,
    ) -> Result<(), Drop> {
        if syn.flags.has(Flags::ACK) {
            return Err(Drop::Sequence);
        }
        if syn.sequence + 1 == half.received {
            self.half_open.restart(flow, now);
            self.send_syn_ack(flow, &half);
            return Ok(());
        }
        self.half_open.remove(&flow);
        self.on_syn(flow, syn, None, now)
    }

    /// The last segment of a handshake: the connection gets its buffers.
    fn complete(
        &mut self,
        flow: Flow,
        half: HalfOpen,
        segment: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        // A listener whose program does not accept leaves the connection half open; the peer sends its octets again.
        if !self.has_share(flow.peer.0) || !self.listeners.has_room(half.listener) {
            return Err(Drop::SocketFull);
        }
        self.half_open.remove(&flow);
        self.interface = device::interface(self.isn.seed(half.isn));
        let mss = mss_to(flow.peer.0, self.mss);
        let connection = Connection::accepted(flow, &half, &self.config, mss, &mut self.interface)
            .ok_or(Drop::Malformed)?;
        self.shares.add(flow.peer.0);
        let id = self.insert(flow, connection);
        let result = self.on_connection_segment(id, segment, now);
        if self.connections.get(&id).is_some_and(Connection::is_established)
            && self.listeners.push(half.listener, id)
        {
            self.noticed.push_back(Noticed::Listener(half.listener));
        }
        result
    }

    /// Whether a listener may accept one more connection of a peer. The room of each is what is free: so the peers that take
    /// the most leave as much as one of them has to a newcomer.
    fn has_share(&self, peer: Ipv6Addr) -> bool {
        let free = self.config.max_connections.saturating_sub(self.connections.len());
        self.shares.taken(peer, 0) < free
    }

    /// A segment for no connection: a listener takes SYNs.
    fn on_new_flow(
        &mut self,
        flow: Flow,
        segment: &Segment<'_>,
        isn: Option<Seq>,
        now: Instant,
    ) -> Result<(), Drop> {
        let is_syn = segment.flags.has(Flags::SYN);
        let is_other = [Flags::RST, Flags::ACK, Flags::FIN].iter().any(|f| segment.flags.has(*f));
        // RFC 9293 s3.10.7.1 and s3.10.7.2: an RST answers an ACK; all else but a SYN is dropped at a listener.
        if !is_syn || is_other {
            return Err(Drop::NoSocket);
        }
        self.on_syn(flow, segment, isn, now)
    }

    fn on_syn(
        &mut self,
        flow: Flow,
        syn: &Segment<'_>,
        isn: Option<Seq>,
        now: Instant,
    ) -> Result<(), Drop> {
        let listener = self.listeners.find(flow.local).ok_or(Drop::NoSocket)?;
        // A listener whose program does not accept has no room for more.
        if !self.listeners.has_room(listener) {
            return Err(Drop::SocketFull);
        }
        // RFC 4987 s3.3: under a flood of SYNs the oldest half-open connection makes room.
        if self.half_open.count(listener) >= MAX_HALF_OPEN {
            self.half_open.remove_oldest(listener);
            self.drops.count(Drop::HalfOpen);
        }
        let isn = isn.unwrap_or_else(|| self.isn.of(flow, now));
        let half = HalfOpen::new(listener, syn, isn, now);
        self.half_open.insert(flow, half);
        self.send_syn_ack(flow, &half);
        Ok(())
    }

    fn send_syn_ack(&mut self, flow: Flow, half: &HalfOpen) {
        let segment = half.syn_ack(flow, mss_to(flow.peer.0, self.mss), self.config.receive_buffer);
        self.reply(Outgoing {
            source: flow.local.0,
            destination: flow.peer.0,
            segment,
            mss: half.peer_mss(flow),
        });
    }

    fn on_half_open_timeout(&mut self, now: Instant) {
        while let Some((flow, half)) = self.half_open.next_due(now) {
            match half {
                Some(half) => self.send_syn_ack(flow, &half),
                None => self.drops.count(Drop::HalfOpen),
            }
        }
    }

    fn on_connection_timeout(&mut self, now: Instant) {
        while let Some(&(at, id)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, id));
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.timer = None;
            connection.handle_timeout(now);
            self.settle(id, Ending::Other, now);
        }
    }

    /// Takes note of what happened to a connection, and lets it send.
    fn settle(&mut self, id: TcpId, ending: Ending, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.observe(ending, now);
            self.wake(id);
        }
    }

    /// Lets a connection send, and tell its events.
    fn wake(&mut self, id: TcpId) {
        self.notice(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if !core::mem::replace(&mut connection.is_ready, true) {
            self.ready.push_back(id);
        }
    }

    fn notice(&mut self, id: TcpId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.has_notice() && !core::mem::replace(&mut connection.is_noticed, true) {
            self.noticed.push_back(Noticed::Connection(id));
        }
    }

    /// The next segment of one connection. If there is none, the connection waits for its timer, or goes.
    fn poll_connection(&mut self, id: TcpId, now: Instant) -> Option<Outgoing> {
        let connection = self.connections.get_mut(&id)?;
        connection.is_ready = false;
        let mss = mss_to(connection.flow.peer.0, self.mss);
        let outgoing = connection.poll(&mut self.interface, &mut self.spares, mss, now);
        connection.observe(Ending::Other, now);
        match outgoing {
            Some(_) => self.wake(id),
            None => self.rest(id, now),
        }
        outgoing
    }

    /// Sets the timer of a connection that has nothing to send, or frees what is over.
    fn rest(&mut self, id: TcpId, now: Instant) {
        self.notice(id);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let timer = connection.poll_timeout(&mut self.interface, now);
        if connection.timer != timer {
            let old = core::mem::replace(&mut connection.timer, timer);
            self.timers.extend(timer.map(|at| (at, id)));
            old.map(|at| self.timers.remove(&(at, id)));
        }
        let (is_over, is_owned) = (connection.is_over(), connection.is_owned);
        if is_over {
            self.free_flow(id, now);
        }
        if is_over && !is_owned {
            self.remove(id);
        }
    }

    /// The flow of a connection that is over may be used again, after TIME-WAIT.
    fn free_flow(&mut self, id: TcpId, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if self.flows.get(&connection.flow) != Some(&id) {
            return;
        }
        self.flows.remove(&connection.flow);
        if let Some(waiting) = connection.time_wait() {
            self.time_wait.insert(connection.flow, waiting, now);
        }
    }

    fn remove(&mut self, id: TcpId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        if !connection.is_active {
            self.shares.remove(connection.flow.peer.0);
        }
        if let Some(at) = connection.timer {
            self.timers.remove(&(at, id));
        }
    }

    fn insert(&mut self, flow: Flow, connection: Connection) -> TcpId {
        let id = TcpId(self.next);
        self.next += 1;
        self.connections.insert(id, connection);
        self.flows.insert(flow, id);
        id
    }

    /// Queues an answer. An answer above the limit is lost, as on a wire.
    fn reply(&mut self, outgoing: Outgoing) {
        if self.replies.len() < MAX_REPLIES {
            self.replies.push_back(outgoing);
        }
    }

    /// A connection whose program has not closed it.
    fn owned(&mut self, id: TcpId) -> Result<&mut Connection, Error> {
        self.connections
            .get_mut(&id)
            .filter(|connection| connection.is_owned)
            .ok_or(Error::BadHandle)
    }

    fn owned_ref(&self, id: TcpId) -> Result<&Connection, Error> {
        self.connections.get(&id).filter(|connection| connection.is_owned).ok_or(Error::BadHandle)
    }
}

/// A size at which the window of a SYN, shifted, is no larger than the buffer. smoltcp 0.14 takes the window of its SYN for a
/// shifted one until it has sent another segment: with a larger one, it would take octets for which it has no room.
fn receive_buffer(octets: usize) -> usize {
    if octets < 1 << 16 {
        return octets.max(1);
    }
    let bits = (octets + 1).min(1 << 30).ilog2();
    (1 << bits) - 1
}

/// MSS of a link with an MTU of 1,500 octets.
pub const DEFAULT_MSS: u16 = 1_440;
/// Largest number of half-open connections of one listener. Each takes about 200 octets. Above, the oldest one goes.
pub const MAX_HALF_OPEN: usize = 4_096;
/// Largest backlog of a listener.
pub const MAX_BACKLOG: usize = 4_096;
/// Largest number of listeners.
pub const MAX_LISTENERS: usize = 4_096;
/// Largest number of answers that wait for [`super::Engine::poll_segment`].
pub const MAX_REPLIES: usize = 4_096;
/// Largest number of connections in TIME-WAIT. Above, the one with the least time left goes.
pub const MAX_TIME_WAIT: usize = 16_384;
/// Time that a connection stays in TIME-WAIT: twice an MSL of 30 s (RFC 9293 s3.4.2 has an MSL of 120 s; Linux has
/// this value).
pub const TIME_WAIT: Duration = Duration::from_secs(60);
/// Time after which a SYN without an answer is given up (R2 of RFC 9293 s3.8.3, MUST-23).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(180);
/// Time after which a connection is given up if the peer answers nothing (RFC 9293 s3.9.1: "five minutes").
pub const USER_TIMEOUT: Duration = Duration::from_secs(300);
/// Time that a closed connection waits for the FIN of the peer.
pub const FIN_WAIT_2_TIMEOUT: Duration = Duration::from_secs(60);
/// Probes of a silent connection without an answer, after which the connection is given up (RFC 9293 s3.8.4).
pub const KEEP_ALIVE_PROBES: u32 = 9;
/// Number of times that a SYN-ACK is sent again, after 1, 2, 4... seconds.
pub const SYN_ACK_RETRIES: u8 = 5;

#[cfg(test)]
mod tests;
