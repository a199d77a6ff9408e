use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{
    Action, AddressFlags, AddressMode, AddressPolicy, Addressing, Advertisement, Group, HostView,
    Lifetimes, Origin, Planner, Rule as AddressRule, TemporaryLifetimes,
};
use moorline_cga::{LocalProof, Sec, Signer as _};
use moorline_contexts::{self as shim6, Contexts};
use moorline_host::{Effect, Host};
use moorline_types::{Instant, Locator, Prefix};

use super::kernel::{Ends, Held, Kernel, PUBLIC, address_in};
use super::link::Router;
use crate::addresses::signer_of;
use crate::outcome::{Outcome, Rule, Violation};
use crate::plan::Chance;
use crate::queue::Queue;
use crate::rng::Rng;

/// Plays the random world of this seed.
#[must_use]
pub fn run_addresses(seed: u64) -> Outcome {
    World::new(seed, None).run().0
}

/// The trace of this seed's run, a line for each event.
#[must_use]
pub fn trace_addresses(seed: u64) -> String {
    let (outcome, mut log) = World::new(seed, None).run();
    log.extend(outcome.violations.iter().map(ToString::to_string));
    log.push(String::new());
    log.join("\n")
}

/// A fault that breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The kernel's own addresses go when Moorline adds its own, as Moorline did once.
    RemovesOthers,
    /// Lifetimes are set only once.
    SetsLifetimesOnce,
    /// A new address is for new traffic without end until its lifetimes are set.
    AddsForever,
    /// Temporary addresses are for new traffic as long as they are valid.
    PrefersForLong,
    /// No address replaces a temporary one.
    AddsNoMore,
}

/// An entry of the queue.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A router, a person or a carrier makes a change.
    Change,
    /// A router sends its advertisement; if `again`, it repeats it after its interval.
    Advertise { ifindex: u32, again: bool },
    /// Duplicate address detection ends.
    Detected { ifindex: u32, address: Ipv6Addr, is_duplicate: bool },
    /// The daemon notices a change.
    Notice,
    /// A link comes up again.
    Raise { ifindex: u32 },
    /// The daemon starts.
    Start,
    /// Nothing has happened for a while: everything is in step.
    Look,
}

pub(super) struct World {
    rng: Rng,
    queue: Queue<Event>,
    pub(super) now: Instant,
    pub(super) mode: AddressMode,
    /// Whether Moorline's addresses are temporary.
    pub(super) is_temporary: bool,
    /// Time when each address of Moorline came first.
    pub(super) born: BTreeMap<Ipv6Addr, Instant>,
    /// Time since when there is no room for another temporary set, by the last look.
    pub(super) full_since: Option<Instant>,
    /// Time since when the kernel has known a prefix for new traffic.
    pub(super) since: BTreeMap<(u32, [u8; 8]), Instant>,
    /// The kernel of the host with Moorline, and of the host without.
    pub(super) kernels: [Kernel; 2],
    routers: BTreeMap<u32, Router>,
    /// Moorline's addresses that exist.
    pub(super) ours: BTreeSet<(u32, Ipv6Addr)>,
    /// The daemon's core, if the daemon runs.
    pub(super) daemon: Option<Host>,
    /// Number of effects after which the daemon is killed.
    dies_after: Option<u64>,
    /// Groups on disk.
    saved: Vec<Group>,
    /// Links that were down since the last notice.
    lowered: BTreeSet<u32>,
    is_notice_due: bool,
    /// Time by which all changes have been followed.
    settled_at: Instant,
    /// Prefixes in which a person has removed Moorline's address.
    pub(super) taken: BTreeSet<(u32, [u8; 8])>,
    /// Prefixes in which a person has removed the kernel's address since the link was down. The kernel has forgotten
    /// their ends, and Moorline has not.
    pub(super) hidden: BTreeSet<(u32, [u8; 8])>,
    /// Ends of addresses in a prefix, as the kernel last had them.
    pub(super) ends: BTreeMap<(u32, [u8; 8]), Ends>,
    /// Addresses of Moorline that existed when the daemon started, or when their link came up: their prefixes may
    /// have gone meanwhile.
    pub(super) found: BTreeSet<(u32, Ipv6Addr)>,
    fault: Option<Fault>,
    violations: Vec<Violation>,
    log: Vec<String>,
    advertisements: u64,
}

