use std::collections::BTreeMap;
use std::time::Duration;

use moorline_contexts::{Class, Event, EventKind, ReapState, Transmit};
use moorline_datapath::shim6::Update;
use moorline_host::model::{contested, difference};
use moorline_host::{Effect, Host, SessionAddress};
use moorline_ilnp::Event as SessionEvent;
use moorline_plane::Report;
use moorline_types::{Instant, Locator, UlidPair};
use moorline_wire::PROTOCOL;

use super::{Occurrence, Parcel, World};
use crate::network::port_at;
use crate::node::{Core, HostSockets, Node};
use crate::outcome::Rule;
use crate::packet;
use crate::plan::{Chance, What, host_name};
use crate::workload::Side;

/// Inputs and outputs of cores.
impl World<'_> {
    pub(super) fn on_core_change(&mut self, host: usize, what: What) {
        if self.is_stack(host) {
            // A host stack has no daemon that could be killed.
            if matches!(what, What::Reboot { .. }) {
                self.reboot_stack(host);
                self.troubles.retain(|&(of, _), _| of != host);
            }
            return;
        }
        let Some(node) = self.nodes.get_mut(host) else { return };
        if matches!(what, What::Kill { .. }) {
            let is_amid = self.plan.kills_amid_effects && self.kernel_rng.is(Chance::percent(50));
            if let Some(core) = node.core.as_mut().filter(|core| is_amid && !core.is_dead()) {
                core.dies_after = u32::try_from(1 + self.kernel_rng.below(KILLED_WITHIN)).ok();
                return;
            }
            node.kill();
            node.with_stored(|stored| self.faults.on_stored(stored));
            return;
        }
        if matches!(what, What::Reboot { .. }) {
            self.network.remove_guests_of(host);
            node.reboot(&self.network, &mut self.rng, self.now);
            self.rules.on_proof(host, &node.addresses.proof());
            self.rules.on_reboot(host);
        } else {
            let has_sessions = node.restart(&self.network, &mut self.rng, self.now);
            self.execute_all(host);
            let has_contexts =
                self.nodes.get_mut(host).is_none_or(|node| node.restore_contexts(self.now));
            let has_restored = has_sessions && has_contexts;
            self.check(has_restored, Rule::Restored, || format!("{}", host_name(host)));
        }
        self.troubles.retain(|&(of, _), _| of != host);
    }

    /// Puts a host to sleep, or wakes it up with the reports that came meanwhile.
    ///
    /// After a sleep a core gets its addresses first. If a report came before them, the core could send from an
    /// address that went while the host slept, and a real kernel refuses such a packet.
    pub(super) fn on_sleep(&mut self, host: usize, is_suspended: bool) {
        let Some(node) = self.nodes.get_mut(host) else { return };
        node.is_suspended = is_suspended;
        node.stack.iter().for_each(|stack| stack.set_asleep(is_suspended));
        if !is_suspended {
            node.tell_local(&self.network, self.now);
            self.settle(host);
            self.settle_plain(host);
            self.settle_stack(host);
            let held = std::mem::take(&mut self.held);
            for (of, report) in held {
                self.on_report(of, report);
            }
        }
    }

    /// Checks the readiness that hosts report for their contexts, after each step that may have changed a core.
    pub(super) fn check_readiness(&mut self) {
        for (host, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.is_suspended) {
            let lifetime = self.plan.hosts[host].profile.standby_interval * 2;
            node.with_contexts(|contexts| {
                for context in contexts.contexts() {
                    let readiness = contexts.readiness(context.id, self.now);
                    let Some(readiness) = readiness else { continue };
                    let readiness = self.faults.readiness(&context, readiness, self.now);
                    self.rules.on_readiness(host, &context, readiness, lifetime, self.now);
                }
            });
        }
    }

    pub(super) fn tell_local(&mut self) {
        for host in 0..self.nodes.len() {
            if self.nodes[host].is_suspended {
                continue;
            }
            self.nodes[host].tell_local(&self.network, self.now);
            self.rules.on_local_change(host);
            self.settle(host);
            self.settle_plain(host);
            self.settle_stack(host);
        }
    }

    pub(super) fn on_wake(&mut self, host: usize) {
        let (now, serves) = (self.now, self.faults.serves_timers());
        let mut awake = self.nodes.get_mut(host).filter(|node| !node.is_suspended);
        if let Some(plain) = awake.as_mut().and_then(|node| node.plain.as_mut()) {
            plain.handle_timeout(now);
            return self.settle_plain(host);
        }
        if let Some(stack) = awake.as_mut().and_then(|node| node.stack.as_mut()) {
            stack.handle_timeout(now);
            let (next, asked) = (stack.poll_timeout(), stack.asked_again(now));
            self.check(asked <= MOST_ASKED, Rule::TimersAdvance, || {
                format!("{} asks for {next:?}", host_name(host))
            });
            return self.settle_stack(host);
        }
        let Some(core) = awake.and_then(|node| node.core.as_mut()) else { return };
        // The timers were served already, or moved to an earlier time.
        if core.wake != Some(now) {
            return;
        }
        core.wake = None;
        if core.planes.shim6.poll_timeout().is_some_and(|at| at <= now) {
            core.planes.shim6.handle_timeout(now);
        }
        if !core.is_dead() && serves && core.host.poll_timeout().is_some_and(|at| at <= now) {
            core.host.handle_timeout(now);
        }
        let next = core.next_timeout();
        self.check(next.is_none_or(|at| at > now), Rule::TimersAdvance, || {
            format!("{} asks for {next:?}", host_name(host))
        });
        self.settle(host);
    }

    pub(super) fn on_report(&mut self, host: usize, report: Report) {
        let now = self.now;
        if self.nodes.get(host).is_some_and(|node| node.is_suspended) {
            self.held.push((host, report));
            return;
        }
        if let Some(core) = living_core(&mut self.nodes, host) {
            handle_report(core, report, now);
        }
        self.settle(host);
    }

    /// Executes all outputs of a host's core and data planes, and checks the result.
    pub(super) fn settle(&mut self, host: usize) {
        let (told, _) = self.execute_all(host);
        self.look_at(host, told);
    }

    /// Does the same as [`settle`](Self::settle) after a packet that the core has not seen. If no report reaches the
    /// core, it is unchanged.
    pub(super) fn settle_planes(&mut self, host: usize) {
        let (told, steps) = self.execute_all(host);
        if steps > 0 {
            self.look_at(host, told);
        } else {
            self.schedule_wake(host);
        }
    }

    /// Checks a host whose core may have changed. Sockets with these ULIDs send again.
    fn look_at(&mut self, host: usize, told: Vec<UlidPair>) {
        self.check_core(host);
        self.has_settled = true;
        self.schedule_wake(host);
        for ulids in told.into_iter().filter(|_| self.plan.reverts_backoff) {
            self.on_path_restored(host, ulids);
        }
    }

    /// Executes all outputs of a host. Returns the ULIDs of sockets that send again, and the number of reports and
    /// effects.
    fn execute_all(&mut self, host: usize) -> (Vec<UlidPair>, usize) {
        let now = self.now;
        let mut told = Vec::new();
        let mut steps = 0;
        while let Some(core) = self.nodes.get_mut(host).and_then(|n| n.core.as_mut()) {
            if let Some(report) = core.planes.poll_report() {
                if core.is_dead() {
                    // A dead core reads no report.
                } else if core.report_delay.is_zero() {
                    handle_report(core, report, now);
                } else {
                    let at = now + core.report_delay;
                    self.queue.push(at, Occurrence::Report(host, report));
                }
            } else if core.is_dead() {
                break;
            } else if let Some(effect) = core.host.poll_effect(now) {
                if self.is_refused(host, &effect) {
                    if let Some(core) = living_core(&mut self.nodes, host) {
                        core.host.handle_failed(&effect, now);
                    }
                } else {
                    told.extend(self.execute(host, &effect));
                    if let Some(core) = living_core(&mut self.nodes, host) {
                        core.host.handle_done(&effect, now);
                    }
                }
                self.count_down(host);
            } else {
                break;
            }
            steps += 1;
            if steps > MAX_STEPS {
                self.check(false, Rule::Bounded, || format!("{} never ends", host_name(host)));
                break;
            }
        }
        (told, steps)
    }

    /// Whether a kernel or data plane refuses this effect: it does so at random, if the plan says so.
    fn is_refused(&mut self, host: usize, effect: &Effect) -> bool {
        if let Effect::AddSessionAddress(SessionAddress { address, .. }) = effect {
            self.rules.on_address(host, Locator(*address));
        }
        let rng = if effect.is_removal() { &mut self.plane_rng } else { &mut self.kernel_rng };
        can_be_refused(effect) && rng.is(self.plan.kernel_failures)
    }

    /// Executes an effect. Returns the ULIDs of sockets that send again.
    fn execute(&mut self, host: usize, effect: &Effect) -> Option<UlidPair> {
        if !self.faults.obeys(effect) {
            return None;
        }
        let Self { nodes, workloads, faults, .. } = self;
        let sockets = HostSockets { host, workloads };
        let core = living_core(nodes, host)?;
        if core.execute(effect, &sockets, self.now) {
            faults.on_kernel(effect, &mut core.kernel);
            return None;
        }
        match effect {
            Effect::UpdateContext(update) => self.update_plane(host, update.clone()),
            Effect::SendShim6 { transmit, .. } => {
                for _ in 0..self.faults.copies(&transmit.octets, transmit.locators) {
                    self.send_control(host, transmit);
                }
            }
            Effect::SendIlnp { transmit, .. } => {
                let mut octets = transmit.packet.clone();
                core.planes.handle_outbound(&mut octets, &sockets, self.now);
                self.transmit(host, Parcel { octets, original: None });
            }
            Effect::TellContext(event) => self.on_event(host, *event),
            Effect::TellSession(event) => self.on_session_event(host, event),
            Effect::AddSessionAddress(SessionAddress { ifindex, address }) => {
                self.network.add_guest(port_at(host, *ifindex), *address);
            }
            Effect::RemoveSessionAddress(SessionAddress { address, .. }) => {
                self.network.remove_guest(*address);
            }
            Effect::PreferRoute(_) => self.check_failing(host),
            Effect::FollowRules => {
                let core = living_core(&mut self.nodes, host)?;
                self.network.set_detours(host, core.host.view().detours.clone());
            }
            Effect::NotifyTcp { ulids, .. } => return Some(*ulids),
            // The core has executed these already.
            Effect::AskUsage(_)
            | Effect::UpdateSession(_)
            | Effect::SetNode(_)
            | Effect::SetLocals(_)
            | Effect::Attach { .. }
            | Effect::Detach { .. }
            | Effect::Route(_)
            | Effect::AskRoutes
            | Effect::KeepUlid(_)
            | Effect::ReleaseUlid(_)
            | Effect::AskOffloads
            | Effect::AskSockets(_) => {}
            // The hosts of the simulator have no sockets that wait for a route, and they do not make their addresses by
            // effects. Of their rules by source only the detours count.
            Effect::GiveUpNeighbors { .. }
            | Effect::FlushCachedRoutes
            | Effect::AskForwarding
            | Effect::SaveAddresses
            | Effect::ChangeAddress(_)
            | Effect::Outrank(_)
            | Effect::Sign(_)
            | Effect::RemoveStale
            | Effect::FollowPathRules
            | Effect::FollowDefaultRoutes
            | Effect::AskTarget { .. }
            | Effect::Introduce { .. }
            | Effect::TellAddress(_) => {}
        }
        None
    }

    /// Checks that no healthy uplink is taken away from new connections. If packets are lost at random, checks may be
    /// lost.
    fn check_failing(&mut self, host: usize) {
        let Some(core) = living_core(&mut self.nodes, host) else { return };
        let failing = core.host.failing_uplinks();
        let before = std::mem::replace(&mut core.failing, failing.clone());
        let is_calm = self.changed_at.is_none_or(|at| self.now.since(at) >= UNTIL_CALM)
            && !self.network.is_disorderly();
        let new = failing.difference(&before).count();
        self.outcome.given_up += u32::try_from(new).unwrap_or(u32::MAX);
        for ifindex in failing.difference(&before).filter(|_| is_calm) {
            let port = port_at(host, *ifindex);
            let is_right = !self.network.is_whole(port);
            self.check(is_right, Rule::LiveUplink, || {
                format!("{} gives up {port}", host_name(host))
            });
        }
    }

    /// Counts the effects until the core is killed. A core can be killed between any two effects.
    fn count_down(&mut self, host: usize) {
        let Some(node) = self.nodes.get_mut(host) else { return };
        let Some(left) = node.core.as_mut().and_then(|core| core.dies_after.as_mut()) else {
            return;
        };
        *left = left.saturating_sub(1);
        if *left == 0 {
            node.kill();
        }
    }

    /// Checks that no pair has two owners. If nothing has failed recently, it also checks that kernel and data planes
    /// have what contexts and sessions need.
    fn check_core(&mut self, host: usize) {
        let Some(Core { host: core, kernel, planes, .. }) = living_core(&mut self.nodes, host)
        else {
            return;
        };
        assert_eq!(counts(core), walked(core), "{} counts its contexts", host_name(host));
        let mut found = vec![(Rule::OneOwner, contested(core).map(|pair| pair.to_string()))];
        if !core.awaits_retry() {
            let sessions = planes.ilnp.iter().flat_map(|plane| plane.sessions());
            let told = difference(core, planes.shim6.contexts(), sessions, self.now);
            found.push((Rule::KernelInStep, kernel.difference(core, self.now)));
            found.push((Rule::PlanesInStep, told));
        }
        for (rule, wrong) in found {
            if let Some(wrong) = wrong {
                self.check(false, rule, || format!("{}: {wrong}", host_name(host)));
            }
        }
    }

    fn update_plane(&mut self, host: usize, mut update: Update) {
        self.faults.on_update(self, &mut update);
        if let Some(core) = living_core(&mut self.nodes, host) {
            core.planes.shim6.handle_update(&update, self.now);
        }
        self.rules.on_update(host, &update, self.now);
    }

    fn send_control(&mut self, host: usize, transmit: &Transmit) {
        let pair = transmit.locators;
        self.rules.on_control_sent(host, &transmit.octets, pair, self.now);
        let isps = [pair.local, pair.peer].map(|end| self.network.isp_of(end.0));
        self.attacker.overhear((host, pair), isps, &transmit.octets);
        let mut octets = packet::ip6(pair, PROTOCOL, &transmit.octets);
        self.faults.on_control(&mut octets);
        self.transmit(host, Parcel { octets, original: None });
    }

    fn schedule_wake(&mut self, host: usize) {
        let Some(core) = self.nodes.get_mut(host).and_then(|n| n.core.as_mut()) else { return };
        if let Some(at) = core.next_timeout().map(|at| at.max(self.now))
            && core.wake.is_none_or(|wake| at < wake || wake < self.now)
        {
            core.wake = Some(at);
            self.queue.push(at, Occurrence::Wake(host));
        }
    }

    pub(super) fn on_event(&mut self, host: usize, event: Event) {
        let Event { ulids, kind, .. } = event;
        self.log.note(self.now, host, || format!("{}: {kind:?} of {ulids}", host_name(host)));
        self.log.event(host, event, self.now);
        if let EventKind::StateChanged { to: ReapState::Operational, .. }
        | EventKind::Removed { .. } = kind
        {
            self.troubles.remove(&(host, ulids));
        } else if let EventKind::StateChanged { to, .. } = kind {
            let is_alarm = to == ReapState::Exploring;
            let is_calm = !self.has_changed && self.plan.attack.is_none();
            let is_false = is_alarm && is_calm && !self.network.is_disorderly();
            self.check(!is_false, Rule::FalseAlarm, || format!("{}", host_name(host)));
            self.troubles.entry((host, ulids)).or_insert(self.now);
        } else if let EventKind::Established { .. } = kind {
            self.on_context(host, ulids);
        }
    }

    pub(super) fn on_session_event(&mut self, host: usize, event: &SessionEvent) {
        let is_new = matches!(event, SessionEvent::Established { .. });
        self.outcome.sessions += u32::from(is_new);
        self.log.note(self.now, host, || format!("{}: {event:?}", host_name(host)));
    }

    fn on_path_restored(&mut self, host: usize, ulids: UlidPair) {
        let now = self.now;
        let numbers: Vec<_> = self.workloads.keys().copied().collect();
        for number in numbers {
            self.follow_paths(number);
            let Some(workload) = self.workloads.get_mut(&number) else { continue };
            for side in Side::BOTH {
                if workload.host(side) == host && workload.ulids_of(side) == ulids {
                    workload.application.handle_path_restored(side, now);
                }
            }
            self.drain_workload(number);
        }
    }
}

