mod sockets;
mod stack;

use std::collections::BTreeSet;
use std::time::Duration;

use moorline_cga::LocalProof;
use moorline_contexts::{self as shim6, ContextSnapshot, Contexts, EstablishedView, Question};
use moorline_datapath::shim6::TriggerPolicy;
use moorline_host::model::Kernel;
use moorline_host::{Effect, Host, Protocol, SessionAddress, Sessions};
use moorline_ilnp::{self as ilnp, SessionSnapshot, SessionView};
use moorline_plane::{Planes, shim6::Plane, shim6::Settings};
use moorline_types::{DropReason, IlvPair, Instant, Locator, UlidPair};

use crate::addresses::AddressBook;
use crate::network::{Network, ifindex_of};
use crate::plain::PlainHost;
use crate::plan::{HostPlan, Port};
use crate::rng::Rng;
pub(crate) use sockets::HostSockets;
pub(crate) use stack::{Output, StackHost};

/// A host: its addresses and, with Moorline, its core and data plane.
#[derive(Debug)]
pub(crate) struct Node {
    number: usize,
    pub(crate) addresses: AddressBook,
    pub(crate) core: Option<Core>,
    /// ILNP by the RFCs alone. Such a host has no core.
    pub(crate) plain: Option<PlainHost>,
    /// A host stack. Such a host has no core beside it, and makes its addresses itself.
    pub(crate) stack: Option<StackHost>,
    /// Whether the host sleeps.
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
    /// State that a killed core has stored; `None` if the core is alive.
    stored: Option<Stored>,
    /// Stored contexts that a restarted core does not have yet.
    to_restore: Option<Vec<ContextSnapshot>>,
    /// The addresses that the data plane of Shim6 takes for the host's own.
    locals: BTreeSet<Locator>,
    /// State of the kernel, as the executor has made it.
    pub(crate) kernel: Kernel,
    /// Interfaces with programs of the data planes.
    attached: BTreeSet<(u32, Protocol)>,
    /// Number of effects after which the core is killed.
    pub(crate) dies_after: Option<u32>,
    /// Uplinks that new connections avoid.
    pub(crate) failing: BTreeSet<u32>,
    /// Time of the next look at timers, as the queue has it.
    pub(crate) wake: Option<Instant>,
}

/// State that outlives a core.
#[derive(Debug, Default)]
struct Stored {
    contexts: Vec<ContextSnapshot>,
    sessions: Vec<SessionSnapshot>,
}

