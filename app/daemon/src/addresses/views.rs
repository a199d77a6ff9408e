use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use moorline_addresses::{self as host, AddressFlags, Member, Planner, UplinkAddress};
use moorline_api::{
    AddressInfo, AddressMode, AddressState, InterfaceAddresses, LocatorInfo, NO_RULE, ONE_UPLINK,
    Proof, REMOVED, Uplink,
};
use moorline_host::{Evidence, Host};
use moorline_netlink::MAX_PREFIXES;
use moorline_types::{Instant, Locator, Ulid};

use super::Addresses;
use crate::uplinks::stay;

/// Answers of the control API about our addresses.
pub(crate) struct AddressViews<'a> {
    pub(crate) addresses: &'a Addresses,
    pub(crate) host: &'a Host,
}

impl AddressViews<'_> {
    fn planner(&self) -> Option<&Planner> {
        self.host.addressing().map(|addressing| &addressing.planner)
    }

    fn member(&self, address: Ipv6Addr) -> Option<Member<'_>> {
        self.planner()?.member(address)
    }

    /// Returns the uplinks and their locators.
    pub(crate) fn uplinks(&self, now: Instant) -> Vec<Uplink> {
        let info = |own: &UplinkAddress| LocatorInfo {
            address: own.address,
            prefix_len: own.prefix_len,
            proof: self.proof_of(own.address),
            temporary: self.is_temporary(own),
            announced: self.is_told(own.address),
        };
        let (failing, silent) = (self.host.failing_uplinks(), self.host.silent_uplinks());
        let uplink = |uplink: &host::Uplink| Uplink {
            name: uplink.name.clone(),
            ifindex: uplink.ifindex,
            carrier: uplink.carrier,
            failing: failing.contains(&uplink.ifindex),
            silent: silent.contains(&uplink.ifindex),
            avoided_secs: self.avoided_secs(uplink.ifindex, now),
            mtu: uplink.mtu,
            gateway: uplink.gateway,
            locators: uplink.addresses.iter().map(info).collect(),
        };
        self.host.view().uplinks.iter().map(uplink).collect()
    }

    /// Returns a warning if none of `uplink-probes` answers by any uplink that has a carrier.
    fn silence(&self) -> Option<String> {
        let silent = self.host.silent_uplinks();
        let all = || self.host.view().uplinks.iter().filter(|one| one.carrier);
        let is_silent = all().all(|one| silent.contains(&one.ifindex));
        let names: Vec<_> = all().map(|one| &*one.name).collect();
        (is_silent && !names.is_empty()).then(|| {
            format!(
                "none of uplink-probes answers by {}: either these hosts do not answer, or no uplink carries anything.",
                names.join(" or ")
            )
        })
    }

    fn avoided_secs(&self, ifindex: u32, now: Instant) -> Option<u64> {
        let left = self.host.avoided_until(ifindex)?.since(now);
        Some(left.as_secs() + u64::from(left.subsec_nanos() > 0))
    }

    /// Whether the host tells peers of an address. Without a proof only ILNP correspondents learn it. If Shim6's list has no
    /// room for the address, the answer is no.
    fn is_told(&self, address: Ipv6Addr) -> bool {
        let (proof, locator) = (self.host.proof(), Locator(address));
        let by_ilnp = self.host.ilnp().is_some() && self.is_present(address);
        (proof.lists(locator) || by_ilnp) && !proof.lacks_room(locator)
    }

    pub(crate) fn is_present(&self, address: Ipv6Addr) -> bool {
        self.host.proof().addresses().present.contains(&Locator(address))
    }

    /// Returns all interfaces with a default route, and the details of their addresses.
    pub(crate) fn interfaces(&self, now: Instant) -> Vec<InterfaceAddresses> {
        let (view, at) = (self.host.view(), self.host.view_at().unwrap_or(now));
        let interface = |one: &host::Uplink| InterfaceAddresses {
            interface: one.name.clone(),
            ifindex: one.ifindex,
            mode: self.planner().map_or(AddressMode::Off, |planner| {
                planner.policy().rule_of(&one.name).mode.to_string().into()
            }),
            addresses: one.addresses.iter().map(|own| self.address(one, own, at, now)).collect(),
        };
        let mut all: Vec<_> = view.uplinks.iter().chain(&view.candidates).map(interface).collect();
        all.sort_by_key(|one| one.ifindex);
        all
    }

    fn address(
        &self,
        on: &host::Uplink,
        own: &UplinkAddress,
        at: Instant,
        now: Instant,
    ) -> AddressInfo {
        let member = self.member(own.address);
        let member = member.as_ref();
        let planner = self.planner();
        let left = planner.map_or(own.lifetimes, |planner| planner.left(on.ifindex, own, at, now));
        let finite = |seconds: u32| (seconds != u32::MAX).then_some(seconds);
        AddressInfo {
            address: own.address,
            prefix_len: own.prefix_len,
            proof: self.proof_of(own.address),
            sec: member.map(|member| member.sec.value()),
            collision_count: member.map(|member| member.collision_count),
            key: member.and_then(|member| member.rule.key()).map(ToOwned::to_owned),
            set: member.map(|member| member.rule.set.clone()),
            params: member.map(|member| hex::encode(&member.params)),
            temporary: self.is_temporary(own),
            state: state(own),
            preferred_s: finite(left.preferred),
            valid_s: finite(left.valid),
            announced: self.is_told(own.address),
        }
    }

    /// Whether an address is temporary; covers addresses of the daemon and of the kernel.
    fn is_temporary(&self, own: &UplinkAddress) -> bool {
        let of_kernel = own.flags.contains(AddressFlags::TEMPORARY);
        of_kernel || self.member(own.address).is_some_and(|member| member.rule.temporary)
    }

    fn proof_of(&self, address: Ipv6Addr) -> Proof {
        let member = self.member(address);
        member.map_or(Proof::None, |member| member.kind.to_string().into())
    }

    /// Returns warnings about addresses. `in_use`: number of contexts by ULID.
    pub(crate) fn warnings(&self, in_use: &BTreeMap<Ulid, u64>) -> Vec<String> {
        let (view, mut warnings) = (self.host.view(), Vec::new());
        let failing = self.host.failing_uplinks();
        if view.uplinks.len() < 2 {
            let what = match view.uplinks.first() {
                None => format!("no uplink: connections {ONE_UPLINK}"),
                Some(one) if one.has_ways() => format!(
                    "only one uplink: connections can move between the routers of {0}, and {ONE_UPLINK} when {0} itself fails",
                    one.name
                ),
                Some(_) => format!("only one uplink: connections {ONE_UPLINK}"),
            };
            warnings.push(format!(
                "{what}. An uplink is an interface with a \
                 global IPv6 address and a default route; see `ip -6 route show default`."
            ));
        }
        for uplink in view.uplinks.iter().filter(|one| failing.contains(&one.ifindex)) {
            let is_taken =
                self.host.uplink_for_new().is_some_and(|one| one.ifindex == uplink.ifindex);
            let new = if is_taken {
                format!(", and {}.", stay(view, &uplink.name))
            } else {
                ". New connections take another uplink until it works again.".to_owned()
            };
            let told = told_of(self.host.evidence(uplink.ifindex));
            warnings.push(format!("{} {told}{new}", uplink.name));
        }
        warnings.extend(self.silence());
        warnings.extend(self.addresses.deaf.warnings(|one| has_router(self.host, one)));
        let is_managed =
            |planner: &Planner, one: &host::Uplink| planner.policy().is_managed(&one.name);
        let is_off = |one: &host::Uplink| !self.planner().is_some_and(|all| is_managed(all, one));
        if !view.uplinks.is_empty() && view.uplinks.iter().all(is_off) {
            warnings.push(
                "addresses = \"off\": peers cannot verify our locators, so our end of a connection \
                 cannot move. Set addresses = \"hba-compatible\"."
                    .to_owned(),
            );
        }
        warnings.extend(self.planner().into_iter().flat_map(Planner::warnings).cloned());
        warnings.extend(self.addresses.keys.warnings());
        warnings.extend(self.addresses.damage.clone());
        warnings.extend(self.addresses.too_many_prefixes());
        warnings.extend(self.taken_away(in_use));
        warnings.extend(self.unprovable(in_use));
        warnings
    }

    /// Returns warnings about our addresses that a person has removed; the daemon does not add them again (decision 009).
    fn taken_away(&self, in_use: &BTreeMap<Ulid, u64>) -> Vec<String> {
        let text = |(name, address): &(String, Ipv6Addr)| {
            let contexts = in_use.get(&Ulid(*address)).copied().unwrap_or_default();
            let uses = match contexts {
                0 => String::new(),
                _ => format!(", and {} it", contexts_use(contexts)),
            };
            format!(
                "{name}: {address}, {REMOVED} by a person or a network manager, and stays \
                 away{uses}. To have it back: {}",
                way_back(name, *address)
            )
        };
        self.all_taken_away().iter().map(text).collect()
    }

    fn all_taken_away(&self) -> &[(String, Ipv6Addr)] {
        self.planner().map(Planner::taken_away).unwrap_or_default()
    }

    /// Returns the command that restores an address that a person has removed: `ulid`, or an address with the same proof.
    pub(crate) fn way_back(&self, ulid: Ulid) -> Option<String> {
        let set_of = |address| self.member(address).map(|member| member.rule.set.clone());
        let own = set_of(ulid.0);
        let all = self.all_taken_away();
        let beside = || all.iter().find(|(_, address)| own.is_some() && set_of(*address) == own);
        let of_beside = || beside().map(|(name, address)| way_back(name, *address));
        self.way_back_to(ulid.0).or_else(of_beside)
    }

    /// Returns the command that restores this address, if a person has removed it.
    pub(crate) fn way_back_to(&self, address: Ipv6Addr) -> Option<String> {
        let all = self.all_taken_away();
        let same = all.iter().find(|(_, one)| *one == address);
        same.map(|(name, address)| way_back(name, *address))
    }

    /// Returns warnings about contexts whose peers learn no other address, with reason and advice.
    fn unprovable(&self, in_use: &BTreeMap<Ulid, u64>) -> Vec<String> {
        let proof = self.host.proof();
        let unprovable = in_use.iter().filter(|(ulid, _)| proof.announcement_for(**ulid).is_none());
        unprovable.map(|(ulid, contexts)| self.why_unprovable(*ulid, *contexts)).collect()
    }

    fn why_unprovable(&self, ulid: Ulid, contexts: u64) -> String {
        let left_out = self.host.proof().left_out_for(ulid);
        let why = left_out
            .first()
            .map_or_else(|| "there is no other".to_owned(), |(_, why)| why.to_string());
        format!(
            "{} {ulid}, and peers are told of no other address, so our end cannot move: {why}. {}",
            contexts_use(contexts),
            self.remedy(ulid)
        )
    }

    /// Returns advice: one line to type or to publish.
    fn remedy(&self, ulid: Ulid) -> String {
        let view = self.host.view();
        let Some(uplink) = view.uplink_of(ulid.0) else {
            return "New connections take another address.".to_owned();
        };
        let is_better = |own: &&UplinkAddress| {
            let ulid = Locator(own.address).as_ulid();
            own.preferred && self.host.proof().announcement_for(ulid).is_some()
        };
        if let Some(better) = uplink.addresses.iter().find(is_better) {
            return format!(
                "Give out {} instead; new connections from here take it",
                better.address
            );
        }
        if !self.planner().is_some_and(|planner| planner.policy().is_managed(&uplink.name)) {
            return "Set addresses = \"hba-compatible\".".to_owned();
        }
        let beside = view.uplinks.iter().flat_map(|other| &other.addresses).find(is_better);
        let instead = beside.map_or_else(String::new, |better| {
            format!(" Connections that begin from {} can move.", better.address)
        });
        let name = &uplink.name;
        format!("Moorline has no address of its own on {name}: `moorline addr list`.{instead}")
    }
}

