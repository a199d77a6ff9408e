mod sockets;

use std::collections::BTreeSet;
use std::time::Duration;

use moorline_contexts::{self as shim6, ContextSnapshot, Contexts, EstablishedView, Question};
use moorline_datapath::shim6::TriggerPolicy;
use moorline_host::model::Kernel;
use moorline_host::{Effect, Host, SessionAddress, Sessions};
use moorline_ilnp::{self as ilnp, SessionSnapshot, SessionView};
use moorline_plane::{Planes, shim6::Plane, shim6::Settings};
use moorline_types::{DropReason, IlvPair, Instant, Locator, UlidPair};

use crate::addresses::AddressBook;
use crate::network::{Network, ifindex_of};
use crate::plan::{HostPlan, Port};
use crate::rng::Rng;
pub(crate) use sockets::HostSockets;

/// A host: its addresses and, with Moorline, its core and data plane.
#[derive(Debug)]
pub(crate) struct Node {
    number: usize,
    pub(crate) addresses: AddressBook,
    pub(crate) core: Option<Core>,
    /// Nothing runs on it.
    pub(crate) is_suspended: bool,
}

/// Core and data planes of a host.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) host: Host,
    pub(crate) planes: Planes,
    pub(crate) report_delay: Duration,
    config: shim6::Config,
    settings: Settings,
    /// What a killed core had stored; `None`: it is alive.
    stored: Option<Stored>,
    /// Stored contexts that a core which has begun anew does not have yet.
    to_restore: Option<Vec<ContextSnapshot>>,
    /// The addresses that the data plane of Shim6 takes for the host's own.
    locals: BTreeSet<Locator>,
    /// What its executor has made of the kernel.
    pub(crate) kernel: Kernel,
    /// The core is killed after so many effects more.
    pub(crate) dies_after: Option<u32>,
    /// Uplinks that are not for new connections.
    pub(crate) failing: BTreeSet<u32>,
    /// When timers are to be looked at, as told to the queue.
    pub(crate) wake: Option<Instant>,
}

/// What outlives a core.
#[derive(Debug, Default)]
struct Stored {
    contexts: Vec<ContextSnapshot>,
    sessions: Vec<SessionSnapshot>,
}

impl Node {
    pub(crate) fn new(number: usize, plan: &HostPlan, rng: &mut Rng, now: Instant) -> Self {
        let addresses = AddressBook::new(plan.addresses, number, plan.uplinks.len(), rng.fork());
        let mut config = shim6::Config {
            profile: plan.profile,
            asks_before_removal: true,
            ..shim6::Config::default()
        };
        config.shim6.send_timeout = plan.send_timeout;
        let mut settings = Settings::default();
        if !plan.initiates {
            settings.trigger =
                TriggerPolicy { bytes: u64::MAX, age: Duration::MAX, ..settings.trigger };
        }
        let core = plan.moorline.then(|| {
            let seed = rng.seed();
            Core {
                host: new_host(&config, plan.ilnp, seed, now),
                planes: new_planes(settings, plan.ilnp),
                report_delay: plan.report_delay,
                config,
                settings,
                stored: None,
                to_restore: None,
                locals: BTreeSet::new(),
                kernel: Kernel::default(),
                dies_after: None,
                failing: BTreeSet::new(),
                wake: None,
            }
        });
        Self { number, addresses, core, is_suspended: false }
    }

    /// Tells the core of the links and addresses as they are now.
    pub(crate) fn tell_local(&mut self, network: &Network, now: Instant) {
        let (view, proof) = (network.view_of(self.number), self.addresses.proof());
        let Some(core) = self.living_core() else { return };
        core.kernel.follow(&view);
        core.host.set_proof(proof);
        // The kernel has taken away the routes by links that have gone.
        core.host.doubt_routes();
        core.host.handle_view(view, now);
    }

    fn living_core(&mut self) -> Option<&mut Core> {
        let is_awake = !self.is_suspended;
        self.core.as_mut().filter(|core| is_awake && !core.is_dead())
    }

