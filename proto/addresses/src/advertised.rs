//! The prefixes that routers advertise, and their lifetimes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_types::{Instant, Prefix};

use crate::prefixes::Until;
use crate::view::{Lifetimes, Uplink};

/// The contents of a Router Advertisement about a link, from the router or from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The interface that it came in on.
    pub ifindex: u32,
    /// Origin of the contents.
    pub origin: Origin,
    /// Prefixes of the link in the advertisement.
    pub prefixes: Vec<PrefixInformation>,
    /// Whether the interface accepts short lifetimes (`ra_honor_pio_life`) at once.
    pub honors_zero: bool,
}

/// Origin of an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kernel, which has accepted an advertisement (`RTM_NEWPREFIX`).
    Kernel,
    /// A router. The kernel may not have accepted its advertisement.
    Router {
        /// Link-local address of the router.
        address: Ipv6Addr,
        /// Time for which the router is a default router; zero if it is none.
        lifetime: Duration,
    },
}

/// A Prefix Information option (RFC 4861 s4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// The prefix.
    pub prefix: Prefix,
    /// Whether the prefix's addresses are on the link (L flag).
    pub on_link: bool,
    /// Whether hosts may make addresses in the prefix (A flag).
    pub autonomous: bool,
    /// Lifetimes of addresses in the prefix.
    pub lifetimes: Lifetimes,
}

/// The prefixes that are valid now. A pure table: advertisements go in, and time removes entries.
///
/// If the kernel reports a prefix, only its reports count, because it applies the rules of the host (`accept_ra*`).
/// Prefixes that only routers report are kept, too: on some hosts a network manager listens to routers instead of the
/// kernel. See [`AdvertisedPrefix::accepted`].
#[derive(Clone, Debug, Default)]
pub struct AdvertisedPrefixes {
    prefixes: BTreeMap<(u32, Prefix), AdvertisedPrefix>,
    /// Default routers, and the prefixes that they advertise.
    routers: BTreeMap<(u32, Ipv6Addr), Router>,
    /// Prefixes in which the kernel has addresses in the last view, with the addresses' ends: these prefixes may be
    /// older than this run.
    held: BTreeMap<(u32, Prefix), Option<Instant>>,
}

/// A valid prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedPrefix {
    /// The interface of the advertisement.
    pub ifindex: u32,
    /// The prefix.
    pub prefix: Prefix,
    /// Whether the prefix's addresses are on the link.
    pub on_link: bool,
    /// Whether hosts may make addresses in the prefix.
    pub autonomous: bool,
    /// Whether the kernel accepts the prefix. Otherwise another program on the host has to accept it: an address in
    /// the prefix shows that.
    pub accepted: bool,
    /// Ends of addresses in the prefix.
    pub until: Until,
}

#[derive(Clone, Debug)]
struct Router {
    until: Instant,
    prefixes: Vec<Prefix>,
}

impl AdvertisedPrefixes {
    /// Makes an empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an advertisement. Returns whether an entry is new, changed or gone. A longer lifetime is no change.
    pub fn handle_advertisement(&mut self, said: &Advertisement, now: Instant) -> bool {
        let routers = self.on_router(said, now);
        let mut prefixes = false;
        for information in &said.prefixes {
            prefixes |= self.on_prefix(said, information, now);
        }
        routers | prefixes
    }

    /// Notes the prefixes in which the kernel has addresses, with their ends. The first advertisement of such a
    /// prefix ends it no sooner than the kernel ends its address.
    pub fn set_held(&mut self, held: BTreeMap<(u32, Prefix), Option<Instant>>) {
        self.held = held;
    }

    /// Forgets all advertisements on interfaces that are gone.
    pub fn retain_interfaces(&mut self, is_there: impl Fn(u32) -> bool) {
        self.prefixes.retain(|(ifindex, _), _| is_there(*ifindex));
        self.routers.retain(|(ifindex, _), _| is_there(*ifindex));
    }

