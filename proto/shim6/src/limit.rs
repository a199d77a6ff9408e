use alloc::collections::BTreeMap;
use core::time::Duration;

use moorline_types::{DropReason, Instant, Locator};

use crate::consts::MAX_LIMITED_PREFIXES;

/// A limit on work that peers can ask for, one for each source prefix: who floods from one prefix
/// takes nothing from the others (design s5). Prefixes for which there is no room share one.
#[derive(Clone, Debug)]
pub(crate) struct RateLimit {
    /// One in this time.
    interval: Duration,
    /// So many at once.
    burst: u32,
    /// By /64: when the debt of a prefix will have been paid off.
    paid_at: BTreeMap<[u8; 8], Instant>,
}

impl RateLimit {
    pub(crate) const fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst, paid_at: BTreeMap::new() }
    }

    /// Takes one out of the allowance of the prefix.
    pub(crate) fn take(&mut self, source: Locator, now: Instant) -> Result<(), DropReason> {
        let mut prefix = source.prefix();
        if self.paid_at.len() >= MAX_LIMITED_PREFIXES && !self.paid_at.contains_key(&prefix) {
            self.paid_at.retain(|_, paid_at| *paid_at > now);
            if self.paid_at.len() >= MAX_LIMITED_PREFIXES {
                prefix = OTHERS;
            }
        }
        let paid_at = self.paid_at.entry(prefix).or_insert(now);
        let owed = paid_at.since(now);
        if owed > self.interval * (self.burst - 1) {
            return Err(DropReason::RateLimited);
        }
        *paid_at = now + owed + self.interval;
        Ok(())
    }
}

/// The unspecified prefix, from which no packet is taken.
const OTHERS: [u8; 8] = [0; 8];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consts::{SIGNATURE_BURST, SIGNATURE_INTERVAL};
    use core::net::Ipv6Addr;

    const NOW: Instant = Instant::from_nanos(1);

    fn from_prefix(n: u16, host: u16) -> Locator {
        Ipv6Addr::new(0x2001, 0xdb8, 0, n, 0, 0, 0, host).into()
    }

    #[test]
    fn a_prefix_has_its_burst_and_then_its_rate() {
        let mut limit = RateLimit::new(SIGNATURE_INTERVAL, SIGNATURE_BURST);
        for host in 0..SIGNATURE_BURST {
            let host = u16::try_from(host).expect("a small burst");
            limit.take(from_prefix(1, host), NOW).expect("within the burst");
        }
        assert_eq!(limit.take(from_prefix(1, 0), NOW), Err(DropReason::RateLimited));
        limit.take(from_prefix(2, 0), NOW).expect("another prefix");
        limit.take(from_prefix(1, 0), NOW + SIGNATURE_INTERVAL).expect("one has been paid off");
        let refused = limit.take(from_prefix(1, 0), NOW + SIGNATURE_INTERVAL);
        assert_eq!(refused, Err(DropReason::RateLimited));
    }

    #[test]
    fn prefixes_beyond_the_cap_share_an_allowance_until_others_have_paid() {
        let mut limit = RateLimit::new(SIGNATURE_INTERVAL, SIGNATURE_BURST);
        for n in 0..MAX_LIMITED_PREFIXES {
            limit.take(from_prefix(u16::try_from(n).expect("fits"), 0), NOW).expect("room");
        }
        for n in 0..SIGNATURE_BURST {
            let another = u16::MAX - u16::try_from(n).expect("a small burst");
            limit.take(from_prefix(another, 0), NOW).expect("within the burst of the others");
        }
        let another = from_prefix(u16::MAX / 2, 0);
        assert_eq!(limit.take(another, NOW), Err(DropReason::RateLimited));
        limit.take(another, NOW + SIGNATURE_INTERVAL).expect("all have paid");
    }
}
