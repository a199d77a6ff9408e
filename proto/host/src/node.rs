//! This host as a node of ILNP: its identifiers and locators, made from the addresses of its uplinks, and the
//! addresses that sessions need beside the host's own.
//!
//! A session keeps its identifier wherever it goes, so the host has to own the address of that identifier in each of
//! its prefixes: routers ask for the address, and the kernel sends only from addresses that exist.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::net::Ipv6Addr;

use moorline_addresses::{HostView, Uplink, UplinkAddress};
use moorline_contexts::Preference;
use moorline_ilnp::LocalLocator;
use moorline_ilnp::LocalState;
use moorline_ilnp::consts::LOCATOR_LIFETIME;
use moorline_types::{Ilv, L64, LocalRoutes, Nid, Prefix};

use crate::effect::SessionAddress;

/// This node in the data plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Identifiers of the node.
    pub nids: BTreeSet<Nid>,
    /// Locators of the node, each with the interface of its packets.
    pub uplinks: BTreeMap<L64, u32>,
}

impl Node {
    /// Interfaces that packets may leave by. An interface with deprecated addresses alone is one of them:
    /// correspondents may still send there. A link in use that has lost its default route is one, too: correspondents
    /// on the link need none.
    pub fn places(view: &HostView) -> impl Iterator<Item = &Uplink> {
        let is_usable = |own: &UplinkAddress| own.flags.is_usable();
        let candidates = view.candidates.iter();
        let candidates = candidates.filter(move |one| one.addresses.iter().any(is_usable));
        view.uplinks.iter().chain(candidates).chain(view.bare_in_use())
    }
}

/// Preference of the locators of a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatorRule {
    /// Locators that the rule is about.
    pub place: Place,
    /// Preference of these locators among others.
    pub preference: Preference,
}

/// A part of the locators of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Locators of the uplink with this name.
    Uplink(String),
    /// Locators whose addresses are in this prefix.
    Prefix(Prefix),
}

impl LocatorRule {
    /// Preference by the narrowest rule about an address of an uplink; of equally narrow rules the first counts.
    #[must_use]
    pub fn narrowest(rules: &[Self], uplink: &Uplink, own: &UplinkAddress) -> Preference {
        let width = |rule: &Self| match &rule.place {
            Place::Uplink(name) => (*name == uplink.name).then_some(own.prefix_len),
            Place::Prefix(prefix) => prefix.contains(own.address).then_some(prefix.length()),
        };
        let about = rules.iter().filter_map(|rule| Some((width(rule)?, rule.preference)));
        let narrowest = about.min_by_key(|(width, _)| Reverse(*width));
        narrowest.map_or(Preference::Neutral, |(_, preference)| preference)
    }
}

/// Inputs of [`node`].
pub(crate) struct Seen<'a> {
    pub view: &'a HostView,
    /// Interfaces that carry the data plane of ILNP; `None` if all do.
    pub attached: Option<&'a BTreeSet<u32>>,
    /// Identifiers of sessions, whose addresses may have left the host.
    pub known: &'a BTreeSet<Nid>,
    pub rules: &'a [LocatorRule],
    pub routes: &'a LocalRoutes,
    /// Interfaces of uplinks that carry nothing.
    pub failing: &'a BTreeSet<u32>,
    /// The uplinks of the locators until now.
    pub before: &'a BTreeMap<L64, u32>,
}