impl Node {
    pub(crate) fn new(number: usize, plan: &HostPlan, rng: &mut Rng, now: Instant) -> Self {
        let prefixes = if plan.stack { 0 } else { plan.uplinks.len() };
        let addresses = AddressBook::new(plan.addresses, number, prefixes, rng.fork());
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
        let core = (plan.moorline && !plan.stack).then(|| {
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
                attached: BTreeSet::new(),
                dies_after: None,
                failing: BTreeSet::new(),
                wake: None,
            }
        });
        let plain = plan.plain_ilnp.then(|| PlainHost::new(rng.fork()));
        let stack = plan.stack.then(|| StackHost::new(number, plan, rng.seed(), now));
        Self { number, addresses, core, plain, stack, is_suspended: false }
    }

    /// Gives the core, or the host with ILNP alone, the present links and addresses.
    pub(crate) fn tell_local(&mut self, network: &Network, now: Instant) {
        let number = self.number;
        if let Some(plain) = self.plain.as_mut().filter(|_| !self.is_suspended) {
            let locators = network.usable_of(number).map(|locator| locator.prefix());
            plain.set_locators(locators.collect(), now);
        }
        if let Some(stack) = self.stack.as_mut().filter(|_| !self.is_suspended) {
            stack.follow_links(network, now);
        }
        let (view, proof) = (network.view_of(self.number), self.addresses.proof());
        let Some(core) = self.living_core() else { return };
        core.kernel.follow(&view);
        core.host.set_proof(proof);
        // The kernel has removed the routes by links that are gone.
        core.host.doubt_routes();
        core.host.handle_view(view, now);
    }

    /// The newest address of an uplink, if it has one.
    pub(crate) fn newest(&self, uplink: usize) -> Option<Locator> {
        match &self.stack {
            Some(stack) => stack.newest(uplink),
            None => self.addresses.newest(uplink),
        }
    }

    /// What the host tells its peers about its addresses.
    pub(crate) fn proof(&self) -> LocalProof {
        match &self.stack {
            Some(stack) => stack.proof(),
            None => self.addresses.proof(),
        }
    }

    /// Looks at the contexts of the host. `None` if it has none, or its core is dead.
    pub(crate) fn with_contexts<T>(&self, look: impl FnOnce(&Contexts) -> T) -> Option<T> {
        match (&self.core, &self.stack) {
            (Some(core), _) => (!core.is_dead()).then(|| look(core.host.shim6())),
            (None, Some(stack)) => Some(stack.with_contexts(look)),
            (None, None) => None,
        }
    }

    /// The established context between these addresses, if there is one.
    pub(crate) fn established(&self, ulids: UlidPair) -> Option<EstablishedView> {
        match (&self.core, &self.stack) {
            (Some(core), _) => core.established(ulids),
            (None, Some(stack)) => stack.established(ulids),
            (None, None) => None,
        }
    }

    /// The session between these addresses, if there is one.
    pub(crate) fn session(&self, ulids: UlidPair, now: Instant) -> Option<SessionView> {
        match (&self.core, &self.stack) {
            (Some(core), _) => session(&core.host, ulids, now),
            (None, Some(stack)) => stack.session(ulids, now),
            (None, None) => None,
        }
    }

    fn living_core(&mut self) -> Option<&mut Core> {
        let is_awake = !self.is_suspended;
        self.core.as_mut().filter(|core| is_awake && !core.is_dead())
    }

    /// Kills the core: only the data planes are left.
    pub(crate) fn kill(&mut self) {
        if let Some(core) = &mut self.core {
            core.dies_after = None;
            let mut stored = core.snapshot();
            stored.contexts.extend(core.to_restore.take().into_iter().flatten());
            core.stored.get_or_insert(stored);
        }
    }

    /// Lets a test change the stored state of a killed core.
    pub(crate) fn with_stored(&mut self, change: impl FnOnce(&mut [ContextSnapshot])) {
        if let Some(stored) = self.core.as_mut().and_then(|core| core.stored.as_mut()) {
            change(&mut stored.contexts);
        }
    }

    /// Starts another core with the stored sessions of the one before. Returns false if the core refuses some. Once
    /// the core has followed the view, [`Self::restore_contexts`] follows.
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

    /// Gives the stored contexts to a restarted core. Returns false if the core refuses some.
    pub(crate) fn restore_contexts(&mut self, now: Instant) -> bool {
        let Some(core) = self.living_core() else { return true };
        let Some(stored) = core.to_restore.take() else { return true };
        let mut contexts = stored.into_iter();
        let has_contexts = contexts.all(|one| core.host.shim6_mut().restore(one, now).is_ok());
        core.host.handle_left_contexts(core.planes.shim6.contexts().map(|entry| entry.id));
        core.host.handle_restored(core.kernel.kept().clone(), now);
        has_contexts
    }

    /// Restarts core and data planes without any earlier state.
    pub(crate) fn reboot(&mut self, network: &Network, rng: &mut Rng, now: Instant) {
        self.addresses.forget_generation();
        self.plain.iter_mut().for_each(PlainHost::begin_anew);
        let Some(core) = &mut self.core else { return };
        (core.stored, core.to_restore) = (None, None);
        core.begin_anew(rng.seed(), now);
        core.planes.shim6 = Plane::new(core.settings);
        core.kernel = Kernel::default();
        core.attached.clear();
        core.locals.clear();
        self.tell_local(network, now);
    }
}

