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

/// Decides which addresses the host should have. The planner is pure: its inputs are views of the host and prefixes
/// of routers, and its output is a list of changes.
#[derive(Clone, Debug)]
pub struct Planner {
    policy: AddressPolicy,
    /// Keys by name.
    keys: BTreeMap<String, PublicKey>,
    groups: Vec<Group>,
    /// Time until which a group waits for more prefixes before it makes its set.
    gathering: BTreeMap<Rule, Instant>,
    /// Time when a set is to be made, by the last plan.
    due: Option<Instant>,
    /// Time before which no temporary set of a group replaces another.
    next_set: BTreeMap<Rule, Instant>,
    /// Interfaces whose own temporary addresses come second. People have been told about these interfaces.
    told_stable: BTreeSet<u32>,
    /// Interfaces whose routers have been asked in this run, and the times.
    asked: BTreeMap<u32, Instant>,
    /// Prefixes that the kernel has accepted from routers in this run.
    learned: BTreeSet<(u32, [u8; 8])>,
    /// Prefixes that have been valid in this run, from any source.
    known: BTreeSet<(u32, [u8; 8])>,
    /// Addresses that were put on an interface. If a person removes one of these, the planner does not add it again.
    placed: BTreeSet<(u32, Ipv6Addr)>,
    /// Lifetimes that the kernel was told.
    told: BTreeMap<(u32, Ipv6Addr), Until>,
    /// Addresses of ours that were tentative in the last plan, each with the time of the first such plan.
    tentative: BTreeMap<(u32, Ipv6Addr), Instant>,
    /// Warnings for people, by the last plan.
    warnings: Vec<String>,
    /// Uplinks without a prefix for addresses, by the last plan.
    bare: BTreeSet<u32>,
    /// Addresses that somebody has removed from an interface that should have them, by the last plan.
    taken_away: Vec<(String, Ipv6Addr)>,
    /// Whether [`HostView::in_use`] has all addresses that contexts and sessions use. It has not before the contexts
    /// of the last run are back.
    is_restored: bool,
    random: ChaCha20Rng,
}

/// The state of the host at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The view of the host.
    pub view: &'a HostView,
    /// Time of the view: its lifetimes count from then.
    pub at: Instant,
    /// The prefixes that routers advertise.
    pub advertised: &'a [AdvertisedPrefix],
}

/// Actions and messages that are due now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Actions in their order.
    pub actions: Vec<Action>,
    /// Whether parameters are new: they have to be on disk before their addresses are on an interface.
    pub is_changed: bool,
    /// Messages for people.
    pub notes: Vec<Note>,
    /// Addresses of others that new connections take only on request: new traffic takes our addresses in the same
    /// prefix on the same interface.
    pub outranked: BTreeSet<(u32, Ipv6Addr)>,
}

/// A change to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask routers for their prefixes, because their advertisements before this run are not known.
    Solicit {
        /// Index of the interface.
        ifindex: u32,
    },
    /// Add an address, with an infinite valid lifetime until its lifetimes are set. Its preferred lifetime ends with
    /// its prefix even if nobody sets its lifetimes.
    Add {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
        /// Preferred lifetime, seconds.
        preferred: u32,
    },
    /// Change the lifetimes of an address.
    SetLifetimes {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
        /// The lifetimes from now on.
        lifetimes: Lifetimes,
    },
    /// Remove an address.
    Remove {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
    },
}

/// A message about our addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// News without a problem.
    News(String),
    /// Another host has our address.
    Duplicate {
        /// The text, without the address.
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
    /// Whether the address is for new traffic. Otherwise it stays for contexts that use it.
    is_current: bool,
    /// Whether the address is not worth adding any more: RFC 8981 s3.4 makes no temporary address in a prefix that is
    /// about to be deprecated.
    is_too_late: bool,
}

/// A prefix on an interface, and the rule for it.
struct Place<'a> {
    interface: &'a Uplink,
    prefix: [u8; 8],
    until: Until,
    rule: Rule,
}

