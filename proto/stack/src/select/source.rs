use core::net::Ipv6Addr;

use super::{Policy, is_ipv4, scope};

/// An address of the host that may become a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceCandidate {
    /// The address. It is valid and not tentative.
    pub address: Ipv6Addr,
    /// The wire that has the address.
    pub wire: u32,
    /// Whether the preferred lifetime of the address is over (RFC 4862 s5.5.4).
    pub is_deprecated: bool,
    /// Whether the address is temporary (RFC 8981).
    pub is_temporary: bool,
    /// Length of the prefix of the address, in bits.
    pub prefix_len: u8,
    /// Whether the packet leaves by the wire that has the address.
    pub is_on_outgoing_wire: bool,
    /// Whether the next hop has advertised the prefix of the address.
    pub is_from_next_hop: bool,
}

/// Preference between temporary and public addresses, which an application can choose (RFC 6724 s5 rule 7).
//= rfc6724#5-4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Privacy {
    /// Temporary addresses come first.
    #[default]
    Temporary,
    /// Public addresses come first.
    Public,
}

/// Worth of a source by the rules 1 to 8, one field for each; the rule 4 is left out.
type Rank = (bool, u8, bool, bool, bool, bool, bool, u8);

/// The source for packets to a destination (RFC 6724 s5). Among equal candidates, the first is chosen. `None` means that no
/// candidate can be the source.
//= rfc8504#6.6-1
//= rfc6724#5-1
//= rfc4862#5.5.4-2
#[must_use]
pub fn source<'a>(
    candidates: &'a [SourceCandidate],
    destination: Ipv6Addr,
    policy: &Policy,
    privacy: Privacy,
) -> Option<&'a SourceCandidate> {
    let eligible = candidates.iter().filter(|candidate| candidate.is_eligible(destination));
    eligible.rev().max_by_key(|candidate| candidate.rank(destination, policy, privacy))
}

impl SourceCandidate {
    /// Whether the address belongs to the candidate set of a destination (RFC 6724 s4).
    //= rfc6724#4-4 rfc6724#4-6
    fn is_eligible(&self, destination: Ipv6Addr) -> bool {
        // RFC 6724 s4: "For all multicast and link-local destination addresses, the set of candidate source addresses MUST
        // only include addresses assigned to interfaces belonging to the same link".
        let is_bound_to_link = destination.is_multicast() || destination.is_unicast_link_local();
        // RFC 6724 s4: "multicast addresses and the unspecified address MUST NOT be included".
        let is_source = !(self.address.is_multicast() || self.address.is_unspecified());
        is_source
            && is_ipv4(self.address) == is_ipv4(destination)
            && (self.is_on_outgoing_wire || !is_bound_to_link)
    }

    //= rfc8504#6.6-2
    fn rank(&self, destination: Ipv6Addr, policy: &Policy, privacy: Privacy) -> Rank {
        (
            self.address == destination,
            scope_rank(self.address, destination),
            !self.is_deprecated(),
            self.is_on_outgoing_wire,
            self.is_from_next_hop,
            policy.has_equal_labels(self.address, destination),
            self.is_temporary == (privacy == Privacy::Temporary),
            self.common_prefix_len(destination),
        )
    }

    //= rfc6724#3.2-2 rfc6724#3.3-2
    pub(super) fn is_deprecated(&self) -> bool {
        // RFC 6724 s3.2: "IPv4 addresses MUST be treated as having "preferred" [...] configuration status."
        self.is_deprecated && !is_ipv4(self.address)
    }

    /// Bits that the address and a destination have in common, up to the length of the prefix (RFC 6724 s2.2).
    pub(super) fn common_prefix_len(&self, destination: Ipv6Addr) -> u8 {
        let different = self.address.to_bits() ^ destination.to_bits();
        u8::try_from(different.leading_zeros()).unwrap_or(u8::MAX).min(self.prefix_len)
    }
}

/// Rule 2 as a number: the smallest scope that reaches the destination is the best, then the largest scope that does not.
fn scope_rank(address: Ipv6Addr, destination: Ipv6Addr) -> u8 {
    let own = scope(address);
    if own < scope(destination) { own.value() } else { u8::MAX - own.value() }
}