impl World {
    pub(super) fn new(seed: u64, fault: Option<Fault>) -> Self {
        let mut rng = Rng::new(seed, STREAM);
        let mode = rng.pick(&MODES).unwrap_or(AddressMode::Cga);
        let of_temporary = matches!(fault, Some(Fault::PrefersForLong | Fault::AddsNoMore));
        // The generator is separate, so that all other runs stay as they are.
        let is_temporary =
            of_temporary || Rng::new(seed, STREAM_OF_TEMPORARY).is(Chance::percent(30));
        let kernel = Kernel::new(rng.is(Chance::percent(30)), rng.is(Chance::percent(30)));
        let mut world = Self {
            queue: Queue::new(),
            now: Instant::ZERO,
            mode,
            is_temporary,
            born: BTreeMap::new(),
            full_since: None,
            since: BTreeMap::new(),
            kernels: [kernel.clone(), kernel],
            routers: BTreeMap::new(),
            ours: BTreeSet::new(),
            daemon: None,
            dies_after: None,
            saved: Vec::new(),
            lowered: BTreeSet::new(),
            is_notice_due: false,
            settled_at: Instant::ZERO,
            taken: BTreeSet::new(),
            hidden: BTreeSet::new(),
            ends: BTreeMap::new(),
            found: BTreeSet::new(),
            fault,
            violations: Vec::new(),
            log: Vec::new(),
            advertisements: 0,
            rng,
        };
        for ifindex in 1..=LINKS {
            let router = Router::new(ifindex, &mut world.rng);
            world.routers.insert(ifindex, router);
            world.raise(ifindex);
            let first = world.rng.duration(Duration::from_secs(4));
            world.queue.push(world.now + first, Event::Advertise { ifindex, again: true });
        }
        let start = world.rng.duration(Duration::from_secs(10));
        world.queue.push(world.now + start, Event::Start);
        world.queue.push(world.now + start * 2, Event::Change);
        world
    }