impl Planner {
    /// Makes a planner with the groups of the last run. `seed` has random octets that were never used before.
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
            tentative: BTreeMap::new(),
            warnings: Vec::new(),
            bare: BTreeSet::new(),
            taken_away: Vec::new(),
            is_restored: false,
            random: ChaCha20Rng::from_seed(seed),
        }
    }

    /// Works out the changes that are due. A change appears in each plan until a view shows it, or
    /// [`Planner::on_done`] reports it.
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

    /// Notes that an action was executed.
    pub fn on_done(&mut self, action: &Action, now: Instant) {
        match *action {
            Action::Solicit { ifindex } => {
                self.asked.insert(ifindex, now);
                // If routers have not answered by then, the next plan limits the lifetimes of addresses that a run
                // before has left.
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
                self.tentative.remove(&(ifindex, address));
            }
        }
    }

    /// Time when the next plan is due: for a set that waits for more prefixes, for another try, or because routers
    /// have had time to answer. Each plan changes it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// The policy of the planner.
    #[must_use]
    pub fn policy(&self) -> &AddressPolicy {
        &self.policy
    }

    /// The parameters of all addresses, for the next run.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Warnings for people, by the last plan.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Addresses that somebody has removed from an interface that should have them, each with the name of the
    /// interface, by the last plan.
    #[must_use]
    pub fn taken_away(&self) -> &[(String, Ipv6Addr)] {
        &self.taken_away
    }

    /// Notes that the contexts of the run before are back, or given up: from now on [`HostView::in_use`] has all
    /// ULIDs.
    pub fn on_restored(&mut self) {
        self.is_restored = true;
    }

    /// The remaining lifetimes of an address in a view that was taken at this time.
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

    /// Facts about an address; `None` if the address is not ours.
    #[must_use]
    pub fn member(&self, address: Ipv6Addr) -> Option<Member<'_>> {
        self.groups.iter().find_map(|group| group.member(Locator(address)))
    }

    /// Interfaces that lack only a default route and have addresses of ours: connections on the link use these
    /// addresses.
    fn bare_with_ours<'a>(&self, view: &'a HostView) -> Vec<&'a Uplink> {
        let is_ours = |own: &UplinkAddress| self.member(own.address).is_some();
        view.bare.iter().filter(|link| link.addresses.iter().any(is_ours)).collect()
    }

    /// Forgets interfaces that are gone: their addresses have gone with them, and no person has removed them.
    fn forget_interfaces(&mut self, view: &HostView, bare: &[&Uplink]) {
        let there = view.uplinks.iter().chain(&view.candidates).chain(bare.iter().copied());
        let there: BTreeSet<_> = there.map(|one| one.ifindex).collect();
        let is_there = |ifindex: u32| there.contains(&ifindex);
        self.asked.retain(|ifindex, _| is_there(*ifindex));
        self.placed.retain(|(ifindex, _)| is_there(*ifindex));
        self.told.retain(|(ifindex, _), _| is_there(*ifindex));
        self.tentative.retain(|(ifindex, _), _| is_there(*ifindex));
        self.learned.retain(|(ifindex, _)| is_there(*ifindex));
        self.known.retain(|(ifindex, _)| is_there(*ifindex));
    }

    /// Notes that interfaces were down, perhaps so briefly that no view shows it: the kernel has removed their
    /// addresses, not a person.
    pub fn on_interfaces_down(&mut self, down: &BTreeSet<u32>) {
        self.placed.retain(|(ifindex, _)| !down.contains(ifindex));
        self.asked.retain(|ifindex, _| !down.contains(ifindex));
        self.tentative.retain(|(ifindex, _), _| !down.contains(ifindex));
    }

    fn ask_routers(&self, interfaces: &[&Uplink], plan: &mut Plan) {
        for interface in interfaces {
            let ifindex = interface.ifindex;
            if self.policy.is_managed(&interface.name) && !self.asked.contains_key(&ifindex) {
                plan.actions.push(Action::Solicit { ifindex });
            }
        }
    }

    /// The ends of an address that the kernel was told, or else those in the view.
    fn told_of(&self, ifindex: u32, own: &UplinkAddress, at_view: Instant) -> Until {
        let told = self.told.get(&(ifindex, own.address)).copied();
        told.unwrap_or_else(|| Until::of(own.lifetimes, at_view))
    }
}

fn be_due_at(due: &mut Option<Instant>, at: Instant) {
    *due = Some(due.map_or(at, |due| due.min(at)));
}

/// The uplinks and the interfaces that only lack an address, the kernel's choice first.
fn ranked(view: &HostView) -> Vec<&Uplink> {
    let mut all: Vec<&Uplink> = view.uplinks.iter().chain(&view.candidates).collect();
    all.sort_by_key(|one| {
        (one.default_routes.first().map_or(u32::MAX, |route| route.metric), one.ifindex)
    });
    all
}

fn is_duplicate(own: &UplinkAddress) -> bool {
    own.flags.contains(AddressFlags::DAD_FAILED)
}

/// Time in which routers have answered, if they exist.
const ANSWERS: Duration = Duration::from_secs(15);
/// Time after which failed parameters are made or written again, and smallest time between two temporary sets of a
/// group.
pub const RETRY: Duration = Duration::from_secs(10);

mod announced;
mod lifetimes;
mod sets;
#[cfg(test)]
mod tests;
mod wanted;

pub use wanted::{GIVEN_UP, NO_PREFIX};