    /// Kills the core: from now on there are only the data planes.
    pub(crate) fn kill(&mut self) {
        if let Some(core) = &mut self.core {
            core.dies_after = None;
            let mut stored = core.snapshot();
            stored.contexts.extend(core.to_restore.take().into_iter().flatten());
            core.stored.get_or_insert(stored);
        }
    }

    /// Lets a test see and change what a killed core has stored.
    pub(crate) fn with_stored(&mut self, change: impl FnOnce(&mut [ContextSnapshot])) {
        if let Some(stored) = self.core.as_mut().and_then(|core| core.stored.as_mut()) {
            change(&mut stored.contexts);
        }
    }

    /// Another core goes on with the sessions that the one before had stored. False if it could not. Once it has followed the view,
    /// [`Self::restore_contexts`] is next.
    pub(crate) fn restart(&mut self, network: &Network, rng: &mut Rng, now: Instant) -> bool {
        self.kill();
        let Some(core) = &mut self.core else { return true };
        let stored = core.stored.take().unwrap_or_default();
        core.begin_anew(rng.seed(), now);
        let guests = network.guests_of(self.number).map(|(uplink, address)| {
            let port = Port { host: self.number, uplink };
            SessionAddress { ifindex: ifindex_of(port), address }
        });
        let refused = core.host.restore_sessions(stored.sessions, guests.collect(), now);
        core.host.handle_left(core.kernel.routes());
        core.to_restore = Some(stored.contexts);
        self.tell_local(network, now);
        refused.is_empty()
    }

    /// A core that has begun anew goes on with stored contexts. False if it could not.
    pub(crate) fn restore_contexts(&mut self, now: Instant) -> bool {
        let Some(core) = self.living_core() else { return true };
        let Some(stored) = core.to_restore.take() else { return true };
        let mut contexts = stored.into_iter();
        let has_contexts = contexts.all(|one| core.host.shim6_mut().restore(one, now).is_ok());
        core.host.handle_left_contexts(core.planes.shim6.contexts().map(|entry| entry.id));
        core.host.handle_restored(core.kernel.kept().clone(), now);
        has_contexts
    }

    /// Core and data planes begin anew, and know nothing of what was before.
    pub(crate) fn reboot(&mut self, network: &Network, rng: &mut Rng, now: Instant) {
        self.addresses.forget_generation();
        let Some(core) = &mut self.core else { return };
        (core.stored, core.to_restore) = (None, None);
        core.begin_anew(rng.seed(), now);
        core.planes.shim6 = Plane::new(core.settings);
        core.kernel = Kernel::default();
        core.locals.clear();
        self.tell_local(network, now);
    }
}

impl Core {
    /// Whether there are only the data planes.
    pub(crate) fn is_dead(&self) -> bool {
        self.stored.is_some()
    }

    /// Whether it is dead, or dies amid the effects that come next.
    pub(crate) fn is_doomed(&self) -> bool {
        self.is_dead() || self.dies_after.is_some()
    }

    /// Whether its data plane is left with this address of ours: the core told it so, and has been killed before it could say that the
    /// address has gone. Such a data plane goes on as it was told (decision 110).
    pub(crate) fn is_left_to_plane(&self, address: Locator) -> bool {
        let has_prefix = |own: &Locator| own.prefix() == address.prefix();
        let is_guest = self.host.is_session_address(address.0);
        self.is_dead()
            && (self.locals.contains(&address) || is_guest && self.locals.iter().any(has_prefix))
    }

