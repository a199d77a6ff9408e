use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hasher as _;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::party;
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;
use siphasher::sip::SipHasher24;

use super::Rate;
use crate::Drop;

/// A rate of messages as a whole, and of the messages to each prefix.
#[derive(Clone)]
pub(super) struct Meter {
    random: ChaCha20Rng,
    whole: Allowance,
    rate: Rate,
    rate_of_prefix: Rate,
    /// Allowances that the prefixes share. Empty until the first message.
    shares: Vec<Allowance>,
    key: SipHasher24,
    key_until: Instant,
}

/// A token bucket, as the time at which all its tokens are back.
#[derive(Clone, Copy)]
struct Allowance(Instant);

impl Meter {
    pub(super) fn new(
        rate: Rate,
        rate_of_prefix: Rate,
        mut random: ChaCha20Rng,
        now: Instant,
    ) -> Self {
        let key = SipHasher24::new_with_keys(random.next_u64(), random.next_u64());
        let (whole, shares) = (Allowance(now), Vec::new());
        Self { random, whole, rate, rate_of_prefix, shares, key, key_until: now }
    }

    /// Takes a message to this address out of both rates. If one of them refuses, neither changes.
    //= rfc4443#2.4-6
    pub(super) fn take(&mut self, to: Ipv6Addr, now: Instant) -> Result<(), Drop> {
        let index = self.share_of(to, now);
        // The same draws are made in any case, so the time that this takes tells nothing.
        let [limit, cost, limit_of_prefix, cost_of_prefix] =
            [(); 4].map(|()| self.random.next_u32());
        let share = self.shares.get_mut(index).ok_or(Drop::ErrorRate)?;
        if share.has(self.rate_of_prefix, limit_of_prefix, now)
            && self.whole.has(self.rate, limit, now)
        {
            share.pay(even(self.rate_of_prefix, cost_of_prefix), now);
            self.whole.pay(uneven(self.rate, cost), now);
            return Ok(());
        }
        Err(Drop::ErrorRate)
    }

    /// Index of the allowance of a prefix.
    fn share_of(&mut self, to: Ipv6Addr, now: Instant) -> usize {
        if self.shares.is_empty() {
            self.shares = vec![Allowance(now); SHARES];
        }
        if now >= self.key_until {
            self.key = SipHasher24::new_with_keys(self.random.next_u64(), self.random.next_u64());
            let extra = Duration::from_nanos(self.random.next_u32().into());
            self.key_until = now + KEY_LIFE + extra;
        }
        let mut hasher = self.key;
        hasher.write_u64(party(to));
        usize::try_from(hasher.finish() % SHARES as u64).unwrap_or_default()
    }
}

impl Allowance {
    /// Whether one more message is within a limit, which `random` chooses between half of the burst and the burst.
    fn has(self, rate: Rate, random: u32, now: Instant) -> bool {
        let half = rate.burst.div_ceil(2);
        let limit = half + scale(random, rate.burst - half + 1);
        self.0.since(now) < rate.interval * limit
    }

    fn pay(&mut self, cost: Duration, now: Instant) {
        self.0 = now + self.0.since(now) + cost;
    }
}

/// Cost of a message for a whole rate: nothing, or [`UNEVEN`] intervals for one message of [`UNEVEN`]. So the messages
/// that somebody gets tell little about how many others got.
fn uneven(rate: Rate, random: u32) -> Duration {
    if scale(random, UNEVEN) == 0 { rate.interval * UNEVEN } else { Duration::ZERO }
}

/// Cost of a message for the rate of a prefix: between a half and one and a half of an interval.
fn even(rate: Rate, random: u32) -> Duration {
    let nanos = u32::try_from(rate.interval.as_nanos()).unwrap_or(u32::MAX);
    rate.interval / 2 + Duration::from_nanos(scale(random, nanos).into())
}

/// Shows nothing of the keys.
impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("rate", &self.rate).finish_non_exhaustive()
    }
}

/// Makes a number below `below` of a random number.
fn scale(random: u32, below: u32) -> u32 {
    u32::try_from((u64::from(random) * u64::from(below)) >> 32).unwrap_or_default()
}

/// Largest cost of a message, in intervals.
const UNEVEN: u32 = 4;
/// Number of allowances of prefixes; they take 8 KB.
const SHARES: usize = 1024;
/// Least time for which prefixes share an allowance. Up to 4.3 s are added at random.
const KEY_LIFE: Duration = Duration::from_secs(1);
