mod check;
mod life;
mod moved;
mod program;

use alloc::vec;

use moorline_ip::ip6::{IP6_LEN, TCP};
use moorline_ip::{Header, PacketBuf};
use moorline_types::Instant;
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time;
use smoltcp::wire::{IpEndpoint, IpListenEndpoint};

use super::super::segment::{ACKNOWLEDGMENT_AT, SEQUENCE_AT};
use super::super::{Flags, Flow, Outgoing, Segment, Seq, Spares, State, SynOptions, clamp_mss};
use super::Config;
use super::device::Port;
use super::half_open::{HalfOpen, peer_mss, window_shift};
use crate::Drop;
use crate::socket::Error;
use check::Checked;
use moved::Repeat;

/// One connection: a socket of smoltcp, and what smoltcp does not tell.
pub(super) struct Connection {
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    pub(super) flow: Flow,
    /// MSS that the peer announced.
    peer_mss: u16,
    /// First number that the peer has not acknowledged (SND.UNA).
    unacknowledged: Seq,
    /// First number that was never sent.
    next: Seq,
    /// First number that the peer has not sent (RCV.NXT).
    received: Seq,
    /// Number that the last segment to the peer acknowledged.
    acknowledged: Seq,
    /// Window of the last segment to the peer, as its header had it.
    announced: u16,
    /// Shift of the windows to the peer (RFC 7323 s2).
    shift: u8,
    /// Last window of the peer, as its header had it.
    window: u16,
    /// Shift of the windows of the peer.
    peer_shift: u8,
    /// Largest window of the peer, in octets (MAX.SND.WND of RFC 5961 s5).
    largest_window: u32,
    /// When all challenge ACKs are allowed again.
    challenged: Instant,
    /// The SYN, until the connection is synchronized.
    syn: Option<PacketBuf>,
    /// State at the last look.
    seen: State,
    /// Since when the peer is silent, or the connection in its state.
    since: Instant,
    /// When the connection entered TIME-WAIT.
    waiting: Option<Instant>,
    /// The first segment after a move.
    repeat: Option<Repeat>,
    /// How the connection ended, when it has.
    outcome: Option<Option<Error>>,
    /// Last error of the network that did not end the connection (RFC 5927 s5.2).
    soft: Option<Error>,
    /// The program has opened the connection.
    pub(super) is_active: bool,
    /// The end of the connection is not for the peer.
    is_silent: bool,
    /// The program wants to send more.
    wants_room: bool,
    /// The program has ended its direction, and the FIN waits until the peer has all octets.
    ends: bool,
    /// The program has not closed the connection.
    pub(super) is_owned: bool,
    notices: Notices,
    /// The queue of owners of events has the connection.
    pub(super) is_noticed: bool,
    /// The queue of connections with something to send has the connection.
    pub(super) is_ready: bool,
    /// When the connection wants to be polled.
    pub(super) timer: Option<Instant>,
}

/// Events that the program has not seen.
#[derive(Clone, Copy, Default)]
struct Notices {
    established: bool,
    readable: bool,
    writable: bool,
    reachable: bool,
    closed: bool,
}

/// Cause for which a connection may have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// An RST of the peer.
    Reset,
    /// Time, or the last acknowledgment.
    Other,
}

/// Effects of a segment.
pub(super) struct Handled {
    pub(super) reply: Option<Outgoing>,
    pub(super) ending: Ending,
    /// Reason for which the segment was dropped.
    pub(super) dropped: Option<Drop>,
}

impl Connection {
    /// A connection that sends a SYN with the number that the interface draws: `isn`.
    pub(super) fn connecting(
        flow: Flow,
        isn: Seq,
        config: &Config,
        interface: &mut Interface,
        now: Instant,
    ) -> Result<Self, Error> {
        let mut connection = Self::new(flow, config, isn, now);
        let [local, peer] = [flow.local, flow.peer]
            .map(|(address, port)| IpEndpoint { addr: address.into(), port });
        let socket = connection.sockets.get_mut::<tcp::Socket<'_>>(connection.handle);
        socket.connect(interface.context(), peer, local).map_err(|_| Error::Invalid)?;
        connection.seen = State::SynSent;
        connection.is_active = true;
        Ok(connection)
    }