    pub(super) fn run(mut self) -> (Outcome, Vec<String>) {
        let end = Instant::ZERO + LENGTH;
        let mut at_once = 0;
        while self.violations.is_empty() {
            let kernels = self.kernels.iter().filter_map(|kernel| kernel.poll_timeout(self.now));
            let daemon = self.daemon.as_ref();
            let daemon = daemon.and_then(Host::poll_timeout);
            let timer = kernels.chain(daemon).min().unwrap_or(end).max(self.now).min(end);
            let before = self.now;
            match self.queue.pop_until(timer) {
                Some((at, event)) => {
                    self.now = at;
                    self.expire();
                    self.handle(event);
                }
                None if timer == end => break,
                None => {
                    self.now = timer;
                    self.expire();
                    if let Some(host) =
                        self.daemon.as_mut().filter(|_| daemon.is_some_and(|due| due <= timer))
                    {
                        host.handle_timeout(timer);
                        self.execute_all();
                    }
                    self.notice();
                }
            }
            at_once = if self.now == before { at_once + 1 } else { 0 };
            if at_once > AT_ONCE {
                self.violate(Rule::TimersAdvance, format!("{at_once} steps at once"));
            }
            self.compare();
        }
        let outcome = Outcome {
            violations: self.violations,
            packets: self.advertisements,
            duration: self.now.since(Instant::ZERO),
            ..Outcome::default()
        };
        (outcome, self.log)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Change => {
                self.change();
                let pause = self.rng.pick(&PAUSES).unwrap_or(60);
                let pause = self.rng.duration(Duration::from_secs(pause));
                self.queue.push(self.now + pause, Event::Change);
            }
            Event::Advertise { ifindex, again } => self.advertise(ifindex, again),
            Event::Detected { ifindex, address, is_duplicate } => {
                let flags = if is_duplicate { AddressFlags::DAD_FAILED } else { AddressFlags(0) };
                let is_waiting = |held: &Held| held.flags.contains(AddressFlags::TENTATIVE);
                self.kernels[WITH].change(ifindex, address, |held| {
                    if is_waiting(held) {
                        held.flags = flags;
                    }
                });
                self.notice();
            }
            Event::Notice => {
                self.is_notice_due = false;
                let lowered = std::mem::take(&mut self.lowered);
                let (view, now) = (self.kernels[WITH].view(self.now), self.now);
                if let Some(host) = &mut self.daemon {
                    let before = links(host.view());
                    let is_new = |ifindex: &u32| !before.contains(ifindex);
                    let came: BTreeSet<_> = links(&view).into_iter().filter(is_new).collect();
                    let found = self.ours.iter().filter(|(ifindex, _)| came.contains(ifindex));
                    self.found.extend(found);
                    host.handle_interfaces_down(&lowered);
                    host.handle_view(view, now);
                    self.execute_all();
                    if !came.is_empty() {
                        self.unsettle(Duration::from_secs(20));
                    }
                }
            }
            Event::Raise { ifindex } => self.raise(ifindex),
            Event::Start => self.start(),
            Event::Look if self.now >= self.settled_at => self.look(),
            Event::Look => {}
        }
    }

    fn expire(&mut self) {
        self.kernels.iter_mut().for_each(|kernel| kernel.handle_timeout(self.now));
    }

    /// Has the daemon notice the changes in a moment.
    fn notice(&mut self) {
        let there: BTreeSet<_> = self.kernels[WITH].addresses().map(|(at, _)| at).collect();
        self.ours.retain(|at| there.contains(at));
        self.unsettle(Duration::from_secs(1));
        if !std::mem::replace(&mut self.is_notice_due, true) {
            let late = self.rng.duration(Duration::from_millis(20));
            self.queue.push(self.now + late, Event::Notice);
        }
    }

    fn unsettle(&mut self, until: Duration) {
        let at = self.now + until;
        if at > self.settled_at {
            self.settled_at = at;
            self.queue.push(at, Event::Look);
        }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        self.log.push(format!("{:12.3} {}", self.now.since(Instant::ZERO).as_secs_f64(), what()));
    }

    pub(super) fn violate(&mut self, rule: Rule, detail: String) {
        let at = self.now.since(Instant::ZERO);
        self.violations.push(Violation { at, rule, detail });
    }
}

/// The network and people.
impl World {
    fn advertise(&mut self, ifindex: u32, again: bool) {
        let Some(router) = self.routers.get(&ifindex).cloned() else { return };
        if again {
            self.queue.push(self.now + router.interval, Event::Advertise { ifindex, again });
        }
        if router.is_silent || !self.kernels[WITH].is_up(ifindex) {
            return;
        }
        self.advertisements += 1;
        let honors_zero = self.kernels[WITH].honors_zero;
        let mut believed = Vec::new();
        for kernel in &mut self.kernels {
            let prefixes = &router.prefixes;
            believed = kernel.handle_advertisement(ifindex, router.lifetime, prefixes, self.now);
        }
        if let Some(host) = &mut self.daemon {
            let address = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
            let from = Origin::Router { address, lifetime: router.lifetime };
            let all = [(Origin::Kernel, believed), (from, router.prefixes)];
            for (origin, prefixes) in all {
                let said = Advertisement { ifindex, origin, prefixes, honors_zero };
                host.handle_advertisement(&said, self.now);
            }
        }
        self.notice();
    }

    fn raise(&mut self, ifindex: u32) {
        self.kernels.iter_mut().for_each(|kernel| kernel.raise(ifindex));
        self.solicit(ifindex);
    }

