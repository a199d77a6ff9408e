//! The MTU of paths that are narrower than the uplinks of this host.
//!
//! The kernel looks up where to note a Packet Too Big with an interface and without ports. Echo replies and sockets that are bound to an
//! interface look their route up with ports, so they find the route of a moved pair, and not what the kernel has noted. The daemon
//! asks the kernel what it knows and gives the MTU to the routes of the pair (decision 118).

use std::collections::BTreeSet;
use std::iter;
use std::time::Duration;

use moorline_addresses::Mover;
use moorline_link::TooBig;
use moorline_types::{LocatorPair, UlidPair};
use tokio::time::Instant;

use crate::clock;
use crate::shell::Daemon;

/// State about routers that found a packet too long.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    /// When sockets may be told again that their route is not the one of the moved pair.
    tell_after: Option<Instant>,
    /// Pairs of packets that were too long for a path with the least MTU. The kernel ignores what routers say of these: less
    /// than the least MTU is left of it once the octets of the header are taken off.
    least: BTreeSet<UlidPair>,
}

impl Daemon {
    /// A router says that a packet was too long.
    pub(crate) fn on_too_big(&mut self, told: TooBig) {
        let LocatorPair { local, peer } = told.addresses;
        let pair = UlidPair::new(local.as_ulid(), peer.as_ulid());
        let is_ours =
            self.host.view().uplink_of(local.0).is_some() || self.host.is_kept(pair.local);
        if is_ours && self.unbound.on_too_long(pair, clock::now()) && told.is_ignored {
            self.path_mtus.least.insert(pair);
        }
    }

    /// Asks the kernel for the MTU of the paths of these pairs, if they have moved, and gives it to their routes.
    pub(crate) async fn learn_path_mtus(&mut self, pairs: &BTreeSet<UlidPair>) {
        let (mut news, mut known) = (Vec::new(), Vec::new());
        for mover in self.host.routes().movers_of(pairs) {
            let Some(path) = self.host.path_of(mover) else { continue };
            match self.ask_path_mtu(mover, path).await {
                Some(mtu) => news.push((mover, path, mtu)),
                None => known.push(mover),
            }
        }
        known.retain(|mover| {
            let route = self.host.routes().get(*mover);
            route.is_some_and(|route| self.path_mtus.least.contains(&route.ulids))
        });
        self.path_mtus.least.clear();
        self.host.handle_path_mtus(&news, clock::now());
        self.pump().await;
        self.tell_tcp(&known).await;
    }

    /// The routes of these movers have the least MTU, and a router says that a packet was too long all the same. A connection of TCP that has begun
    /// without an address keeps the route that it had then, and the kernel ignores the router: the connection has to look its route up
    /// again, and to be told.
    async fn tell_tcp(&mut self, movers: &[Mover]) {
        let now = Instant::now();
        if movers.is_empty() || self.path_mtus.tell_after.is_some_and(|at| now < at) {
            return;
        }
        self.path_mtus.tell_after = Some(now + TELL_GAP);
        if let Err(error) = self.netlink.flush_cached_routes().await {
            return tracing::debug!(%error, "routes of sockets");
        }
        for route in movers.iter().filter_map(|mover| self.host.routes().get(*mover)) {
            self.notices.on_moved(route.ulids, Some(route.tcp_mtu()), clock::now());
        }
    }

    /// The MTU of the path, with the header in. None if the kernel knows of none that is less than that of the route.
    async fn ask_path_mtu(&self, mover: Mover, path: LocatorPair) -> Option<u32> {
        let route = *self.host.routes().get(mover)?;
        let overhead = self.host.overhead_of(mover)?;
        if self.path_mtus.least.contains(&route.ulids) {
            return (route.mtu > MIN_MTU - overhead).then_some(MIN_MTU);
        }
        let uplinks =
            [route.ulids.local.0, path.local.0].map(|source| self.host.ifindex_of(source));
        let interfaces: BTreeSet<_> = uplinks.into_iter().flatten().collect();
        let mut mtu: Option<u32> = None;
        for interface in iter::once(None).chain(interfaces.into_iter().map(Some)) {
            match self.netlink.path_mtu(route.ulids, interface).await {
                Ok(known) => mtu = mtu.into_iter().chain(known).min(),
                Err(error) => tracing::debug!(%error, "path MTU"),
            }
        }
        let mtu = mtu.filter(|mtu| *mtu < route.mtu)?;
        // The kernel takes 1,280 for anything less, so the path may take no more than this with the header in.
        Some(if mtu <= MIN_MTU { MIN_MTU } else { mtu + overhead })
    }
}

/// IPv6 asks for no less of any link (RFC 8200 s5), octets.
const MIN_MTU: u32 = moorline_wire::ip6::MIN_MTU as u32;
/// Anybody can send a Packet Too Big, and each time all sockets of the host look their routes up.
const TELL_GAP: Duration = Duration::from_millis(500);