    /// Removes entries that have ended.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.prefixes.retain(|_, entry| !entry.until.is_over(now));
        self.routers.retain(|_, router| router.until > now);
    }

    /// Time when the next prefix is deprecated, or the next prefix or router ends; each `handle_*` can change it.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let ends = |entry: &AdvertisedPrefix| [entry.until.preferred, entry.until.valid];
        let prefixes = self.prefixes.values().flat_map(ends).flatten();
        let routers = self.routers.values().map(|router| router.until);
        // A deprecated prefix stays in the table, and its preferred lifetime is not waited for.
        prefixes.chain(routers).filter(|until| *until > now).min()
    }

    /// The prefixes, in order of interface and prefix.
    pub fn prefixes(&self) -> impl Iterator<Item = AdvertisedPrefix> {
        self.prefixes.values().copied()
    }

    /// The default routers on this interface that advertise a prefix or a prefix around it (RFC 8028 s3.1: packets
    /// from the prefix go to one of them).
    pub fn routers_of(&self, ifindex: u32, prefix: Prefix) -> impl Iterator<Item = Ipv6Addr> {
        self.routers.iter().filter_map(move |(&(at, address), router)| {
            let advertises = router.prefixes.iter().any(|one| one.covers(prefix));
            (at == ifindex && advertises).then_some(address)
        })
    }

    /// Whether another host is a default router on this interface.
    #[must_use]
    pub fn has_router(&self, link: &Uplink) -> bool {
        let mut all = self.routers.keys();
        all.any(|(at, address)| *at == link.ifindex && !link.link_locals.contains(address))
    }

    fn on_router(&mut self, said: &Advertisement, now: Instant) -> bool {
        let Origin::Router { address, lifetime } = said.origin else { return false };
        let key = (said.ifindex, address);
        if lifetime.is_zero() {
            return self.routers.remove(&key).is_some();
        }
        let known = self.routers.keys().filter(|(at, _)| *at == said.ifindex).count();
        if known >= MAX_ROUTERS && !self.routers.contains_key(&key) {
            return false;
        }
        let holds = said.prefixes.iter().filter(|one| one.lifetimes.valid > 0);
        let named: Vec<Prefix> = holds.map(|one| one.prefix).take(MAX_PREFIXES).collect();
        let mut is_new = false;
        let router = self.routers.entry(key).or_insert_with(|| {
            is_new = true;
            Router { until: now, prefixes: Vec::new() }
        });
        // A router may spread its prefixes over several messages (RFC 4861 s6.2.3), so a prefix that a message does
        // not name stays unless it is withdrawn. If a router withdraws the prefix for the link alone, the addresses
        // stay, and their packets still go to this router.
        let has_addresses = |prefix: Prefix| {
            self.prefixes.get(&(said.ifindex, prefix)).is_some_and(|entry| entry.autonomous)
        };
        let withdrawn = |prefix: &Prefix| {
            said.prefixes.iter().any(|one| {
                let is_of_link = !one.autonomous && has_addresses(one.prefix);
                one.prefix == *prefix && one.lifetimes.valid == 0 && !is_of_link
            })
        };
        let before = router.prefixes.clone();
        router.until = now + lifetime;
        router.prefixes.retain(|prefix| !withdrawn(prefix));
        for prefix in named {
            if !router.prefixes.contains(&prefix) && router.prefixes.len() < MAX_PREFIXES {
                router.prefixes.push(prefix);
            }
        }
        is_new || router.prefixes != before
    }

    /// Handles a prefix by RFC 4862 s5.5.3. An option without the A flag is about the link alone (RFC 4861 s6.3.4),
    /// and changes nothing about addresses of an earlier option.
    fn on_prefix(
        &mut self,
        said: &Advertisement,
        information: &PrefixInformation,
        now: Instant,
    ) -> bool {
        let PrefixInformation { prefix, autonomous, lifetimes, .. } = *information;
        let accepted = said.origin == Origin::Kernel;
        if !is_for_addresses(prefix) || lifetimes.preferred > lifetimes.valid {
            return false;
        }
        let key = (said.ifindex, prefix);
        let known = self.prefixes.get(&key).copied();
        if known.is_some_and(|known| known.accepted && !accepted) {
            return false;
        }
        let of_addresses = known.filter(|known| known.autonomous);
        let is_room = || {
            let others = self.prefixes.keys().filter(|(at, _)| *at == said.ifindex).count();
            known.is_some() || others < MAX_PREFIXES
        };
        let entry = match of_addresses {
            Some(was) if autonomous => Some(self.prolonged(was, said, information, now)),
            // Without the L flag the option says nothing about the link (RFC 4861 s6.3.4).
            Some(was) if !information.on_link => Some(was),
            Some(was) => Some(AdvertisedPrefix { on_link: information.is_on_link(), ..was }),
            None if !is_room() => return false,
            None if autonomous => self.begun(said, information, now),
            None => Some(AdvertisedPrefix::of(said, information, now)),
        };
        let entry = entry.filter(|entry| !entry.until.is_over(now));
        self.prefixes.remove(&key);
        self.prefixes.extend(entry.map(|entry| (key, entry)));
        match (known, entry) {
            (Some(was), Some(is)) => is.is_news(&was, now),
            (was, is) => was.is_some() != is.is_some(),
        }
    }

    /// The entry of a prefix that was not known for addresses. The kernel may have older addresses in it.
    fn begun(
        &self,
        said: &Advertisement,
        information: &PrefixInformation,
        now: Instant,
    ) -> Option<AdvertisedPrefix> {
        let entry = AdvertisedPrefix::of(said, information, now);
        let held = self.held.get(&(said.ifindex, information.prefix)).filter(|_| entry.accepted);
        match held {
            Some(until) => Some(entry.prolonging(*until, said.honors_zero, now)),
            None => (information.lifetimes.valid > 0).then_some(entry),
        }
    }

    fn prolonged(
        &self,
        was: AdvertisedPrefix,
        said: &Advertisement,
        information: &PrefixInformation,
        now: Instant,
    ) -> AdvertisedPrefix {
        let entry = AdvertisedPrefix::of(said, information, now);
        // A lifetime that the kernel did not accept does not count. The end of the kernel's own address does.
        let held = match self.held.get(&(said.ifindex, information.prefix)) {
            _ if !entry.accepted || was.accepted => was.until.valid,
            Some(held) => *held,
            None => Some(now),
        };
        entry.prolonging(held, said.honors_zero, now)
    }
}

