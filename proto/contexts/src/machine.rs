use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_cga::LocalProof;
use moorline_index::Deadlines;
use moorline_reap as reap;
use moorline_shim6 as shim6;
use moorline_types::{
    ContextId, DropReason, Instant, LocalRoutes, Locator, LocatorPair, Locators, Prefix, UlidPair,
};
use moorline_wire::LocatorPreference;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};
use siphasher::sip::SipHasher13;

use crate::active::Notes;
use crate::config::Config;
use crate::congestion::Congestion;
use crate::contest::Contests;
use crate::event::{Event, Removal, TimerKind, Transmit};
use crate::pacer::{Learned, Pacer};
use crate::question::Questions;
use crate::reply::Reply;
use crate::slots::Slots;
use crate::standby::StandbyPaths;
use crate::steer::Steering;
use crate::sweep::{Input, Sweeps};
use crate::tally::Tally;
use crate::waiting::Waiting;
use moorline_datapath::shim6::Update;
use moorline_types::DropCounters;

/// The root machine: every context of a host, and the knowledge for its data plane.
///
/// A clone draws the same tags and nonces as the original. So a clone may only explore possible futures of a host
/// (`check/`), and never run beside the original.
#[derive(Clone, Debug)]
pub struct Contexts {
    pub(crate) config: Config,
    pub(crate) reap_config: Arc<reap::Config>,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) shim6: shim6::Machine,
    pub(crate) active: Slots,
    /// Inputs that part of the contexts have.
    pub(crate) sweeps: Sweeps,
    /// The slot at which the next search for witnesses begins.
    pub(crate) looked: ContextId,
    /// Slots of a slice: [`shim6::SLICE`]. Tests have fewer.
    pub(crate) slice: u32,
    pub(crate) tally: Tally,
    /// Contexts of an earlier run that this one has not restored yet.
    pub(crate) waiting: Waiting,
    pub(crate) notes: BTreeMap<ContextId, Notes>,
    /// Keyed hash for [`Active::told`].
    pub(crate) digest: SipHasher13,
    pub(crate) usable: Vec<Locator>,
    pub(crate) routes: LocalRoutes,
    /// Our addresses that reach neighbors and nobody else: addresses of links without a default route.
    pub(crate) beside: Vec<Locator>,
    /// Whether the contexts do not know of the routes yet.
    is_rerouted: bool,
    /// Locators that were usable and no longer are, the oldest first.
    pub(crate) gone: VecDeque<Locator>,
    /// Our deprecated locators, which the host will lose soon.
    pub(crate) deprecated: Vec<Locator>,
    /// The locators that the last context was told of, and the usable ones among them. Contexts with the same locators
    /// share both.
    pub(crate) usable_of: (Locators, Locators),
    /// Deadlines of the REAP machines.
    pub(crate) deadlines: Deadlines,
    pub(crate) pacer: Pacer,
    pub(crate) learned: Learned,
    pub(crate) standby: StandbyPaths,
    pub(crate) questions: Questions,
    pub(crate) contests: Contests,
    pub(crate) steering: Steering,
    pub(crate) congestion: Congestion,
    pub(crate) transmits: VecDeque<Transmit>,
    pub(crate) updates: VecDeque<Update>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) replies: VecDeque<Reply>,
    pub(crate) missed: VecDeque<(ContextId, LocatorPair)>,
    drops: DropCounters,
}

/// Our present addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalState {
    /// The locators that peers are told and can verify. Each change has another generation: the first is random, and
    /// each later one is the next number (RFC 5533 s5.15.2). If the generation is the same as before, the machine
    /// ignores the proof.
    pub proof: LocalProof,
    /// Addresses that this host can send from now: present, not tentative, link up, with a route out.
    pub usable: Vec<Locator>,
}

