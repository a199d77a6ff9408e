//! Which segments of the peer smoltcp may have (RFC 9293 s3.10.7.4, RFC 5961). smoltcp discards segments without a word; so
//! those that it would discard never come to it, and are counted.

use core::time::Duration;

use moorline_types::Instant;

use super::super::super::{Flags, Outgoing, Segment, Seq, State};
use super::Connection;

/// Result of the check of a segment.
pub(super) enum Checked {
    /// smoltcp may have the segment.
    Fine,
    /// The segment is dropped. The peer gets this answer, if there is one.
    Refused(Option<Outgoing>),
}

impl Connection {
    /// Checks a segment of a synchronized connection, in the order of RFC 9293 s3.10.7.4.
    pub(super) fn check(&mut self, segment: &Segment<'_>, now: Instant) -> Checked {
        let [is_reset, is_syn, is_fin, is_ack] =
            [Flags::RST, Flags::SYN, Flags::FIN, Flags::ACK].map(|flag| segment.flags.has(flag));
        // RFC 5961 s3.2: only an RST with the number that comes next is certainly the peer's. In TIME-WAIT, a copy of the FIN
        // starts the time anew, and smoltcp does that.
        let is_wait = self.state() == State::TimeWait && is_fin;
        if !self.is_synchronized() || is_wait || is_reset && segment.sequence == self.received {
            return Checked::Fine;
        }
        if !self.is_in_window(segment) {
            // RFC 9293: "If an incoming segment is not acceptable, an acknowledgment should be sent in reply (unless the RST bit is
            // set". Segments with octets have their answers always: their number is that of the peer's retransmissions.
            let is_lone = segment.payload.is_empty() && !is_fin;
            return Checked::Refused(if is_reset {
                None
            } else if is_lone || is_syn {
                self.challenge(now)
            } else {
                Some(self.acknowledgment())
            });
        }
        // RFC 5961 s3.2, s4.2: another RST, and each SYN, may be that of a peer that has begun anew, or of an attacker. A peer
        // that has begun anew answers the challenge with an RST that is right.
        if is_reset || is_syn {
            return Checked::Refused(self.challenge(now));
        }
        if !is_ack {
            return Checked::Refused(None);
        }
        // RFC 5961 s5.2: SND.UNA - MAX.SND.WND =< SEG.ACK =< SND.NXT.
        let number = segment.acknowledgment;
        let oldest = Seq(self.unacknowledged.0.wrapping_sub(self.largest_window));
        if self.next.is_before(number) || number.is_before(oldest) {
            return Checked::Refused(self.challenge(now));
        }
        // Behind its FIN a peer has no more octets. Before SND.UNA, only octets are of use.
        let is_old = number.is_before(self.unacknowledged);
        let has_octets = is_fin || !segment.payload.is_empty();
        if self.seen.has_fin() && has_octets || is_old && !has_octets {
            return Checked::Refused(None);
        }
        Checked::Fine
    }

    /// Whether octets of a segment are in the window, or an empty one lies in it (RFC 9293 s3.10.7.4, table 6).
    fn is_in_window(&self, segment: &Segment<'_>) -> bool {
        let edge = self.acknowledged + (u32::from(self.announced) << self.shift);
        let next = self.received;
        let window = if edge.is_before(next) { 0 } else { edge.since(next) };
        let len = u32::try_from(segment.payload.len()).unwrap_or(u32::MAX);
        let start = segment.sequence.since(next);
        if len == 0 {
            return start < window || window == 0 && start == 0;
        }
        let last = (segment.sequence + (len - 1)).since(next);
        start < window || last < window
    }

    /// The acknowledgment that answers a segment out of order: <SEQ=SND.NXT><ACK=RCV.NXT><CTL=ACK>, with a
    /// number that the peer accepts ([`Self::acceptable`]). It promises no octet more
    /// than the last segment.
    fn acknowledgment(&self) -> Outgoing {
        let taken = self.received.since(self.acknowledged) >> self.shift;
        let window = u32::from(self.announced).saturating_sub(taken);
        let segment = Segment {
            source_port: self.flow.local.1,
            destination_port: self.flow.peer.1,
            sequence: self.acceptable(),
            acknowledgment: self.received,
            flags: Flags::ACK,
            window: u16::try_from(window).unwrap_or(u16::MAX),
            options: &[],
            payload: &[],
        };
        self.to_peer(segment.to_packet())
    }

    /// A challenge ACK, unless there have been too many (RFC 5961 s7).
    fn challenge(&mut self, now: Instant) -> Option<Outgoing> {
        let ahead = self.challenged.since(now);
        if ahead + CHALLENGE_INTERVAL > CHALLENGE_INTERVAL * CHALLENGE_BURST {
            return None;
        }
        self.challenged = now + ahead + CHALLENGE_INTERVAL;
        Some(self.acknowledgment())
    }
}

/// Mean time between challenge ACKs of a connection (RFC 5961 s7: "no more than 10 challenge ACKs [...] in any 5 second window").
/// Not configurable.
pub(in super::super) const CHALLENGE_INTERVAL: Duration = Duration::from_millis(500);
/// Challenge ACKs of a connection at once. Not configurable.
pub(in super::super) const CHALLENGE_BURST: u32 = 10;