    /// A connection in SYN-RECEIVED. The interface draws the number of `half`. Returns `None` if smoltcp refuses the SYN.
    pub(super) fn accepted(
        flow: Flow,
        half: &HalfOpen,
        config: &Config,
        mss: u16,
        interface: &mut Interface,
    ) -> Option<Self> {
        // The SYN-ACK has been sent already.
        Self::accepted_with_syn_ack(flow, half, config, mss, interface)
            .map(|(connection, _)| connection)
    }

    pub(super) fn accepted_with_syn_ack(
        flow: Flow,
        half: &HalfOpen,
        config: &Config,
        mss: u16,
        interface: &mut Interface,
    ) -> Option<(Self, PacketBuf)> {
        let mut connection = Self::new(flow, config, half.isn, half.sent);
        let (address, port) = flow.local;
        let end = IpListenEndpoint { addr: Some(address.into()), port };
        connection.socket_mut().listen(end).ok()?;
        connection.peer_mss = half.peer_mss(flow);
        connection.window = half.window;
        connection.largest_window = half.window.into();
        connection.received = half.received;
        connection.take_scale(half.options, config);
        connection.ingest(interface, &mut half.syn(flow, mss), half.sent);
        let syn_ack = connection.poll(interface, &mut Spares::default(), mss, half.sent)?.segment;
        connection.seen = State::SynReceived;
        (connection.state() == State::SynReceived).then_some((connection, syn_ack))
    }

    fn new(flow: Flow, config: &Config, isn: Seq, now: Instant) -> Self {
        let [receive, send] = [config.receive_buffer, config.send_buffer]
            .map(|octets| tcp::SocketBuffer::new(vec![0; octets]));
        let mut sockets = SocketSet::new(vec::Vec::with_capacity(1));
        let handle = sockets.add(tcp::Socket::new(receive, send));
        Self {
            sockets,
            handle,
            flow,
            peer_mss: peer_mss(None, flow.peer.0),
            unacknowledged: isn,
            next: isn,
            received: Seq(0),
            acknowledged: Seq(0),
            announced: 0,
            shift: 0,
            window: 0,
            peer_shift: 0,
            largest_window: 0,
            challenged: Instant::ZERO,
            syn: None,
            seen: State::Closed,
            since: now,
            waiting: None,
            repeat: None,
            outcome: None,
            soft: None,
            is_active: false,
            is_silent: false,
            wants_room: false,
            ends: false,
            is_owned: true,
            notices: Notices::default(),
            is_noticed: false,
            is_ready: false,
            timer: None,
        }
    }

    pub(super) fn state(&self) -> State {
        match self.socket().state() {
            tcp::State::Closed | tcp::State::Listen => State::Closed,
            tcp::State::SynSent => State::SynSent,
            tcp::State::SynReceived => State::SynReceived,
            tcp::State::Established => State::Established,
            tcp::State::FinWait1 => State::FinWait1,
            tcp::State::FinWait2 => State::FinWait2,
            tcp::State::CloseWait => State::CloseWait,
            tcp::State::Closing => State::Closing,
            tcp::State::LastAck => State::LastAck,
            tcp::State::TimeWait => State::TimeWait,
        }
    }

    /// Whether the handshake is complete and the peer may have sent its FIN already.
    pub(super) fn is_established(&self) -> bool {
        matches!(self.state(), State::Established | State::CloseWait)
    }

