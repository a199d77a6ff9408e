use alloc::collections::{BTreeMap, BTreeSet};
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::PacketBuf;
use moorline_types::Instant;

use super::super::{Flags, Flow, ListenerId, Segment, Seq, SynOptions};
use super::SYN_ACK_RETRIES;

/// A connection in SYN-RECEIVED that a listener made: what its SYN said, and what the SYN-ACK says.
#[derive(Clone, Copy, Debug)]
pub(super) struct HalfOpen {
    pub(super) listener: ListenerId,
    /// The sequence number behind the SYN of the peer.
    pub(super) received: Seq,
    /// The number of our SYN.
    pub(super) isn: Seq,
    /// Window of the SYN.
    pub(super) window: u16,
    pub(super) options: SynOptions,
    /// When the last SYN-ACK was sent.
    pub(super) sent: Instant,
    retries: u8,
    serial: u64,
}

impl HalfOpen {
    pub(super) fn new(listener: ListenerId, syn: &Segment<'_>, isn: Seq, now: Instant) -> Self {
        Self {
            listener,
            received: syn.sequence + 1,
            isn,
            window: syn.window,
            options: SynOptions::parse(syn.options),
            sent: now,
            retries: 0,
            serial: 0,
        }
    }

    /// The MSS of the peer (RFC 9293 s3.7.1, MUST-15: the default is that of the least MTU).
    pub(super) fn peer_mss(&self, flow: Flow) -> u16 {
        peer_mss(self.options.mss, flow.peer.0)
    }

    /// The SYN-ACK. It has the options and the window that smoltcp takes for granted later.
    pub(super) fn syn_ack(&self, flow: Flow, mss: u16, receive_buffer: usize) -> PacketBuf {
        let options = SynOptions {
            mss: Some(mss),
            window_scale: self.options.window_scale.map(|_| window_shift(receive_buffer)),
            is_sack_permitted: self.options.is_sack_permitted,
        };
        let segment = Segment {
            source_port: flow.local.1,
            destination_port: flow.peer.1,
            sequence: self.isn,
            acknowledgment: self.received,
            flags: Flags::SYN.with(Flags::ACK),
            window: u16::try_from(receive_buffer).unwrap_or(u16::MAX),
            options: &options.octets(),
            payload: &[],
        };
        segment.to_packet()
    }

    /// The SYN of the peer anew, for smoltcp.
    pub(super) fn syn(&self, flow: Flow, mss: u16) -> PacketBuf {
        let options = SynOptions { mss: Some(self.peer_mss(flow).min(mss)), ..self.options };
        let segment = Segment {
            source_port: flow.peer.1,
            destination_port: flow.local.1,
            sequence: Seq(self.received.0.wrapping_sub(1)),
            acknowledgment: Seq(0),
            flags: Flags::SYN,
            window: self.window,
            options: &options.octets(),
            payload: &[],
        };
        segment.to_packet()
    }

    fn due(&self) -> Instant {
        self.sent + Duration::from_secs(1 << self.retries)
    }
}

/// The MSS that a peer has announced, or the default of its version of IP. Zero counts as nothing.
pub(super) fn peer_mss(announced: Option<u16>, peer: Ipv6Addr) -> u16 {
    let default = if peer.to_ipv4_mapped().is_some() { DEFAULT_MSS_4 } else { DEFAULT_MSS_6 };
    announced.filter(|mss| *mss > 0).unwrap_or(default).max(MIN_PEER_MSS)
}

/// The window shift that smoltcp chooses for a receive buffer.
pub(super) fn window_shift(receive_buffer: usize) -> u8 {
    let bits = usize::BITS - receive_buffer.leading_zeros();
    u8::try_from(bits.saturating_sub(16)).unwrap_or_default()
}

/// The half-open connections of all listeners.
#[derive(Default)]
pub(super) struct HalfOpens {
    entries: BTreeMap<Flow, HalfOpen>,
    timers: BTreeSet<(Instant, Flow)>,
    /// The flows of each listener, oldest first.
    ages: BTreeMap<ListenerId, BTreeMap<u64, Flow>>,
    next: u64,
}

impl HalfOpens {
    pub(super) fn flows(&self) -> impl Iterator<Item = Flow> {
        self.entries.keys().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn of(&self, flow: &Flow) -> Option<&HalfOpen> {
        self.entries.get(flow)
    }

    pub(super) fn count(&self, listener: ListenerId) -> usize {
        self.ages.get(&listener).map_or(0, BTreeMap::len)
    }

    pub(super) fn insert(&mut self, flow: Flow, half: HalfOpen) {
        self.remove(&flow);
        let half = HalfOpen { serial: self.next, ..half };
        self.next += 1;
        self.ages.entry(half.listener).or_default().insert(half.serial, flow);
        self.timers.insert((half.due(), flow));
        self.entries.insert(flow, half);
    }

    pub(super) fn remove(&mut self, flow: &Flow) {
        let Some(half) = self.entries.remove(flow) else { return };
        self.timers.remove(&(half.due(), *flow));
        if let Some(ages) = self.ages.get_mut(&half.listener) {
            ages.remove(&half.serial);
            if ages.is_empty() {
                self.ages.remove(&half.listener);
            }
        }
    }

    pub(super) fn remove_oldest(&mut self, listener: ListenerId) {
        let oldest = self.ages.get(&listener).and_then(|ages| ages.values().next().copied());
        oldest.inspect(|flow| self.remove(flow));
    }

    pub(super) fn remove_all(&mut self, listener: ListenerId) {
        for flow in self.ages.remove(&listener).unwrap_or_default().into_values() {
            self.remove(&flow);
        }
    }

    /// A connection whose SYN-ACK is due again. If it has been sent often enough, there is no connection any more.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<(Flow, Option<HalfOpen>)> {
        let &(_, flow) = self.timers.first().filter(|(at, _)| *at <= now)?;
        let half = *self.entries.get(&flow)?;
        if half.retries >= SYN_ACK_RETRIES {
            self.remove(&flow);
            return Some((flow, None));
        }
        self.timers.remove(&(half.due(), flow));
        let half = HalfOpen { sent: now, retries: half.retries + 1, ..half };
        self.timers.insert((half.due(), flow));
        self.entries.insert(flow, half);
        Some((flow, Some(half)))
    }

    /// Begins the wait for an answer to the last SYN-ACK anew, as the SYN has come again.
    pub(super) fn restart(&mut self, flow: Flow, now: Instant) {
        let Some(half) = self.entries.get_mut(&flow) else { return };
        self.timers.remove(&(half.due(), flow));
        half.sent = now;
        self.timers.insert((half.due(), flow));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }
}

/// MSS of a peer that announces none, for IPv6 and IPv4 (RFC 9293 s3.7.1).
const DEFAULT_MSS_6: u16 = 1_220;
const DEFAULT_MSS_4: u16 = 536;
/// Least MSS that a peer gets: that of smoltcp and Linux. Smaller ones would make a packet of each octet.
const MIN_PEER_MSS: u16 = 48;
