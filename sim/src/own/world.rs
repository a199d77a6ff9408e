mod changes;
mod daemon;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{AddressFlags, AddressMode, Group, HostView, TemporaryLifetimes};
use moorline_host::Host;
use moorline_types::Instant;

use super::kernel::{Ends, Held, Kernel};
use super::link::Router;
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
