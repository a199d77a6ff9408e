//! When to send Router Solicitations (RFC 4861 s6.3.7, RFC 7559).

use core::time::Duration;

use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;

use crate::random::up_to;

/// State of solicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Solicitation {
    /// The link is down, or an advertisement has answered.
    Idle,
    /// No solicitation is sent yet.
    First {
        at: Instant,
        /// Whether an advertisement came before.
        is_answered: bool,
    },
    /// At least one solicitation is sent.
    Again {
        at: Instant,
        /// Time since the last solicitation: RT of RFC 3315 s14.
        interval: Duration,
    },
}

impl Solicitation {
    //= rfc4861#6.3.7-3
    pub(super) fn start(random: &mut ChaCha20Rng, now: Instant) -> Self {
        let at = now + up_to(random, MAX_RTR_SOLICITATION_DELAY);
        Self::First { at, is_answered: false }
    }

    //= rfc4861#6.3.7-4
    pub(super) const fn at_once(now: Instant) -> Self {
        Self::First { at: now, is_answered: false }
    }

    /// An advertisement has brought a default route.
    //= rfc7559#2.1-1
    //= rfc4861#6.3.7-6 rfc4861#6.3.7-7
    pub(super) fn handle_answer(&mut self) {
        *self = match *self {
            // RFC 4861 s6.3.7: "a host SHOULD send at least one solicitation in the case where an advertisement is received
            // prior to having sent a solicitation."
            Self::First { at, .. } => Self::First { at, is_answered: true },
            Self::Again { .. } | Self::Idle => Self::Idle,
        };
    }

    /// Returns whether a solicitation is due.
    //= rfc8504#5.4-8
    //= rfc7559#2-1
    //= rfc4861#6.3.7-1
    pub(super) fn handle_timeout(&mut self, random: &mut ChaCha20Rng, now: Instant) -> bool {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return false;
        }
        let interval = match *self {
            Self::First { is_answered: false, .. } => vary(random, IRT),
            // RFC 3315 s14: RT = 2*RTprev + RAND*RTprev.
            Self::Again { interval, .. } => interval + vary(random, interval),
            Self::First { is_answered: true, .. } | Self::Idle => {
                *self = Self::Idle;
                return true;
            }
        };
        // RFC 3315 s14: if RT > MRT, RT = MRT + RAND*MRT.
        let interval = if interval > MRT { vary(random, MRT) } else { interval };
        *self = Self::Again { at: now + interval, interval };
        true
    }

    pub(super) const fn poll_timeout(self) -> Option<Instant> {
        match self {
            Self::Idle => None,
            Self::First { at, .. } | Self::Again { at, .. } => Some(at),
        }
    }
}

/// The time, shorter or longer by at most a tenth: RAND of RFC 3315 s14.
fn vary(random: &mut ChaCha20Rng, time: Duration) -> Duration {
    time - time / 10 + up_to(random, time / 5)
}

/// RFC 4861 s10. Not configurable.
pub(super) const MAX_RTR_SOLICITATION_DELAY: Duration = Duration::from_secs(1);
/// Initial Retransmission Time (RFC 7559 s2). Not configurable.
//= rfc7559#2-2
pub(super) const IRT: Duration = Duration::from_secs(4);
/// Maximum Retransmission Time (RFC 7559 s2). Not configurable.
//= rfc7559#2-2
pub(super) const MRT: Duration = Duration::from_secs(3600);
