//! The addresses that peers are told.

use super::*;

impl Planner {
    /// The addresses that peers may be told: our addresses in use, and the addresses on interfaces where we make none
    /// or can make none. Addresses for new traffic come first.
    #[must_use]
    pub fn announced(&self, view: &HostView) -> LocalAddresses {
        let (mut present, mut deprecated) = (Vec::new(), Vec::new());
        for interface in ranked(view) {
            for own in interface.addresses.iter().filter(|own| own.flags.is_usable()) {
                let address = Locator(own.address);
                let is_taken = present.contains(&address) || deprecated.contains(&address);
                match self.member(own.address) {
                    _ if is_taken => {}
                    Some(member) if own.preferred && !member.is_former => present.push(address),
                    Some(_) => deprecated.push(address),
                    None if self.is_announced_as_it_is(interface, own) => present.push(address),
                    None => {}
                }
            }
        }
        present.append(&mut deprecated);
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

    pub(super) fn is_announced_as_it_is(&self, interface: &Uplink, own: &UplinkAddress) -> bool {
        let rule = self.policy.rule(&interface.name, Locator(own.address).prefix());
        let is_lasting = !own.flags.contains(AddressFlags::TEMPORARY);
        let is_alone =
            self.bare.contains(&interface.ifindex) && interface.has_neighbors && !rule.temporary;
        (rule.mode == AddressMode::Off || is_alone) && own.preferred && is_lasting
    }
}