impl Core {
    /// Whether the core is killed and only the data planes are left.
    pub(crate) fn is_dead(&self) -> bool {
        self.stored.is_some()
    }

    /// Whether the core is dead, or dies amid the next effects.
    pub(crate) fn is_doomed(&self) -> bool {
        self.is_dead() || self.dies_after.is_some()
    }

    /// Whether the data plane still has this address of ours, because the core was killed before it could report that
    /// the address is gone. Such a data plane goes on with the addresses that it has (decision 110).
    pub(crate) fn is_left_to_plane(&self, address: Locator) -> bool {
        let has_prefix = |own: &Locator| own.prefix() == address.prefix();
        let is_guest = self.host.is_session_address(address.0);
        self.is_dead()
            && (self.locals.contains(&address) || is_guest && self.locals.iter().any(has_prefix))
    }

    /// Executes an effect on data planes or kernel, or answers the host. Returns false if the effect is for others.
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
        } else if let Effect::Attach { protocol, ifindex } = effect {
            self.attached.insert((*ifindex, *protocol));
        } else if let Effect::Detach { protocol, ifindex } = effect {
            self.attached.remove(&(*ifindex, *protocol));
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

    /// Whether the data planes see the packets of an interface.
    pub(crate) fn is_attached(&self, ifindex: u32) -> bool {
        self.attached.iter().any(|(of, _)| *of == ifindex)
    }

    /// Gives the data plane of Shim6 the addresses of the host.
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

    /// Replaces the host by a new one. The data plane of Shim6 stays, like the programs of Linux.
    fn begin_anew(&mut self, seed: [u8; 32], now: Instant) {
        self.failing.clear();
        let has_ilnp = self.planes.ilnp.is_some();
        self.host = new_host(&self.config, has_ilnp, seed, now);
        self.planes.ilnp = new_planes(self.settings, has_ilnp).ilnp;
    }

    /// Drops of the contexts and of the data plane of Shim6.
    pub(crate) fn shim6_drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        self.host.shim6().drops().iter().chain(self.planes.shim6.drops().iter())
    }

    /// Drops of the sessions and of the data plane of ILNP.
    pub(crate) fn ilnp_drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        let sessions = self.host.ilnp().into_iter().flat_map(Sessions::drops);
        sessions.chain(self.planes.ilnp.iter().flat_map(|plane| plane.drops().iter()))
    }

    /// Time of the next look at timers.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let host = self.host.poll_timeout().filter(|_| !self.is_dead());
        [host, self.planes.shim6.poll_timeout()].into_iter().flatten().min()
    }

    /// The established context between these addresses, if there is one.
    fn established(&self, ulids: UlidPair) -> Option<EstablishedView> {
        established(&self.host, ulids)
    }
}

fn session(host: &Host, ulids: UlidPair, now: Instant) -> Option<SessionView> {
    let pair = IlvPair::of(ulids);
    host.ilnp()?.sessions(now).find(|one| one.pair == pair)
}

fn established(host: &Host, ulids: UlidPair) -> Option<EstablishedView> {
    host.shim6().contexts().find(|context| context.ulids == ulids)?.established
}

fn new_host(config: &shim6::Config, has_ilnp: bool, seed: [u8; 32], now: Instant) -> Host {
    let sessions = has_ilnp.then(|| Sessions::new(ilnp::Config::default(), seed, now));
    Host::new(Contexts::new(config.clone(), seed, now), sessions)
}

fn new_planes(settings: Settings, has_ilnp: bool) -> Planes {
    let ilnp = has_ilnp.then(|| {
        // Key of a table that no run fills.
        moorline_plane::ilnp::Plane::new(moorline_plane::ilnp::Settings::default(), [0; 16])
    });
    Planes { shim6: Plane::new(settings), ilnp }
}

#[cfg(test)]
mod tests;
