//! The addresses that interfaces should have, the addresses of others that come after them, and warnings about
//! missing ones.

use super::lifetimes::replaced;
use super::*;

impl Planner {
    /// Addresses of others that come after ours. Ours has to be on the same interface, in the same prefix, and for
    /// new traffic.
    pub(super) fn outranked(&self, interfaces: &[&Uplink]) -> BTreeSet<(u32, Ipv6Addr)> {
        let mut outranked = BTreeSet::new();
        for interface in interfaces {
            let prefix_of = |own: &UplinkAddress| Locator(own.address).prefix();
            let is_for_new = |own: &&UplinkAddress| {
                let rule = self.policy.rule(&interface.name, prefix_of(own));
                let is_ours = self.member(own.address).is_some_and(|member| !member.is_former);
                rule.mode != AddressMode::Off && is_ours && own.preferred && own.flags.is_usable()
            };
            let better: BTreeSet<_> =
                interface.addresses.iter().filter(is_for_new).map(prefix_of).collect();
            let others = interface.addresses.iter().filter(|own| {
                self.member(own.address).is_none() && better.contains(&prefix_of(own))
            });
            outranked.extend(others.map(|own| (interface.ifindex, own.address)));
        }
        outranked
    }

    /// Removes an address that another host has, and takes the next one of its group.
    pub(super) fn drop_duplicates(&mut self, interfaces: &[&Uplink], plan: &mut Plan) {
        for interface in interfaces {
            for own in interface.addresses.iter().filter(|own| is_duplicate(own)) {
                let Some(group) =
                    self.groups.iter_mut().find(|g| g.member(Locator(own.address)).is_some())
                else {
                    continue;
                };
                let (ifindex, address) = (interface.ifindex, own.address);
                plan.actions.push(Action::Remove { ifindex, address });
                // An address that was replaced before is only removed.
                if group.address(Locator(address).prefix()) != Some(Locator(address))
                    || group.given_up.contains(&Locator(address).prefix())
                {
                    continue;
                }
                let name = &interface.name;
                plan.is_changed = true;
                let then = match group.collide(Locator(address)) {
                    true => "going on to the next",
                    false => "the third time: giving up",
                };
                let text = format!("{name}: another host has our address: {then}");
                plan.notes.push(Note::Duplicate { text, address });
            }
        }
    }

