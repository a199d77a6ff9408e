use alloc::collections::BTreeSet;
use core::net::Ipv6Addr;

use moorline_ip::Mac;
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;

use super::config::WireConfig;
use super::fork;
use crate::Drops;
use crate::address::Addresses;
use crate::mld::Listener;
use crate::neighbor::Neighbors;
use crate::router::Routers;

/// Number of a wire of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireId(pub u32);

/// A wire, and the machines of its interface.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) id: WireId,
    pub(super) mac: Mac,
    pub(super) is_up: bool,
    /// Whether the wire cuts TCP super-segments.
    pub(super) cuts_segments: bool,
    pub(super) neighbors: Neighbors,
    pub(super) routers: Routers,
    pub(super) addresses: Addresses,
    pub(super) listener: Listener,
    /// Routers that came when the tables of routers, prefixes or addresses were full, and have not answered yet. Each was one of
    /// `routers` when the last one came, so there are few.
    pub(super) latecomers: BTreeSet<Ipv6Addr>,
}

impl Wire {
    pub(super) fn new(
        id: WireId,
        config: WireConfig,
        hop_limit: u8,
        mut random: ChaCha20Rng,
    ) -> Self {
        let WireConfig { mtu, addressing } = config;
        Self {
            id,
            mac: addressing.mac,
            is_up: false,
            cuts_segments: false,
            neighbors: Neighbors::new(fork(&mut random)),
            routers: Routers::new(mtu, hop_limit, fork(&mut random)),
            addresses: Addresses::new(addressing, fork(&mut random)),
            listener: Listener::new(fork(&mut random)),
            latecomers: BTreeSet::new(),
        }
    }

    pub(super) fn handle_link(&mut self, is_up: bool, now: Instant) {
        if self.is_up == is_up {
            return;
        }
        self.is_up = is_up;
        if !is_up {
            self.neighbors.clear();
        }
        self.listener.handle_link(is_up, now);
        self.addresses.handle_link(is_up, now);
        self.routers.handle_link(is_up, now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.neighbors.handle_timeout(now);
        self.listener.handle_timeout(now);
        self.addresses.handle_timeout(now);
        self.routers.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = [
            self.neighbors.poll_timeout(),
            self.listener.poll_timeout(),
            self.addresses.poll_timeout(),
            self.routers.poll_timeout(),
        ];
        timeouts.into_iter().flatten().min()
    }

    /// The drops that the machines have counted themselves.
    pub(super) fn drops(&self) -> impl Iterator<Item = &Drops> {
        [self.neighbors.drops(), self.routers.drops(), self.addresses.drops()].into_iter()
    }
}