    /// Executes an effect on data planes or kernel, or answers the host. False: the effect is for others.
    pub(crate) fn execute(
        &mut self,
        effect: &Effect,
        sockets: &HostSockets<'_>,
        now: Instant,
    ) -> bool {
        if let Effect::UpdateSession(update) = effect {
            self.planes.ilnp.iter_mut().for_each(|plane| plane.handle_update(update));
        } else if let Effect::SetNode(node) = effect {
            self.planes.ilnp.iter_mut().for_each(|plane| plane.set_nids(node.nids.clone()));
        } else if let Effect::SetLocals(locals) = effect {
            self.set_locals(locals.keys().copied().map(Locator).collect());
        } else if let Effect::AskUsage(Question { context, ulids, since }) = effect {
            let counters = self.planes.shim6.counters(*context);
            let is_busy = counters.is_some_and(|c| c.last_tx > *since || c.last_rx > *since);
            let is_used = is_busy || sockets.are_connected(*ulids);
            self.host.shim6_mut().handle_usage(*context, is_used, now);
        } else {
            return self.kernel.execute(effect, &mut self.host, sockets, now);
        }
        true
    }

    /// Tells the data plane of Shim6 the addresses of the host.
    fn set_locals(&mut self, locals: BTreeSet<Locator>) {
        for gone in self.locals.difference(&locals) {
            self.planes.shim6.unset_local(*gone);
        }
        locals.iter().for_each(|&locator| self.planes.shim6.set_local(locator));
        self.locals = locals;
    }

    fn snapshot(&self) -> Stored {
        let sessions = self.host.ilnp().into_iter().flat_map(Sessions::snapshot).collect();
        Stored { contexts: self.host.shim6().snapshot().collect(), sessions }
    }

    /// Another host in place of this one. The data plane of Shim6 stays: the programs of Linux do, too.
    fn begin_anew(&mut self, seed: [u8; 32], now: Instant) {
        let has_ilnp = self.planes.ilnp.is_some();
        self.host = new_host(&self.config, has_ilnp, seed, now);
        self.planes.ilnp = new_planes(self.settings, has_ilnp).ilnp;
    }

    /// What the contexts and the data plane of Shim6 have dropped.
    pub(crate) fn shim6_drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        self.host.shim6().drops().iter().chain(self.planes.shim6.drops().iter())
    }

    /// What the sessions and the data plane of ILNP have dropped.
    pub(crate) fn ilnp_drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let sessions = self.host.ilnp().into_iter().flat_map(Sessions::drops);
        sessions.chain(self.planes.ilnp.iter().flat_map(|plane| plane.drops().iter()))
    }

    /// When its timers are to be looked at.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let host = self.host.poll_timeout().filter(|_| !self.is_dead());
        [host, self.planes.shim6.poll_timeout()].into_iter().flatten().min()
    }

    /// Whether there is an established context between these addresses, and whether it has moved.
    pub(crate) fn established(&self, ulids: UlidPair) -> Option<EstablishedView> {
        let mut contexts = self.host.shim6().contexts();
        contexts.find(|context| context.ulids == ulids)?.established
    }

    /// The session of these addresses, if they have one.
    pub(crate) fn session(&self, ulids: UlidPair, now: Instant) -> Option<SessionView> {
        let pair = IlvPair::of(ulids);
        self.sessions(now).find(|one| one.pair == pair)
    }

    fn sessions(&self, now: Instant) -> impl Iterator<Item = SessionView> + '_ {
        self.host.ilnp().into_iter().flat_map(move |ilnp| ilnp.sessions(now))
    }
}

fn new_host(config: &shim6::Config, has_ilnp: bool, seed: [u8; 32], now: Instant) -> Host {
    let sessions = has_ilnp.then(|| Sessions::new(ilnp::Config::default(), seed, now));
    Host::new(Contexts::new(config.clone(), seed, now), sessions)
}

fn new_planes(settings: Settings, has_ilnp: bool) -> Planes {
    let ilnp = has_ilnp.then(|| {
        // The key of a table that no run fills.
        moorline_plane::ilnp::Plane::new(moorline_plane::ilnp::Settings::default(), [0; 16])
    });
    Planes { shim6: Plane::new(settings), ilnp }
}

#[cfg(test)]
mod tests;
