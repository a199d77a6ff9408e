//! Times of messages that are sent repeatedly.

use core::time::Duration;

use moorline_types::Instant;

use crate::consts::{CONFIRMATION_TRIES, FIRST_RETRANSMISSION, MAX_RETRANSMISSION, OFFER_TIMEOUT};

/// Times of a message that is sent repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Number of times that the message was sent.
    pub(crate) tries: u32,
    /// Number of times that the message was due, sent or not.
    pub(crate) turns: u32,
    /// Time when the message was sent for the first time.
    pub(crate) begun: Instant,
    /// Time from the last transmission to the next.
    pause: Duration,
    pub(crate) next: Instant,
}

impl Retry {
    /// Begins for a message that was just sent for the first time, to a correspondent whose round-trip time is not
    /// known.
    pub(crate) fn new(now: Instant) -> Self {
        Self::after(FIRST_RETRANSMISSION, now)
    }

    pub(crate) fn after(pause: Duration, now: Instant) -> Self {
        Self { tries: 1, turns: 1, begun: now, pause, next: now + pause }
    }

    /// Goes on after the message was sent again.
    pub(crate) fn again(self, now: Instant) -> Self {
        self.again_within(MAX_RETRANSMISSION, now)
    }

    /// Like [`again`](Self::again), with this longest pause.
    pub(crate) fn again_within(self, longest: Duration, now: Instant) -> Self {
        let pause = (self.pause * 2).min(longest);
        let (tries, turns) = (self.tries + 1, self.turns + 1);
        Self { tries, turns, pause, next: now + pause, ..self }
    }

    /// Goes on with the pauses of `fresh`, a timer that begins now: the message is due when a new one would be, or sooner.
    pub(crate) fn hastened(self, fresh: Self) -> Self {
        Self { pause: fresh.pause, next: self.next.min(fresh.next), ..self }
    }

    /// The timer that is due first of the two, which begin now.
    pub(crate) fn or_sooner(self, other: Self) -> Self {
        if other.next < self.next { other } else { self }
    }

    /// Goes on with two pauses of `fresh`, a timer that begins now, or sooner.
    pub(crate) fn at_second(self, fresh: Self) -> Self {
        let pause = self.pause.min(fresh.pause * 2);
        Self { pause, next: self.next.min(fresh.next + fresh.pause), ..self }
    }

    /// Goes on at the time of a turn. `is_sent`: whether the message was sent again.
    pub(crate) fn next_turn(self, is_sent: bool, now: Instant) -> Self {
        let tries = self.tries + u32::from(is_sent);
        Self { tries, ..self.again(now) }
    }

    /// Whether a message of a new session, whose nonces have no answer yet, has been sent often enough and for long
    /// enough.
    pub(crate) fn is_in_vain(&self, now: Instant) -> bool {
        self.tries >= CONFIRMATION_TRIES && self.is_over(OFFER_TIMEOUT, now)
    }

    /// When the message was last sent by this timer.
    pub(crate) fn sent_at(&self) -> Instant {
        self.next - self.pause
    }

    /// Whether the message has been repeated for this lifetime.
    pub(crate) fn is_over(&self, lifetime: Duration, now: Instant) -> bool {
        now.since(self.begun) >= lifetime
    }
}
