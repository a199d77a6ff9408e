use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_cga::{GenerateError, LocalAddresses, PublicKey};
use moorline_types::{Instant, Locator, Prefix};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::advertised::AdvertisedPrefix;
use crate::group::{Group, Member};
use crate::policy::{AddressMode, AddressPolicy, Rule};
use crate::prefixes::{self, Until};
use crate::temporary::is_too_late;
use crate::view::{AddressFlags, HostView, Lifetimes, Uplink, UplinkAddress};

/// Decides which addresses the host should have. Pure: views of the host and what routers say go in,
/// wanted changes come out.
#[derive(Clone, Debug)]
pub struct Planner {
    policy: AddressPolicy,
    /// By name.
    keys: BTreeMap<String, PublicKey>,
    groups: Vec<Group>,
    /// Until when a group waits for more prefixes before it makes its set.
    gathering: BTreeMap<Rule, Instant>,
    /// When a set is to be made, as of the last plan.
    due: Option<Instant>,
    /// No temporary set of a group takes the place of another sooner.
    next_set: BTreeMap<Rule, Instant>,
    /// Interfaces whose own temporary addresses come second, and that people have been told of.
    told_stable: BTreeSet<u32>,
    /// Interfaces whose routers have been asked in this run, and when.
    asked: BTreeMap<u32, Instant>,
    /// Prefixes that the kernel has believed routers in this run.
    learned: BTreeSet<(u32, [u8; 8])>,
    /// Prefixes that have held in this run, whoever said so.
    known: BTreeSet<(u32, [u8; 8])>,
    /// Addresses that were put on an interface: one that a person takes away stays away.
    placed: BTreeSet<(u32, Ipv6Addr)>,
    /// Lifetimes that the kernel was told.
    told: BTreeMap<(u32, Ipv6Addr), Until>,
    /// What someone should look at, as of the last plan.
    warnings: Vec<String>,
    /// Uplinks without a prefix to make addresses in, as of the last plan.
    bare: BTreeSet<u32>,
    /// Addresses that should be on an interface and that somebody has removed, as of the last plan.
    taken_away: Vec<(String, Ipv6Addr)>,
    /// Whether [`HostView::in_use`] has all addresses that contexts and sessions use: not before the contexts of the last run are back.
    is_restored: bool,
    random: ChaCha20Rng,
}

/// What the host was like.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The view of the host.
    pub view: &'a HostView,
    /// When the view was taken: lifetimes in it count from then.
    pub at: Instant,
    /// The prefixes that routers advertise.
    pub advertised: &'a [AdvertisedPrefix],
}

/// What is to be done now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub actions: Vec<Action>,
    /// Parameters are new: they have to be on disk before their addresses are on an interface.
    pub is_changed: bool,
    /// What happened, for people.
    pub notes: Vec<Note>,
    /// Addresses of others that new connections take only if they ask for them: ours in the same prefix, on the
    /// same interface, are for new traffic.
    pub outranked: BTreeSet<(u32, Ipv6Addr)>,
}

/// A change to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask routers for their prefixes: what they said before this run is not known.
    Solicit {
        /// Index of the interface.
        ifindex: u32,
    },
    /// Put an address there, with an infinite valid lifetime until its lifetimes are set. The address is deprecated with its prefix, even if
    /// nobody sets them.
    Add {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
        /// Preferred lifetime, seconds.
        preferred: u32,
    },
    /// Change how long an address lasts.
    SetLifetimes {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
        /// From now on.
        lifetimes: Lifetimes,
    },
    /// Take an address away.
    Remove {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
    },
}

/// Something that happened to our addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// All is well.
    News(String),
    /// Another host has our address.
    Duplicate {
        /// What happened, without the address.
        text: String,
        /// The address.
        address: Ipv6Addr,
    },
}

/// An address that an interface should have.
struct Wanted<'a> {
    interface: &'a Uplink,
    address: Locator,
    until: Until,
    /// Whether it is for new traffic; else it stays for contexts that use it.
    is_current: bool,
    /// Whether it is of no use any more if it is not there: RFC 8981 s3.4 makes no temporary address in a prefix that is about to be deprecated.
    is_too_late: bool,
}

/// A prefix on an interface, and whose it is.
struct Place<'a> {
    interface: &'a Uplink,
    prefix: [u8; 8],
    until: Until,
    rule: Rule,
}