/// Whether a kernel or data plane may refuse this effect.
fn can_be_refused(effect: &Effect) -> bool {
    let is_of_kernel = matches!(
        effect,
        Effect::Route(_)
            | Effect::AskRoutes
            | Effect::KeepUlid(_)
            | Effect::ReleaseUlid(_)
            | Effect::AddSessionAddress(_)
            | Effect::RemoveSessionAddress(_)
            | Effect::FollowRules
    );
    is_of_kernel || effect.is_removal()
}

/// The numbers of contexts that a core keeps: of all, and of the established ones by class.
fn counts(core: &Host) -> (usize, BTreeMap<Class, u64>) {
    let contexts = core.shim6();
    (usize::try_from(contexts.len()).unwrap_or(usize::MAX), contexts.counts().collect())
}

/// The same numbers from a look at all contexts.
fn walked(core: &Host) -> (usize, BTreeMap<Class, u64>) {
    let mut classes = BTreeMap::new();
    for context in core.shim6().contexts() {
        let Some(established) = context.established else { continue };
        let class = Class {
            ulid: context.ulids.local,
            local: established.locators.local,
            is_exploring: established.reap != ReapState::Operational,
            is_moved: established.locators != context.ulids.as_locators(),
        };
        *classes.entry(class).or_default() += 1;
    }
    (core.shim6().contexts().count(), classes)
}

fn handle_report(core: &mut Core, report: Report, now: Instant) {
    match report {
        Report::Shim6(report) => core.host.handle_shim6_report(report, now),
        Report::Ilnp(report) => core.host.handle_ilnp_report(report, now),
    }
}

pub(super) fn living_core(nodes: &mut [Node], host: usize) -> Option<&mut Core> {
    nodes.get_mut(host)?.core.as_mut().filter(|core| !core.is_dead())
}

/// Largest number of effects that a core executes before it is killed amid them.
const KILLED_WITHIN: u64 = 12;
/// Number of times in a row that timers of a host stack may ask for the present moment: its TCP has microseconds.
const MOST_ASKED: usize = 16;
/// Largest number of reports, updates, packets and events from one input.
const MAX_STEPS: usize = 200;
/// Time after a change of the network in which the rule about uplinks is not checked.
const UNTIL_CALM: Duration = Duration::from_secs(10);
