//! The MTU of paths that are narrower than the uplinks of this host.
//!
//! The kernel looks up where to note a Packet Too Big with an interface and without ports. Echo replies and sockets that are bound to an
//! interface look their route up with ports, so they find the route of a moved pair, and not what the kernel has noted. The daemon
//! asks the kernel what it knows and gives the MTU to the routes of the pair (decision 118).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_link::TooBig;
use moorline_netlink::MovedRoute;
use moorline_types::{LocatorPair, UlidPair};
use tokio::time::Instant;

use crate::protect::Mover;
use crate::shell::Daemon;

/// What routers have told of the paths of moved pairs.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    /// The MTU of the path, with the header in, and until when it counts.
    known: BTreeMap<Mover, (u32, Instant)>,
    /// When the next MTU is to be forgotten, or an earlier time.
    expires: Option<Instant>,
    /// Pairs of packets that were too long for a path with the least MTU. The kernel ignores what routers say of these: less
    /// than the least MTU is left of it once the octets of the header are taken off.
    least: BTreeSet<UlidPair>,
}

impl PathMtus {
    /// The MTU that the path of `mover` has, if it is known to be less than that of the uplink.
    pub(crate) fn of(&self, mover: Mover) -> Option<u32> {
        self.known.get(&mover).map(|(mtu, _)| *mtu)
    }

    /// Whether that is news.
    fn note(&mut self, mover: Mover, mtu: u32, now: Instant) -> bool {
        let until = now + EXPIRES;
        self.expires.get_or_insert(until);
        self.known.insert(mover, (mtu, until)).is_none_or(|(before, _)| before != mtu)
    }

    /// These take another path, or have none.
    pub(crate) fn forget(&mut self, movers: impl IntoIterator<Item = Mover>) {
        for mover in movers {
            self.known.remove(&mover);
        }
    }

    pub(crate) const fn poll_timeout(&self) -> Option<Instant> {
        self.expires
    }

    /// Those whose MTU is too old to count; nothing is known of them any more.
    fn take_expired(&mut self, now: Instant) -> Vec<Mover> {
        let expired = self.known.extract_if(.., |_, (_, until)| *until <= now);
        let expired = expired.map(|(mover, _)| mover).collect();
        self.expires = self.known.values().map(|(_, until)| *until).min();
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
        let mut news = Vec::new();
        for mover in self.moved.movers_of(pairs) {
            let Some(mtu) = self.ask_path_mtu(mover).await else { continue };
            if self.path_mtus.note(mover, mtu, Instant::now()) {
                news.push(mover);
            }
        }
        self.path_mtus.least.clear();
        self.reroute(news).await;
    }

    /// The MTU of the path, with the header in. None if the kernel knows of none.
    async fn ask_path_mtu(&self, mover: Mover) -> Option<u32> {
        let route = *self.moved.get(mover)?;
        let header = MovedRoute::HEADER + self.room_of(mover)?;
        if self.path_mtus.least.contains(&route.ulids) {
            return (route.mtu() > LEAST_MTU - header).then_some(LEAST_MTU);
        }
        let hops = [None, route.own, route.direct];
        let interfaces: BTreeSet<_> = hops.map(|hop| hop.map(|hop| hop.ifindex)).into();
        let mut mtu: Option<u32> = None;
        for interface in interfaces {
            match self.netlink.path_mtu(route.ulids, interface).await {
                Ok(known) => mtu = mtu.into_iter().chain(known).min(),
                Err(error) => tracing::debug!(%error, "path MTU"),
            }
        }
        let mtu = mtu.filter(|mtu| *mtu < route.mtu())?;
        // The kernel takes 1,280 for anything less, so the path may take no more than this with the header in.
        Some(if mtu <= LEAST_MTU { LEAST_MTU } else { mtu + header })
    }

    /// The MTU of a path does not count for ever: it may have become wider.
    pub(crate) async fn forget_path_mtus(&mut self) {
        let expired = self.path_mtus.take_expired(Instant::now());
        self.reroute(expired).await;
    }
}

/// As the kernel keeps what a Packet Too Big has told (`net.ipv6.route.mtu_expires`).
const EXPIRES: Duration = Duration::from_secs(600);
/// IPv6 asks for no less of any link (RFC 8200 s5).
const LEAST_MTU: u32 = 1280;

#[cfg(test)]
mod tests;
