//! Sockets without an address of their own, and the MTU of their paths. They learn neither of the room that a header takes nor of
//! a Packet Too Big, as both are known to routes from an address. The daemon sets an unbound route to the peer once a
//! packet was too long (decision 116).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_netlink::{DefaultWays, MovedRoute};
use moorline_types::{Ulid, UlidPair};
use tokio::time::Instant;

use crate::protect::Mover;
use crate::shell::Daemon;

/// Which peers have unbound routes.
#[derive(Debug, Default)]
pub(crate) struct Unbound {
    /// Contexts and sessions whose packets had no room for a header.
    reported: BTreeSet<Mover>,
    /// Source and destination of packets that a router found too long.
    too_long: BTreeSet<UlidPair>,
    peers: BTreeMap<Ulid, Known>,
    /// The default routes of the host that the unbound routes are copies of. None: the kernel may have others.
    ways: Option<DefaultWays>,
    /// When the next ones may be set.
    next: Option<Instant>,
}

/// A peer that the daemon has set routes to, or has found to need none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    /// MTU of the unbound routes; none if the peer has none.
    mtu: Option<u32>,
    since: Instant,
    /// Until then reports about the peer do not count, and longer each time that they change nothing.
    pause: Duration,
}

impl Unbound {
    /// A packet had no room for a header.
    pub(crate) fn on_no_room(&mut self, mover: Mover) {
        if self.reported.len() < MAX_WAITING {
            self.reported.insert(mover);
        }
    }

    /// A router says that a packet was too long. Anybody may say so: the kernel is asked whether it believes it. Result: whether
    /// there is room for the report.
    pub(crate) fn on_too_long(&mut self, pair: UlidPair) -> bool {
        let has_room = self.too_long.len() < MAX_WAITING;
        if has_room {
            self.too_long.insert(pair);
        }
        has_room
    }

    /// When [`Daemon::set_unbound`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let is_idle = self.reported.is_empty() && self.too_long.is_empty();
        (!is_idle).then(|| self.next.unwrap_or_else(Instant::now))
    }

    /// The pairs to set routes for, each peer once, with the MTU that its routes have.
    fn take_due(
        &mut self,
        now: Instant,
        route: impl Fn(Mover) -> Option<MovedRoute>,
    ) -> Vec<(UlidPair, Option<u32>)> {
        let reported = std::mem::take(&mut self.reported).into_iter();
        let moved = reported.filter_map(|mover| route(mover).map(|route| route.ulids));
        let mut due = BTreeMap::new();
        for pair in moved.chain(std::mem::take(&mut self.too_long)) {
            let known = self.peers.get(&pair.peer).filter(|known| now - known.since < EXPIRES);
            if known.is_none_or(|known| now - known.since >= known.pause) {
                due.entry(pair.peer).or_insert((pair, known.and_then(|known| known.mtu)));
            }
        }
        self.next = Some(now + PAUSE);
        due.into_values().collect()
    }

    /// Routes were set for these pairs; peers that are not in `set` have none. Result: peers that have to give up their
    /// routes, as there are too many.
    fn on_set(
        &mut self,
        due: &[(UlidPair, Option<u32>)],
        set: &[(Ulid, u32)],
        now: Instant,
    ) -> BTreeSet<Ulid> {
        let set: BTreeMap<_, _> = set.iter().copied().collect();
        for (UlidPair { peer, .. }, before) in due {
            let mtu = set.get(peer).copied();
            let known = self.peers.get(peer).filter(|_| mtu == *before);
            let pause = known.map_or(PAUSE, |known| (known.pause * 2).min(EXPIRES));
            self.peers.insert(*peer, Known { mtu, since: now, pause });
        }
        // Peers without routes go first: anybody can name such peers, and no peer with routes makes room for them.
        let age = |(peer, known): (&Ulid, &Known)| (known.mtu.is_some(), known.since, *peer);
        let mut by_age: Vec<_> = self.peers.iter().map(age).collect();
        by_age.sort();
        by_age.truncate(self.peers.len().saturating_sub(MAX_PEERS));
        self.forget(by_age.into_iter().map(|(_, _, peer)| peer))
    }

    /// Forgets these peers. Result: those of them that had routes.
    fn forget(&mut self, peers: impl IntoIterator<Item = Ulid>) -> BTreeSet<Ulid> {
        let had_routes =
            |peer: &Ulid| self.peers.remove(peer).is_some_and(|known| known.mtu.is_some());
        peers.into_iter().filter(had_routes).collect()
    }
}

impl Daemon {
    /// Sets the unbound routes that are due, all at once: each change makes every socket of the host look its route up again.
    pub(crate) async fn set_unbound(&mut self) {
        let now = Instant::now();
        let too_long = self.unbound.too_long.clone();
        self.learn_path_mtus(&too_long).await;
        let due = self.unbound.take_due(now, |mover| self.moved.get(mover).copied());
        if due.is_empty() {
            return;
        }
        let set = self.netlink.set_unbound(&due).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "unbound routes");
            Vec::new()
        });
        let too_many = self.unbound.on_set(&due, &set, now);
        self.remove_unbound(&too_many).await;
    }

    /// The routes of these moved pairs are gone, and so is their MTU.
    pub(crate) async fn forget_unbound(&mut self, routes: &[MovedRoute]) {
        let peers = self.unbound.forget(routes.iter().map(|route| route.ulids.peer));
        self.remove_unbound(&peers).await;
    }

    async fn remove_unbound(&self, peers: &BTreeSet<Ulid>) {
        if !peers.is_empty()
            && let Err(error) = self.netlink.remove_unbound(peers).await
        {
            // They expire.
            tracing::warn!(%error, "unbound routes");
        }
    }

    /// The kernel may have taken unbound routes away with an uplink.
    pub(crate) fn doubt_unbound(&mut self) {
        self.unbound.ways = None;
    }

    /// Removes all unbound routes if the host has other default routes now, or if some of them may lack, as at a start. The next
    /// packet that is too long has them set again.
    pub(crate) async fn follow_default_ways(&mut self) {
        let ways = self.view.default_ways();
        if self.unbound.ways.as_ref() == Some(&ways) {
            return;
        }
        match self.netlink.remove_all_unbound().await {
            Ok(()) => {
                self.unbound.peers.clear();
                self.unbound.ways = Some(ways);
            }
            Err(error) => tracing::warn!(%error, "unbound routes"),
        }
    }
}

/// Between two sets of routes; the kernel has read a Packet Too Big by then. The pause of a peer begins with it.
const PAUSE: Duration = Duration::from_millis(50);
/// As long as unbound routes last.
const EXPIRES: Duration = Duration::from_secs(600);
/// Peers that have unbound routes at the same time: the eldest makes room for another.
const MAX_PEERS: usize = 1024;
/// Waiting reports of each kind. A report that finds the queue full is lost, and the next packet brings another.
const MAX_WAITING: usize = 256;

#[cfg(test)]
mod tests;
