//! The addresses that peers are told.

use super::*;
use crate::group::Kind;

impl Planner {
    /// The addresses that peers may be told: our addresses in use, and the addresses on interfaces where we make none
    /// or can make none. Addresses for new traffic come first, by turns of the interfaces, of each interface the oldest
    /// first. Any node on a link can advertise prefixes, and a message has room for a limited number of addresses.
    #[must_use]
    pub fn announced(&self, view: &HostView) -> LocalAddresses {
        let mut found: Vec<(bool, usize, Locator)> = Vec::new();
        for interface in ranked(view) {
            let mut turns = [0; 2];
            for own in self.oldest_first(interface) {
                let address = Locator(own.address);
                let is_current = match self.member(own.address) {
                    _ if found.iter().any(|(.., known)| *known == address) => continue,
                    Some(member) => own.preferred && !member.is_former,
                    None if self.is_announced_as_it_is(interface, own) => true,
                    None => continue,
                };
                let turn = &mut turns[usize::from(is_current)];
                found.push((!is_current, *turn, address));
                *turn += 1;
            }
        }
        found.sort_by_key(|&(is_last, turn, _)| (is_last, turn));
        let present = found.into_iter().map(|(.., address)| address).collect();
        let sets = |group: &Group| group.sets.iter().map(|one| one.set.clone()).collect::<Vec<_>>();
        let temporary = self.groups.iter().filter(|group| group.rule.temporary);
        LocalAddresses {
            present,
            sets: self.groups.iter().flat_map(sets).collect(),
            cgas: self.groups.iter().flat_map(Group::all_cgas).collect(),
            temporary: temporary
                .flat_map(|group| &group.sets)
                .flat_map(|one| one.set.locators().iter().map(|locator| (*locator, one.added)))
                .collect(),
        }
    }

    /// The addresses of an interface that can be used: those in the prefix that the interface has had for the longest time
    /// come first. Members of a set come before CGAs: a set is of the prefixes that were there first, and never gets another
    /// one.
    fn oldest_first<'a>(&self, interface: &'a Uplink) -> Vec<&'a UplinkAddress> {
        let since = interface.prefixes_since();
        let usable = interface.addresses.iter().filter(|own| own.flags.is_usable());
        let mut all: Vec<_> = usable.collect();
        all.sort_by_cached_key(|own| {
            let is_later = self.member(own.address).is_some_and(|one| one.kind == Kind::Cga);
            (is_later, since.get(&Locator(own.address).prefix()).copied())
        });
        all
    }

    pub(super) fn is_announced_as_it_is(&self, interface: &Uplink, own: &UplinkAddress) -> bool {
        let rule = self.policy.rule(&interface.name, Locator(own.address).prefix());
        let is_lasting = !own.flags.contains(AddressFlags::TEMPORARY);
        let is_alone =
            self.bare.contains(&interface.ifindex) && interface.has_neighbors && !rule.temporary;
        (rule.mode == AddressMode::Off || is_alone) && own.preferred && is_lasting
    }
}
