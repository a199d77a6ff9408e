use std::time::Duration;

use moorline_cga::{HbaKey, HbaSet, LocalAddresses, LocalProof, Sec, generate_hba};
use moorline_host::{Config, ContextSnapshot, EstablishedView, Host, LocalState};
use moorline_plane::{Plane, Settings};
use moorline_types::{Instant, Locator, UlidPair};

use crate::network::Network;
use crate::plan::HostPlan;
use crate::rng::Rng;

/// A host: its addresses and, with Moorline, its core and data plane.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) set: HbaSet,
    pub(crate) core: Option<Core>,
}

/// Core and data plane of a host.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) host: Host,
    pub(crate) plane: Plane,
    pub(crate) report_delay: Duration,
    config: Config,
    /// What a killed core had stored; `None`: it is alive.
    stored: Option<Vec<ContextSnapshot>>,
    /// When timers are to be looked at, as told to the queue.
    pub(crate) wake: Option<Instant>,
}

impl Node {
    pub(crate) fn new(number: usize, plan: &HostPlan, rng: &mut Rng, now: Instant) -> Self {
        let set = addresses(number, plan.uplinks.len(), rng);
        let mut config = Config::default();
        config.shim6.send_timeout = plan.send_timeout;
        let core = plan.moorline.then(|| Core {
            host: Host::new(config.clone(), rng.seed(), now),
            plane: Plane::new(Settings::default()),
            report_delay: plan.report_delay,
            config,
            stored: None,
            wake: None,
        });
        Self { set, core }
    }

    pub(crate) fn locators(&self) -> &[Locator] {
        self.set.locators()
    }

    /// Tells core and data plane of the addresses as they are now.
    pub(crate) fn tell_local(&mut self, number: usize, network: &Network, now: Instant) {
        let Some(core) = self.core.as_mut().filter(|core| !core.is_dead()) else { return };
        let mut usable = Vec::new();
        for port in network.of_host(number) {
            if port.is_usable() {
                usable.push(port.address);
                core.plane.set_local(port.address);
            } else {
                core.plane.unset_local(port.address);
            }
        }
        core.host.handle_local(&LocalState { proof: proof_of(&self.set), usable }, now);
    }

    /// Kills the core: from now on there is only the data plane.
    pub(crate) fn kill(&mut self) {
        if let Some(core) = &mut self.core {
            let stored = core.host.snapshot().collect();
            core.stored.get_or_insert(stored);
        }
    }

    /// Another core goes on with what the one before had stored. False if it could not.
    pub(crate) fn restart(
        &mut self,
        number: usize,
        network: &Network,
        rng: &mut Rng,
        now: Instant,
    ) -> bool {
        self.kill();
        let Some(core) = &mut self.core else { return true };
        let stored = core.stored.take().unwrap_or_default();
        core.host = Host::new(core.config.clone(), rng.seed(), now);
        self.tell_local(number, network, now);
        let Some(core) = &mut self.core else { return true };
        stored.into_iter().all(|snapshot| core.host.restore(snapshot, now).is_ok())
    }
}

impl Core {
    /// Whether there is only the data plane.
    pub(crate) fn is_dead(&self) -> bool {
        self.stored.is_some()
    }

    /// When its timers are to be looked at.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let host = self.host.poll_timeout().map(|(at, _)| at).filter(|_| !self.is_dead());
        [host, self.plane.poll_timeout()].into_iter().flatten().min()
    }

    /// Whether there is an established context between these addresses, and whether it has moved.
    pub(crate) fn established(&self, ulids: UlidPair) -> Option<EstablishedView> {
        self.host.contexts().find(|context| context.ulids == ulids)?.established
    }
}

/// The set never changes, so its generation does not either.
fn proof_of(set: &HbaSet) -> LocalProof {
    let (present, sets) = (set.locators().to_vec(), vec![set.clone()]);
    LocalProof::new(1, LocalAddresses { present, sets, cgas: Vec::new() }, &[], [0; 32])
}

/// An HBA set with one address at each ISP: `2001:db8:a1::/64` is host A at ISP 1.
fn addresses(number: usize, isps: usize, rng: &mut Rng) -> HbaSet {
    let prefix = |isp: usize| {
        let site = u8::try_from(0xa0 + number * 0x10 + isp + 1).unwrap_or(u8::MAX);
        [0x20, 0x01, 0x0d, 0xb8, 0, site, 0, 0]
    };
    let prefixes: Vec<_> = (0..isps).map(prefix).collect();
    let seed = rng.seed();
    let mut modifier = [0; 16];
    modifier.copy_from_slice(&seed[..16]);
    let mut key = [0; 48];
    key[..32].copy_from_slice(&rng.seed());
    let sec = Sec::new(0).expect("0 is a Sec");
    generate_hba(&prefixes, sec, &HbaKey::extended_modifier(key), modifier, 1)
        .expect("Sec 0 takes one try, and a host has at most a few prefixes")
}
