use alloc::collections::BTreeMap;
use core::fmt;
use core::hash::Hasher as _;
use core::time::Duration;

use moorline_types::{DropReason, Instant};
use siphasher::sip::SipHasher13;

/// Limit by source prefix for work and answers that anybody can request with a forged source.
///
/// Prefixes share a fixed number of allowances; a keyed hash chooses the allowance of a prefix. So nobody can
/// choose sources that take the allowance of one particular host. A host that forges sources everywhere takes
/// a little of each allowance, and a host that has as many prefixes as a /48 can take all of them. There is
/// no list of prefixes that could be filled.
#[derive(Clone)]
pub struct FloodLimit {
    key: [u8; 16],
    interval: Duration,
    burst: u32,
    /// Time at which the debt of each allowance is paid off. An allowance without debt may be missing.
    paid_at: BTreeMap<u16, Instant>,
}

impl FloodLimit {
    /// Creates a limit: `burst` requests at once for a prefix, and then one in each `interval`. Nobody else
    /// may know the key.
    #[must_use]
    pub const fn new(key: [u8; 16], interval: Duration, burst: u32) -> Self {
        Self { key, interval, burst, paid_at: BTreeMap::new() }
    }

    /// Takes one request out of the allowance of the prefix.
    ///
    /// # Errors
    /// [`DropReason::RateLimited`] if the allowance is used up.
    pub fn take(&mut self, prefix: [u8; 8], now: Instant) -> Result<(), DropReason> {
        let paid_at = self.paid_at.entry(self.bucket(prefix)).or_insert(now);
        let owed = paid_at.since(now);
        if owed > self.interval * (self.burst - 1) {
            return Err(DropReason::RateLimited);
        }
        *paid_at = now + owed + self.interval;
        Ok(())
    }

    fn bucket(&self, prefix: [u8; 8]) -> u16 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(&prefix);
        let [.., high, low] = hasher.finish().to_be_bytes();
        u16::from_be_bytes([high, low]) % ALLOWANCES
    }
}

/// Shows nothing of the key.
impl fmt::Debug for FloodLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FloodLimit").finish_non_exhaustive()
    }
}

/// Number of allowances, which all prefixes share. With 300,000 forged sources in a second, each is asked 73
/// times.
const ALLOWANCES: u16 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1);
    const INTERVAL: Duration = Duration::from_millis(1);
    const BURST: u32 = 1000;

    fn prefix(n: u32) -> [u8; 8] {
        (0x2001_0db8_0000_0000 | u64::from(n)).to_be_bytes()
    }

    fn limit() -> FloodLimit {
        FloodLimit::new([7; 16], INTERVAL, BURST)
    }

    #[test]
    fn a_prefix_has_its_burst_and_then_its_rate_and_others_theirs() {
        let mut limit = limit();
        for _ in 0..BURST {
            limit.take(prefix(1), NOW).expect("within the burst");
        }
        assert_eq!(limit.take(prefix(1), NOW), Err(DropReason::RateLimited));
        limit.take(prefix(2), NOW).expect("another prefix");
        limit.take(prefix(1), NOW + INTERVAL).expect("one has been paid off");
        let refused = limit.take(prefix(1), NOW + INTERVAL);
        assert_eq!(refused, Err(DropReason::RateLimited));
    }

    /// 300,000 forged sources come in a second.
    #[test]
    fn a_flood_from_everywhere_keeps_nobody_from_being_answered() {
        let mut limit = limit();
        for n in 0..300_000 {
            limit.take(prefix(n), NOW + Duration::from_micros(3) * n).expect("answered");
        }
        assert!(limit.paid_at.len() <= usize::from(ALLOWANCES));
    }

    #[test]
    fn which_prefixes_share_an_allowance_depends_on_the_key() {
        let other = FloodLimit::new([8; 16], INTERVAL, BURST);
        let limit = limit();
        let same = (0..1000).filter(|&n| limit.bucket(prefix(n)) == other.bucket(prefix(n)));
        assert!(same.count() < 10);
    }
}
