use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use moorline_types::{Instant, Locator, Prefix};

use crate::plan::Seen;
use crate::policy::AddressPolicy;
use crate::view::{AddressFlags, Lifetimes, Uplink, UplinkAddress};

/// Until when an address can be used; `None` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// For new traffic.
    pub preferred: Option<Instant>,
    /// For any traffic.
    pub valid: Option<Instant>,
}

impl Until {
    /// Without an end.
    pub const FOREVER: Self = Self { preferred: None, valid: None };

    /// From what the kernel says is left.
    pub(crate) fn of(left: Lifetimes, now: Instant) -> Self {
        let end =
            |seconds: u32| (seconds != u32::MAX).then(|| now + Duration::from_secs(seconds.into()));
        Self { preferred: end(left.preferred), valid: end(left.valid) }
    }

    /// What is left, in whole seconds.
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

    /// Whether the two differ by more than what comes of counting in whole seconds.
    pub(crate) fn differs(self, other: Self, now: Instant) -> bool {
        let differs = |one: Option<Instant>, other: Option<Instant>| match (one, other) {
            (None, None) => false,
            (Some(one), Some(other)) => {
                // What is over is over.
                let (one, other) = (one.max(now), other.max(now));
                one.max(other).since(one.min(other)) > TOLERANCE
            }
            _ => true,
        };
        differs(self.preferred, other.preferred) || differs(self.valid, other.valid)
    }

    /// The sooner of the two, each for itself.
    pub(crate) fn or_sooner(self, other: Self) -> Self {
        let sooner =
            |one: Option<Instant>, other: Option<Instant>| one.into_iter().chain(other).min();
        Self {
            preferred: sooner(self.preferred, other.preferred),
            valid: sooner(self.valid, other.valid),
        }
    }

    /// The later of the two, each for itself.
    fn or_later(self, other: Self) -> Self {
        let later = |one: Option<Instant>, other: Option<Instant>| Some(one?.max(other?));
        Self {
            preferred: later(self.preferred, other.preferred),
            valid: later(self.valid, other.valid),
        }
    }
}

/// The /64 prefixes in which an interface can have addresses of ours, each with its lifetimes.
///
/// What routers say counts if the kernel believes it. Else what the addresses say that somebody has
/// put there, such as a network manager that listens to routers itself. An address set by hand has no
/// end, and keeps its prefix whatever routers say. On a link without neighbors such an address gives no prefix unless a person asks for addresses there:
/// the other end of a VPN drops what comes from an address that it has not assigned.
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

/// The prefixes in which somebody has made addresses that end, and when these end.
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

/// Whether other addresses in the prefix of this one would do: not if it stands for itself, as DHCPv6
/// gives them. A temporary address has a lifetime of its own; the public one beside it has that of the prefix.
fn gives_prefix(address: &UplinkAddress, is_ours: &dyn Fn(Locator) -> bool) -> bool {
    address.prefix_len <= 64
        && !address.flags.contains(AddressFlags::TEMPORARY)
        && !address.flags.contains(AddressFlags::DAD_FAILED)
        && !is_ours(Locator(address.address))
}

/// The first half of a prefix's address.
pub(crate) fn octets_of(prefix: Prefix) -> [u8; 8] {
    Locator(prefix.address()).prefix()
}

/// The kernel counts in seconds, and so do we: they may be off by one each way.
const TOLERANCE: Duration = Duration::from_secs(3);