    /// Handles a segment of the peer. `mss` bounds the MSS that the peer announces in a SYN.
    pub(super) fn handle(
        &mut self,
        interface: &mut Interface,
        segment: &mut PacketBuf,
        config: &Config,
        mss: u16,
        now: Instant,
    ) -> Result<Handled, Drop> {
        let parsed = Segment::parse(segment)?;
        if let Checked::Refused(reply) = self.check(&parsed, now) {
            return Ok(Handled { reply, ending: Ending::Other, dropped: Some(Drop::Sequence) });
        }
        let Segment { flags, mut acknowledgment, sequence, window, .. } = parsed;
        let options = SynOptions::parse(parsed.options);
        let has_octets = !parsed.payload.is_empty();
        let [unread, unsent] = [self.socket().recv_queue(), self.socket().send_queue()];
        let is_syn = flags.has(Flags::SYN);
        if is_syn {
            clamp_mss(segment, mss);
        } else if self.is_synchronized() && acknowledgment.is_before(self.unacknowledged) {
            // RFC 9293 s3.10.7.4: an old acknowledgment "can be ignored", and the octets are taken. smoltcp would drop both.
            acknowledgment = self.unacknowledged;
            segment[ACKNOWLEDGMENT_AT..ACKNOWLEDGMENT_AT + 4]
                .copy_from_slice(&acknowledgment.0.to_be_bytes());
        }
        let before = self.state();
        let reply = self.ingest(interface, segment, now);
        let state = self.state();
        if is_syn && self.seen == State::SynSent && state != State::SynSent {
            self.peer_mss = peer_mss(options.mss, self.flow.peer.0);
            self.received = sequence + 1;
            // smoltcp counts its window from the SYN until it has sent another segment.
            self.acknowledged = sequence;
            self.take_scale(options, config);
        }
        let read = u32::try_from(self.socket().recv_queue().saturating_sub(unread));
        self.received = self.received + read.unwrap_or_default();
        let has_read = self.socket().recv_queue() > unread;
        self.notices.readable |= has_read;
        let has_taken = state != self.seen || self.socket().send_queue() < unsent;
        let dropped = if before == state && !is_synchronized(before) {
            Some(Drop::Sequence)
        } else {
            // smoltcp acknowledges at once what it keeps behind a hole. If it does not, it keeps too many holes.
            (has_octets && !has_read && reply.is_none()).then_some(Drop::SocketFull)
        };
        if flags.has(Flags::ACK) && !flags.has(Flags::RST) {
            let scale = if is_syn { options.window_scale.unwrap_or(0) } else { 0 };
            self.on_acknowledgment(acknowledgment, window >> scale, has_taken, now);
        }
        self.end_behind_octets();
        let ending = if flags.has(Flags::RST) { Ending::Reset } else { Ending::Other };
        Ok(Handled { reply, ending, dropped })
    }

    /// Takes the shifts of the windows of both ends from the options of the peer's SYN (RFC 7323 s2.2).
    fn take_scale(&mut self, options: SynOptions, config: &Config) {
        if let Some(shift) = options.window_scale {
            self.peer_shift = shift;
            self.shift = window_shift(config.receive_buffer);
        }
    }

    /// The peer has answered. `has_taken` says that smoltcp took the acknowledgment for a new one.
    fn on_acknowledgment(&mut self, number: Seq, window: u16, has_taken: bool, now: Instant) {
        if number.since(self.unacknowledged) > self.next.since(self.unacknowledged) {
            return;
        }
        // RFC 9293 s3.8.6.1 (MUST-36): a peer that answers is there, also while its window is zero.
        self.since = now;
        self.window = window;
        self.largest_window = self.largest_window.max(u32::from(window) << self.peer_shift);
        if has_taken && number != self.unacknowledged {
            self.unacknowledged = number;
            self.soft = None;
            self.notices.reachable = true;
        }
        if self.wants_room && self.socket().can_send() {
            self.wants_room = false;
            self.notices.writable = true;
        }
    }

    /// The next segment to send.
    pub(super) fn poll(
        &mut self,
        interface: &mut Interface,
        spares: &mut Spares,
        mss: u16,
        now: Instant,
    ) -> Option<Outgoing> {
        // smoltcp forgets what the program has not read when it leaves TIME-WAIT.
        if self.is_silent || self.lingers() && self.unread() > 0 {
            return None;
        }
        if let Some(first) = self.repeat_move(now) {
            return Some(first);
        }
        let mut port = Port { spares: Some(spares), ..Port::default() };
        interface.poll_egress(to_smoltcp(now), &mut port, &mut self.sockets);
        let mut outgoing = self.outgoing(port.outgoing?, now)?;
        clamp_mss(&mut outgoing.segment, mss);
        Some(outgoing)
    }

    /// Handles an ICMPv6 error about a segment with this sequence number (RFC 5927 s4.1).
    pub(super) fn handle_error(&mut self, error: Option<Error>, sequence: Seq) -> Result<(), Drop> {
        if sequence.since(self.unacknowledged) >= self.next.since(self.unacknowledged) {
            return Err(Drop::ForeignError);
        }
        // RFC 5927 s5.2: errors are soft once the connection is synchronized. RFC 5461 s4.2: before, they end the attempt.
        if self.state() == State::SynSent && error.is_some() {
            self.abort(error);
        } else {
            self.soft = error.or(self.soft);
        }
        Ok(())
    }

    fn to_peer(&self, segment: PacketBuf) -> Outgoing {
        let (source, destination) = (self.flow.local.0, self.flow.peer.0);
        Outgoing { source, destination, segment, mss: self.peer_mss }
    }

