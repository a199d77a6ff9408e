//! This host as a node of ILNP: identifiers and locators, from the addresses of its uplinks, and the addresses that sessions need
//! there beside the host's own.
//!
//! A session keeps its identifier wherever it goes, so the host has to answer for that identifier in each of its
//! prefixes: routers ask for the address, and the kernel lets nobody send from one that is not there.

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

/// This node, as its data plane has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its identifiers.
    pub nids: BTreeSet<Nid>,
    /// The interface by which packets from each of its locators leave.
    pub uplinks: BTreeMap<L64, u32>,
}

impl Node {
    /// Interfaces that packets may leave by. One with nothing but deprecated addresses is among them: correspondents may be
    /// sending there still. So is a link in use that has lost its default route: correspondents on the link need none.
    pub fn places(view: &HostView) -> impl Iterator<Item = &Uplink> {
        let is_usable = |own: &UplinkAddress| own.flags.is_usable();
        let candidates = view.candidates.iter();
        let candidates = candidates.filter(move |one| one.addresses.iter().any(is_usable));
        view.uplinks.iter().chain(candidates).chain(view.bare_in_use())
    }
}

/// How much better or worse the locators of a place are than others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatorRule {
    /// Which locators.
    pub place: Place,
    /// How they compare with others.
    pub preference: Preference,
}

/// A part of the locators of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Those of the uplink with this name.
    Uplink(String),
    /// Those whose addresses are in this prefix.
    Prefix(Prefix),
}

impl LocatorRule {
    /// What the narrowest of these rules says of an address of an uplink, the first of several.
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

/// What [`node`] looks at.
pub(crate) struct Seen<'a> {
    pub view: &'a HostView,
    /// Interfaces that carry the data plane of ILNP; none: all.
    pub attached: Option<&'a BTreeSet<u32>>,
    /// Identifiers of sessions, whose address may have left the host.
    pub known: &'a BTreeSet<Nid>,
    pub rules: &'a [LocatorRule],
    pub routes: &'a LocalRoutes,
    /// Interfaces of uplinks that carry nothing.
    pub failing: &'a BTreeSet<u32>,
    /// The uplinks of the locators until now.
    pub before: &'a BTreeMap<L64, u32>,
}

/// Every prefix of an uplink that works is a locator, and every interface identifier of its addresses an identifier,
/// however it was made.
///
/// Among locators whose addresses are for new traffic none is better, so that sessions stay where they began,
/// unless a rule prefers or avoids one, the narrowest of several; those that are deprecated, and those of links that have lost their default
/// route or carry nothing, come after all others.
//= rfc6740#3.1-1 rfc6740#3.1-2 rfc6740#3.1.1-2 rfc6740#3.2-1 rfc6740#3.4-1
pub(crate) fn node(seen: &Seen<'_>) -> (Node, LocalState) {
    let mut found: BTreeMap<L64, (LocalLocator, u32)> = BTreeMap::new();
    for uplink in Node::places(seen.view) {
        for own in uplink.addresses.iter().filter(|own| own.flags.is_usable()) {
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
            // Anybody on a link can advertise a prefix of another link.
            let rank = |(locator, ifindex): (LocalLocator, u32)| {
                (locator.preference, seen.before.get(&l64) != Some(&ifindex))
            };
            let best = found.entry(l64).or_insert((locator, uplink.ifindex));
            if rank((locator, uplink.ifindex)) < rank(*best) {
                *best = (locator, uplink.ifindex);
            }
        }
    }
    let uplinks = found.iter().map(|(l64, (_, ifindex))| (*l64, *ifindex)).collect();
    let locators = found.into_values().map(|(locator, _)| locator).collect();
    let nids = nids(seen.view, seen.known);
    let state =
        LocalState { nids: nids.iter().copied().collect(), locators, routes: seen.routes.clone() };
    (Node { nids, uplinks }, state)
}

/// Identifiers of this node. An address counts once the kernel has found that no other node has it.
//= rfc6740#3.1.2-2
fn nids(view: &HostView, known: &BTreeSet<Nid>) -> BTreeSet<Nid> {
    let all = Node::places(view).flat_map(|uplink| &uplink.addresses);
    let own = all.filter(|own| own.flags.is_usable()).map(|own| Ilv::of(own.address).nid);
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

/// Addresses that are on uplinks for sessions alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionAddresses {
    made: BTreeSet<SessionAddress>,
    /// All global addresses of the uplinks when they were looked at last, ours included.
    seen: BTreeSet<Ipv6Addr>,
}

impl SessionAddresses {
    /// What a run before has left, for its sessions: those that are not needed go with the next change.
    pub(crate) fn take_over(&mut self, left: BTreeSet<SessionAddress>) {
        self.made = left;
    }

    /// Whether an address is on an uplink for sessions alone.
    pub(crate) fn has(&self, address: Ipv6Addr) -> bool {
        self.made.iter().any(|made| made.address == address)
    }

    /// Takes them out of a view, as they are no business of Shim6 and no locators, and notes what is there.
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
                // The host has the address as one of its own by now, in place of the one for sessions.
                made.remove(&at);
                true
            });
        }
    }

    /// Each of these identifiers is to be at each locator. Result: addresses to add, and addresses to remove.
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

    /// An address could not be removed. The next call of [`Self::follow`] has it tried again.
    pub(crate) fn on_not_removed(&mut self, address: SessionAddress) {
        self.made.insert(address);
    }

    /// An address is there, and somebody else has set it.
    pub(crate) fn on_of_others(&mut self, address: SessionAddress) {
        self.made.remove(&address);
    }

    /// An address could not be added. The next call of [`Self::follow`] has it tried again.
    pub(crate) fn on_not_added(&mut self, address: SessionAddress) {
        if self.made.remove(&address) {
            self.seen.remove(&address.address);
        }
    }
}

/// Preferences in Locator Updates: the lower the better.
const PREFERRED: u16 = 50;
const NEUTRAL: u16 = 100;
const AVOIDED: u16 = 200;
/// More, for addresses that are not for new traffic.
const DEPRECATED: u16 = 1000;

#[cfg(test)]
mod tests;
