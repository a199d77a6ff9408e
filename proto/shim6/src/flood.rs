use alloc::collections::BTreeMap;
use core::fmt;
use core::hash::Hasher as _;
use core::time::Duration;

use moorline_types::{DropReason, Instant, Locator};
use siphasher::sip::SipHasher13;
use siphasher::sip128::{self, Hasher128 as _};

use crate::consts::FLOOD_BUCKETS;

/// A limit by source prefix for answers that anybody can ask for with a source made up: R1.
///
/// Prefixes share a fixed number of allowances, which one by a keyed hash. Nobody can choose sources that take
/// the allowance of another; who makes up sources everywhere takes a little of each. There is no list of prefixes
/// that could be filled.
#[derive(Clone)]
pub(crate) struct FloodLimit {
    key: [u8; 16],
    interval: Duration,
    burst: u32,
    /// By allowance: when its debt will have been paid off. Those without debt may lack.
    paid_at: BTreeMap<u16, Instant>,
}

impl FloodLimit {
    /// `secret` may serve others too.
    pub(crate) fn new(secret: &[u8; 32], interval: Duration, burst: u32) -> Self {
        let key = derived_key(secret, LABEL);
        Self { key, interval, burst, paid_at: BTreeMap::new() }
    }

    /// Takes one out of the allowance of the prefix.
    pub(crate) fn take(&mut self, source: Locator, now: Instant) -> Result<(), DropReason> {
        let paid_at = self.paid_at.entry(self.bucket(source)).or_insert(now);
        let owed = paid_at.since(now);
        if owed > self.interval * (self.burst - 1) {
            return Err(DropReason::RateLimited);
        }
        *paid_at = now + owed + self.interval;
        Ok(())
    }

    fn bucket(&self, source: Locator) -> u16 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(&source.prefix());
        let [.., high, low] = hasher.finish().to_be_bytes();
        u16::from_be_bytes([high, low]) % FLOOD_BUCKETS
    }
}

/// A key for a keyed hash: the label keeps apart what is made from the same secret.
pub(crate) fn derived_key(secret: &[u8; 32], label: &[u8]) -> [u8; 16] {
    let (mut key, mut rest) = ([0; 16], [0; 16]);
    key.copy_from_slice(&secret[..16]);
    rest.copy_from_slice(&secret[16..]);
    let mut hasher = sip128::SipHasher24::new_with_key(&key);
    hasher.write(label);
    hasher.write(&rest);
    hasher.finish128().as_bytes()
}

/// Nothing of the secret.
impl fmt::Debug for FloodLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FloodLimit").finish_non_exhaustive()
    }
}

const LABEL: &[u8] = b"moorline flood";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consts::{R1_BURST, R1_INTERVAL};
    use core::net::Ipv6Addr;

    const NOW: Instant = Instant::from_nanos(1);

    fn from_prefix(n: u32) -> Locator {
        let [a, b, c, d] = n.to_be_bytes();
        Ipv6Addr::new(
            0x2001,
            0xdb8,
            u16::from_be_bytes([a, b]),
            u16::from_be_bytes([c, d]),
            0,
            0,
            0,
            1,
        )
        .into()
    }

    fn limit() -> FloodLimit {
        FloodLimit::new(&[7; 32], R1_INTERVAL, R1_BURST)
    }

    #[test]
    fn a_prefix_has_its_burst_and_then_its_rate_and_others_theirs() {
        let mut limit = limit();
        for _ in 0..R1_BURST {
            limit.take(from_prefix(1), NOW).expect("within the burst");
        }
        assert_eq!(limit.take(from_prefix(1), NOW), Err(DropReason::RateLimited));
        limit.take(from_prefix(2), NOW).expect("another prefix");
        limit.take(from_prefix(1), NOW + R1_INTERVAL).expect("one has been paid off");
        let refused = limit.take(from_prefix(1), NOW + R1_INTERVAL);
        assert_eq!(refused, Err(DropReason::RateLimited));
    }

    /// 300,000 sources made up in a second.
    #[test]
    fn a_flood_from_everywhere_keeps_nobody_from_being_answered() {
        let mut limit = limit();
        for n in 0..300_000 {
            limit.take(from_prefix(n), NOW + Duration::from_micros(3) * n).expect("answered");
        }
        assert!(limit.paid_at.len() <= usize::from(FLOOD_BUCKETS));
    }

    #[test]
    fn which_prefixes_share_an_allowance_depends_on_the_secret() {
        let other = FloodLimit::new(&[8; 32], R1_INTERVAL, R1_BURST);
        let limit = limit();
        let same =
            (0..1000).filter(|&n| limit.bucket(from_prefix(n)) == other.bucket(from_prefix(n)));
        assert!(same.count() < 10);
    }
}
