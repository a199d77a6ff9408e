//! The MTU of paths that are narrower than the uplinks of this host.
//!
//! The kernel looks up where to note a Packet Too Big with an interface and without ports. Echo replies and sockets that are bound to an
//! interface look their route up with ports, so they find the route of a moved pair, and not what the kernel has noted. The daemon
//! asks the kernel what it knows and gives the MTU to the routes of the pair (decision 118).

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{MovedRoute, Mover};
use moorline_link::TooBig;
use moorline_types::{LocatorPair, UlidPair};
use tokio::time::Instant;

use crate::clock;
use crate::protect::MIN_MTU;
use crate::shell::Daemon;

/// The MTUs of the paths of moved pairs, as routers have told them.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    known: BTreeMap<Mover, Known>,
    /// When the next MTU is to be forgotten, or an earlier time.
    expires: Option<Instant>,
    /// When sockets may be told again that their route is not the one of the moved pair.
    tell_after: Option<Instant>,
    /// Pairs of packets that were too long for a path with the least MTU. The kernel ignores what routers say of these: less
    /// than the least MTU is left of it once the octets of the header are taken off.
    least: BTreeSet<UlidPair>,
}

/// The MTU of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    path: LocatorPair,
    /// Octets, with the header in.
    mtu: u32,
    /// When it no longer counts.
    until: Instant,
    /// How often routers have told of a smaller one.
    told: u32,
}

impl PathMtus {
    /// The MTU that routers have told of the path that `mover` takes.
    pub(crate) fn of(&self, mover: Mover, path: LocatorPair) -> Option<u32> {
        self.known.get(&mover).filter(|known| known.path == path).map(|known| known.mtu)
    }

    /// Notes an MTU that is less than the one before.
    fn note(&mut self, mover: Mover, path: LocatorPair, mtu: u32, now: Instant) {
        let until = now + EXPIRES;
        self.expires.get_or_insert(until);
        let before = self.known.get(&mover).filter(|known| known.path == path);
        let told = before.map_or(1, |known| known.told + 1);
        // A stranger who tells of ever smaller ones comes to the end soon.
        let mtu = if told < MAX_TOLD { mtu } else { MIN_MTU };
        self.known.insert(mover, Known { path, mtu, until, told });
    }

    /// `mover` no longer takes another path than its own.
    pub(crate) fn forget(&mut self, mover: Mover) {
        self.known.remove(&mover);
    }

    pub(crate) const fn poll_timeout(&self) -> Option<Instant> {
        self.expires
    }

    /// Forgets each MTU that is too old to count. Result: whose MTU that was.
    fn take_expired(&mut self, now: Instant) -> Vec<Mover> {
        let expired = self.known.extract_if(.., |_, known| known.until <= now);
        let expired = expired.map(|(mover, _)| mover).collect();
        self.expires = self.known.values().map(|known| known.until).min();
        expired
    }
}

impl Daemon {
    /// A router says that a packet was too long.
    pub(crate) fn on_too_big(&mut self, told: TooBig) {
        let LocatorPair { local, peer } = told.addresses;
        let pair = UlidPair::new(local.as_ulid(), peer.as_ulid());
        let is_ours = self.view.uplink_of(local.0).is_some() || self.kept.contains(&pair.local);
        if is_ours && self.unbound.on_too_long(pair) && told.is_ignored {
            self.path_mtus.least.insert(pair);
        }
    }

    /// Asks the kernel for the MTU of the paths of these pairs, if they have moved, and gives it to their routes.
    pub(crate) async fn learn_path_mtus(&mut self, pairs: &BTreeSet<UlidPair>) {
        let (mut news, mut known) = (Vec::new(), Vec::new());
        for mover in self.routes.movers_of(pairs) {
            let Some(path) = self.path_of(mover) else { continue };
            match self.ask_path_mtu(mover, path).await {
                Some(mtu) => {
                    self.path_mtus.note(mover, path, mtu, Instant::now());
                    news.push(mover);
                }
                None => known.push(mover),
            }
        }
        known.retain(|mover| {
            let route = self.routes.get(*mover);
            route.is_some_and(|route| self.path_mtus.least.contains(&route.ulids))
        });
        self.path_mtus.least.clear();
        self.reroute(news).await;
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
        for route in movers.iter().filter_map(|mover| self.routes.get(*mover)) {
            self.notices.on_moved(route.ulids, Some(route.tcp_mtu()), clock::now());
        }
    }

    /// The MTU of the path, with the header in. None if the kernel knows of none that is less than that of the route.
    async fn ask_path_mtu(&self, mover: Mover, path: LocatorPair) -> Option<u32> {
        let route = *self.routes.get(mover)?;
        let header = MovedRoute::HEADER + self.room_of(mover)?;
        if self.path_mtus.least.contains(&route.ulids) {
            return (route.mtu() > MIN_MTU - header).then_some(MIN_MTU);
        }
        let uplinks = [route.ulids.local.0, path.local.0].map(|source| self.ifindex_of(source));
        let interfaces: BTreeSet<_> = uplinks.into_iter().flatten().collect();
        let mut mtu: Option<u32> = None;
        for interface in iter::once(None).chain(interfaces.into_iter().map(Some)) {
            match self.netlink.path_mtu(route.ulids, interface).await {
                Ok(known) => mtu = mtu.into_iter().chain(known).min(),
                Err(error) => tracing::debug!(%error, "path MTU"),
            }
        }
        let mtu = mtu.filter(|mtu| *mtu < route.mtu())?;
        // The kernel takes 1,280 for anything less, so the path may take no more than this with the header in.
        Some(if mtu <= MIN_MTU { MIN_MTU } else { mtu + header })
    }

    /// The uplink that packets with this source leave by.
    fn ifindex_of(&self, source: Ipv6Addr) -> Option<u32> {
        let of_locator = || self.ilnp.as_ref().map(|ilnp| ilnp.uplink_of(source));
        let uplink = self.view.uplink_of(source).map(|uplink| uplink.ifindex);
        uplink.or_else(of_locator).filter(|ifindex| *ifindex != 0)
    }

    /// The MTU of a path does not count for ever: it may have become wider.
    pub(crate) async fn forget_path_mtus(&mut self) {
        let expired = self.path_mtus.take_expired(Instant::now());
        self.reroute(expired).await;
    }
}

/// Anybody can send a Packet Too Big, and each time all sockets of the host look their routes up.
const TELL_GAP: Duration = Duration::from_millis(500);
/// As the kernel keeps what a Packet Too Big has told (`net.ipv6.route.mtu_expires`).
const EXPIRES: Duration = Duration::from_secs(600);
/// A path that becomes narrower so often while its MTU counts has the least MTU.
const MAX_TOLD: u32 = 5;

#[cfg(test)]
mod tests;