impl Contexts {
    /// Makes a host without addresses and contexts. `seed` must be secret and never used before.
    #[must_use]
    pub fn new(config: Config, seed: [u8; 32], now: Instant) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let mut shim6_seed = [0; 32];
        rng.fill_bytes(&mut shim6_seed);
        let pacer = Pacer::new(config.probes_per_second, config.probe_burst);
        let mut digest_key = [0; 16];
        rng.fill_bytes(&mut digest_key);
        let digest = SipHasher13::new_with_key(&digest_key);
        Self {
            shim6: shim6::Machine::new(config.shim6.clone(), shim6_seed, now),
            reap_config: Arc::new(reap::Config {
                send_timeout: config.shim6.send_timeout,
                profile: config.profile,
                ..reap::Config::default()
            }),
            config,
            rng,
            active: Slots::default(),
            sweeps: Sweeps::default(),
            looked: ContextId(0),
            slice: shim6::SLICE,
            tally: Tally::default(),
            waiting: Waiting::default(),
            notes: BTreeMap::new(),
            digest,
            usable: Vec::new(),
            routes: LocalRoutes::default(),
            beside: Vec::new(),
            is_rerouted: false,
            gone: VecDeque::new(),
            deprecated: Vec::new(),
            usable_of: <(Locators, Locators)>::default(),
            deadlines: Deadlines::new(),
            pacer,
            learned: Learned::default(),
            standby: StandbyPaths::default(),
            questions: Questions::default(),
            contests: Contests::default(),
            steering: Steering::default(),
            congestion: Congestion::default(),
            transmits: VecDeque::new(),
            updates: VecDeque::new(),
            events: VecDeque::new(),
            replies: VecDeque::new(),
            missed: VecDeque::new(),
            drops: DropCounters::new(),
        }
    }

    /// Sets the routes of the host. Returns true if the contexts do not know of a change yet: the caller then calls
    /// [`handle_local`](Self::handle_local) or [`handle_lost`](Self::handle_lost).
    pub fn set_routes(&mut self, routes: LocalRoutes) -> bool {
        self.is_rerouted |= self.routes != routes;
        self.routes = routes;
        self.note_beside();
        self.is_rerouted
    }

    /// The routes of the host.
    #[must_use]
    pub const fn routes(&self) -> &LocalRoutes {
        &self.routes
    }

    /// Whether a peer has a locator in one of these prefixes.
    #[must_use]
    pub fn has_peers_in(&self, prefixes: &[Prefix]) -> bool {
        let peers = self.shim6.contexts().filter_map(shim6::Context::established);
        let mut locators = peers.flat_map(|established| &*established.peer.locators);
        locators.any(|peer| prefixes.iter().any(|prefix| prefix.contains(peer.0)))
            || self.waiting.has_peers_in(prefixes)
    }

    /// Whether the peer of a context has been told this locator of ours. An address that has never been usable costs no walk
    /// over the contexts.
    #[must_use]
    pub fn is_named(&self, own: Locator) -> bool {
        if !self.usable.contains(&own) && !self.gone.contains(&own) {
            return false;
        }
        let mut known = self.shim6.contexts().filter_map(shim6::Context::established);
        known.any(|established| established.local_locators.contains(&own))
    }

    /// Sets our addresses, at the start and whenever an address comes, goes, or its uplink fails. If the current
    /// locator of a context is no longer usable, the context explores at once.
    pub fn handle_local(&mut self, local: &LocalState, now: Instant) {
        let is_changed = self.note_usable(&local.usable);
        self.shim6.set_addresses(&local.proof, &local.usable, now);
        self.drain_shim6(now);
        if is_changed {
            self.sweep(Input::Refresh, now);
        }
    }

    /// This host can no longer send from these addresses: carrier, route or address is gone. Contexts leave them at
    /// once. A later [`handle_local`](Self::handle_local) tells which addresses replace them.
    //= rfc5534#3.2-2 rfc5534#4.1-1
    pub fn handle_lost(&mut self, lost: &[Locator], now: Instant) {
        let left = self.usable.iter().filter(|locator| !lost.contains(locator));
        let left: Vec<_> = left.copied().collect();
        let is_changed = self.note_usable(&left);
        self.shim6.set_lost(lost, now);
        self.drain_shim6(now);
        if is_changed {
            self.sweep(Input::Refresh, now);
        }
    }

    /// Sets our addresses that still work and are deprecated (RFC 4862 s5.5.4). Contexts leave them gently.
    pub fn handle_deprecated(&mut self, deprecated: &[Locator], now: Instant) {
        if self.deprecated == deprecated {
            return;
        }
        self.deprecated = deprecated.to_vec();
        self.sweep(Input::Deprecated, now);
    }

    /// Packets from these addresses cannot leave the link: the host's Neighbor Unreachability Detection has given up
    /// their router. If the current pair of a context begins at such an address, the context explores at once.
    ///
    /// The addresses stay usable and are tried last. A probe that gets through shows that the router answers again.
    //= rfc5534#3.2-1
    pub fn handle_router_lost(&mut self, local: &[Locator], now: Instant) {
        self.sweep(Input::RouterLost(local.to_vec()), now);
    }

    /// The router of these addresses answers again. Contexts that have not left the addresses yet keep them.
    pub fn handle_router_found(&mut self, local: &[Locator]) {
        self.sweeps.forget_lost(local);
    }

    /// Sets the usable addresses. Returns true if they, or the routes, have changed.
    fn note_usable(&mut self, usable: &[Locator]) -> bool {
        let is_rerouted = core::mem::take(&mut self.is_rerouted);
        if self.usable == usable {
            return is_rerouted;
        }
        let before = core::mem::replace(&mut self.usable, usable.to_vec());
        self.gone.retain(|locator| !usable.contains(locator));
        self.note_gone(before);
        self.note_beside();
        self.usable_of = <(Locators, Locators)>::default();
        true
    }

    /// Remembers the last [`MAX_GONE`] locators that are no longer usable.
    pub(crate) fn note_gone(&mut self, locators: impl IntoIterator<Item = Locator>) {
        for locator in locators {
            if !self.usable.contains(&locator) && !self.gone.contains(&locator) {
                self.gone.push_back(locator);
            }
        }
        self.gone.drain(..self.gone.len().saturating_sub(MAX_GONE));
    }

    /// Notes our addresses that reach neighbors and nobody else.
    fn note_beside(&mut self) {
        let led = self.routes.0.iter().flat_map(|(_, own)| own);
        let beside: BTreeSet<_> = led.filter(|own| !self.usable.contains(own)).copied().collect();
        self.beside = beside.into_iter().collect();
    }

    /// Whether a packet may leave by this pair.
    pub(crate) fn may_send_by(&self, pair: LocatorPair) -> bool {
        is_ours_now(&self.usable, &self.gone, &self.shim6, pair.local)
            || is_beside(&self.beside, &self.routes, pair)
    }

    /// Whether this host can send by a pair: our address is usable, or a specific route of its link leads to the peer.
    pub(crate) fn can_send_by(&self, pair: LocatorPair) -> bool {
        self.usable.contains(&pair.local) || is_beside(&self.beside, &self.routes, pair)
    }

    /// The locators of ours from which this host can send to a peer.
    pub(crate) fn local_toward(&mut self, known: &Locators, peer: &[Locator]) -> Locators {
        let (last, usable) = &mut self.usable_of;
        if !last.is_shared_with(known) {
            *last = known.clone();
            let usable_now = known.iter().copied().filter(|own| self.usable.contains(own));
            *usable = usable_now.collect();
        }
        let usable = usable.clone();
        if self.beside.is_empty() {
            return usable;
        }
        let reaches =
            |own: &Locator| peer.iter().any(|peer| self.can_send_by(LocatorPair::new(*own, *peer)));
        known.iter().copied().filter(reaches).collect()
    }

    /// Pairs of these locators whose packets would not leave, or would leave by another link than that of their source.
    /// The second never holds for the ULIDs, because this host adds no route for packets between them.
    pub(crate) fn unrouted(
        &self,
        ulids: UlidPair,
        local: &[Locator],
        peer: &[Locator],
    ) -> Vec<LocatorPair> {
        let pairs = local.iter().flat_map(|&l| peer.iter().map(move |&p| LocatorPair::new(l, p)));
        let goes = |pair: &LocatorPair| self.can_send_by(*pair) && self.is_routed(ulids, *pair);
        pairs.filter(|pair| !goes(pair)).collect()
    }

    pub(crate) fn is_routed(&self, ulids: UlidPair, pair: LocatorPair) -> bool {
        ulids.as_locators() == pair || !self.routes.lead_elsewhere(pair)
    }

    /// Handles due timers: the next slice of contexts for an input that all of them get, retransmissions, probes, negative answers that end, and claims that no peer has
    /// contradicted.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.go_on_sweeping(now);
        self.shim6.handle_timeout(now);
        self.drain_shim6(now);
        // The probes for the claims may be due at once.
        self.ask_for_claims(now);
        while let Some(id) = self.deadlines.pop(now).map(ContextId) {
            self.change(id, now, |reap| reap.handle_timeout(now));
        }
        self.send_waiting(now);
        self.ask_again(now);
    }

    /// Removes a context. Its traffic goes on as plain IPv6.
    pub fn remove(&mut self, id: ContextId, removal: Removal) {
        let Some(context) = self.shim6.remove(id) else { return };
        self.on_removed(id, context.key.ulids, removal);
    }

    /// The data plane failed to execute an update of a context, and no longer has the context. So the core removes the
    /// context as well: traffic is plain IPv6, R1bis answers packets with the tag, and for a while this host asks for
    /// no other context.
    pub fn handle_not_taken(&mut self, id: ContextId, now: Instant) {
        if let Some(context) = self.shim6.give_up(id, shim6::Failure::NotTaken, now) {
            self.on_removed(id, context.key.ulids, Removal::NotTaken);
        }
    }

    /// Makes another context between two ULIDs (RFC 5533 s4.2). Returns the slot of the context, which is not
    /// established yet.
    ///
    /// # Errors
    /// The addresses cannot have a context, or there is no room.
    pub fn fork(&mut self, ulids: UlidPair, now: Instant) -> Result<ContextId, DropReason> {
        self.wake_pair(ulids, now);
        let id = self.shim6.fork(ulids, now)?;
        self.drain_shim6(now);
        Ok(id)
    }

    /// Sets the preferences for our locators that peers are told (RFC 5533 s5.15.3). A locator that is not named has no
    /// preference. A change costs an Update Request for each context.
    pub fn set_preferences(&mut self, preferences: &[(Locator, LocatorPreference)], now: Instant) {
        self.shim6.set_preferences(preferences, now);
        self.drain_shim6(now);
    }

    /// Changes the Send Timeout, and tells the peers (RFC 5534 s5.3).
    pub fn set_send_timeout(&mut self, send_timeout: Duration, now: Instant) {
        let config = reap::Config { send_timeout, ..reap::Config::clone(&self.reap_config) };
        self.reap_config = Arc::new(config);
        self.config.shim6.send_timeout = send_timeout;
        self.shim6.set_send_timeout(send_timeout, now);
        self.sweep(Input::Config, now);
        self.drain_shim6(now);
    }

    /// Gives the next control packet to send. `None` holds until the next `handle_*`.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Gives the next update for the data plane. `None` holds until the next `handle_*`.
    #[must_use]
    pub fn poll_datapath(&mut self) -> Option<Update> {
        self.updates.pop_front()
    }

    /// Gives the next event. `None` holds until the next `handle_*`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The time when [`handle_timeout`](Self::handle_timeout) is due. Each `handle_*` can change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Instant, TimerKind)> {
        let shim6 = self.shim6.poll_timeout().map(|at| (at, TimerKind::Shim6));
        let reap = self.deadlines.first().map(|(at, _)| at);
        let turn = self.pacer.next_turn().map(|at| (at, TimerKind::Reap));
        let idle = self.questions.next().map(|at| (at, TimerKind::Idle));
        let reap = reap.map(|at| (at, TimerKind::Reap));
        let claim = self.contests.next().map(|at| (at, TimerKind::Shim6));
        let slice = self.next_slice().map(|at| (at, TimerKind::Reap));
        [shim6, reap, turn, idle, claim, slice].into_iter().flatten().min()
    }

    /// Numbers of dropped or ignored messages and reports, by reason.
    #[must_use]
    pub fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Applies an input to the REAP machine of a context, if there is one.
    pub(crate) fn change(
        &mut self,
        id: ContextId,
        now: Instant,
        change: impl FnOnce(&mut reap::Machine),
    ) {
        if let Some(active) = self.active.get_mut(&id) {
            change(&mut active.reap);
            self.drain_reap(id, now);
        }
    }

    /// The data about the peer of an established context.
    pub(crate) fn established(&self, id: ContextId) -> Option<&shim6::Established> {
        self.shim6.context(id)?.established()
    }

    pub(crate) fn ulids(&self, id: ContextId) -> Option<UlidPair> {
        self.shim6.context(id).map(|context| context.key.ulids)
    }

    /// Counts a message that was dropped before it reached this machine.
    pub fn count_drop(&mut self, reason: DropReason) {
        self.drops.count(reason);
    }

    pub(crate) fn count(&mut self, outcome: Result<(), DropReason>) {
        if let Err(reason) = outcome {
            self.drops.count(reason);
        }
    }
}

/// Whether the host has this address now. An address that is neither usable nor known as ours may be on an interface
/// that the machine does not know of, and counts as present.
pub(crate) fn is_ours_now(
    usable: &[Locator],
    gone: &VecDeque<Locator>,
    shim6: &shim6::Machine,
    local: Locator,
) -> bool {
    usable.contains(&local) || !gone.contains(&local) && !shim6.is_provable(local.as_ulid())
}

/// Whether the peer of a pair is a neighbor on the link of our address, or behind a router of that link, and the link has
/// no default route.
pub(crate) fn is_beside(beside: &[Locator], routes: &LocalRoutes, pair: LocatorPair) -> bool {
    beside.contains(&pair.local) && routes.lead(pair)
}

/// Limit of the gone addresses that the machine remembers. A laptop that roams gets a new address now and then.
const MAX_GONE: usize = 256;
