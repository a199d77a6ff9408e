//! MTU of paths that are narrower than the uplinks of this host.
//!
//! The kernel stores the MTU of a Packet Too Big at a route that it looks up with an interface and without ports. Echo
//! replies and sockets bound to an interface look up their route with ports. So they find the route of a moved pair, and not
//! the stored MTU. The daemon reads the stored MTU from the kernel and sets it on the routes of the pair (decision 118).

use std::collections::BTreeSet;
use std::iter;
use std::time::Duration;

use moorline_addresses::Mover;
use moorline_link::TooBig;
use moorline_types::{LocatorPair, UlidPair};
use tokio::time::Instant;

use crate::clock;
use crate::shell::Daemon;

/// State of Packet Too Big messages.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    /// Earliest time of the next notice to sockets whose route is not the route of the moved pair.
    tell_after: Option<Instant>,
    /// Pairs whose packets were too long for a path with the minimum MTU. The kernel ignores these messages: without the
    /// octets of the header, the reported MTU is below the minimum.
    least: BTreeSet<UlidPair>,
}

impl Daemon {
    /// Handles a Packet Too Big.
    pub(crate) fn on_too_big(&mut self, told: TooBig) {
        let LocatorPair { local, peer } = told.addresses;
        let pair = UlidPair::new(local.as_ulid(), peer.as_ulid());
        let is_ours =
            self.host.view().uplink_of(local.0).is_some() || self.host.is_kept(pair.local);
        if is_ours && self.unbound.on_too_long(pair, clock::now()) && told.is_ignored {
            self.path_mtus.least.insert(pair);
        }
    }

    /// Asks the kernel for the path MTU of these pairs, if they have moved, and sets it on their routes.
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

    /// Handles a Packet Too Big although the routes of these movers have the minimum MTU already. A TCP connection that
    /// began without a source address keeps its first route, and the kernel ignores the message. So the connection must look
    /// up its route again, and needs a notice.
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

    /// Returns the MTU of the path, including the header; none if the kernel knows no MTU below the MTU of the route.
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
        // The kernel stores 1,280 for any smaller value, so the MTU of the path may be this value including the header.
        Some(if mtu <= MIN_MTU { MIN_MTU } else { mtu + overhead })
    }
}

/// Minimum MTU of an IPv6 link, in octets (RFC 8200 s5).
const MIN_MTU: u32 = moorline_wire::ip6::MIN_MTU as u32;
/// Shortest time between two notices. Every host can send a Packet Too Big, and each notice makes all sockets of this host
/// look up their routes.
const TELL_GAP: Duration = Duration::from_millis(500);