impl PrefixInformation {
    const fn is_on_link(&self) -> bool {
        self.on_link && self.lifetimes.valid > 0
    }
}

impl AdvertisedPrefix {
    /// The remaining lifetimes, in whole seconds.
    #[must_use]
    pub fn lifetimes(&self, now: Instant) -> Lifetimes {
        self.until.left(now)
    }

    /// The entry by an advertisement alone, without the earlier state.
    fn of(said: &Advertisement, information: &PrefixInformation, now: Instant) -> Self {
        Self {
            ifindex: said.ifindex,
            prefix: information.prefix,
            on_link: information.is_on_link(),
            autonomous: information.autonomous,
            accepted: said.origin == Origin::Kernel,
            until: Until::of(information.lifetimes, now),
        }
    }

    /// The entry in place of one whose addresses were valid until `was`. RFC 4862 s5.5.3 e: a single unauthenticated
    /// message does not reduce a valid lifetime below two hours, unless it was below before. If the host honours
    /// short lifetimes (RFC 9096), it does.
    fn prolonging(mut self, was: Option<Instant>, honors_zero: bool, now: Instant) -> Self {
        let said = self.until.valid;
        let guarded = now + TWO_HOURS;
        let is_longer = said.is_none_or(|said| said > guarded) || is_sooner(was, said);
        if !honors_zero && !is_longer {
            self.until.valid = was.filter(|was| *was <= guarded).or(Some(guarded));
        }
        self
    }

    /// Whether addresses have to follow the change: more than the times has changed, or an end is sooner.
    fn is_news(&self, was: &Self, now: Instant) -> bool {
        let flags = |one: &Self| (one.on_link, one.autonomous, one.accepted);
        let is_preferred = |one: &Self| one.until.preferred.is_none_or(|until| until > now);
        flags(self) != flags(was)
            || is_preferred(self) != is_preferred(was)
            || is_sooner(self.until.valid, was.until.valid)
    }
}

/// Whether a prefix is global, and its length leaves room for an interface identifier. Link-local prefixes must be
/// ignored (RFC 4862 s5.5.3 b).
fn is_for_addresses(prefix: Prefix) -> bool {
    let address = prefix.address();
    prefix.length() > 0
        && prefix.length() < 128
        && !address.is_unicast_link_local()
        && !address.is_multicast()
        && !address.is_loopback()
        && !address.is_unspecified()
}

/// Whether an end comes before another; `None` is never.
fn is_sooner(this: Option<Instant>, other: Option<Instant>) -> bool {
    match (this, other) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(this), Some(other)) => this < other,
    }
}

/// Smallest valid lifetime by an unauthenticated message: RFC 4862 s5.5.3 e.
const TWO_HOURS: Duration = Duration::from_secs(2 * 60 * 60);
/// Largest number of prefixes of an interface: as many as Linux makes addresses (`max_addresses`).
const MAX_PREFIXES: usize = 16;
/// Largest number of default routers of an interface.
const MAX_ROUTERS: usize = 8;

#[cfg(test)]
mod tests;