    fn is_synchronized(&self) -> bool {
        is_synchronized(self.state())
    }

    /// Whether the segment acknowledges again all but the FIN of this host. smoltcp must not count such: after the third it would stop
    /// its timer for a fast retransmission, and have no octets to send. The FIN would never leave again.
    fn has_only_fin_to_repeat(&self, segment: &[u8]) -> bool {
        let is_closing = matches!(self.state(), State::FinWait1 | State::Closing | State::LastAck);
        if !is_closing || self.socket().send_queue() > 0 {
            return false;
        }
        let Ok(parsed) = Segment::parse(segment) else { return false };
        let is_bare = parsed.payload.is_empty() && parsed.flags == Flags::ACK;
        // A probe of a silent connection has an old number, and wants an answer.
        is_bare
            && parsed.acknowledgment == self.unacknowledged
            && !parsed.sequence.is_before(self.received)
    }

    /// Gives smoltcp a segment of the peer. Returns its immediate answer.
    fn ingest(
        &mut self,
        interface: &mut Interface,
        segment: &mut PacketBuf,
        now: Instant,
    ) -> Option<Outgoing> {
        if self.has_only_fin_to_repeat(segment) {
            return None;
        }
        let len = u16::try_from(segment.len()).ok()?;
        let header = Header::new(self.flow.peer.0, self.flow.local.0, TCP, HOP_LIMIT, len);
        segment.prepend(&header.octets());
        let mut port = Port { incoming: Some(segment), ..Port::default() };
        interface.poll_ingress_single(to_smoltcp(now), &mut port, &mut self.sockets);
        self.outgoing(port.outgoing?, now)
    }

    /// Takes note of a packet of smoltcp.
    fn outgoing(&mut self, mut segment: PacketBuf, now: Instant) -> Option<Outgoing> {
        segment.strip(IP6_LEN);
        let parsed = Segment::parse(&segment).ok()?;
        let end = parsed.sequence + parsed.sequence_len();
        if self.next.is_before(end) {
            // Silence counts from the first segment that waits for an answer.
            if self.next == self.unacknowledged && self.seen != State::SynSent {
                self.since = now;
            }
            self.next = end;
        }
        let is_ack = parsed.flags.has(Flags::ACK);
        if is_ack {
            self.acknowledged = parsed.acknowledgment;
        }
        self.announced = parsed.window;
        let is_syn = parsed.flags.has(Flags::SYN);
        if is_ack && parsed.sequence_len() == 0 {
            self.renumber(&mut segment);
        }
        self.syn = is_syn.then(|| segment.clone());
        Some(self.to_peer(segment))
    }

    /// Gives a segment without octets a number that the peer accepts. smoltcp forgets what it has sent when a retransmission is due. The
    /// peer would drop the segment for its old number, and with it the acknowledgment: two ends that retransmit at once would never end.
    fn renumber(&self, segment: &mut PacketBuf) {
        segment[SEQUENCE_AT..SEQUENCE_AT + 4].copy_from_slice(&self.acceptable().0.to_be_bytes());
    }

    /// The number of a segment without octets: the one that comes next (SND.NXT), as RFC 9293 s3.10.7.4 demands.
    ///
    /// If octets have been sent behind the right edge of the peer's window, the number is that edge: the peer drops all behind it. Such
    /// octets are a probe of a zero window, or the edge has moved back, as those of windows in units of 2^shift do (RFC 7323 s2.4).
    fn acceptable(&self) -> Seq {
        let edge = self.unacknowledged + (u32::from(self.window) << self.peer_shift);
        if edge.is_before(self.next) { edge } else { self.next }
    }

    fn socket(&self) -> &tcp::Socket<'static> {
        self.sockets.get(self.handle)
    }

    fn socket_mut(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }
}

const fn is_synchronized(state: State) -> bool {
    !matches!(state, State::Closed | State::SynSent | State::SynReceived)
}

/// The time of smoltcp, in whole microseconds.
fn to_smoltcp(now: Instant) -> time::Instant {
    time::Instant::from_micros(i64::try_from(now.as_nanos() / 1_000).unwrap_or(i64::MAX))
}

fn from_smoltcp(at: time::Instant) -> Instant {
    let micros = u64::try_from(at.total_micros()).unwrap_or_default();
    Instant::from_nanos(micros.saturating_mul(1_000))
}

/// Hop limit of the packets that smoltcp sees.
const HOP_LIMIT: u8 = 64;
