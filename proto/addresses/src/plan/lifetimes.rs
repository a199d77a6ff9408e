//! Lifetimes of our addresses: of those that should exist, and of those that should not.

use super::*;

impl Planner {
    /// Adds an address that is missing. Its lifetimes are set once it is known to be no duplicate: the kernel removes
    /// a duplicate with a finite valid lifetime, and the reason would be lost.
    pub(super) fn bring_about(
        &mut self,
        wanted: &Wanted<'_>,
        at_view: Instant,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let (ifindex, address) = (wanted.interface.ifindex, wanted.address.0);
        let at = (ifindex, address);
        let own = wanted.interface.addresses.iter().find(|own| own.address == address);
        if own.is_none() {
            self.tentative.remove(&at);
        }
        match own {
            // The address has ended with its prefix, or is about to.
            None if wanted.until.valid.is_some_and(|until| until <= now + GRACE) => {}
            None if wanted.is_too_late => {}
            None => {
                let told = self.told.get(&at).copied().unwrap_or(Until::FOREVER);
                let has_ended = told.valid.is_some_and(|until| until <= now + GRACE);
                if !self.placed.contains(&at) || has_ended {
                    let preferred = wanted.until.left(now).preferred;
                    actions.push(Action::Add { ifindex, address, preferred });
                } else {
                    // The lifetimes of a removed address have ended, and nothing ends them later.
                    self.told.remove(&at);
                    self.taken_away.push((wanted.interface.name.clone(), address));
                }
            }
            Some(own) if is_duplicate(own) => {}
            Some(own) if own.flags.contains(AddressFlags::TENTATIVE) => {
                if self.is_stuck(wanted.interface, address, now) {
                    actions.push(Action::Remove { ifindex, address });
                }
            }
            Some(own) => {
                self.tentative.remove(&at);
                let told = self.told_of(ifindex, own, at_view);
                // If the address ends by lifetimes of a run before, no person has removed it.
                self.told.insert(at, told);
                self.placed.insert(at);
                if told.differs(wanted.until, now) {
                    let lifetimes = wanted.until.left(now);
                    actions.push(Action::SetLifetimes { ifindex, address, lifetimes });
                }
            }
        }
    }

    /// Whether the kernel has let an address of ours be tentative for so long that it will never detect duplicates. So it
    /// does after an address that it kept on a link that was down has got a finite lifetime there.
    fn is_stuck(&mut self, interface: &Uplink, address: Ipv6Addr, now: Instant) -> bool {
        let at = (interface.ifindex, address);
        if !interface.carrier {
            self.tentative.remove(&at);
            return false;
        }
        let until = *self.tentative.entry(at).or_insert(now) + DETECTED;
        if now < until {
            be_due_at(&mut self.due, until);
            return false;
        }
        self.tentative.remove(&at);
        true
    }

    /// Ends our addresses that are not wanted any more. If routers have withdrawn the prefix, or a person has removed
    /// the address that gave it, the address is removed. If another address has replaced it, the address is not for
    /// new traffic. The kernel removes the addresses of a crashed run at their end, or in two hours, unless routers
    /// advertise their prefix again.
    pub(super) fn phase_out(
        &mut self,
        interfaces: &[&Uplink],
        wanted: &[Wanted<'_>],
        at_view: Instant,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        for interface in interfaces {
            let ifindex = interface.ifindex;
            for own in &interface.addresses {
                let address = own.address;
                let here = || wanted.iter().filter(|one| one.interface.ifindex == ifindex);
                let is_wanted = here().any(|one| one.address.0 == address);
                if is_wanted || is_duplicate(own) || self.member(address).is_none() {
                    continue;
                }
                let prefix = Locator(address).prefix();
                let told = self.told_of(ifindex, own, at_view);
                let over = Until { preferred: Some(now), valid: told.valid };
                let is_in_place =
                    |one: &&Wanted<'_>| one.is_current && one.address.prefix() == prefix;
                let until = if let Some(other) = here().find(is_in_place) {
                    let Some(lasts) = self.lasts(address, now) else {
                        actions.push(Action::Remove { ifindex, address });
                        continue;
                    };
                    // The lifetimes of the address may not be set yet, and the address must not outlast its prefix.
                    let lasts = told.or_sooner(lasts).or_sooner(other.until);
                    replaced(interface, Some(other.address), lasts, now)
                } else if self.known.contains(&(ifindex, prefix)) {
                    actions.push(Action::Remove { ifindex, address });
                    continue;
                } else if told.valid.is_none_or(|until| until > now + LEFT)
                    && self.nobody_tells_of_more(ifindex, now)
                {
                    Until { valid: Some(now + LEFT), ..over }
                } else {
                    continue;
                };
                if told.differs(until, now) {
                    let lifetimes = until.left(now);
                    actions.push(Action::SetLifetimes { ifindex, address, lifetimes });
                }
            }
        }
    }

    /// The ends of an address of ours, whatever its prefix; `None` if its time is over.
    pub(super) fn lasts(&self, address: Ipv6Addr, now: Instant) -> Option<Until> {
        let of = self.groups.iter().find(|group| group.member(Locator(address)).is_some());
        of.and_then(|group| group.until(Locator(address), now))
    }

    /// Whether the routers of an interface were asked long enough ago to have answered with all their prefixes.
    pub(super) fn nobody_tells_of_more(&mut self, ifindex: u32, now: Instant) -> bool {
        let Some(asked) = self.asked.get(&ifindex) else { return false };
        let until = *asked + ANSWERS;
        if now < until {
            be_due_at(&mut self.due, until);
        }
        now >= until
    }
}

/// The ends of a replaced address: it is not for new traffic once the other address is.
pub(super) fn replaced(
    interface: &Uplink,
    by: Option<Locator>,
    lasts: Until,
    now: Instant,
) -> Until {
    let is_for_new = |own: &UplinkAddress| {
        own.preferred
            && Some(Locator(own.address)) == by
            && !own.flags.contains(AddressFlags::TENTATIVE)
    };
    match interface.addresses.iter().any(is_for_new) {
        true => Until { preferred: Some(now), ..lasts },
        false => lasts,
    }
}

/// Longest time for which addresses of a crashed run stay if nobody advertises their prefix: as long as RFC 4862
/// s5.5.3 keeps an address whose router withdraws the prefix.
const LEFT: Duration = Duration::from_secs(2 * 60 * 60);
/// Time in which the kernel has detected duplicates, on a link that works: usually 1 to 2 s (RFC 4862 s5.4).
pub(super) const DETECTED: Duration = Duration::from_secs(10);
/// If an address is missing within this time before its end, no person has removed it.
const GRACE: Duration = Duration::from_secs(5);