impl Planner {
    /// `groups` are those of the last run. `seed`: random octets, never used before.
    #[must_use]
    pub fn new(
        policy: AddressPolicy,
        keys: BTreeMap<String, PublicKey>,
        groups: Vec<Group>,
        seed: [u8; 32],
    ) -> Self {
        Self {
            policy,
            keys,
            groups,
            gathering: BTreeMap::new(),
            due: None,
            next_set: BTreeMap::new(),
            told_stable: BTreeSet::new(),
            asked: BTreeMap::new(),
            learned: BTreeSet::new(),
            known: BTreeSet::new(),
            placed: BTreeSet::new(),
            told: BTreeMap::new(),
            warnings: Vec::new(),
            bare: BTreeSet::new(),
            taken_away: Vec::new(),
            is_restored: false,
            random: ChaCha20Rng::from_seed(seed),
        }
    }

    /// Works out what has to change. Asks for the same again until it is seen to be done, or
    /// [`Planner::on_done`] says so.
    pub fn plan(&mut self, seen: &Seen<'_>, now: Instant) -> Plan {
        let view = seen.view;
        let mut plan = Plan::default();
        self.due = None;
        self.warnings.clear();
        self.taken_away.clear();
        let bare = self.bare_with_ours(view);
        self.forget_interfaces(view, &bare);
        let ranked = ranked(view);
        let interfaces: Vec<_> = ranked.iter().copied().chain(bare).collect();
        self.ask_routers(&interfaces, &mut plan);
        self.drop_duplicates(&interfaces, &mut plan);
        let places = self.places(&interfaces, seen, now);
        self.make_groups(&places);
        self.retire_sets(view, now, &mut plan);
        self.make_sets(view, &ranked, &places, now, &mut plan);
        self.make_cgas(view, &places, &mut plan);
        let wanted = self.wanted(view, &places, now);
        self.warn_of_bare(view, &places);
        for one in &wanted {
            self.bring_about(one, seen.at, now, &mut plan.actions);
        }
        self.phase_out(&interfaces, &wanted, seen.at, now, &mut plan.actions);
        let heard = seen.advertised.iter().filter(|one| one.accepted && one.autonomous);
        self.learned.extend(heard.map(|one| (one.ifindex, prefixes::octets_of(one.prefix))));
        self.known.extend(places.iter().map(|one| (one.interface.ifindex, one.prefix)));
        plan.outranked = self.outranked(&ranked);
        self.tell_of_stable(&ranked, &mut plan);
        plan
    }

    /// An action was carried out.
    pub fn on_done(&mut self, action: &Action, now: Instant) {
        match *action {
            Action::Solicit { ifindex } => {
                self.asked.insert(ifindex, now);
                // The next plan takes the end from what a run before has left, if routers have said nothing by then.
                be_due_at(&mut self.due, now + ANSWERS);
            }
            Action::Add { ifindex, address, preferred } => {
                self.placed.insert((ifindex, address));
                let lifetimes = Lifetimes { preferred, valid: u32::MAX };
                self.told.insert((ifindex, address), Until::of(lifetimes, now));
            }
            Action::SetLifetimes { ifindex, address, lifetimes } => {
                self.told.insert((ifindex, address), Until::of(lifetimes, now));
            }
            Action::Remove { ifindex, address } => {
                self.placed.remove(&(ifindex, address));
                self.told.remove(&(ifindex, address));
            }
        }
    }

    /// When the next plan is due: for a set that waits for more prefixes, for another trial, or since routers have been asked for long
    /// enough. Changes with each plan.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// The policy that it was made with.
    #[must_use]
    pub fn policy(&self) -> &AddressPolicy {
        &self.policy
    }

    /// The parameters of all addresses, for the next run to go on with.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// What someone should look at, as of the last plan.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Addresses that should be on an interface and that somebody has removed, as of the last plan, each with the name
    /// of its interface.
    #[must_use]
    pub fn taken_away(&self) -> &[(String, Ipv6Addr)] {
        &self.taken_away
    }

    /// The contexts of the run before are back, or given up: from now on [`HostView::in_use`] has all ULIDs.
    pub fn on_restored(&mut self) {
        self.is_restored = true;
    }

    /// What is left of the lifetimes of an address in a view taken at this time.
    #[must_use]
    pub fn left(
        &self,
        ifindex: u32,
        own: &UplinkAddress,
        at_view: Instant,
        now: Instant,
    ) -> Lifetimes {
        self.told_of(ifindex, own, at_view).left(now)
    }

