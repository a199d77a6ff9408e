use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hasher as _;
use core::net::Ipv6Addr;

use moorline_types::Prefix;
use siphasher::sip::SipHasher13;

/// Shares of a table by the source prefixes of its entries.
///
/// A host has as many addresses as it likes, and a site as many prefixes of 64 bits. So entries are counted by address,
/// by /64, /56 and /48. A share is the room of a /64. An address has a quarter of a share, a /56 two shares, and a /48
/// four: a site fills no more of the table than four links of other sites do.
///
/// A keyed hash chooses two counters of a prefix, and the
/// lesser one holds. So a count is too high only if both counters are shared with other prefixes, and nobody can choose
/// whose. There are four counters a place of the table.
#[derive(Clone)]
pub struct FairShares {
    keyed: SipHasher13,
    counts: Vec<u32>,
    /// Counters of each of the two rows.
    row: u64,
}

impl FairShares {
    /// Creates counters for a table of this capacity. Nobody else may know the key.
    #[must_use]
    pub fn new(capacity: usize, key: [u8; 16]) -> Self {
        let row = capacity.saturating_mul(2).max(LEAST_COUNTERS);
        let counts = vec![0; row.saturating_mul(2)];
        let row = u64::try_from(row).unwrap_or(u64::MAX);
        Self { keyed: SipHasher13::new_with_key(&key), counts, row }
    }

    /// Counts an entry.
    pub fn add(&mut self, address: Ipv6Addr) {
        self.change(address, |count| count.saturating_add(1));
    }

    /// An entry has gone.
    pub fn remove(&mut self, address: Ipv6Addr) {
        self.change(address, |count| count.saturating_sub(1));
    }

    fn change(&mut self, address: Ipv6Addr, change: impl Fn(u32) -> u32) {
        for (length, _) in LEVELS {
            for counter in self.counters(address, length) {
                if let Some(count) = self.counts.get_mut(counter) {
                    *count = change(*count);
                }
            }
        }
    }

    /// The part of a share, in entries of a /64, that one more entry of this address would find taken. `without`: this
    /// number of entries of the address would go.
    #[must_use]
    pub fn taken(&self, address: Ipv6Addr, without: usize) -> usize {
        let taken = LEVELS.map(|(length, quarters)| {
            let counters = self.counters(address, length);
            let counts = counters.map(|counter| self.counts.get(counter).copied().unwrap_or(0));
            let count = counts.into_iter().min().unwrap_or(0);
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            count.saturating_sub(without).saturating_mul(4) / quarters
        });
        taken.into_iter().max().unwrap_or(0)
    }

    /// The counter of a prefix in each row.
    fn counters(&self, address: Ipv6Addr, length: u8) -> [usize; 2] {
        let mut hasher = self.keyed;
        hasher.write_u128(Prefix::new(address, length).address().to_bits());
        hasher.write_u8(length);
        let hash = hasher.finish();
        // Rows have fewer than 2^32 counters, so each half of the hash chooses one.
        let (first, second) = (hash >> 32, hash & u64::from(u32::MAX));
        [first % self.row, self.row + second % self.row]
            .map(|counter| usize::try_from(counter).unwrap_or(0))
    }
}

/// Shows nothing of the key.
impl fmt::Debug for FairShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairShares").finish_non_exhaustive()
    }
}

/// Lengths of prefixes, with their room in quarters of a share.
const LEVELS: [(u8, usize); 4] = [(128, 1), (64, 4), (56, 8), (48, 16)];
/// Least number of counters in a row, so that the prefixes of a small table hardly share any.
const LEAST_COUNTERS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: usize = 16;

    /// An address: number of the /48, of the /56 in it, of the /64 in that, and of the host.
    fn address(site: u16, part: u8, link: u8, host: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, site, u16::from_be_bytes([part, link]), 0, 0, 0, host)
    }

    /// Number of entries that these addresses get, one after the other.
    fn entries(addresses: impl Iterator<Item = Ipv6Addr>) -> usize {
        let mut shares = FairShares::new(65_536, [7; 16]);
        let has_room = |address: &Ipv6Addr| {
            let has_room = shares.taken(*address, 0) < SHARE;
            if has_room {
                shares.add(*address);
            }
            has_room
        };
        addresses.filter(has_room).count()
    }

    #[test]
    fn an_address_a_link_a_part_of_a_site_and_a_site_have_bounds() {
        let many = 0..1000u16;
        assert_eq!(entries(many.clone().map(|_| address(1, 1, 1, 1))), SHARE / 4);
        assert_eq!(entries(many.clone().map(|n| address(1, 1, 1, n))), SHARE);
        let low = |n: u16| n.to_be_bytes()[1];
        assert_eq!(entries(many.clone().map(|n| address(1, 1, low(n), n))), 2 * SHARE);
        assert_eq!(entries(many.clone().map(|n| address(1, low(n), 1, n))), 4 * SHARE);
        assert_eq!(entries(many.map(|n| address(n, 1, 1, 1))), 1000, "other sites");
    }

    /// The least share that an administrator may set leaves an address four entries.
    #[test]
    fn guests_of_other_sites_hardly_refuse_a_newcomer() {
        let mut shares = FairShares::new(65_536, [7; 16]);
        let site = |n: u32| Ipv6Addr::from_bits(0x2001_0000 << 96 | u128::from(n) << 80 | 1);
        (0..32_768).for_each(|n| shares.add(site(n)));
        let refused = (40_000..50_000).filter(|n| shares.taken(site(*n), 0) >= SHARE).count();
        assert!(refused < 50, "{refused} of 10,000 newcomers, each at its own site");
    }

    #[test]
    fn an_entry_that_goes_leaves_its_room_and_no_count() {
        let mut shares = FairShares::new(65_536, [7; 16]);
        let host = address(1, 1, 1, 1);
        for _ in 0..3 {
            shares.add(host);
        }
        assert_eq!((shares.taken(host, 0), shares.taken(host, 1)), (12, 8));
        assert_eq!(shares.taken(address(1, 1, 1, 2), 0), 3);
        for _ in 0..3 {
            shares.remove(host);
        }
        shares.remove(host);
        assert!(shares.counts.iter().all(|count| *count == 0));
    }
}
