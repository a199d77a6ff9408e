//! Sockets without an address of their own, and the MTU of their paths. They learn neither of the room that a header takes nor of
//! a Packet Too Big, as both are known to routes from an address. The daemon sets an unbound route to the peer once a
//! packet was too long (decision 116).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_addresses::{DefaultWays, MovedRoute, Mover, SpecificRoute};
use moorline_netlink::UnboundPeer;
use moorline_types::{Ulid, UlidPair};
use tokio::time::Instant;

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
    /// The other routes of the main table. A peer that one of them leads to has no unbound routes.
    specific: BTreeSet<SpecificRoute>,
    /// When the next ones may be set.
    next: Option<Instant>,
}

/// A peer that the daemon has set routes to, or has found to need none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    why: Why,
    /// MTU of the unbound routes; none if the peer has none.
    mtu: Option<u32>,
    /// The MTU of the path that the kernel knew when they were set; none if they may not be set.
    path_mtu: Option<u32>,
    since: Instant,
    /// Until then reports of the data plane about the peer do not count, and longer each time that they change nothing.
    pause: Duration,
}

/// Why a peer is to have unbound routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// A router says that a packet was too long. Anybody can say so about any peer.
    TooLong,
    /// The data plane found no room for a header. The route of the moved pair has this MTU.
    NoRoom(u32),
}

/// A pair whose peer may need unbound routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    pair: UlidPair,
    why: Why,
}

impl Due {
    /// Whether this MTU, which the kernel knows of the path, is a reason to set routes.
    fn is_reason(&self, known: Option<Known>, path_mtu: u32, room: &mut usize) -> bool {
        let is_news = known.is_none_or(|known| known.path_mtu != Some(path_mtu));
        match self.why {
            Why::NoRoom(_) => true,
            Why::TooLong if is_news && *room > 0 => {
                *room -= 1;
                true
            }
            Why::TooLong => false,
        }
    }
}

impl Unbound {
    /// A packet had no room for a header.
    pub(crate) fn on_no_room(&mut self, mover: Mover) {
        if self.reported.len() < MAX_REPORTED {
            self.settle(Instant::now());
            self.reported.insert(mover);
        }
    }

    /// A router says that a packet was too long. Anybody may say so: the kernel is asked whether it believes it. Result: whether
    /// there is room for the report.
    pub(crate) fn on_too_long(&mut self, pair: UlidPair) -> bool {
        let has_room = self.too_long.len() < MAX_TOO_LONG;
        if has_room {
            self.settle(Instant::now());
            self.too_long.insert(pair);
        }
        has_room
    }

    /// The kernel gives a Packet Too Big to the daemon before it notes the MTU itself. So the first report waits a little, and those
    /// that follow are looked at together with it.
    fn settle(&mut self, now: Instant) {
        if self.is_idle() {
            let settled = now + SETTLE;
            self.next = Some(self.next.map_or(settled, |next| next.max(settled)));
        }
    }

    fn is_idle(&self) -> bool {
        self.reported.is_empty() && self.too_long.is_empty()
    }