    fn solicit(&mut self, ifindex: u32) {
        let late = self.rng.duration(Duration::from_millis(500));
        self.queue.push(self.now + late, Event::Advertise { ifindex, again: false });
        self.unsettle(Duration::from_secs(4));
    }

    fn change(&mut self) {
        let ifindex = 1 + u32::try_from(self.rng.below(LINKS.into())).unwrap_or(0);
        match self.rng.below(12) {
            0..5 => {
                let Some(router) = self.routers.get_mut(&ifindex) else { return };
                let what = router.change(&mut self.rng);
                self.note(|| format!("the router of wan{ifindex} {what}"));
            }
            5 => self.lower(ifindex),
            6 => self.set_by_hand(ifindex),
            7 => self.lease(ifindex),
            8 => self.unset_by_hand(ifindex),
            9 => self.take_ours(ifindex),
            _ => {
                if self.rng.is(Chance::percent(50)) {
                    self.dies_after = Some(self.rng.below(KILLED_WITHIN));
                } else {
                    self.kill();
                }
            }
        }
    }

    fn kill(&mut self) {
        self.dies_after = None;
        if self.daemon.take().is_some() {
            self.note(|| "the daemon is killed".to_owned());
            let pause = self.rng.pick(&PAUSES).unwrap_or(0);
            let pause = self.rng.duration(Duration::from_secs(pause));
            self.queue.push(self.now + pause, Event::Start);
        }
    }

    fn lower(&mut self, ifindex: u32) {
        self.note(|| format!("wan{ifindex} is taken down"));
        self.kernels.iter_mut().for_each(|kernel| kernel.lower(ifindex));
        self.lowered.insert(ifindex);
        self.taken.retain(|(at, _)| *at != ifindex);
        self.hidden.retain(|(at, _)| *at != ifindex);
        let pause = self.rng.pick(&[0, 1, 30, 4000]).unwrap_or(0);
        self.queue.push(self.now + Duration::from_secs(pause), Event::Raise { ifindex });
        self.notice();
    }

    fn set_by_hand(&mut self, ifindex: u32) {
        let Some(prefix) = self.some_prefix(ifindex) else { return };
        let held =
            Held { prefix_len: 64, is_made: false, flags: AddressFlags(0), ends: Ends::NEVER };
        self.set(ifindex, address_in(prefix, BY_HAND), held);
    }

    /// Has a DHCPv6 client get an address, or renew it or not.
    fn lease(&mut self, ifindex: u32) {
        let Some(prefix) = self.some_prefix(ifindex) else { return };
        let ends = Ends::of(Lifetimes { preferred: 1800, valid: 3600 }, self.now);
        let held = Held { prefix_len: 128, is_made: false, flags: AddressFlags(0), ends };
        self.set(ifindex, address_in(prefix, LEASED), held);
    }

    fn set(&mut self, ifindex: u32, address: Ipv6Addr, held: Held) {
        self.note(|| format!("somebody sets {address} on wan{ifindex}"));
        self.kernels.iter_mut().for_each(|kernel| kernel.set(ifindex, address, held));
        self.notice();
    }

    fn unset_by_hand(&mut self, ifindex: u32) {
        let others = self.kernels[WITHOUT].addresses().filter(|((at, _), _)| *at == ifindex);
        let others: Vec<_> = others.map(|((_, address), _)| address).collect();
        let Some(address) = self.rng.pick(&others) else { return };
        self.note(|| format!("somebody removes {address} from wan{ifindex}"));
        self.hidden.insert((ifindex, Locator(address).prefix()));
        for kernel in &mut self.kernels {
            kernel.unset(ifindex, address);
        }
        self.notice();
    }

    fn take_ours(&mut self, ifindex: u32) {
        let ours: Vec<_> = self.ours.iter().filter(|(at, _)| *at == ifindex).copied().collect();
        let Some((_, address)) = self.rng.pick(&ours) else { return };
        self.note(|| format!("somebody removes Moorline's {address} from wan{ifindex}"));
        self.kernels[WITH].unset(ifindex, address);
        self.taken.insert((ifindex, Locator(address).prefix()));
        self.notice();
    }

