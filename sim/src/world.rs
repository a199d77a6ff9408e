use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::time::Duration;

use moorline_plane::Report;
use moorline_types::{DropReason, Instant, LocatorPair, UlidPair};

use crate::chart::{MomentKind, Trace, Way};
use crate::log::{Log, instant, since_start};
use crate::network::{NEIGHBOR_REMEMBERED, Network};
use crate::node::Node;
use crate::outcome::{Outcome, Pause, Rule, SAMPLE, WorkloadOutcome};
use crate::packet::{TCP, UDP};
use crate::plan::{Change, Kind, Plan, Port, What};
use crate::queue::Queue;
use crate::recovery::Watch;
use crate::rng::Rng;
use crate::rules::{ControlPace, Rules};
use attack::Attacker;
use expect::is_both_ways;
use faults::{Faults, NoFaults};

use crate::workload::{Running, Side, port_of};

mod attack;
mod core;
mod errors;
mod expect;
mod faults;
mod outdated;
mod packets;
mod stacks;

/// Plays a plan. Equal seeds and plans give equal packets and events, to the octet.
#[must_use]
pub fn run(seed: u64, plan: &Plan) -> Outcome {
    World::play(seed, plan, false).0
}

/// Plays a plan and records a trace: each control packet, event and change, and each change of the path of payload.
#[must_use]
pub fn trace(seed: u64, plan: &Plan) -> Trace {
    let (outcome, log) = World::play(seed, plan, true);
    Trace::new(plan.hosts.len(), log.into_moments(), outcome.violations)
}

struct World<'a> {
    plan: &'a Plan,
    now: Instant,
    end: Instant,
    queue: Queue<Occurrence>,
    network: Network,
    nodes: Vec<Node>,
    /// Workloads that have begun.
    workloads: BTreeMap<usize, Running>,
    watches: Vec<Watch>,
    /// Reports for cores of hosts that sleep.
    held: Vec<(usize, Report)>,
    /// Contexts that a host called protected when their current pair was cut, with that pair.
    cut: Vec<(usize, UlidPair, LocatorPair)>,
    /// Contexts whose REAP is not Operational, with the time since when.
    troubles: BTreeMap<(usize, UlidPair), Instant>,
    /// Last path of the payload of each workload, for the trace.
    ways: BTreeMap<(usize, Option<u16>), Way>,
    changes_left: usize,
    /// Number of workloads that have not begun.
    starts_left: usize,
    /// Workloads whose sockets a host stack has lost by a restart, with its time.
    restarts: BTreeMap<usize, Instant>,
    /// Number of workloads in the run so far that began anew for that.
    begun_anew: usize,
    has_changed: bool,
    /// Time of the last change.
    changed_at: Option<Instant>,
    /// Whether a core may have changed in this step.
    has_settled: bool,
    is_looking: bool,
    attacker: Attacker,
    /// Locator Updates from and to nodes with ILNP by the RFCs alone.
    told: outdated::Told,
    rules: Rules,
    log: Log,
    rng: Rng,
    kernel_rng: Rng,
    plane_rng: Rng,
    outcome: Outcome,
    faults: &'a dyn Faults,
}

/// Kinds of entries in the queue.
enum Occurrence {
    Change(What),
    /// Routers forget an address that is gone, so packets to it take another path.
    Forgotten,
    /// A packet arrives at an uplink.
    Arrival(Port, Rc<Parcel>),
    /// A report of a data plane reaches its core.
    Report(usize, Report),
    /// Timers of a host are due.
    Wake(usize),
    /// Timers of a workload are due.
    Work(usize),
    /// A workload begins.
    Start(usize),
    /// A socket opens again at a host that has restarted.
    Reopen(usize, Side),
    /// The attacker sends a packet.
    Attack,
    /// The simulator looks whether the run is over.
    Look,
}

/// A packet under way.
struct Parcel {
    octets: Vec<u8>,
    /// The packet of the socket, if a socket has sent it.
    original: Option<Rc<Vec<u8>>>,
}

impl<'a> World<'a> {
    fn play(seed: u64, plan: &'a Plan, is_tracing: bool) -> (Outcome, Log) {
        Self::play_with(&NoFaults, seed, plan, is_tracing)
    }

    fn play_with(
        faults: &'a dyn Faults,
        seed: u64,
        plan: &'a Plan,
        is_tracing: bool,
    ) -> (Outcome, Log) {
        errors::collecting(|| {
            let mut world = Self::new(seed, plan, is_tracing);
            world.faults = faults;
            world.go_on();
            world.finish()
        })
    }

