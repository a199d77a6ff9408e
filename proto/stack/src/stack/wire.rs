use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use core::net::Ipv6Addr;

use moorline_ip::Mac;
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;

use super::config::WireConfig;
use super::fork;
use crate::address::Addresses;
use crate::mld::Listener;
use crate::neighbor::Neighbors;
use crate::router::Routers;
use crate::{Drops, ip4};

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
    /// IPv4. Most hosts have none, and the others read it seldom.
    pub(super) ip4: Option<Box<ip4::Interface>>,
}

impl Wire {
    pub(super) fn new(
        id: WireId,
        config: WireConfig,
        hop_limit: u8,
        mut random: ChaCha20Rng,
    ) -> Self {
        let WireConfig { mtu, addressing, ip4 } = config;
        let mac = addressing.mac;
        Self {
            id,
            mac,
            is_up: false,
            cuts_segments: false,
            neighbors: Neighbors::new(fork(&mut random)),
            routers: Routers::new(mtu, hop_limit, fork(&mut random)),
            addresses: Addresses::new(addressing, fork(&mut random)),
            listener: Listener::new(fork(&mut random)),
            latecomers: BTreeSet::new(),
            ip4: ip4
                .map(|config| Box::new(ip4::Interface::new(config, mac, mtu, fork(&mut random)))),
        }
    }

    pub(super) fn handle_link(&mut self, is_up: bool, now: Instant) {
        if self.is_up == is_up {
            return;
        }
        self.is_up = is_up;
        if !is_up {
            self.neighbors.clear();
            self.ip4.iter_mut().for_each(|ip4| ip4.clear());
        }
        self.listener.handle_link(is_up, now);
        self.addresses.handle_link(is_up, now);
        self.routers.handle_link(is_up, now);
    }

    /// The wire leads to another link now.
    pub(super) fn handle_new_link(&mut self, now: Instant) {
        self.latecomers.clear();
        self.neighbors.clear();
        self.ip4.iter_mut().for_each(|ip4| ip4.clear());
        self.listener.handle_link(self.is_up, now);
        self.addresses.forget(now);
        self.routers.forget();
        self.routers.handle_link(self.is_up, now);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.neighbors.handle_timeout(now);
        self.listener.handle_timeout(now);
        self.addresses.handle_timeout(now);
        self.routers.handle_timeout(now);
        self.ip4.iter_mut().for_each(|ip4| ip4.handle_timeout(now));
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let timeouts = [
            self.neighbors.poll_timeout(),
            self.listener.poll_timeout(),
            self.addresses.poll_timeout(),
            self.routers.poll_timeout(),
            self.ip4().and_then(ip4::Interface::poll_timeout),
        ];
        timeouts.into_iter().flatten().min()
    }

    pub(super) fn ip4(&self) -> Option<&ip4::Interface> {
        self.ip4.as_deref()
    }

    /// The drops that the machines have counted themselves.
    pub(super) fn drops(&self) -> impl Iterator<Item = &Drops> {
        let of_ip4 = self.ip4().into_iter().flat_map(ip4::Interface::drops);
        [self.neighbors.drops(), self.routers.drops(), self.addresses.drops()]
            .into_iter()
            .chain(of_ip4)
    }
}