    /// What is known of an address; `None` if it is none of ours.
    #[must_use]
    pub fn member(&self, address: Ipv6Addr) -> Option<Member<'_>> {
        self.groups.iter().find_map(|group| group.member(Locator(address)))
    }

    /// What peers may be told of: our addresses that are in use, and what is on interfaces where we make
    /// none or can make none; those for new traffic first.
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

    fn is_announced_as_it_is(&self, interface: &Uplink, own: &UplinkAddress) -> bool {
        let rule = self.policy.rule(&interface.name, Locator(own.address).prefix());
        let is_lasting = !own.flags.contains(AddressFlags::TEMPORARY);
        let is_alone =
            self.bare.contains(&interface.ifindex) && interface.has_neighbors && !rule.temporary;
        (rule.mode == AddressMode::Off || is_alone) && own.preferred && is_lasting
    }

    /// Interfaces that lack nothing but a default route and have addresses of ours: connections on the link use these.
    fn bare_with_ours<'a>(&self, view: &'a HostView) -> Vec<&'a Uplink> {
        let is_ours = |own: &UplinkAddress| self.member(own.address).is_some();
        view.bare.iter().filter(|link| link.addresses.iter().any(is_ours)).collect()
    }

    /// Addresses of an interface that went away were removed by no person.
    fn forget_interfaces(&mut self, view: &HostView, bare: &[&Uplink]) {
        let there = view.uplinks.iter().chain(&view.candidates).chain(bare.iter().copied());
        let there: BTreeSet<_> = there.map(|one| one.ifindex).collect();
        let is_there = |ifindex: u32| there.contains(&ifindex);
        self.asked.retain(|ifindex, _| is_there(*ifindex));
        self.placed.retain(|(ifindex, _)| is_there(*ifindex));
        self.told.retain(|(ifindex, _), _| is_there(*ifindex));
        self.learned.retain(|(ifindex, _)| is_there(*ifindex));
        self.known.retain(|(ifindex, _)| is_there(*ifindex));
    }

    /// Interfaces were down for a moment that no view may show: the kernel has taken their addresses, not a person.
    pub fn on_interfaces_down(&mut self, down: &BTreeSet<u32>) {
        self.placed.retain(|(ifindex, _)| !down.contains(ifindex));
        self.asked.retain(|ifindex, _| !down.contains(ifindex));
    }

    fn ask_routers(&self, interfaces: &[&Uplink], plan: &mut Plan) {
        for interface in interfaces {
            let ifindex = interface.ifindex;
            if self.policy.is_managed(&interface.name) && !self.asked.contains_key(&ifindex) {
                plan.actions.push(Action::Solicit { ifindex });
            }
        }
    }

    /// An address comes after ours only if ours could be used in its place: same interface, same prefix, for new traffic.
    fn outranked(&self, interfaces: &[&Uplink]) -> BTreeSet<(u32, Ipv6Addr)> {
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

    /// An address that somebody else has goes, and another takes its place.
    fn drop_duplicates(&mut self, interfaces: &[&Uplink], plan: &mut Plan) {
        for interface in interfaces {
            for own in interface.addresses.iter().filter(|own| is_duplicate(own)) {
                let Some(group) =
                    self.groups.iter_mut().find(|g| g.member(Locator(own.address)).is_some())
                else {
                    continue;
                };
                let (ifindex, address) = (interface.ifindex, own.address);
                plan.actions.push(Action::Remove { ifindex, address });
                // One that was replaced before is only removed.
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

    /// Every prefix of every interface. One that several interfaces have is of the interface where our address is, if routers there go on with it:
    /// anybody on another link can advertise the prefix there. Else the prefix is of the first.
    fn places<'a>(
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

    fn wanted<'a>(
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
            // A context moves to the other addresses of its set, so all of them last as long as it uses one.
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

    /// Uplinks in whose networks there is no prefix to make addresses in.
    fn warn_of_bare(&mut self, view: &HostView, places: &[Place<'_>]) {
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

    /// Adds an address that is not there. Its lifetimes are set once it is known to be no duplicate:
    /// the kernel removes a duplicate with a finite valid lifetime, and nobody would know why.
    fn bring_about(
        &mut self,
        wanted: &Wanted<'_>,
        at_view: Instant,
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let (ifindex, address) = (wanted.interface.ifindex, wanted.address.0);
        let at = (ifindex, address);
        let own = wanted.interface.addresses.iter().find(|own| own.address == address);
        match own {
            // It has ended, or is about to, with its prefix.
            None if wanted.until.valid.is_some_and(|until| until <= now + GRACE) => {}
            None if wanted.is_too_late => {}
            None => {
                let told = self.told.get(&at).copied().unwrap_or(Until::FOREVER);
                let has_ended = told.valid.is_some_and(|until| until <= now + GRACE);
                if !self.placed.contains(&at) || has_ended {
                    let preferred = wanted.until.left(now).preferred;
                    actions.push(Action::Add { ifindex, address, preferred });
                } else {
                    // Its lifetimes have ended now, and do not end later.
                    self.told.remove(&at);
                    self.taken_away.push((wanted.interface.name.clone(), address));
                }
            }
            Some(own) if own.flags.contains(AddressFlags::TENTATIVE) || is_duplicate(own) => {}
            Some(own) => {
                let told = self.told_of(ifindex, own, at_view);
                // When its lifetimes, which a run before may have set, have ended, no person has removed it.
                self.told.insert(at, told);
                self.placed.insert(at);
                if told.differs(wanted.until, now) {
                    let lifetimes = wanted.until.left(now);
                    actions.push(Action::SetLifetimes { ifindex, address, lifetimes });
                }
            }
        }
    }

    /// Addresses of ours that are not wanted any more: gone if routers have taken the prefix back or a person the
    /// address that gave it, and not for new traffic if another address has taken their place. What a crashed run has left is the
    /// kernel's to remove when its lifetimes end, or in two hours, unless routers tell of its prefix again.
    fn phase_out(
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
                    // Its lifetimes may not have been set yet, and it does not outlast its prefix.
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

    /// Until when an address of ours is used, whatever its prefix; `None`: its time is over.
    fn lasts(&self, address: Ipv6Addr, now: Instant) -> Option<Until> {
        let of = self.groups.iter().find(|group| group.member(Locator(address)).is_some());
        of.and_then(|group| group.until(Locator(address), now))
    }

    /// Says of the host's own temporary addresses, once, that new connections take an address of ours in place of them that stays the same.
    fn tell_of_stable(&mut self, interfaces: &[&Uplink], plan: &mut Plan) {
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

    /// Until when an address lasts, as far as the kernel was told, or as it had it in the view.
    fn told_of(&self, ifindex: u32, own: &UplinkAddress, at_view: Instant) -> Until {
        let told = self.told.get(&(ifindex, own.address)).copied();
        told.unwrap_or_else(|| Until::of(own.lifetimes, at_view))
    }

    /// Whether the routers of an interface were asked long enough ago to have told of all their prefixes.
    fn nobody_tells_of_more(&mut self, ifindex: u32, now: Instant) -> bool {
        let Some(asked) = self.asked.get(&ifindex) else { return false };
        let until = *asked + ANSWERS;
        if now < until {
            be_due_at(&mut self.due, until);
        }
        now >= until
    }
}

fn be_due_at(due: &mut Option<Instant>, at: Instant) {
    *due = Some(due.map_or(at, |due| due.min(at)));
}

/// The interfaces that are uplinks or only lack an address, the kernel's choice first.
fn ranked(view: &HostView) -> Vec<&Uplink> {
    let mut all: Vec<&Uplink> = view.uplinks.iter().chain(&view.candidates).collect();
    all.sort_by_key(|one| {
        (one.default_routes.first().map_or(u32::MAX, |route| route.metric), one.ifindex)
    });
    all
}

/// Until when an address lasts whose place another one has taken: not for new traffic once the other is.
fn replaced(interface: &Uplink, by: Option<Locator>, lasts: Until, now: Instant) -> Until {
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

fn is_duplicate(own: &UplinkAddress) -> bool {
    own.flags.contains(AddressFlags::DAD_FAILED)
}

fn as_prefix(octets: [u8; 8]) -> Prefix {
    Prefix::new(Ipv6Addr::from_bits(u128::from(u64::from_be_bytes(octets)) << 64), 64)
}

fn no_prefix(interface: &str, is_signed: bool) -> String {
    let others = if is_signed { "; those of other uplinks can move to it" } else { "" };
    format!(
        "{interface}: there is no prefix of 64 bits to make addresses in (single addresses from \
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
        "{interface}: another host has had three addresses of ours in {}: find the one that answers \
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

/// By then routers have answered, if they are there.
const ANSWERS: Duration = Duration::from_secs(15);
/// How long what a crashed run has left lasts at most, if nobody tells of its prefix: as long as RFC 4862 s5.5.3 keeps an
/// address whose router takes the prefix back.
const LEFT: Duration = Duration::from_secs(2 * 60 * 60);
/// Until parameters that could not be made or written are tried again, and until a temporary set has another after it.
pub const RETRY: Duration = Duration::from_secs(10);
/// An address that is gone so shortly before its end was not taken away by a person.
const GRACE: Duration = Duration::from_secs(5);

mod sets;
#[cfg(test)]
mod tests;