    fn go_on(&mut self) {
        while let Some((at, occurrence)) = self.queue.pop_until(self.end) {
            self.now = at;
            let step = AssertUnwindSafe(|| {
                self.faults.begin_step(self);
                self.on(occurrence);
            });
            if let Err(panic) = panic::catch_unwind(step) {
                // After a panic no state can be trusted.
                self.check(false, Rule::NoPanic, || errors::words_of(&*panic));
                return;
            }
            if std::mem::take(&mut self.has_settled) {
                self.check_readiness();
            }
            while let Some(error) = errors::next() {
                self.check(false, Rule::NoErrorLog, || error);
            }
            let waiting = self.queue.len();
            self.check(waiting <= MAX_WAITING, Rule::Bounded, || format!("{waiting} in the queue"));
            if self.rules.violations.len() >= MAX_VIOLATIONS {
                // A violation may repeat for ever.
                return;
            }
        }
        self.now = self.end;
    }

    fn new(seed: u64, plan: &'a Plan, is_tracing: bool) -> Self {
        let now = instant(Duration::ZERO);
        let mut rng = Rng::new(seed, HOSTS_STREAM);
        let nodes: Vec<_> = (0..)
            .zip(&plan.hosts)
            .map(|(number, of_host)| Node::new(number, of_host, &mut rng, now))
            .collect();
        let mut network = Network::new(plan, Rng::new(seed, NETWORK_STREAM));
        let mut rules = Rules::new(ControlPace::of(plan));
        for (host, node) in nodes.iter().enumerate() {
            for (uplink, address) in node.addresses.all() {
                network.add_address(Port { host, uplink }, address);
                rules.on_address(host, address);
            }
            rules.on_proof(host, &node.addresses.proof());
        }
        let schedule = plan.schedule();
        let mut world = Self {
            network,
            rules,
            plan,
            now,
            end: instant(plan.duration),
            queue: Queue::new(),
            nodes,
            workloads: BTreeMap::new(),
            watches: Vec::new(),
            held: Vec::new(),
            cut: Vec::new(),
            troubles: BTreeMap::new(),
            ways: BTreeMap::new(),
            changes_left: schedule.len(),
            starts_left: plan.workloads.len(),
            restarts: BTreeMap::new(),
            begun_anew: 0,
            has_changed: false,
            changed_at: None,
            has_settled: false,
            is_looking: false,
            told: outdated::Told::default(),
            attacker: Attacker::new(plan.attack, Rng::new(seed, ATTACK_STREAM)),
            log: Log::new(is_tracing),
            rng,
            kernel_rng: Rng::new(seed, KERNEL_STREAM),
            plane_rng: Rng::new(seed, PLANE_STREAM),
            outcome: Outcome {
                workloads: vec![WorkloadOutcome::default(); plan.workloads.len()],
                ..Outcome::default()
            },
            faults: &NoFaults,
        };
        world.fill_queue(&schedule);
        world.tell_local();
        world
    }

    fn fill_queue(&mut self, schedule: &[Change]) {
        for change in schedule {
            self.queue.push(instant(change.at), Occurrence::Change(change.what));
        }
        for (number, workload) in self.plan.workloads.iter().enumerate() {
            self.queue.push(instant(workload.start), Occurrence::Start(number));
        }
        if let Some(attack) = self.plan.attack {
            self.queue.push(instant(attack.interval), Occurrence::Attack);
        }
    }

    fn on(&mut self, occurrence: Occurrence) {
        match occurrence {
            Occurrence::Change(what) => self.on_change(what),
            Occurrence::Forgotten => {
                self.end_episodes();
                self.begin_episodes();
            }
            Occurrence::Arrival(port, parcel) => self.on_arrival(port, &parcel),
            Occurrence::Report(host, report) => self.on_report(host, report),
            Occurrence::Wake(host) => self.on_wake(host),
            Occurrence::Work(number) => self.on_work(number),
            Occurrence::Start(number) => self.on_start(number),
            Occurrence::Reopen(number, side) => self.on_reopen(number, side),
            Occurrence::Attack => self.on_attack(),
            Occurrence::Look => self.on_look(),
        }
    }

    fn on_change(&mut self, what: What) {
        self.end_episodes();
        self.changes_left -= 1;
        (self.has_changed, self.changed_at) = (true, Some(self.now));
        self.log.moment(self.now, MomentKind::Change, || format!("==== {what}"));
        self.network.apply(what, self.now);
        self.cut.clear();
        // The network handles all other changes.
        if let What::PrefixAdded { uplink } = what {
            self.on_prefix_added(uplink);
        } else if let What::Misled { uplink } = what {
            self.on_misled(uplink);
        } else if let What::PrefixWithdrawn { uplink } = what {
            self.on_prefix_withdrawn(uplink);
        } else if let What::Kill { host } | What::Restart { host } | What::Reboot { host } = what {
            self.on_core_change(host, what);
        } else if let What::Suspend { host } | What::Resume { host } = what {
            self.on_sleep(host, matches!(what, What::Suspend { .. }));
        } else if let What::CutProtected { host } = what {
            self.cut_protected(host);
        } else if let What::AddressRemoved { .. } = what {
            self.queue.push(self.now + NEIGHBOR_REMEMBERED, Occurrence::Forgotten);
        }
        self.tell_local();
        self.begin_episodes();
    }

