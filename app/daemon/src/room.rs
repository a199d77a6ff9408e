//! Sockets that leave no room for a header, as they had no address when they asked for a route: the data planes report their
//! first packet, and from then on a route makes them leave it (decision 116).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_netlink::{DefaultWays, MovedRoute};
use moorline_types::Ulid;
use tokio::time::Instant;

use crate::protect::Mover;
use crate::shell::Daemon;

/// Which peers such sockets leave room for.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// What is to be dealt with: packets of these had no room.
    reported: BTreeSet<Mover>,
    /// When the routes to a peer were set.
    peers: BTreeMap<Ulid, Instant>,
    /// Where these routes lead.
    ways: DefaultWays,
    /// When the next routes may be set.
    next: Option<Instant>,
}

impl Room {
    /// A packet had no room.
    pub(crate) fn note(&mut self, mover: Mover) {
        self.reported.insert(mover);
    }

    /// When [`Daemon::leave_room`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        (!self.reported.is_empty()).then(|| self.next.unwrap_or_else(Instant::now))
    }

    /// The routes of those that were reported, if their peers are to have new ones: each peer once, and not again at once.
    fn take_due(
        &mut self,
        now: Instant,
        route: impl Fn(Mover) -> Option<MovedRoute>,
    ) -> Vec<MovedRoute> {
        let mut due = BTreeMap::new();
        for mover in std::mem::take(&mut self.reported) {
            let Some(route) = route(mover) else { continue };
            let set = self.peers.get(&route.ulids.peer);
            if set.is_none_or(|set| now.duration_since(*set) >= AGAIN) {
                due.entry(route.ulids.peer).or_insert(route);
            }
        }
        self.peers.extend(due.keys().map(|peer| (*peer, now)));
        self.next = Some(now + PAUSE);
        due.into_values().collect()
    }

    /// Forgets these peers, and names those of them that had routes.
    fn forget(&mut self, peers: impl Iterator<Item = Ulid>) -> Vec<Ulid> {
        peers.filter(|peer| self.peers.remove(peer).is_some()).collect()
    }

    /// Where the routes are to lead from now on. Whether that is elsewhere.
    fn turn_to(&mut self, ways: DefaultWays) -> bool {
        let is_other = self.ways != ways;
        if is_other {
            self.peers.clear();
            self.ways = ways;
        }
        is_other
    }
}

impl Daemon {
    /// Sets the routes for those that were reported. All at once: each change makes every socket of the host look its route
    /// up again.
    pub(crate) async fn leave_room(&mut self) {
        let due = self.room.take_due(Instant::now(), |mover| self.moved.get(mover).copied());
        if !due.is_empty()
            && let Err(error) = self.netlink.leave_room(&due, &self.view).await
        {
            tracing::debug!(%error, "routes of sockets without an address");
        }
    }

    /// These routes of moved pairs are gone. Should their peers have others, the next packet says so.
    pub(crate) async fn need_no_room(&mut self, routes: &[MovedRoute]) {
        let peers = self.room.forget(routes.iter().map(|route| route.ulids.peer));
        if !peers.is_empty()
            && let Err(error) = self.netlink.need_no_room(&peers).await
        {
            tracing::warn!(%error, "routes of sockets without an address");
        }
    }

    /// The host may have other default routes: these lead there again once a packet has no room. The first time it is those
    /// of a run before that are removed.
    pub(crate) async fn follow_default_ways(&mut self) {
        if self.room.turn_to(self.view.default_ways())
            && let Err(error) = self.netlink.need_no_room_at_all().await
        {
            tracing::warn!(%error, "routes of sockets without an address");
        }
    }
}

/// Between two sets of routes.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two times that the routes to a peer are set: the kernel may have taken them away with an uplink.
const AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