    fn some_prefix(&mut self, ifindex: u32) -> Option<Prefix> {
        let known: Vec<_> =
            self.routers.get(&ifindex)?.prefixes.iter().map(|one| one.prefix).collect();
        self.rng.pick(&known)
    }
}

/// The daemon.
impl World {
    fn start(&mut self) {
        if self.daemon.is_some() {
            return;
        }
        self.note(|| "the daemon starts".to_owned());
        let name = || "default".to_owned();
        let policy = AddressPolicy {
            sec: Sec::ZERO,
            default: AddressRule {
                mode: self.mode,
                key: name(),
                set: name(),
                temporary: self.is_temporary,
            },
            interfaces: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            is_temporary_said: true,
            lifetimes: LIFETIMES,
        };
        let keys = BTreeMap::from([(name(), signer_of(0).public_key().clone())]);
        // The groups come from disk: prefixes that were given up are tried again.
        let groups = self.saved.iter().cloned().map(|saved| {
            let Group { rule, sec, key, sets, base, cgas, .. } = saved;
            let mut group = Group::new(rule, sec, key);
            (group.sets, group.base, group.cgas) = (sets, base, cgas);
            group
        });
        let groups = groups.collect();
        let planner = Planner::new(policy, keys, groups, self.rng.seed());
        let contexts = Contexts::new(shim6::Config::default(), self.rng.seed(), self.now);
        let addressing = Addressing::new(planner);
        let mut host = Host::new(contexts, None).with_addressing(addressing, LocalProof::default());
        host.handle_restored(BTreeSet::new(), self.now);
        host.handle_view(self.kernels[WITH].view(self.now), self.now);
        self.daemon = Some(host);
        self.taken.clear();
        self.found.clone_from(&self.ours);
        self.unsettle(Duration::from_secs(20));
        self.execute_all();
    }

    fn execute_all(&mut self) {
        while let Some(effect) = self.daemon.as_mut().and_then(|host| host.poll_effect(self.now)) {
            let is_done = !self.is_refused(&effect) && self.execute(&effect);
            let Some(host) = &mut self.daemon else { return };
            if is_done {
                host.handle_done(&effect, self.now);
            } else {
                host.handle_failed(&effect, self.now);
                self.unsettle(Duration::from_secs(90));
            }
            self.dies_after = self.dies_after.map(|left| left.saturating_sub(1));
            if self.dies_after == Some(0) {
                self.kill();
            }
        }
    }

    /// Whether this effect fails: at random the disk is full, or the kernel refuses.
    fn is_refused(&mut self, effect: &Effect) -> bool {
        let can_be = matches!(
            effect,
            Effect::FollowRules
                | Effect::SaveAddresses
                | Effect::ChangeAddress(_)
                | Effect::Attach { .. }
        );
        can_be && self.rng.is(Chance::percent(2))
    }

    /// Executes an effect. Returns false if the kernel refuses.
    fn execute(&mut self, effect: &Effect) -> bool {
        let Some(host) = &mut self.daemon else { return false };
        if let Effect::ChangeAddress(action) = effect {
            return self.change_address(*action);
        } else if *effect == Effect::SaveAddresses {
            let groups = host.addressing().map(|one| one.planner.groups());
            self.saved = groups.unwrap_or_default().to_vec();
        } else if let Effect::Sign(addresses) = effect {
            let generation = host.proof().generation() + 1;
            host.set_proof(LocalProof::new(generation, addresses.clone(), &[], [0; 32]));
        }
        true
    }

