use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use moorline_cga::LocalProof;
use moorline_reap as reap;
use moorline_shim6 as shim6;
use moorline_shim6::Via;
use moorline_types::{ContextId, DropReason, Instant, Locator, LocatorPair, UlidPair};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use crate::active::{self, Active};
use crate::config::Config;
use crate::control;
use crate::datapath::Update;
use crate::drops::DropCounters;
use crate::event::{Event, Removal, TimerKind, Transmit};

/// The root machine: every context of a host, and what its data plane has to know.
#[derive(Debug)]
pub struct Host {
    pub(crate) config: Config,
    reap_config: Arc<reap::Config>,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) shim6: shim6::Machine,
    pub(crate) active: BTreeMap<ContextId, Active>,
    usable: Vec<Locator>,
    deadlines: BTreeSet<(Instant, ContextId)>,
    transmits: VecDeque<Transmit>,
    updates: VecDeque<Update>,
    events: VecDeque<Event>,
    drops: DropCounters,
}

/// Our addresses as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalState {
    /// What peers are told and can verify. Its generation is another one after each change: the next,
    /// and the first at random (RFC 5533 s5.15.2). A proof of the generation before is not looked at.
    pub proof: LocalProof,
    /// Addresses that can be sent from now: there, not tentative, their link up, a route out.
    pub usable: Vec<Locator>,
}

