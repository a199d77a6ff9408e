//! Identifiers and locators of this node, from the addresses of its uplinks.

use std::collections::{BTreeMap, BTreeSet};

use moorline_addresses::{AddressFlags, HostView, Uplink, UplinkAddress};
use moorline_api::{Net, PathRule, Preference, Scope};
use moorline_ilnp::consts::LOCATOR_LIFETIME;
use moorline_ilnp::{LocalLocator, LocalState};
use moorline_types::{Ilv, L64, Nid, Prefix};

use crate::paths::narrowest;

/// This node, where it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// For the sessions.
    pub state: LocalState,
    /// By which uplink each locator leaves.
    pub uplinks: BTreeMap<L64, u32>,
}

/// Every prefix of an uplink that works is a locator, and every interface identifier of its addresses an identifier,
/// however it was made. `known` are identifiers of sessions, whose address may have left the host.
///
/// Among locators whose addresses are for new traffic none is better, so that sessions stay where they began,
/// unless a rule prefers or avoids one, the narrowest of several; those that are deprecated come after all others.
//= rfc6740#3.1-1 rfc6740#3.1-2 rfc6740#3.1.1-2 rfc6740#3.2-1 rfc6740#3.4-1
pub(super) fn node(
    view: &HostView,
    is_attached: &dyn Fn(u32) -> bool,
    known: &BTreeSet<Nid>,
    rules: &[PathRule],
) -> Node {
    let mut found: BTreeMap<L64, (LocalLocator, u32)> = BTreeMap::new();
    for uplink in places(view) {
        for own in uplink.addresses.iter().filter(|own| is_usable(own)) {
            let Ilv { l64, .. } = Ilv::of(own.address);
            if !uplink.carrier || !is_attached(uplink.ifindex) || !l64.is_global_unicast() {
                continue;
            }
            let locator = LocalLocator {
                l64,
                preference: preference(uplink, own, rules),
                lifetime: u16::try_from(own.lifetimes.valid)
                    .unwrap_or(LOCATOR_LIFETIME)
                    .clamp(1, LOCATOR_LIFETIME),
            };
            let best = found.entry(l64).or_insert((locator, uplink.ifindex));
            if locator.preference < best.0.preference {
                *best = (locator, uplink.ifindex);
            }
        }
    }
    let uplinks = found.iter().map(|(l64, (_, ifindex))| (*l64, *ifindex)).collect();
    let locators = found.into_values().map(|(locator, _)| locator).collect();
    let nids = nids(view, known).into_iter().collect();
    Node { state: LocalState { nids, locators }, uplinks }
}

/// Identifiers of this node; `known` as for [`node`].
pub(super) fn nids(view: &HostView, known: &BTreeSet<Nid>) -> BTreeSet<Nid> {
    let all = places(view).flat_map(|uplink| &uplink.addresses);
    let own = all.filter(|own| is_usable(own)).map(|own| Ilv::of(own.address).nid);
    own.chain(known.iter().copied()).collect()
}

/// Interfaces that packets may leave by.
pub(super) fn places(view: &HostView) -> impl Iterator<Item = &Uplink> {
    let candidates = view.candidates.iter();
    view.uplinks.iter().chain(candidates.filter(|one| one.addresses.iter().any(is_usable)))
}

/// Whether packets may come from it: not before the kernel has found that no other node has it.
//= rfc6740#3.1.2-2
fn is_usable(own: &UplinkAddress) -> bool {
    let is_tentative = own.flags.contains(AddressFlags::TENTATIVE)
        && !own.flags.contains(AddressFlags::OPTIMISTIC);
    !is_tentative && !own.flags.contains(AddressFlags::DAD_FAILED)
}

fn preference(uplink: &Uplink, own: &UplinkAddress, rules: &[PathRule]) -> u16 {
    let for_all = rules.iter().filter(|rule| rule.scope == Scope::All && rule.peer.is_none());
    let width = |rule: &PathRule| {
        let local = rule.local.as_ref()?;
        if *local == uplink.name {
            return Some(own.prefix_len);
        }
        local.parse::<Net>().ok().filter(|net| contains(*net, own)).map(Net::len)
    };
    let about = for_all.filter_map(|rule| Some((width(rule)?, rule)));
    let preferred = match narrowest(about).map(|rule| &rule.preference) {
        Some(Preference::Prefer) => PREFERRED,
        Some(Preference::Avoid) => AVOIDED,
        Some(Preference::Neutral | Preference::Other(_)) | None => NEUTRAL,
    };
    if own.preferred { preferred } else { preferred + DEPRECATED }
}

fn contains(net: Net, own: &UplinkAddress) -> bool {
    Prefix::new(net.address(), net.len()).contains(own.address)
}

