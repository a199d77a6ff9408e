use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::net::Ipv6Addr;

use moorline_types::Prefix;

/// Shares of a table by the source prefixes of its entries.
///
/// A host has as many addresses as it likes, and a site as many prefixes of 64 bits. So entries are counted by address,
/// by /64, /56 and /48. A share is the room of a /64. An address has a quarter of a share, a /56 two shares, and a /48
/// four: a site fills no more of the table than four hosts of other sites do.
///
/// Only entries that strangers can make should be counted. There are four counts for an entry at most.
#[derive(Clone, Debug, Default)]
pub struct FairShares {
    counts: BTreeMap<Prefix, usize>,
}

impl FairShares {
    /// Counts an entry.
    pub fn add(&mut self, address: Ipv6Addr) {
        for (length, _) in LEVELS {
            *self.counts.entry(Prefix::new(address, length)).or_default() += 1;
        }
    }

    /// An entry has gone.
    pub fn remove(&mut self, address: Ipv6Addr) {
        for (length, _) in LEVELS {
            if let Entry::Occupied(mut count) = self.counts.entry(Prefix::new(address, length)) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    /// The part of a share, in entries of a /64, that one more entry of this address would find taken. `without`: this
    /// number of entries of the address would go.
    #[must_use]
    pub fn taken(&self, address: Ipv6Addr, without: usize) -> usize {
        let taken = LEVELS.map(|(length, quarters)| {
            let count = self.counts.get(&Prefix::new(address, length)).copied().unwrap_or(0);
            count.saturating_sub(without) * 4 / quarters
        });
        taken.into_iter().max().unwrap_or(0)
    }
}

/// Lengths of prefixes, with their room in quarters of a share.
const LEVELS: [(u8, usize); 4] = [(128, 1), (64, 4), (56, 8), (48, 16)];

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
        let mut shares = FairShares::default();
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

    #[test]
    fn an_entry_that_goes_leaves_its_room_and_no_count() {
        let mut shares = FairShares::default();
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
        assert!(shares.counts.is_empty());
    }
}