/// Makes a locator of each prefix of an uplink that works, and an identifier of each interface identifier of its
/// addresses, however the interface identifier was made.
///
/// The locators come by turns of their uplinks, of each uplink the oldest first.
///
/// Locators whose addresses are for new traffic have the same preference, unless a rule prefers or avoids one; of
/// several rules the narrowest counts. So sessions stay where they began. Deprecated locators, and locators of links
/// that have lost their default route or carry nothing, come after all others.
//= rfc6740#3.1-1 rfc6740#3.1-2 rfc6740#3.1.1-2 rfc6740#3.2-1 rfc6740#3.4-1
pub(crate) fn node(seen: &Seen<'_>) -> (Node, LocalState) {
    let mut found: BTreeMap<L64, (LocalLocator, u32)> = BTreeMap::new();
    let mut since: BTreeMap<L64, u32> = BTreeMap::new();
    for uplink in Node::places(seen.view) {
        for own in uplink.addresses.iter().filter(|own| is_of_node(own)) {
            let Ilv { l64, .. } = Ilv::of(own.address);
            let is_attached = seen.attached.is_none_or(|all| all.contains(&uplink.ifindex));
            if !uplink.carrier || !is_attached || !l64.is_global_unicast() {
                continue;
            }
            let locator = LocalLocator {
                l64,
                preference: preference(uplink, own, seen),
                lifetime: u16::try_from(own.lifetimes.valid)
                    .unwrap_or(LOCATOR_LIFETIME)
                    .clamp(1, LOCATOR_LIFETIME),
            };
            // Any node on a link can advertise a prefix of another link.
            let rank = |(locator, ifindex): (LocalLocator, u32)| {
                (locator.preference, seen.before.get(&l64) != Some(&ifindex))
            };
            let oldest = since.entry(l64).or_insert(own.created);
            *oldest = own.created.min(*oldest);
            let best = found.entry(l64).or_insert((locator, uplink.ifindex));
            if rank((locator, uplink.ifindex)) < rank(*best) {
                *best = (locator, uplink.ifindex);
            }
        }
    }
    let uplinks: BTreeMap<_, _> =
        found.iter().map(|(l64, (_, ifindex))| (*l64, *ifindex)).collect();
    let locators = by_turns(&since, &uplinks).into_iter();
    let locators = locators.filter_map(|l64| Some(found.get(&l64)?.0)).collect();
    let nids = nids(seen.view, seen.known);
    let state =
        LocalState { nids: nids.iter().copied().collect(), locators, routes: seen.routes.clone() };
    (Node { nids, uplinks }, state)
}

/// Orders the locators of all uplinks by turns: the oldest one of each uplink, the second oldest one of each, and so on. Any
/// node on a link can advertise prefixes, and peers keep a limited number of locators (decision 216).
fn by_turns(since: &BTreeMap<L64, u32>, uplinks: &BTreeMap<L64, u32>) -> Vec<L64> {
    let mut all: Vec<_> = since.iter().map(|(l64, since)| (*since, *l64)).collect();
    all.sort_unstable();
    let mut counts = BTreeMap::<u32, usize>::new();
    let turns = all.into_iter().filter_map(|(_, l64)| {
        let count = counts.entry(*uplinks.get(&l64)?).or_default();
        *count += 1;
        Some((*count, l64))
    });
    let mut turns: Vec<_> = turns.collect();
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, l64)| l64).collect()
}

/// Whether an address gives an identifier and a locator. The kernel has to have found it unique on its link. If its
/// prefix is longer than a locator, as with DHCPv6, the rest of the prefix of the locator is for others: routers may bring
/// no packets for another identifier there.
const fn is_of_node(own: &UplinkAddress) -> bool {
    own.flags.is_usable() && own.prefix_len <= LOCATOR_LEN
}

/// Identifiers of this node.
//= rfc6740#3.1.2-2
fn nids(view: &HostView, known: &BTreeSet<Nid>) -> BTreeSet<Nid> {
    let all = Node::places(view).flat_map(|uplink| &uplink.addresses);
    let own = all.filter(|own| is_of_node(own)).map(|own| Ilv::of(own.address).nid);
    own.chain(known.iter().copied()).collect()
}

fn preference(uplink: &Uplink, own: &UplinkAddress, seen: &Seen<'_>) -> u16 {
    let preferred = match LocatorRule::narrowest(seen.rules, uplink, own) {
        Preference::Prefer => PREFERRED,
        Preference::Avoid => AVOIDED,
        Preference::Neutral => NEUTRAL,
    };
    let is_failing = seen.failing.contains(&uplink.ifindex);
    let is_lasting = own.preferred && !uplink.default_routes.is_empty() && !is_failing;
    if is_lasting { preferred } else { preferred + DEPRECATED }
}

