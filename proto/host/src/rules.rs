//! Rules about paths, as people give them, applied to the uplinks that there are.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use moorline_addresses::{HostView, Uplink, UplinkAddress};
use moorline_contexts::{self as shim6, Preference, Scope};
use moorline_types::{Instant, Locator, Prefix};
use moorline_wire::LocatorPreference;

use crate::host::Host;

/// What to think of the pairs from a place of this host to a prefix of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// The contexts that the rule applies to. Of sessions, a rule applies to all or none.
    pub scope: Scope,
    /// Our end.
    pub local: Place,
    /// The peer's end.
    pub peer: Prefix,
    /// How they compare with others.
    pub preference: Preference,
    /// Whether peers are told by locator preferences (RFC 5533 s5.15.3).
    pub tells_peer: bool,
}

/// A part of the locators of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Those of the uplink with this name.
    Uplink(String),
    /// Those whose addresses are in this prefix.
    Prefix(Prefix),
}

impl Host {
    /// Rules about paths in place of those before.
    pub fn set_path_rules(&mut self, rules: Vec<PathRule>, now: Instant) {
        if self.routing.path_rules != rules {
            self.routing.path_rules = rules;
            self.follow_node(now);
        }
        self.apply_path_rules(now);
    }

    /// Rules may name uplinks, whose addresses come and go.
    pub(crate) fn apply_path_rules(&mut self, now: Instant) {
        let routing = &mut self.routing;
        let pairs = routing.path_rules.iter().flat_map(|rule| rule.pairs(&routing.view));
        self.shim6.set_path_rules(pairs.collect(), now);
        let mut told = Vec::new();
        if routing.path_rules.iter().any(|rule| rule.tells_peer) {
            let announced = &self.following.proof.addresses().present;
            told = preferences(&routing.path_rules, &routing.view);
            told.retain(|(own, _)| announced.contains(own));
        }
        if told != routing.told_preferences {
            self.shim6.set_preferences(&told, now);
            routing.told_preferences = told;
        }
    }
}

impl PathRule {
    /// The rule as contexts have it: prefixes stand for an uplink.
    fn pairs(&self, view: &HostView) -> Vec<shim6::PathRule> {
        let mut locals = match &self.local {
            Place::Prefix(prefix) => [*prefix].into(),
            Place::Uplink(name) => {
                let uplinks = view.uplinks.iter().filter(|uplink| uplink.name == *name);
                let addresses = uplinks.flat_map(|uplink| &uplink.addresses);
                addresses.map(UplinkAddress::prefix).collect::<Vec<_>>()
            }
        };
        locals.dedup();
        let Self { scope, peer, preference, .. } = *self;
        let pair = |local| shim6::PathRule { scope, local, peer, preference };
        locals.into_iter().map(pair).collect()
    }

    /// Whether the rule is about locators of this host for every peer.
    pub(crate) fn is_for_all(&self) -> bool {
        self.scope == Scope::Peer(Prefix::ALL) && self.peer == Prefix::ALL
    }
}

impl Place {
    /// The length of the prefix in which this place has an address of an uplink.
    fn width(&self, uplink: &Uplink, own: &UplinkAddress) -> Option<u8> {
        match self {
            Self::Uplink(name) => (*name == uplink.name).then_some(own.prefix_len),
            Self::Prefix(prefix) => prefix.contains(own.address).then_some(prefix.length()),
        }
    }
}

/// What the narrowest of these rules thinks of an address of an uplink, the first of several.
pub(crate) fn narrowest<'a>(
    rules: impl Iterator<Item = &'a PathRule>,
    uplink: &Uplink,
    own: &UplinkAddress,
) -> Preference {
    let about = rules.filter_map(|rule| Some((rule.local.width(uplink, own)?, rule.preference)));
    about.min_by_key(|(width, _)| Reverse(*width)).map_or(Preference::Neutral, |(_, best)| best)
}

/// What rules that peers are told make of the addresses of the uplinks.
fn preferences(rules: &[PathRule], view: &HostView) -> Vec<(Locator, LocatorPreference)> {
    let all = view
        .uplinks
        .iter()
        .flat_map(|uplink| uplink.addresses.iter().map(move |own| (uplink, own)));
    let told = all.map(|(uplink, own)| {
        let telling = rules.iter().filter(|rule| rule.tells_peer);
        let priority = match narrowest(telling, uplink, own) {
            Preference::Prefer => PREFERRED,
            Preference::Avoid => AVOIDED,
            Preference::Neutral => NEUTRAL,
        };
        let preference =
            LocatorPreference { priority: Some(priority), ..LocatorPreference::default() };
        (Locator(own.address), preference)
    });
    told.collect()
}

/// Priorities that peers are told, as in DNS SRV: the lower first.
const PREFERRED: u8 = 10;
const NEUTRAL: u8 = 20;
const AVOIDED: u8 = 30;

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned as _;

    use moorline_addresses::{AddressFlags, Lifetimes};

    use super::*;

    fn view() -> HostView {
        let uplink = |ifindex, name: &str, addresses: &[&str]| {
            let own = |text: &&str| {
                let address = text.parse().expect("an address");
                UplinkAddress::new(address, 64, AddressFlags::PERMANENT, Lifetimes::FOREVER)
            };
            Uplink { addresses: addresses.iter().map(own).collect(), ..Uplink::new(ifindex, name) }
        };
        let one = uplink(1, "isp1", &["2001:db8:1::a", "2001:db8:1::b"]);
        HostView {
            uplinks: [one, uplink(2, "isp2", &["2001:db8:2::a"])].into(),
            ..HostView::default()
        }
    }

    fn rule(local: Place, preference: Preference) -> PathRule {
        let (scope, peer) = (Scope::Peer(Prefix::ALL), Prefix::ALL);
        PathRule { scope, local, peer, preference, tells_peer: true }
    }

    fn named(name: &str) -> Place {
        Place::Uplink(name.to_owned())
    }

    #[test]
    fn the_prefixes_of_an_uplink_stand_for_its_name() {
        let locals = |place| {
            let pairs = rule(place, Preference::Avoid).pairs(&view());
            pairs.into_iter().map(|pair| pair.local).collect::<Vec<_>>()
        };
        let prefix = Prefix::new("2001:db8:1::".parse().expect("an address"), 64);
        assert_eq!(locals(named("isp1")), [prefix]);
        assert_eq!(locals(named("isp3")), []);
        assert_eq!(locals(Place::Prefix(Prefix::ALL)), [Prefix::ALL]);
    }

    #[test]
    fn peers_are_told_what_the_narrowest_rule_says() {
        let host = Prefix::new("2001:db8:1::b".parse().expect("an address"), 128);
        let silent = PathRule { tells_peer: false, ..rule(named("isp2"), Preference::Avoid) };
        let rules = [
            silent,
            rule(named("isp1"), Preference::Avoid),
            rule(Place::Prefix(host), Preference::Prefer),
        ];
        let told = preferences(&rules, &view());
        let priorities: Vec<_> = told.iter().map(|(_, told)| told.priority).collect();
        assert_eq!(priorities, [AVOIDED, PREFERRED, NEUTRAL].map(Some));
    }
}