impl Addresses {
    pub(super) fn too_many_prefixes(&self) -> Option<String> {
        let named: Vec<_> = self.unserved.iter().take(NAMED).map(ToString::to_string).collect();
        let rest = self.unserved.len().saturating_sub(NAMED);
        let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        (!self.unserved.is_empty()).then(|| {
            format!(
                "{}{more} {NO_RULE}: moorlined keeps {} of them. Packets from there leave as without Moorline, so \
                 connections may not move there. Remove addresses that are no longer in use (`ip -6 addr`), or set \
                 uplinks = [...].",
                named.join(", "),
                MAX_PREFIXES
            )
        })
    }
}

/// Whether the host has heard a router on a link that is no uplink.
pub(crate) fn has_router(host: &Host, link: &host::Uplink) -> bool {
    host.addressing().is_some_and(|addressing| addressing.advertised.has_router(link))
}

/// Says of an uplink that it fails, and by what evidence.
pub(crate) fn told_of(evidence: Option<Evidence>) -> String {
    let why = match evidence {
        Some(Evidence::Hosts) => {
            "none of uplink-probes answers by it, and by another uplink they do"
        }
        Some(Evidence::Peers) => {
            "no peer of a context answers by it, and by another uplink they do"
        }
        Some(Evidence::Router) => "its router does not answer",
        Some(Evidence::Short) => {
            return "has failed, and has not answered again for long enough".to_owned();
        }
        None => return "carries nothing".to_owned(),
    };
    format!("carries nothing ({why})")
}

fn contexts_use(count: u64) -> String {
    if count == 1 { "1 context uses".to_owned() } else { format!("{count} contexts use") }
}

/// Returns the command that restores an address, also if sessions of ILNP have kept the address as a deprecated /128.
fn way_back(interface: &str, address: Ipv6Addr) -> String {
    format!(
        "`ip -6 addr replace {address}/64 dev {interface} noprefixroute nodad`, or restart moorlined."
    )
}

fn state(own: &UplinkAddress) -> AddressState {
    if own.flags.contains(AddressFlags::DAD_FAILED) {
        AddressState::Duplicate
    } else if own.flags.contains(AddressFlags::TENTATIVE) {
        AddressState::Tentative
    } else if own.preferred {
        AddressState::Preferred
    } else {
        AddressState::Deprecated
    }
}

/// Largest number of prefixes in a warning.
const NAMED: usize = 3;