/// Preferences in Locator Updates: the lower the better.
const PREFERRED: u16 = 50;
const NEUTRAL: u16 = 100;
const AVOIDED: u16 = 200;
/// More, for addresses that are not for new traffic.
const DEPRECATED: u16 = 1000;

#[cfg(test)]
mod tests {
    use moorline_addresses::Lifetimes;

    use super::*;

    fn address(text: &str, flags: AddressFlags, valid: u32) -> UplinkAddress {
        let lifetimes = Lifetimes { preferred: valid, valid };
        UplinkAddress::new(text.parse().expect("an address"), 64, flags, lifetimes)
    }

    fn uplink(ifindex: u32, addresses: &[UplinkAddress]) -> Uplink {
        let name = format!("isp{ifindex}");
        Uplink { addresses: addresses.to_vec(), ..Uplink::new(ifindex, name) }
    }

    fn view(uplinks: &[Uplink]) -> HostView {
        HostView { uplinks: uplinks.to_vec(), ..HostView::default() }
    }

    fn told(node: &Node) -> Vec<(String, u16, u16)> {
        let locators = node.state.locators.iter();
        locators.map(|own| (own.l64.to_string(), own.preference, own.lifetime)).collect()
    }

    fn rule(local: &str, preference: Preference) -> PathRule {
        PathRule {
            scope: Scope::All,
            local: Some(local.to_owned()),
            peer: None,
            preference,
            tell_peer: false,
            origin: String::new(),
        }
    }

    const FINE: AddressFlags = AddressFlags::PERMANENT;

    //= rfc6740#3.1-1 rfc6740#3.1-2 rfc6740#3.1.1-2 rfc6740#3.2-1 rfc6740#3.4-1 (test)
    #[test]
    fn prefixes_are_locators_and_interface_identifiers_are_identifiers() {
        let lasting = address("2001:db8:1::a", FINE, u32::MAX);
        let soon = address("2001:db8:2::b", AddressFlags(0), 600);
        let view = view(&[uplink(1, &[lasting]), uplink(2, &[soon])]);
        let known = BTreeSet::from([Nid(0xcc)]);
        let node = node(&view, &|_| true, &known, &[]);
        assert_eq!(node.state.nids, [Nid(0xa), Nid(0xb), Nid(0xcc)]);
        let expected = [
            ("2001:0db8:0001:0000".to_owned(), 100, 3600),
            ("2001:0db8:0002:0000".to_owned(), 100, 600),
        ];
        assert_eq!(told(&node), expected);
        assert_eq!(node.uplinks.into_values().collect::<Vec<_>>(), [1, 2]);
    }

    //= rfc6740#3.1.2-2 (test)
    #[test]
    fn what_cannot_be_used_is_no_locator_and_what_is_going_comes_last() {
        let gone = Uplink { carrier: false, ..uplink(1, &[address("2001:db8:1::a", FINE, 60)]) };
        let last = uplink(4, &[address("2001:db8:5::a", AddressFlags::DEPRECATED, 60)]);
        let going = address("2001:db8:2::a", AddressFlags::DEPRECATED, 60);
        let new = address("2001:db8:3::a", AddressFlags::TENTATIVE, 60);
        let bare = uplink(3, &[address("2001:db8:4::a", FINE, 60)]);
        let view =
            HostView { candidates: vec![last], ..view(&[gone, uplink(2, &[going, new]), bare]) };
        let node = node(&view, &|ifindex| ifindex != 3, &BTreeSet::new(), &[]);
        let expected = ["2001:0db8:0002:0000", "2001:0db8:0005:0000"];
        assert_eq!(told(&node), expected.map(|l64| (l64.to_owned(), 1100, 60)));
        assert_eq!(node.state.nids, [Nid(0xa)]);
    }

    #[test]
    fn rules_about_paths_say_which_locators_are_better() {
        let one = uplink(1, &[address("2001:db8:1::a", FINE, 60)]);
        let two = uplink(2, &[address("2001:db8:2::a", FINE, 60)]);
        let view = view(&[one, two]);
        let preferences = |rules: &[PathRule]| {
            let node = node(&view, &|_| true, &BTreeSet::new(), rules);
            told(&node).into_iter().map(|told| told.1).collect::<Vec<_>>()
        };
        let rules = [rule("isp1", Preference::Avoid), rule("2001:db8:2::/64", Preference::Prefer)];
        assert_eq!(preferences(&rules), [200, 50]);
        // The narrowest counts, whichever comes first, and the first of those that are as narrow.
        let rules = [
            rule("2001:db8::/32", Preference::Avoid),
            rule("isp1", Preference::Prefer),
            rule("2001:db8:1::/64", Preference::Avoid),
            rule("isp2", Preference::Prefer),
            rule("2001:db8:2::a/128", Preference::Neutral),
        ];
        assert_eq!(preferences(&rules), [50, 100]);
    }
}
