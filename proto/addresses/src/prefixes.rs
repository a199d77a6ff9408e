use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use moorline_types::{Instant, Locator, Prefix};

use crate::plan::Seen;
use crate::policy::AddressPolicy;
use crate::view::{AddressFlags, Lifetimes, Uplink, UplinkAddress};

/// Ends of the use of an address; `None` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// End for new traffic.
    pub preferred: Option<Instant>,
    /// End for any traffic.
    pub valid: Option<Instant>,
}

impl Until {
    /// No end.
    pub const FOREVER: Self = Self { preferred: None, valid: None };

    /// The ends by the kernel's remaining lifetimes.
    pub(crate) fn of(left: Lifetimes, now: Instant) -> Self {
        let end =
            |seconds: u32| (seconds != u32::MAX).then(|| now + Duration::from_secs(seconds.into()));
        Self { preferred: end(left.preferred), valid: end(left.valid) }
    }

    /// The remaining lifetimes, in whole seconds.
    pub(crate) fn left(self, now: Instant) -> Lifetimes {
        let left = |until: Option<Instant>| match until {
            None => u32::MAX,
            Some(until) => u32::try_from(until.since(now).as_secs()).unwrap_or(u32::MAX - 1),
        };
        let valid = left(self.valid);
        Lifetimes { preferred: left(self.preferred).min(valid), valid }
    }

    pub(crate) fn is_over(self, now: Instant) -> bool {
        self.valid.is_some_and(|until| until <= now)
    }

    /// Whether the two differ by more than rounding to whole seconds.
    pub(crate) fn differs(self, other: Self, now: Instant) -> bool {
        let differs = |one: Option<Instant>, other: Option<Instant>| match (one, other) {
            (None, None) => false,
            (Some(one), Some(other)) => {
                // All ends in the past are equal.
                let (one, other) = (one.max(now), other.max(now));
                one.max(other).since(one.min(other)) > TOLERANCE
            }
            _ => true,
        };
        differs(self.preferred, other.preferred) || differs(self.valid, other.valid)
    }

    /// The sooner of the two ends, for each kind of traffic.
    pub(crate) fn or_sooner(self, other: Self) -> Self {
        let sooner =
            |one: Option<Instant>, other: Option<Instant>| one.into_iter().chain(other).min();
        Self {
            preferred: sooner(self.preferred, other.preferred),
            valid: sooner(self.valid, other.valid),
        }
    }

    /// The later of the two ends, for each kind of traffic.
    fn or_later(self, other: Self) -> Self {
        let later = |one: Option<Instant>, other: Option<Instant>| Some(one?.max(other?));
        Self {
            preferred: later(self.preferred, other.preferred),
            valid: later(self.valid, other.valid),
        }
    }
}

/// The /64 prefixes in which an interface can have addresses of ours, each with its ends.
///
/// If the kernel accepts a prefix of a router, the router's lifetimes count. Otherwise the lifetimes of addresses
/// count that another program has set, for example a network manager that listens to routers itself. An address that
/// a person has set has no end, and keeps its prefix whatever routers say. On a link without neighbors such an
/// address gives no prefix, unless a person asks for addresses there: the other end of a VPN drops packets from an
/// address that it has not assigned.
pub(crate) fn known(
    interface: &Uplink,
    seen: &Seen<'_>,
    (learned, policy): (&BTreeSet<(u32, [u8; 8])>, &AddressPolicy),
    is_ours: &dyn Fn(Locator) -> bool,
    now: Instant,
) -> BTreeMap<[u8; 8], Until> {
    let mut known = BTreeMap::new();
    let heard = seen.advertised.iter().filter(|one| one.ifindex == interface.ifindex);
    for one in heard.filter(|one| one.accepted && one.autonomous && one.prefix.length() == 64) {
        if !one.until.is_over(now) {
            known.insert(octets_of(one.prefix), one.until);
        }
    }
    for address in interface.addresses.iter().filter(|one| gives_prefix(one, is_ours)) {
        let prefix = Locator(address.address).prefix();
        if address.flags.contains(AddressFlags::PERMANENT) {
            if interface.has_neighbors || policy.is_named(&interface.name, prefix) {
                known.insert(prefix, Until::FOREVER);
            }
        } else if !learned.contains(&(interface.ifindex, prefix)) {
            let until = Until::of(address.lifetimes, seen.at);
            known.entry(prefix).and_modify(|one| *one = one.or_later(until)).or_insert(until);
        }
    }
    known
}

/// The prefixes with addresses of other programs that have an end, and these ends.
pub(crate) fn held<'a>(
    interfaces: impl Iterator<Item = (u32, &'a [UplinkAddress])>,
    at: Instant,
    is_ours: &dyn Fn(Locator) -> bool,
) -> BTreeMap<(u32, Prefix), Option<Instant>> {
    let made = interfaces.flat_map(|(ifindex, addresses)| {
        let ends = |own: &&UplinkAddress| {
            gives_prefix(own, is_ours) && !own.flags.contains(AddressFlags::PERMANENT)
        };
        addresses.iter().filter(ends).map(move |own| (ifindex, own))
    });
    made.map(|(ifindex, own)| ((ifindex, own.prefix()), Until::of(own.lifetimes, at).valid))
        .collect()
}

/// Whether other addresses in the prefix of this one can be used. A single address, as from DHCPv6, gives no prefix.
/// A temporary address has lifetimes of its own; the public address beside it has those of the prefix.
fn gives_prefix(address: &UplinkAddress, is_ours: &dyn Fn(Locator) -> bool) -> bool {
    address.prefix_len <= 64
        && !address.flags.contains(AddressFlags::TEMPORARY)
        && !address.flags.contains(AddressFlags::DAD_FAILED)
        && !is_ours(Locator(address.address))
}

/// The first half of the prefix's address.
pub(crate) fn octets_of(prefix: Prefix) -> [u8; 8] {
    Locator(prefix.address()).prefix()
}

/// The kernel and this crate count in seconds, so their times may differ by one each way.
const TOLERANCE: Duration = Duration::from_secs(3);
