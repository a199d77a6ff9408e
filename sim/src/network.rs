use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_types::Locator;

use crate::plan::{Direction, Plan, Port, REORDER_DELAY, REPLAY_WITHIN, Uplink, What};
use crate::rng::Rng;

/// Who can reach whom, and what happens to packets on the way.
#[derive(Debug)]
pub(crate) struct Network {
    ports: BTreeMap<Port, PortState>,
    by_address: BTreeMap<Ipv6Addr, Port>,
    cut_paths: BTreeSet<(Port, Port)>,
    rng: Rng,
}

/// One uplink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortState {
    pub(crate) address: Locator,
    uplink: Uplink,
    is_cut_out: bool,
    is_cut_in: bool,
    has_carrier: bool,
    has_address: bool,
}

impl PortState {
    /// Whether its host can send from it, as far as it knows.
    pub(crate) fn is_usable(&self) -> bool {
        self.has_carrier && self.has_address
    }

    fn heal(&mut self) {
        self.is_cut_in = false;
        self.is_cut_out = false;
    }
}

impl Network {
    pub(crate) fn new(plan: &Plan, addresses: &[Vec<Locator>], rng: Rng) -> Self {
        let mut ports = BTreeMap::new();
        let mut by_address = BTreeMap::new();
        for (host, (of_host, addresses)) in plan.hosts.iter().zip(addresses).enumerate() {
            for (isp, (&uplink, &address)) in of_host.uplinks.iter().zip(addresses).enumerate() {
                let port = Port { host, isp };
                by_address.insert(address.0, port);
                let state = PortState {
                    address,
                    uplink,
                    is_cut_out: false,
                    is_cut_in: false,
                    has_carrier: true,
                    has_address: true,
                };
                ports.insert(port, state);
            }
        }
        Self { ports, by_address, cut_paths: BTreeSet::new(), rng }
    }

    pub(crate) fn port_of(&self, address: Ipv6Addr) -> Option<Port> {
        self.by_address.get(&address).copied()
    }

    pub(crate) fn port(&self, port: Port) -> Option<&PortState> {
        self.ports.get(&port)
    }

    pub(crate) fn of_host(&self, host: usize) -> impl Iterator<Item = &PortState> {
        self.ports.iter().filter(move |(port, _)| port.host == host).map(|(_, state)| state)
    }

    /// Whether packets get from one uplink to the other, but for bad luck.
    pub(crate) fn works(&self, from: Port, to: Port) -> bool {
        let sends = |state: &PortState| state.is_usable() && !state.is_cut_out;
        self.port(from).is_some_and(sends)
            && self.receives(to)
            && !self.cut_paths.contains(&(from, to))
    }

    /// Whether a packet on its way to this uplink gets in.
    pub(crate) fn receives(&self, to: Port) -> bool {
        self.port(to).is_some_and(|state| state.is_usable() && !state.is_cut_in)
    }

    /// The times after which a packet arrives: none if it is lost, several if it is repeated.
    pub(crate) fn carry(&mut self, from: Port, to: Port, is_control: bool) -> Vec<Duration> {
        if !self.works(from, to) {
            return Vec::new();
        }
        let uplinks = [from, to].map(|port| self.port(port).map(|s| s.uplink).unwrap_or_default());
        let mut arrivals = Vec::with_capacity(1);
        if !self.any(&uplinks, |uplink| uplink.loss) {
            arrivals.push(self.delay(&uplinks));
        }
        if self.any(&uplinks, |uplink| uplink.duplication) {
            arrivals.push(self.delay(&uplinks));
        }
        if is_control && self.any(&uplinks, |uplink| uplink.replay) {
            arrivals.push(self.delay(&uplinks) + self.rng.duration(REPLAY_WITHIN));
        }
        arrivals
    }

    /// Hosts have to be told of their addresses afterwards.
    pub(crate) fn apply(&mut self, what: What) {
        match what {
            What::Cut { port, direction } => self.change(port, |state| {
                state.is_cut_out |= direction != Direction::In;
                state.is_cut_in |= direction != Direction::Out;
            }),
            What::CutPath { from, to } => {
                self.cut_paths.insert((from, to));
            }
            What::CarrierDown(port) => self.change(port, |state| state.has_carrier = false),
            What::CarrierUp(port) => self.change(port, |state| state.has_carrier = true),
            What::AddressRemoved(port) => self.change(port, |state| state.has_address = false),
            What::AddressAdded(port) => self.change(port, |state| state.has_address = true),
            What::Heal(port) => {
                self.cut_paths.retain(|&(from, to)| from != port && to != port);
                self.change(port, PortState::heal);
            }
            What::HealAll => {
                self.cut_paths.clear();
                for state in self.ports.values_mut() {
                    state.heal();
                    state.has_carrier = true;
                    state.has_address = true;
                }
            }
            What::Kill { .. } | What::Restart { .. } => {}
        }
    }

    /// Longest time that a packet may take one way; a replayed one does not count.
    pub(crate) fn longest_delay(&self) -> Duration {
        let of_port = |state: &PortState| {
            let is_reordering = state.uplink.reordering.0 > 0;
            let held_back = if is_reordering { REORDER_DELAY } else { Duration::ZERO };
            state.uplink.delay + state.uplink.jitter + held_back
        };
        self.ports.values().map(of_port).max().unwrap_or_default() * 2
    }

    /// Whether packets are lost by chance.
    pub(crate) fn is_lossy(&self) -> bool {
        self.ports.values().any(|state| state.uplink.loss.0 > 0)
    }

    /// Whether they are lost, held back or replayed by chance.
    pub(crate) fn is_disorderly(&self) -> bool {
        let is_so = |uplink: &Uplink| {
            [uplink.loss, uplink.reordering, uplink.replay].iter().any(|chance| chance.0 > 0)
        };
        self.ports.values().any(|state| is_so(&state.uplink))
    }

    fn change(&mut self, port: Port, change: impl FnOnce(&mut PortState)) {
        if let Some(state) = self.ports.get_mut(&port) {
            change(state);
        }
    }

    fn any(&mut self, uplinks: &[Uplink], chance: impl Fn(&Uplink) -> crate::Chance) -> bool {
        // Every die is cast, so that what happens to later packets does not depend on this one.
        uplinks.iter().filter(|uplink| self.rng.is(chance(uplink))).count() > 0
    }

    fn delay(&mut self, uplinks: &[Uplink]) -> Duration {
        let mut delay = Duration::ZERO;
        for uplink in uplinks {
            delay += uplink.delay + self.rng.duration(uplink.jitter);
            if self.rng.is(uplink.reordering) {
                delay += REORDER_DELAY;
            }
        }
        delay
    }
}