    /// All prefixes of all interfaces, each at one interface. If several interfaces have a prefix and routers on one
    /// of them continue it, the interface with our address keeps the prefix, because any node on another link can
    /// advertise it there. Otherwise the first interface has the prefix.
    pub(super) fn places<'a>(
        &self,
        interfaces: &[&'a Uplink],
        seen: &Seen<'_>,
        now: Instant,
    ) -> Vec<Place<'a>> {
        let is_ours = |address: Locator| self.member(address.0).is_some();
        let holds = |interface: &Uplink, prefix| {
            let is_there = |own: &UplinkAddress| {
                let address = Locator(own.address);
                address.prefix() == prefix && is_ours(address)
            };
            interface.carrier && interface.addresses.iter().any(is_there)
        };
        let mut places: Vec<Place<'a>> = Vec::new();
        for interface in interfaces.iter().copied() {
            let known =
                prefixes::known(interface, seen, (&self.learned, &self.policy), &is_ours, now);
            for (prefix, until) in known {
                let rule = self.policy.rule(&interface.name, prefix);
                if rule.mode == AddressMode::Off {
                    continue;
                }
                let goes_on = until.left(now).preferred > 0;
                let place = Place { interface, prefix, until, rule };
                match places.iter_mut().find(|one| one.prefix == prefix) {
                    None => places.push(place),
                    Some(first)
                        if goes_on
                            && holds(interface, prefix)
                            && !holds(first.interface, prefix) =>
                    {
                        *first = place;
                    }
                    Some(_) => {}
                }
            }
        }
        places
    }

    pub(super) fn wanted<'a>(
        &mut self,
        view: &HostView,
        places: &[Place<'a>],
        now: Instant,
    ) -> Vec<Wanted<'a>> {
        let mut wanted = Vec::new();
        for place in places {
            let name = &place.interface.name;
            let Some(group) = self.groups.iter().find(|group| group.rule == place.rule) else {
                continue;
            };
            if group.given_up.contains(&place.prefix) {
                self.warnings.push(given_up(name, place.prefix));
                continue;
            }
            let (interface, current) = (place.interface, group.address(place.prefix));
            // A context moves to the other addresses of its set, so all of them last as long as a context uses one.
            let is_used = |one: Locator| view.in_use.contains(&one.0);
            let used = group.former().filter(|one| group.rule.temporary && one.is_any(&is_used));
            let former = used.filter_map(|one| one.address(place.prefix));
            for address in current.into_iter().chain(former) {
                let Some(lasts) = group.until(address, now) else { continue };
                let is_current = Some(address) == current;
                let lasts =
                    if is_current { lasts } else { replaced(interface, current, lasts, now) };
                let until = place.until.or_sooner(lasts);
                let is_too_late = is_current && group.rule.temporary && is_too_late(until, now);
                wanted.push(Wanted { interface, address, until, is_current, is_too_late });
            }
            match current {
                Some(_) => {}
                None if self.gathering.contains_key(&group.rule) => {}
                None => self.warnings.push(not_in_set(name, place.prefix, &group.rule)),
            }
        }
        wanted
    }

    /// Warns about uplinks without a prefix for addresses.
    pub(super) fn warn_of_bare(&mut self, view: &HostView, places: &[Place<'_>]) {
        self.bare.clear();
        let has_key = |group: &Group| group.rule.mode.has_key() && !group.awaits_set();
        let is_signed = self.groups.iter().any(has_key);
        for uplink in &view.uplinks {
            let rule = self.policy.rule_of(&uplink.name);
            let has_place = uplink.addresses.iter().any(|own| {
                let prefix = Locator(own.address).prefix();
                let is_off = self.policy.rule(&uplink.name, prefix).mode == AddressMode::Off;
                is_off || places.iter().any(|place| place.prefix == prefix)
            });
            if rule.mode != AddressMode::Off && !has_place {
                self.bare.insert(uplink.ifindex);
                let is_signed = is_signed && uplink.has_neighbors && !rule.temporary;
                self.warnings.push(no_prefix(&uplink.name, is_signed));
            }
        }
    }

    /// Says once per interface that new connections take a stable address of ours in place of the host's own
    /// temporary ones.
    pub(super) fn tell_of_stable(&mut self, interfaces: &[&Uplink], plan: &mut Plan) {
        for interface in interfaces {
            let is_passed_over = |own: &&UplinkAddress| {
                let prefix = Locator(own.address).prefix();
                own.flags.contains(AddressFlags::TEMPORARY)
                    && plan.outranked.contains(&(interface.ifindex, own.address))
                    && !self.policy.rule(&interface.name, prefix).temporary
                    && !self.policy.is_temporary_said(&interface.name, prefix)
            };
            if interface.addresses.iter().any(|own| is_passed_over(&own)) {
                let text = passed_over(&interface.name);
                if self.told_stable.insert(interface.ifindex) {
                    plan.notes.push(Note::News(text.clone()));
                }
                self.warnings.push(text);
            }
        }
    }
}

fn as_prefix(octets: [u8; 8]) -> Prefix {
    Prefix::new(Ipv6Addr::from_bits(u128::from(u64::from_be_bytes(octets)) << 64), 64)
}

/// Words in the warning about an interface without a prefix for addresses; the interface's name comes before them.
pub const NO_PREFIX: &str = "there is no prefix of 64 bits";

/// Words in the warning about a prefix in which other hosts have our addresses; the interface's name comes before them.
pub const GIVEN_UP: &str = "another host has had three addresses of ours";

fn no_prefix(interface: &str, is_signed: bool) -> String {
    let others = if is_signed { "; those of other uplinks can move to it" } else { "" };
    format!(
        "{interface}: {NO_PREFIX} to make addresses in (single addresses from \
         DHCPv6 are none, nor is the address of a tunnel unless [interfaces.{interface}] sets `addresses`): \
         connections that begin on it do not move{others}. Ask the network for Router Advertisements with a prefix for \
         hosts (A flag)."
    )
}

fn passed_over(interface: &str) -> String {
    format!(
        "{interface}: this host makes temporary addresses (use_tempaddr), and new connections take the address of Moorline in place of them, \
         which stays the same. For addresses of Moorline that are temporary, too, set temporary = true; to keep the address as it is, \
         set temporary = false."
    )
}

fn given_up(interface: &str, prefix: [u8; 8]) -> String {
    format!(
        "{interface}: {GIVEN_UP} in {}: find the one that answers \
         for addresses that are not its own, then restart moorlined",
        as_prefix(prefix)
    )
}

fn not_in_set(interface: &str, prefix: [u8; 8], rule: &Rule) -> String {
    format!(
        "{interface}: {} is not in the HBA set \"{}\", which cannot be added to: connections do not \
         move there. Set addresses = \"hba-compatible\".",
        as_prefix(prefix),
        rule.set
    )
}
