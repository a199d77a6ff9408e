use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::Ipv6Addr;

use moorline_ip::address::Scope;

use super::{Policy, SourceCandidate, is_ipv4, scope};

/// A destination among others, with the source that packets to it would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The address.
    pub address: Ipv6Addr,
    /// The source of packets to the address; `None` if there is none.
    pub source: Option<SourceCandidate>,
    /// False if the host knows that the destination is unreachable.
    pub is_reachable: bool,
    /// Whether packets to the address go through a tunnel.
    pub is_encapsulated: bool,
}

/// Sorts destinations, the best first (RFC 6724 s6).
//= rfc8504#6.6-1
//= rfc6724#6-2
pub fn order(destinations: &mut [Destination], policy: &Policy) {
    destinations.sort_by_key(|destination| destination.rank(policy));
    for equal in destinations.chunk_by_mut(|a, b| a.rank(policy) == b.rank(policy)) {
        for is_of_ipv4 in [false, true] {
            order_by_prefix(equal, is_of_ipv4);
        }
    }
}

/// Rule 9 compares destinations of one family only. As a comparison of two, it would give no order: A can come before B by
/// rule 9, B before an IPv4 address C by rule 10, and C before A. So each family is sorted in its own places.
fn order_by_prefix(destinations: &mut [Destination], is_of_ipv4: bool) {
    let places = destinations.iter_mut().filter(|found| is_ipv4(found.address) == is_of_ipv4);
    let mut places: Vec<&mut Destination> = places.collect();
    let mut sorted: Vec<Destination> = places.iter().map(|found| **found).collect();
    sorted.sort_by_key(|destination| Reverse(destination.common_prefix_len()));
    for (place, destination) in places.iter_mut().zip(sorted) {
        **place = destination;
    }
}

/// Place of a destination by the rules 1 to 8, one field for each, the best first; the rule 4 is left out.
type Rank = (bool, bool, bool, bool, Reverse<u32>, bool, Scope);

impl Destination {
    //= rfc6724#5-1 rfc6724#6-3
    fn rank(&self, policy: &Policy) -> Rank {
        let source_is =
            |is: &dyn Fn(&SourceCandidate) -> bool| self.source.as_ref().is_some_and(is);
        (
            !(self.is_reachable && self.source.is_some()),
            !source_is(&|source| scope(source.address) == scope(self.address)),
            source_is(&SourceCandidate::is_deprecated),
            !source_is(&|source| policy.has_equal_labels(source.address, self.address)),
            Reverse(policy.precedence(self.address)),
            self.is_encapsulated,
            scope(self.address),
        )
    }

    fn common_prefix_len(&self) -> u8 {
        self.source.map_or(0, |source| source.common_prefix_len(self.address))
    }
}
