//! Marks: payload between the ULIDs that has the payload header all the same, and so shows the tag (decision 200).
//!
//! Anybody can send payload with the ULIDs as addresses. Two hosts that answer each other's checks put the payload header
//! on some of their payload: on a packet that is not TCP and has room, if the last mark is [`INTERVAL`] old. A peer whose
//! marks come regularly sends none of its payload [`FRESH`] after a mark, so such payload may be anybody's, and is no
//! answer. Packets without room cannot have marks. If such packets come while marks are missing, the marks are not
//! regular.

use moorline_types::Instant;
use moorline_wire::PAYLOAD_HEADER_LEN;

/// Notes of a plane about the marks of a context. Times are in units of 2^24 ns, modulo 2^16.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    sent: u16,
    received: u16,
    /// Regular marks in a row, up to [`REGULAR`].
    regular: u8,
    /// Whether a large packet came while marks were missing.
    is_broken: bool,
    /// Whether payload was no answer for want of a mark.
    has_refused: bool,
}

impl Marks {
    /// Whether payload with this many octets, which is not TCP, gets a mark.
    pub(crate) fn is_due(&mut self, octets: usize, now: Instant) -> bool {
        let is_due = octets <= ROOM && stamp(now).wrapping_sub(self.sent) >= INTERVAL;
        if is_due {
            self.sent = stamp(now);
        }
        is_due
    }

    /// A mark has come.
    pub(crate) fn on_mark(&mut self, now: Instant) {
        let is_regular = self.age(now) <= FRESH || !self.is_broken;
        let regular = if is_regular { (self.regular + 1).min(REGULAR) } else { 0 };
        *self = Self { sent: self.sent, received: stamp(now), regular, ..Self::default() };
    }

    /// Whether payload without a mark is no answer, because a mark is missing.
    pub(crate) fn is_missing(&self, now: Instant) -> bool {
        self.regular == REGULAR && (FRESH + 1..LIFE).contains(&self.age(now))
    }

    /// Payload with this many octets, which is not TCP, has come without a mark.
    pub(crate) fn on_unmarked(&mut self, octets: usize, now: Instant) {
        self.is_broken |= octets > LARGE && self.regular > 0 && self.age(now) > FRESH;
    }

    /// Payload was no answer, because a mark is missing.
    pub(crate) fn on_refused(&mut self) {
        self.has_refused = true;
    }

    /// The peer has answered a doubt by other means than payload. If payload was no answer for want of a mark, the peer no
    /// longer sends marks regularly: returns true, and expects none.
    pub(crate) fn on_doubt_answered(&mut self) -> bool {
        let has_refused = self.has_refused;
        if has_refused {
            self.forget();
        }
        has_refused
    }

    /// The context has taken another pair.
    pub(crate) fn forget(&mut self) {
        *self = Self { sent: self.sent, received: self.received, ..Self::default() };
    }

    fn age(&self, now: Instant) -> u16 {
        stamp(now).wrapping_sub(self.received)
    }
}

fn stamp(now: Instant) -> u16 {
    let [low, high, ..] = (now.as_nanos() >> MARK_SHIFT).to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// Unit of the times: 2^24 ns, 16.8 ms.
const MARK_SHIFT: u32 = 24;
/// Units from one mark to the next: 50 ms. Not configurable.
const INTERVAL: u16 = 3;
/// Units after a mark in which payload without a mark is an answer, as the next mark may be lost: 101 ms.
const FRESH: u16 = 5;
/// Units after a mark after which no mark is expected any more: 8.6 s.
const LIFE: u16 = 512;
/// Number of regular marks in a row after which marks are expected.
const REGULAR: u8 = 4;
/// Largest packet that gets a mark, in octets: with the header, it fits each path (RFC 8200 s5).
const ROOM: usize = 1280 - PAYLOAD_HEADER_LEN;
/// Larger packets, and segments of super-packets, may come without a mark.
const LARGE: usize = 1024;

#[cfg(test)]
mod tests;
