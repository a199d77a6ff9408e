//! What routers advertise, and how long it holds.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_types::{Instant, Prefix};

use crate::prefixes::Until;
use crate::view::{Lifetimes, Uplink};

/// What a router, or the kernel on its behalf, has said about a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertisement {
    /// The interface that it came in on.
    pub ifindex: u32,
    /// Who says so.
    pub origin: Origin,
    /// The prefixes of the link that it names.
    pub prefixes: Vec<PrefixInformation>,
    /// Whether the interface believes short lifetimes (`ra_honor_pio_life`) at once.
    pub honors_zero: bool,
}

/// Who has said something about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The kernel, which has believed a router (`RTM_NEWPREFIX`).
    Kernel,
    /// A router, which the kernel need not have believed.
    Router {
        /// Its link-local address.
        address: Ipv6Addr,
        /// How long it is a default router; zero: it is none.
        lifetime: Duration,
    },
}

/// A Prefix Information option (RFC 4861 s4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    /// The prefix.
    pub prefix: Prefix,
    /// Whether its addresses are on the link (L flag).
    pub on_link: bool,
    /// Whether hosts may make addresses in it (A flag).
    pub autonomous: bool,
    /// Lifetimes of addresses made in it.
    pub lifetimes: Lifetimes,
}

/// The prefixes that hold now. A pure table: what is heard goes in, and what time takes goes out.
///
/// Where the kernel tells of a prefix, its word is the only one that counts: it has the rules of the
/// host (`accept_ra*`). What only routers tell is kept too, for hosts on which a network manager listens to them
/// instead of the kernel; see [`AdvertisedPrefix::accepted`].
#[derive(Clone, Debug, Default)]
pub struct AdvertisedPrefixes {
    prefixes: BTreeMap<(u32, Prefix), AdvertisedPrefix>,
    /// Default routers and what they advertise.
    routers: BTreeMap<(u32, Ipv6Addr), Router>,
    /// When the kernel's addresses in prefixes end, in the last view: the prefixes held before this run began.
    held: BTreeMap<(u32, Prefix), Option<Instant>>,
}

/// A prefix that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdvertisedPrefix {
    /// The interface that it is advertised on.
    pub ifindex: u32,
    /// The prefix.
    pub prefix: Prefix,
    /// Whether its addresses are on the link.
    pub on_link: bool,
    /// Whether hosts may make addresses in it.
    pub autonomous: bool,
    /// Whether the kernel believes it. If not, somebody else on the host has to: an address in it
    /// that is there shows as much.
    pub accepted: bool,
    /// Until when addresses in it can be used.
    pub until: Until,
}

#[derive(Clone, Debug)]
struct Router {
    until: Instant,
    prefixes: Vec<Prefix>,
}

impl AdvertisedPrefixes {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what was said. True if something new holds, or something no longer does; lifetimes
    /// that only go on are nothing new.
    pub fn handle_advertisement(&mut self, said: &Advertisement, now: Instant) -> bool {
        let routers = self.on_router(said, now);
        let mut prefixes = false;
        for information in &said.prefixes {
            prefixes |= self.on_prefix(said, information, now);
        }
        routers | prefixes
    }

    /// Notes the prefixes in which the kernel has addresses, with their ends: what is heard of such a prefix for the first time
    /// ends it no sooner than the kernel ends its address.
    pub fn set_held(&mut self, held: BTreeMap<(u32, Prefix), Option<Instant>>) {
        self.held = held;
    }

    /// Forgets all that was said on interfaces that are gone.
    pub fn retain_interfaces(&mut self, is_there: impl Fn(u32) -> bool) {
        self.prefixes.retain(|(ifindex, _), _| is_there(*ifindex));
        self.routers.retain(|(ifindex, _), _| is_there(*ifindex));
    }

    /// Takes out what does not hold any more.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.prefixes.retain(|_, entry| !entry.until.is_over(now));
        self.routers.retain(|_, router| router.until > now);
    }

    /// When the next prefix is deprecated or a prefix or router stops to hold; changes with each
    /// `handle_*`.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let ends = |entry: &AdvertisedPrefix| [entry.until.preferred, entry.until.valid];
        let prefixes = self.prefixes.values().flat_map(ends).flatten();
        let routers = self.routers.values().map(|router| router.until);
        // A prefix that is deprecated already stays in the table, and has nothing to wait for.
        prefixes.chain(routers).filter(|until| *until > now).min()
    }

    /// The prefixes, in order of interface and prefix.
    pub fn prefixes(&self) -> impl Iterator<Item = AdvertisedPrefix> {
        self.prefixes.values().copied()
    }

    /// The default routers that advertise a prefix, in whole or in part, on this interface
    /// (RFC 8028 s3.1: packets from it go to one of them).
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
        // A router may spread its prefixes over several messages (RFC 4861 s6.2.3), so what one
        // does not name still holds unless it is withdrawn.
        // A router that speaks of the link alone leaves the addresses, and their packets go on to this router.
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

    /// RFC 4862 s5.5.3. An option without the A flag is about the link alone (RFC 4861 s6.3.4), and changes nothing about addresses
    /// that were made by an earlier one.
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
            // Without the L flag nothing is said of the link (RFC 4861 s6.3.4).
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

    /// A prefix for addresses that was not known as such. The kernel may have addresses in it from before.
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
        // A lifetime that the kernel did not believe counts for nothing, but for the end of an address that the kernel has.
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
    /// What is left of its lifetimes, in whole seconds.
    #[must_use]
    pub fn lifetimes(&self, now: Instant) -> Lifetimes {
        self.until.left(now)
    }

    /// As a router has told of it, whatever was before.
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

    /// In place of one whose addresses were valid until then. RFC 4862 s5.5.3 e: no single unauthenticated message takes a valid
    /// lifetime below two hours, unless it was there before. Where the host honours what routers say (RFC 9096) it does.
    fn prolonging(mut self, was: Option<Instant>, honors_zero: bool, now: Instant) -> Self {
        let said = self.until.valid;
        let guarded = now + TWO_HOURS;
        let is_longer = said.is_none_or(|said| said > guarded) || is_sooner(was, said);
        if !honors_zero && !is_longer {
            self.until.valid = was.filter(|was| *was <= guarded).or(Some(guarded));
        }
        self
    }

    /// Whether more than the times has changed, or an end that is sooner: the addresses have to hear of it.
    fn is_news(&self, was: &Self, now: Instant) -> bool {
        let flags = |one: &Self| (one.on_link, one.autonomous, one.accepted);
        let is_preferred = |one: &Self| one.until.preferred.is_none_or(|until| until > now);
        flags(self) != flags(was)
            || is_preferred(self) != is_preferred(was)
            || is_sooner(self.until.valid, was.until.valid)
    }
}

/// Global and of a length that leaves room for an interface identifier; a link-local prefix must be
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

/// Whether an end comes before another. `None` is never.
fn is_sooner(this: Option<Instant>, other: Option<Instant>) -> bool {
    match (this, other) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(this), Some(other)) => this < other,
    }
}

/// RFC 4862 s5.5.3 e.
const TWO_HOURS: Duration = Duration::from_secs(2 * 60 * 60);
/// Prefixes kept for each interface: as many addresses as Linux makes (`max_addresses`).
const MAX_PREFIXES: usize = 16;
/// Default routers kept for each interface.
const MAX_ROUTERS: usize = 8;

#[cfg(test)]
mod tests;
