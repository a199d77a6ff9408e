use std::time::Duration;

use moorline_contexts::{Config, ContextSnapshot, Contexts, EstablishedView, LocalState};
use moorline_datapath::shim6::TriggerPolicy;
use moorline_plane::shim6::{Plane, Settings};
use moorline_types::{Instant, Locator, Ulid, UlidPair};

use crate::addresses::{AddressBook, Changed};
use crate::network::Network;
use crate::plan::{HostPlan, Port};
use crate::rng::Rng;

/// A host: its addresses and, with Moorline, its core and data plane.
#[derive(Debug)]
pub(crate) struct Node {
    number: usize,
    pub(crate) addresses: AddressBook,
    pub(crate) core: Option<Core>,
    /// Nothing runs on it.
    pub(crate) is_suspended: bool,
}

/// Core and data plane of a host.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) host: Contexts,
    pub(crate) plane: Plane,
    pub(crate) report_delay: Duration,
    config: Config,
    settings: Settings,
    /// What a killed core had stored; `None`: it is alive.
    stored: Option<Vec<ContextSnapshot>>,
    /// What both were told of the addresses.
    told: LocalState,
    /// When timers are to be looked at, as told to the queue.
    pub(crate) wake: Option<Instant>,
}

impl Node {
    pub(crate) fn new(number: usize, plan: &HostPlan, rng: &mut Rng, now: Instant) -> Self {
        let addresses = AddressBook::new(plan.addresses, number, plan.uplinks.len(), rng.fork());
        let mut config = Config { profile: plan.profile, ..Config::default() };
        config.shim6.send_timeout = plan.send_timeout;
        let mut settings = Settings::default();
        if !plan.initiates {
            settings.trigger =
                TriggerPolicy { bytes: u64::MAX, age: Duration::MAX, ..settings.trigger };
        }
        let core = plan.moorline.then(|| Core {
            host: Contexts::new(config.clone(), rng.seed(), now),
            plane: Plane::new(settings),
            report_delay: plan.report_delay,
            config,
            settings,
            stored: None,
            told: LocalState::default(),
            wake: None,
        });
        let mut node = Self { number, addresses, core, is_suspended: false };
        node.tell_proof();
        node
    }

    /// Tells core and data plane of the addresses as they are now.
    pub(crate) fn tell_local(&mut self, network: &Network, now: Instant) {
        let is_awake = !self.is_suspended;
        let Some(core) = self.core.as_mut().filter(|core| is_awake && !core.is_dead()) else {
            return;
        };
        let usable: Vec<_> = network.usable_of(self.number).collect();
        for gone in core.told.usable.iter().filter(|locator| !usable.contains(locator)) {
            core.plane.unset_local(*gone);
        }
        usable.iter().for_each(|&locator| core.plane.set_local(locator));
        core.told.usable = usable;
        core.host.handle_local(&core.told, now);
    }

    /// A prefix of this uplink comes; what addresses come with it.
    pub(crate) fn add_prefix(&mut self, port: Port) -> Changed {
        let changed = self.addresses.add_prefix(port.uplink);
        self.tell_proof();
        changed
    }

    /// A prefix of this uplink goes; what addresses go with it.
    pub(crate) fn withdraw_prefix(&mut self, port: Port) -> Changed {
        let changed = self.addresses.withdraw_prefix(port.uplink);
        self.tell_proof();
        changed
    }

    /// Kills the core: from now on there is only the data plane.
    pub(crate) fn kill(&mut self) {
        if let Some(core) = &mut self.core {
            let stored = core.host.snapshot().collect();
            core.stored.get_or_insert(stored);
        }
    }

    /// Lets a test see and change what a killed core has stored.
    pub(crate) fn with_stored(&mut self, change: impl FnOnce(&mut [ContextSnapshot])) {
        if let Some(stored) = self.core.as_mut().and_then(|core| core.stored.as_mut()) {
            change(stored);
        }
    }

    /// Another core goes on with what the one before had stored. False if it could not.
    pub(crate) fn restart(&mut self, network: &Network, rng: &mut Rng, now: Instant) -> bool {
        self.kill();
        let Some(core) = &mut self.core else { return true };
        let stored = core.stored.take().unwrap_or_default();
        core.host = Contexts::new(core.config.clone(), rng.seed(), now);
        self.tell_local(network, now);
        let Some(core) = &mut self.core else { return true };
        stored.into_iter().all(|snapshot| core.host.restore(snapshot, now).is_ok())
    }

    /// Core and data plane begin anew, and know nothing of what was before.
    pub(crate) fn reboot(&mut self, network: &Network, rng: &mut Rng, now: Instant) {
        self.addresses.forget_generation();
        self.tell_proof();
        let Some(core) = &mut self.core else { return };
        core.stored = None;
        core.host = Contexts::new(core.config.clone(), rng.seed(), now);
        core.plane = Plane::new(core.settings);
        core.told.usable.clear();
        self.tell_local(network, now);
    }

    fn tell_proof(&mut self) {
        if let Some(core) = &mut self.core {
            core.told.proof = self.addresses.proof();
        }
    }
}

impl Core {
    /// Whether there is only the data plane.
    pub(crate) fn is_dead(&self) -> bool {
        self.stored.is_some()
    }

    /// Whether its data plane is left with this address of ours: the core told it so, and has been killed before it could say that the
    /// address has gone. Such a data plane goes on as it was told (decision 110).
    pub(crate) fn is_left_to_plane(&self, address: Locator) -> bool {
        self.is_dead() && self.told.usable.contains(&address)
    }

    /// See [`crate::Outcome::extents`].
    pub(crate) fn extent(&self, now: Instant) -> usize {
        let size = |host: &Contexts, plane: &Plane| format!("{host:?} {plane:?}").len();
        let mut host = Contexts::new(self.config.clone(), [0; 32], now);
        host.handle_local(&self.told, now);
        let mut plane = Plane::new(self.settings);
        self.told.usable.iter().for_each(|&locator| plane.set_local(locator));
        size(&self.host, &self.plane).saturating_sub(size(&host, &plane))
    }

    /// When its timers are to be looked at.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let host = self.host.poll_timeout().map(|(at, _)| at).filter(|_| !self.is_dead());
        [host, self.plane.poll_timeout()].into_iter().flatten().min()
    }

    /// Whether it has been told that this address is its own, or that it can prove it.
    pub(crate) fn knows_as_own(&self, ulid: Ulid) -> bool {
        let proof = &self.told.proof;
        proof.addresses().present.contains(&ulid.as_locator())
            || proof.announcement_for(ulid).is_some()
    }

    /// Whether there is an established context between these addresses, and whether it has moved.
    pub(crate) fn established(&self, ulids: UlidPair) -> Option<EstablishedView> {
        self.host.contexts().find(|context| context.ulids == ulids)?.established
    }
}