/// Addresses that uplinks have for sessions alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionAddresses {
    made: BTreeSet<SessionAddress>,
    /// All global addresses of the uplinks at the last look, with those for sessions.
    seen: BTreeSet<Ipv6Addr>,
}

impl SessionAddresses {
    /// Takes over the addresses that a run before has set for its sessions. Those that are not needed go with the
    /// next change.
    pub(crate) fn take_over(&mut self, left: BTreeSet<SessionAddress>) {
        self.made = left;
    }

    /// Whether an uplink has this address for sessions alone.
    pub(crate) fn has(&self, address: Ipv6Addr) -> bool {
        self.made.iter().any(|made| made.address == address)
    }

    /// Takes the addresses for sessions out of a view, because Shim6 does not use them and they are no locators.
    /// Notes the addresses that exist.
    pub(crate) fn leave_out(&mut self, view: &mut HostView) {
        self.seen.clear();
        let all = view.uplinks.iter_mut().chain(&mut view.candidates).chain(&mut view.bare);
        for uplink in all {
            self.seen.extend(uplink.addresses.iter().map(|own| own.address));
            let (made, ifindex) = (&mut self.made, uplink.ifindex);
            uplink.addresses.retain(|own| {
                let at = SessionAddress { ifindex, address: own.address };
                if own.prefix_len == SessionAddress::PREFIX_LEN {
                    return !made.contains(&at);
                }
                // The host itself has the address by now, in place of the one for sessions.
                made.remove(&at);
                true
            });
        }
    }

    /// Has each of these identifiers have an address at each locator. Returns addresses to add, and addresses to
    /// remove.
    pub(crate) fn follow(
        &mut self,
        node: &Node,
        nids: &BTreeSet<Nid>,
    ) -> (Vec<SessionAddress>, Vec<SessionAddress>) {
        let at = |(l64, ifindex): (&_, &u32)| {
            let (l64, ifindex) = (*l64, *ifindex);
            nids.iter().map(move |nid| {
                let address = Ilv::new(l64, *nid).address();
                SessionAddress { ifindex, address }
            })
        };
        let wanted: BTreeSet<_> = node.uplinks.iter().flat_map(at).collect();
        let is_made = |one: &SessionAddress| self.made.contains(one);
        let is_there = |one: &SessionAddress| {
            self.seen.contains(&one.address) && (is_made(one) || !self.has(one.address))
        };
        let missing: Vec<_> = wanted.iter().filter(|one| !is_there(one)).copied().collect();
        let gone: Vec<_> = self.made.difference(&wanted).copied().collect();
        for one in &missing {
            self.made.insert(*one);
            self.seen.insert(one.address);
        }
        gone.iter().for_each(|one| {
            self.made.remove(one);
        });
        (missing, gone)
    }

    /// Notes that an address could not be removed. The next call of [`Self::follow`] tries again.
    pub(crate) fn on_not_removed(&mut self, address: SessionAddress) {
        self.made.insert(address);
    }

    /// Notes that an address exists already, set by another program.
    pub(crate) fn on_of_others(&mut self, address: SessionAddress) {
        self.made.remove(&address);
    }

    /// Notes that an address could not be added. The next call of [`Self::follow`] tries again.
    pub(crate) fn on_not_added(&mut self, address: SessionAddress) {
        if self.made.remove(&address) {
            self.seen.remove(&address.address);
        }
    }
}

/// Preferences in Locator Updates: lower is better.
const PREFERRED: u16 = 50;
const NEUTRAL: u16 = 100;
const AVOIDED: u16 = 200;
/// Addition for addresses that are not for new traffic.
const DEPRECATED: u16 = 1000;

/// Bits of a locator (RFC 6740 s3.1).
const LOCATOR_LEN: u8 = 64;

#[cfg(test)]
mod tests;
