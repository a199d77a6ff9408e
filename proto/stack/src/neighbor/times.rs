use core::time::Duration;

use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;

/// `ReachableTime` and `RetransTimer` of a wire (RFC 4861 s6.3.2).
#[derive(Debug)]
pub(super) struct Times {
    random: ChaCha20Rng,
    base_reachable: Duration,
    reachable: Duration,
    /// Time at which `reachable` was chosen; `None` if it must be chosen anew.
    chosen: Option<Instant>,
    retrans: Duration,
}

impl Times {
    pub(super) fn new(random: ChaCha20Rng) -> Self {
        let (base_reachable, retrans) = (REACHABLE_TIME, RETRANS_TIMER);
        Self { random, base_reachable, reachable: base_reachable, chosen: None, retrans }
    }

    //= rfc4861#6.3.4-8
    pub(super) fn set(&mut self, base_reachable: Duration, retrans: Duration) {
        let base_reachable = base_reachable.min(MAX_REACHABLE_TIME);
        if !base_reachable.is_zero() && base_reachable != self.base_reachable {
            self.base_reachable = base_reachable;
            self.chosen = None;
        }
        if !retrans.is_zero() {
            self.retrans = retrans.clamp(MIN_RETRANS_TIMER, MAX_RETRANS_TIMER);
        }
    }

    /// Time for which a confirmation holds.
    //= rfc4861#6.3.4-9
    pub(super) fn reachable(&mut self, now: Instant) -> Duration {
        // RFC 4861 s6.3.4: "a new random value gets re-computed at least once every few hours".
        if self.chosen.is_none_or(|chosen| now.since(chosen) >= CHOSEN_FOR) {
            self.reachable = self.randomized(self.base_reachable);
            self.chosen = Some(now);
        }
        self.reachable
    }

    /// Time between solicitations.
    pub(super) const fn retrans(&self) -> Duration {
        self.retrans
    }

    /// Time to wait after the solicitation number `sent` to an unreachable neighbor (RFC 7048 s4).
    //= rfc8504#5.4-6
    pub(super) fn backoff(&mut self, sent: u32) -> Duration {
        let factor = BACKOFF_MULTIPLE.saturating_pow(sent);
        let longer = self.retrans.saturating_mul(factor).min(MAX_RETRANS_TIMER);
        self.randomized(longer)
    }

    /// A duration between `MIN_RANDOM_FACTOR` and `MAX_RANDOM_FACTOR` times the argument, uniformly distributed.
    fn randomized(&mut self, time: Duration) -> Duration {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let part = (u128::from(self.random.next_u64()) * u128::from(nanos)) >> 64;
        time / 2 + Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }
}

/// Time for which a confirmation holds, before it is randomized (RFC 4861 s10).
pub const REACHABLE_TIME: Duration = Duration::from_secs(30);
/// Time between solicitations (RFC 4861 s10).
pub const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// Longest time between solicitations (RFC 7048 s4). Longer times of routers count as this one.
pub const MAX_RETRANS_TIMER: Duration = Duration::from_secs(60);
/// Shortest time between solicitations that a router can set: a shorter one would make the host flood its link.
const MIN_RETRANS_TIMER: Duration = Duration::from_millis(10);
/// Longest time that routers may advertise (RFC 4861 s6.2.1).
const MAX_REACHABLE_TIME: Duration = Duration::from_secs(3600);
/// Time after which `ReachableTime` is chosen anew.
const CHOSEN_FOR: Duration = Duration::from_secs(2 * 3600);
/// Factor between solicitations to an unreachable neighbor (RFC 7048 s4).
const BACKOFF_MULTIPLE: u32 = 3;
