use alloc::collections::BTreeMap;
use core::fmt;
use core::hash::Hasher as _;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_types::{DropReason, Instant, Prefix};
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
        let bucket = self.bucket(&prefix);
        if !self.has_room(bucket, now) {
            return Err(DropReason::RateLimited);
        }
        self.charge(bucket, now);
        Ok(())
    }

    fn has_room(&self, bucket: u16, now: Instant) -> bool {
        self.owed(bucket, now) <= self.interval * (self.burst - 1)
    }

    fn charge(&mut self, bucket: u16, now: Instant) {
        self.paid_at.insert(bucket, now + self.owed(bucket, now) + self.interval);
    }

    /// Time until the debt of an allowance is paid off.
    fn owed(&self, bucket: u16, now: Instant) -> Duration {
        self.paid_at.get(&bucket).map_or(Duration::ZERO, |paid_at| paid_at.since(now))
    }

    fn bucket(&self, prefix: &[u8]) -> u16 {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(prefix);
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

/// Limit by source address, and by the prefixes around it. Only a request that all of these limits allow takes from
/// them. So a flood from one site uses up nothing of what other sites have.
#[derive(Clone, Debug)]
pub struct FairLimit<const N: usize>([(u8, FloodLimit); N]);

impl<const N: usize> FairLimit<N> {
    /// Creates a limit from lengths of prefixes, each with the number of requests at once. A used-up allowance is whole
    /// again after the time `renewed`. Nobody else may know the key.
    #[must_use]
    pub fn new(key: [u8; 16], shares: [(u8, u32); N], renewed: Duration) -> Self {
        Self(shares.map(|(length, burst)| (length, FloodLimit::new(key, renewed / burst, burst))))
    }

    /// Takes one request out of the allowances of the address and its prefixes.
    ///
    /// # Errors
    /// [`DropReason::RateLimited`] if one of these allowances is used up.
    pub fn take(&mut self, address: Ipv6Addr, now: Instant) -> Result<(), DropReason> {
        let bucket = |(length, limit): &(u8, FloodLimit)| {
            limit.bucket(&Prefix::new(address, *length).address().octets())
        };
        if !self.0.iter().all(|level| level.1.has_room(bucket(level), now)) {
            return Err(DropReason::RateLimited);
        }
        for level in &mut self.0 {
            let bucket = bucket(level);
            level.1.charge(bucket, now);
        }
        Ok(())
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
        let same = (0..1000).filter(|&n| limit.bucket(&prefix(n)) == other.bucket(&prefix(n)));
        assert!(same.count() < 10);
    }

    /// Number of requests that the addresses get at once.
    fn allowed(addresses: impl Iterator<Item = (u16, u8, u8, u16)>) -> usize {
        let shares = [(128, 4), (64, 16), (56, 32), (48, 64)];
        let mut limit = FairLimit::new([7; 16], shares, INTERVAL);
        let address = |(site, part, link, host)| {
            let link = u16::from_be_bytes([part, link]);
            Ipv6Addr::new(0x2001, 0xdb8, site, link, 0, 0, 0, host)
        };
        addresses.filter(|one| limit.take(address(*one), NOW).is_ok()).count()
    }

    #[test]
    fn an_address_a_link_a_part_of_a_site_and_a_site_have_their_requests() {
        let many = 0..1000_u16;
        let low = |n: u16| n.to_be_bytes()[1];
        assert_eq!(allowed(many.clone().map(|_| (1, 1, 1, 1))), 4);
        assert_eq!(allowed(many.clone().map(|n| (1, 1, 1, n))), 16);
        assert_eq!(allowed(many.clone().map(|n| (1, 1, low(n), n))), 32);
        assert_eq!(allowed(many.clone().map(|n| (1, low(n), 1, n))), 64);
        let flood = many.map(|n| (1, low(n), 1, n));
        assert_eq!(allowed(flood.chain([(2, 1, 1, 1)])), 65, "another site");
    }
}