    fn on_prefix_added(&mut self, port: Port) {
        let Some(node) = self.nodes.get_mut(port.host) else { return };
        for (uplink, address) in node.addresses.add_prefix(port.uplink) {
            self.network.add_address(Port { uplink, ..port }, address);
            self.rules.on_address(port.host, address);
            self.log.note(self.now, port.host, || format!("{port}: {address} comes"));
        }
        self.rules.on_proof(port.host, &node.addresses.proof());
    }

    fn on_misled(&mut self, port: Port) {
        let Some(node) = self.nodes.get_mut(port.host) else { return };
        for (uplink, address) in node.addresses.add_false_prefixes(port.uplink) {
            self.network.add_false_address(Port { uplink, ..port }, address);
            self.rules.on_address(port.host, address);
        }
        self.log.note(self.now, port.host, || format!("{port}: addresses that lead nowhere come"));
        self.rules.on_proof(port.host, &node.addresses.proof());
    }

    fn on_prefix_withdrawn(&mut self, port: Port) {
        let Some(node) = self.nodes.get_mut(port.host) else { return };
        for (_, address) in node.addresses.withdraw_prefix(port.uplink) {
            self.network.withdraw_address(address);
            self.log.note(self.now, port.host, || format!("{port}: {address} goes"));
        }
        // The remaining addresses may have another list as their proof now.
        self.rules.on_proof(port.host, &node.addresses.proof());
    }

    fn on_start(&mut self, number: usize) {
        let Some(&plan) = self.plan.workloads.get(number) else { return };
        if [plan.from, plan.to].iter().any(|port| self.is_stack(port.host)) {
            return self.on_start_of_sockets(number, plan);
        }
        self.starts_left -= 1;
        let newest = |port: Port| self.nodes.get(port.host)?.addresses.newest(port.uplink);
        // An uplink without a prefix has no traffic.
        let (Some(from), Some(to)) = (newest(plan.from), newest(plan.to)) else { return };
        let ulids = UlidPair::new(from.as_ulid(), to.as_ulid());
        self.begin(number, Running::new(number, plan, ulids, self.now));
    }

    fn begin(&mut self, number: usize, workload: Running) {
        let kind = workload.plan.kind;
        for side in Side::BOTH {
            let (host, ulids) = (workload.host(side), workload.ulids_of(side));
            self.rules.on_traffic(host, ulids);
            if let Some(plain) = self.nodes.get_mut(host).and_then(|node| node.plain.as_mut()) {
                let protocol = if matches!(kind, Kind::Stream { .. }) { TCP } else { UDP };
                plain.open(protocol, port_of(number), ulids, self.now);
            }
        }
        self.workloads.insert(number, workload);
        let sides: &[Side] = if is_both_ways(kind) { &Side::BOTH } else { &[Side::To] };
        for &side in sides {
            self.watches.push(Watch::new(number, side, self.now));
            self.begin_episode(self.watches.len() - 1);
        }
        self.drain_workload(number);
        self.settle_stacks_of(number);
    }

    fn on_work(&mut self, number: usize) {
        let Some(workload) = self.workloads.get_mut(&number) else { return };
        // The timer was served already, or moved to an earlier time.
        if workload.wake != Some(self.now) {
            return;
        }
        workload.wake = None;
        self.follow_paths(number);
        let Some(workload) = self.workloads.get_mut(&number) else { return };
        if workload.application.poll_timeout().is_some_and(|at| at <= self.now) {
            workload.application.handle_timeout(self.now);
        }
        self.drain_workload(number);
        self.settle_stacks_of(number);
    }

    /// Ends the run if no more changes come and all traffic flows for good.
    fn on_look(&mut self) {
        if self.watches.iter().all(|watch| watch.is_settled(self.now)) {
            self.end = self.now;
            return;
        }
        self.queue.push(self.now + LOOK, Occurrence::Look);
    }

    /// Sends the waiting packets of a workload, and serves its timers.
    fn drain_workload(&mut self, number: usize) {
        loop {
            let Some(workload) = self.workloads.get_mut(&number) else { return };
            let Some((side, packet)) = workload.application.poll_packet() else { break };
            let host = workload.host(side);
            self.send_payload(host, packet);
        }
        let Some(workload) = self.workloads.get_mut(&number) else { return };
        if let Some(at) = workload.application.poll_timeout()
            && workload.wake.is_none_or(|wake| at < wake)
        {
            let at = at.max(self.now);
            workload.wake = Some(at);
            self.queue.push(at, Occurrence::Work(number));
        }
        if workload.application.is_finished() && !workload.is_over {
            workload.is_over = true;
            let is_intact = workload.application.is_intact();
            self.outcome.workloads[number].intact = is_intact;
            self.check(is_intact != Some(false), Rule::StreamIntact, || {
                format!("workload {number}")
            });
            self.forget_watches(number);
        }
    }