    /// When [`Daemon::set_unbound`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.next.filter(|_| !self.is_idle())
    }

    /// The pairs that the kernel is to be asked about, each peer once.
    fn take_due(
        &mut self,
        now: Instant,
        route: impl Fn(Mover) -> Option<MovedRoute>,
    ) -> Vec<(Due, Option<Known>)> {
        let mut due = BTreeMap::new();
        for route in std::mem::take(&mut self.reported).into_iter().filter_map(route) {
            let one = Due { pair: route.ulids, why: Why::NoRoom(route.mtu) };
            let known = self.fresh(one.pair.peer, now).filter(|known| known.why == one.why);
            if known.is_none_or(|known| now - known.since >= known.pause) {
                due.insert(one.pair.peer, one);
            }
        }
        for pair in std::mem::take(&mut self.too_long) {
            due.entry(pair.peer).or_insert(Due { pair, why: Why::TooLong });
        }
        self.next = Some(now + PAUSE);
        due.into_values().map(|one| (one, self.fresh(one.pair.peer, now))).collect()
    }

    fn fresh(&self, peer: Ulid, now: Instant) -> Option<Known> {
        self.peers.get(&peer).copied().filter(|known| now - known.since < EXPIRES)
    }

    /// How many peers may have new routes now because a router says that packets to them were too long. Anybody can have the
    /// kernel believe that, by a Packet Too Big that quotes an echo reply.
    fn room_for_told(&self, now: Instant) -> usize {
        let is_lately = |known: &&Known| known.why == Why::TooLong && now - known.since < LATELY;
        MAX_LATELY.saturating_sub(self.peers.values().filter(is_lately).count())
    }

    /// The daemon has tried to set routes for these; peers that are not in `set` have none. Result: peers whose routes are
    /// to be removed.
    fn on_set(
        &mut self,
        tried: &[(Due, Option<u32>)],
        set: &BTreeMap<Ulid, u32>,
        now: Instant,
    ) -> BTreeSet<Ulid> {
        let mut gone = BTreeSet::new();
        for (Due { pair: UlidPair { peer, .. }, why }, path_mtu) in tried {
            let (mtu, path_mtu) = (set.get(peer).copied(), *path_mtu);
            let before = self.fresh(*peer, now);
            let is_same = |known: &Known| known.mtu == mtu && known.why == *why;
            let pause = before.filter(is_same).map_or(PAUSE, |known| known.pause * 2).min(EXPIRES);
            // A report of the data plane stays known, whatever routers say.
            let why = before.filter(|_| *why == Why::TooLong).map_or(*why, |known| known.why);
            let known = Known { why, mtu, path_mtu, since: now, pause };
            let replaced = self.peers.insert(*peer, known);
            if mtu.is_none() && replaced.is_some_and(|known| known.mtu.is_some()) {
                gone.insert(*peer);
            }
        }
        // The eldest go first. Peers that anybody can name make no room for themselves among those that the data plane reports.
        let age = |(peer, known): (&Ulid, &Known)| {
            let is_reported = known.why != Why::TooLong;
            (known.mtu.is_some(), is_reported, known.since, *peer)
        };
        let mut by_age: Vec<_> = self.peers.iter().map(age).collect();
        by_age.sort();
        by_age.truncate(self.peers.len().saturating_sub(MAX_PEERS));
        gone.extend(self.forget(by_age.into_iter().map(|(.., peer)| peer)));
        gone
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
        let due = self.unbound.take_due(now, |mover| self.host.routes().get(mover).copied());
        let (mut tried, mut wanted) = (Vec::new(), Vec::new());
        let mut room = self.unbound.room_for_told(now);
        for (one, known) in due {
            let path_mtu = self.netlink.path_mtu(one.pair, None).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "path MTU");
                None
            });
            let is_reason = |path_mtu: &u32| one.is_reason(known, *path_mtu, &mut room);
            let Some(path_mtu) = path_mtu.filter(is_reason) else {
                // A forged Packet Too Big ends here.
                tried.extend((one.why != Why::TooLong).then_some((one, None)));
                continue;
            };
            let before = known.and_then(|known| known.mtu);
            tried.push((one, Some(path_mtu)));
            wanted.push(UnboundPeer { peer: one.pair.peer, path_mtu, before });
        }
        let set = match self.netlink.set_unbound(&wanted).await {
            Ok(set) => set.into_iter().collect(),
            Err(error) => {
                tracing::debug!(%error, "unbound routes");
                tried.iter_mut().for_each(|(_, path_mtu)| *path_mtu = None);
                // The kernel has set the routes that it did not refuse.
                wanted.iter().map(|one| (one.peer, one.path_mtu)).collect()
            }
        };
        let gone = self.unbound.on_set(&tried, &set, now);
        self.remove_unbound(&gone).await;
    }

    /// The routes of these moved pairs are gone, and so is their MTU.
    pub(crate) async fn forget_unbound(&mut self, routes: &[MovedRoute]) {
        let peers = self.unbound.forget(routes.iter().map(|route| route.ulids.peer));
        self.remove_unbound(&peers).await;
    }

    async fn remove_unbound(&self, peers: &BTreeSet<Ulid>) {
        if !peers.is_empty()
            && let Err(error) = self.netlink.remove_unbound(|peer| peers.contains(peer)).await
        {
            // The routes expire.
            tracing::warn!(%error, "unbound routes");
        }
    }

    /// The kernel may have taken unbound routes away with an uplink.
    pub(crate) fn doubt_unbound(&mut self) {
        self.unbound.ways = None;
    }

    /// Removes all unbound routes if the host has other default routes now, or if some of them may lack, as at a start, and those to
    /// peers that another route leads to now. The next packet that is too long has them set again.
    pub(crate) async fn follow_default_ways(&mut self) {
        let changed: Vec<_> = self
            .host
            .view()
            .specific
            .symmetric_difference(&self.unbound.specific)
            .copied()
            .collect();
        if !changed.is_empty() {
            self.unbound.specific.clone_from(&self.host.view().specific);
            let is_on_way =
                |peer: &&Ulid| changed.iter().any(|one| one.destination.contains(peer.0));
            let peers: Vec<Ulid> = self.unbound.peers.keys().filter(is_on_way).copied().collect();
            let gone = self.unbound.forget(peers);
            self.remove_unbound(&gone).await;
        }
        let ways = self.host.view().default_ways();
        if self.unbound.ways.as_ref() == Some(&ways) {
            return;
        }
        match self.netlink.remove_unbound(|_| true).await {
            Ok(()) => {
                self.unbound.peers.clear();
                self.unbound.ways = Some(ways);
            }
            Err(error) => tracing::warn!(%error, "unbound routes"),
        }
    }
}

/// From a report until the kernel is asked.
const SETTLE: Duration = Duration::from_millis(5);
/// Between two sets of routes. The pause of a peer begins with it.
const PAUSE: Duration = Duration::from_millis(50);
/// As long as unbound routes last.
const EXPIRES: Duration = Duration::from_secs(600);
/// Peers that have unbound routes at the same time.
const MAX_PEERS: usize = 1024;
/// Reports of the data plane that wait. A report that finds the queue full is lost, and the next packet brings another.
const MAX_REPORTED: usize = 256;
/// Pairs of packets that were too long, which wait.
const MAX_TOO_LONG: usize = 64;
/// Peers that may have new routes in [`LATELY`] as a router says that packets to them were too long.
const MAX_LATELY: usize = 32;
const LATELY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