    /// Changes an address. Returns false if the kernel refuses.
    fn change_address(&mut self, action: Action) -> bool {
        if !matches!(action, Action::Solicit { .. }) {
            self.note(|| format!("Moorline: {action:?}"));
        }
        match action {
            Action::Solicit { ifindex } => {
                self.solicit(ifindex);
                true
            }
            Action::Add { ifindex, address, preferred } => {
                let is_endless = self.fault == Some(Fault::AddsForever);
                let preferred = if is_endless { u32::MAX } else { preferred };
                let lifetimes = Lifetimes { preferred, valid: u32::MAX };
                self.add(ifindex, address, Ends::of(lifetimes, self.now))
            }
            Action::SetLifetimes { ifindex, address, lifetimes }
                if self.fault == Some(Fault::PrefersForLong) =>
            {
                let for_long = Lifetimes { preferred: lifetimes.valid, ..lifetimes };
                let ends = Ends::of(for_long, self.now);
                self.kernels[WITH].change(ifindex, address, |held| held.ends = ends)
            }
            Action::SetLifetimes { .. }
                if self.fault == Some(Fault::SetsLifetimesOnce)
                    && self.now > Instant::ZERO + LENGTH / 8 =>
            {
                true
            }
            Action::SetLifetimes { ifindex, address, lifetimes } => {
                let ends = Ends::of(lifetimes, self.now);
                let is_there = self.kernels[WITH].change(ifindex, address, |held| held.ends = ends);
                self.notice();
                is_there
            }
            Action::Remove { ifindex, address } => {
                let is_there = self.kernels[WITH].unset(ifindex, address);
                self.notice();
                is_there
            }
        }
    }

    fn add(&mut self, ifindex: u32, address: Ipv6Addr, ends: Ends) -> bool {
        if self.fault == Some(Fault::AddsNoMore) && self.now > Instant::ZERO + LENGTH / 8 {
            return true;
        }
        if !self.kernels[WITH].is_up(ifindex) {
            return false;
        }
        if self.fault == Some(Fault::RemovesOthers) {
            let prefix = Prefix::new(address, 64);
            self.kernels[WITH].unset(ifindex, address_in(prefix, PUBLIC));
        }
        let flags = AddressFlags(AddressFlags::TENTATIVE.0 | AddressFlags::OPTIMISTIC.0);
        let held = Held { prefix_len: 64, is_made: false, flags, ends };
        self.kernels[WITH].set(ifindex, address, held);
        self.ours.insert((ifindex, address));
        self.born.entry(address).or_insert(self.now);
        self.found.remove(&(ifindex, address));
        let is_duplicate = self.rng.is(Chance::percent(2));
        let late = self.rng.between(Duration::from_secs(1), Duration::from_secs(2));
        self.queue.push(self.now + late, Event::Detected { ifindex, address, is_duplicate });
        self.notice();
        self.unsettle(Duration::from_secs(8));
        true
    }
}

/// Interfaces with a default route.
pub(super) fn links(view: &HostView) -> BTreeSet<u32> {
    view.uplinks.iter().chain(&view.candidates).map(|one| one.ifindex).collect()
}

const MODES: [AddressMode; 3] = [AddressMode::HbaCompatible, AddressMode::Cga, AddressMode::Hba];
/// Lifetimes of temporary addresses: short, so that a run has several sets.
pub(super) const LIFETIMES: TemporaryLifetimes = TemporaryLifetimes {
    preferred: Duration::from_secs(60 * 60),
    valid: Duration::from_secs(2 * 60 * 60),
};
const LINKS: u32 = 3;
/// Indices of [`World::kernels`].
pub(super) const WITH: usize = 0;
pub(super) const WITHOUT: usize = 1;
/// Streams of the random numbers.
const STREAM: u64 = 77;
const STREAM_OF_TEMPORARY: u64 = 78;
const LENGTH: Duration = Duration::from_secs(8 * 60 * 60);
/// Longest times between two changes, in seconds.
const PAUSES: [u64; 5] = [1, 10, 60, 600, 10_000];
const AT_ONCE: u32 = 1000;
/// Largest number of effects that a daemon executes before it is killed amid them.
const KILLED_WITHIN: u64 = 12;
/// Identifiers of addresses that a person sets, or that a DHCPv6 server gives.
const BY_HAND: u64 = 5;
const LEASED: u64 = 0xd;