impl Host {
    /// A host without addresses and contexts. `seed` must be secret and never used before.
    #[must_use]
    pub fn new(config: Config, seed: [u8; 32], now: Instant) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let mut shim6_seed = [0; 32];
        rng.fill_bytes(&mut shim6_seed);
        Self {
            shim6: shim6::Machine::new(config.shim6.clone(), shim6_seed, now),
            reap_config: Arc::new(reap::Config {
                send_timeout: config.shim6.send_timeout,
                ..reap::Config::default()
            }),
            config,
            rng,
            active: BTreeMap::new(),
            usable: Vec::new(),
            deadlines: BTreeSet::new(),
            transmits: VecDeque::new(),
            updates: VecDeque::new(),
            events: VecDeque::new(),
            drops: DropCounters::new(),
        }
    }

    /// Our addresses, at the start and whenever one comes, goes, or its uplink fails: contexts whose
    /// current locator cannot be used any more explore at once.
    pub fn handle_local(&mut self, local: &LocalState, now: Instant) {
        self.shim6.set_local(&local.proof, now);
        self.drain_shim6(now);
        if self.usable == local.usable {
            return;
        }
        self.usable.clone_from(&local.usable);
        let ids: Vec<_> = self.active.keys().copied().collect();
        for id in ids {
            self.refresh_candidates(id, now);
        }
    }

    /// Retransmissions, probes, negative answers that have come to an end.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.shim6.handle_timeout(now);
        self.drain_shim6(now);
        while let Some(&(at, id)) = self.deadlines.first() {
            if at > now {
                break;
            }
            self.deadlines.pop_first();
            if let Some(active) = self.active.get_mut(&id) {
                active.deadline = None;
                active.reap.handle_timeout(now);
                self.drain_reap(id, now);
            }
        }
    }

    /// Forgets a context; its traffic goes on as plain IPv6.
    pub fn remove(&mut self, id: ContextId, removal: Removal) {
        let Some(context) = self.shim6.remove(id) else { return };
        if let Some(active) = self.active.remove(&id) {
            if let Some(deadline) = active.deadline {
                self.deadlines.remove(&(deadline, id));
            }
            self.updates.push_back(Update::Remove { context: id });
        }
        let ulids = context.ulids;
        self.updates.push_back(Update::Rearm { ulids });
        self.events.push_back(Event::Removed { context: id, ulids, removal });
    }

    /// The next control packet to send; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next update for the data plane; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_datapath(&mut self) -> Option<Update> {
        self.updates.pop_front()
    }

    /// The next event; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due; changes with each `handle_*`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        let shim6 = self.shim6.poll_timeout().map(|at| (at, TimerKind::Shim6));
        let reap = self.deadlines.first().map(|(at, _)| (*at, TimerKind::Reap));
        [shim6, reap].into_iter().flatten().min()
    }

    /// What was dropped or ignored, by reason.
    #[must_use]
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    pub(crate) fn ulids(&self, id: ContextId) -> Option<UlidPair> {
        self.shim6.context(id).map(|context| context.ulids)
    }

    pub(crate) fn count(&mut self, outcome: Result<(), DropReason>) {
        if let Err(reason) = outcome {
            self.drops.count(reason);
        }
    }

    pub(crate) fn push_update(&mut self, update: Update) {
        self.updates.push_back(update);
    }

    pub(crate) fn push_event(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Carries out what context establishment has decided.
    pub(crate) fn drain_shim6(&mut self, now: Instant) {
        while let Some(transmit) = self.shim6.poll_transmit() {
            let locators = match transmit.via {
                Via::Pair(locators) => locators,
                Via::Current(id) => {
                    let Some(active) = self.active.get(&id) else { continue };
                    active.reap.current_pair()
                }
            };
            self.transmits.push_back(control::emit(locators, &transmit.message));
        }
        while let Some(event) = self.shim6.poll_event() {
            self.on_shim6_event(event, now);
        }
    }

    fn on_shim6_event(&mut self, event: shim6::Event, now: Instant) {
        match event {
            shim6::Event::Initiated { context, ulids } => {
                self.push_event(Event::Initiated { context, ulids });
            }
            shim6::Event::Established { context, role } => {
                if let Some(ulids) = self.ulids(context) {
                    self.activate(context, ulids.as_locators(), now);
                    self.push_event(Event::Established { context, ulids, role });
                }
            }
            shim6::Event::Renewed { context } => {
                if let Some(ulids) = self.ulids(context) {
                    self.push_event(Event::Renewed { context, ulids });
                }
                self.refresh_candidates(context, now);
            }
            shim6::Event::Announced { context } => self.refresh_candidates(context, now),
            shim6::Event::Failed { context: _, ulids, failure } => {
                self.push_event(Event::Failed { ulids, failure });
            }
            shim6::Event::HolddownOver { ulids } => self.push_update(Update::Rearm { ulids }),
        }
    }

    /// Starts reachability detection of an established context and tells the data plane of it.
    pub(crate) fn activate(&mut self, id: ContextId, current: LocatorPair, now: Instant) {
        let Some(context) = self.shim6.context(id) else { return };
        let Some(established) = context.established() else { return };
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        let mut reap = reap::Machine::new(Arc::clone(&self.reap_config), current, seed, now);
        reap.handle_keepalive_timeout(established.peer.send_timeout);
        let active = Active::new(context, established, reap, &self.config, now);
        self.updates.push_back(Update::Upsert(active.entry.clone()));
        self.active.insert(id, active);
        self.refresh_candidates(id, now);
    }

    fn refresh_candidates(&mut self, id: ContextId, now: Instant) {
        let Some(active) = self.active.get_mut(&id) else { return };
        let Some(established) = self.shim6.context(id).and_then(|context| context.established())
        else {
            return;
        };
        let mut local = established.local_locators.clone();
        local.retain(|locator| self.usable.contains(locator));
        active.reap.handle_keepalive_timeout(established.peer.send_timeout);
        active.reap.handle_candidates(&local, &established.peer.locators, now);
        self.drain_reap(id, now);
    }

    /// Carries out what a context's REAP machine has decided.
    pub(crate) fn drain_reap(&mut self, id: ContextId, now: Instant) {
        let Some(active) = self.active.get_mut(&id) else { return };
        let Some(context) = self.shim6.context(id) else { return };
        let Some(established) = context.established() else { return };
        let ulids = context.ulids;
        while let Some(transmit) = active.reap.poll_transmit() {
            let message = control::reap_message(established.peer_tag, transmit.message);
            self.transmits.push_back(control::emit(transmit.pair, &message));
        }
        let entry = active::entry(context, established, &active.reap, &self.config);
        if entry != active.entry {
            active.entry = entry.clone();
            self.updates.push_back(Update::Upsert(entry));
        }
        let deadline = active.reap.poll_timeout().map(|(at, _)| at);
        if deadline != active.deadline {
            if let Some(old) = active.deadline {
                self.deadlines.remove(&(old, id));
            }
            if let Some(new) = deadline {
                self.deadlines.insert((new, id));
            }
            active.deadline = deadline;
        }
        while let Some(event) = active.reap.poll_event() {
            self.events.push_back(match event {
                reap::Event::StateChanged { from, to, cause } => {
                    Event::StateChanged { context: id, ulids, from, to, cause }
                }
                reap::Event::Moved { from, to, cause } => {
                    active.since = now;
                    active.cause = Some(cause);
                    Event::Moved { context: id, ulids, from, to, cause }
                }
                reap::Event::Unreachable { probes } => {
                    Event::Unreachable { context: id, ulids, probes }
                }
            });
        }
    }
}