    fn check(&mut self, holds: bool, rule: Rule, detail: impl FnOnce() -> String) {
        self.rules.check(holds, rule, self.now, detail);
    }

    /// Notes the time from the last packet to the end of the traffic, or of the run. The gap from the start is noted if
    /// no packet has come.
    fn note_last_gaps(&mut self) {
        for (number, workload) in self.workloads.iter().filter(|(_, workload)| !workload.is_over) {
            let Some(outcome) = self.outcome.workloads.get_mut(*number) else { continue };
            let end = since_start(self.now);
            let to = workload.plan.until.map_or(end, |until| until.min(end));
            for side in Side::BOTH {
                let last = workload.last_packet(side).map_or(workload.plan.start, since_start);
                outcome.note_gap(side, Pause { from: last.min(to), to });
            }
        }
    }

    fn finish(mut self) -> (Outcome, Log) {
        self.end_episodes();
        self.note_last_gaps();
        let mut drops = vec![BTreeMap::new(); self.nodes.len()];
        let cores = self.nodes.iter().enumerate();
        for (host, core) in cores.filter_map(|(host, node)| Some((host, node.core.as_ref()?))) {
            for (reason, times) in core.shim6_drops().chain(core.ilnp_drops()) {
                *drops[host].entry(reason).or_insert(0) += times;
            }
            if self.plan.attack.is_none() {
                // A repeated Confirm may be for another session than the one that a later handshake has made.
                let of_ilnp = core.ilnp_drops().filter(|drop| drop.0 != DropReason::BadValidator);
                // The stack of a host with ILNP by the RFCs alone puts no nonce into an error about an I1, whose
                // locators may be those of a session.
                let has_plain = self.plan.hosts.iter().any(|host| host.plain_ilnp);
                let of_ilnp =
                    of_ilnp.filter(|drop| !(has_plain && drop.0 == DropReason::MissingOption));
                let may_mislead = self.network.may_have_misled(host);
                self.rules.on_drops(host, core.shim6_drops().chain(of_ilnp), may_mislead, self.now);
            }
        }
        if self.plan.attack.is_none() {
            self.check_drops_of_stacks();
        }
        let outcome = Outcome {
            violations: self.rules.violations,
            events: std::mem::take(&mut self.log.events),
            drops: drops.into_iter().map(|of_host| of_host.into_iter().collect()).collect(),
            packets: self.log.packets,
            digest: self.log.digest(),
            duration: since_start(self.now),
            ..self.outcome
        };
        (outcome, self.log)
    }
}

impl WorkloadOutcome {
    /// Notes new payload that arrived after a pause.
    fn add(&mut self, to: Side, octets: usize, pause: Pause) {
        let octets = octets as u64;
        self.octets[there_first(to)] += octets;
        if to == Side::To {
            let sample = usize::try_from(pause.to.as_millis() / SAMPLE.as_millis()).unwrap_or(0);
            if self.samples.len() <= sample {
                self.samples.resize(sample + 1, 0);
            }
            self.samples[sample] += octets;
            self.longest_pause = longer(self.longest_pause, pause);
        }
    }

    /// Notes a gap, which a packet or the end of the run has ended.
    fn note_gap(&mut self, to: Side, gap: Pause) {
        let longest = &mut self.longest_gaps[there_first(to)];
        *longest = longer(*longest, gap);
    }
}

/// Index of a side in the arrays of [`WorkloadOutcome`]: the far side comes first.
const fn there_first(to: Side) -> usize {
    to.other() as usize
}

/// The longer pause; the first one if they are equal.
fn longer(longest: Option<Pause>, pause: Pause) -> Option<Pause> {
    let length = |pause: &Pause| pause.to.saturating_sub(pause.from);
    longest.filter(|longest| length(longest) >= length(&pause)).or(Some(pause))
}

/// Streams of the seed. Hosts and network do not depend on each other.
const HOSTS_STREAM: u64 = 1;
const NETWORK_STREAM: u64 = 2;
const ATTACK_STREAM: u64 = 4;
const KERNEL_STREAM: u64 = 6;
const PLANE_STREAM: u64 = 7;
/// Time between two looks whether the run is over.
pub(super) const LOOK: Duration = Duration::from_secs(5);
/// Number of violations that end a run.
const MAX_VIOLATIONS: usize = 1000;
/// Largest number of packets and timers in the queue.
const MAX_WAITING: usize = 10_000;

#[cfg(test)]
pub(crate) mod tests;
