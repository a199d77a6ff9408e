//! Sockets without a source address, and the MTU of their paths. Such a socket learns neither the room that a header
//! takes nor a Packet Too Big, because only routes from an address know both. When a packet was too long, the caller
//! sets an unbound route to the peer (decision 116).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem::take;
use core::time::Duration;

use moorline_types::{Instant, Ulid, UlidPair};

use crate::{DefaultWays, MovedRoute, Mover, SpecificRoute};

/// A peer that needs unbound routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnboundPeer {
    /// The peer.
    pub peer: Ulid,
    /// The kernel's MTU of the path to the peer.
    pub path_mtu: u32,
    /// The MTU of the unbound routes that the peer has.
    pub before: Option<u32>,
}

/// The peers that have unbound routes.
#[derive(Clone, Debug, Default)]
pub struct Unbound {
    /// Contexts and sessions whose packets had no room for a header.
    reported: BTreeSet<Mover>,
    /// Source and destination of packets that were too long for a router.
    too_long: BTreeSet<UlidPair>,
    peers: BTreeMap<Ulid, Known>,
    /// The default routes that the unbound routes are copies of; `None` if the kernel may have others.
    ways: Option<DefaultWays>,
    /// The other routes of the main table. If one of them leads to a peer, the peer has no unbound routes.
    specific: BTreeSet<SpecificRoute>,
    /// Time when the next routes may be set.
    next: Option<Instant>,
}

/// A peer that has unbound routes, or that needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    why: Why,
    /// MTU of the unbound routes; `None` if the peer has none.
    mtu: Option<u32>,
    /// The kernel's MTU of the path when the routes were set; `None` if they may not be set.
    path_mtu: Option<u32>,
    since: Instant,
    /// Time for which reports of the data plane about the peer do not count. It doubles with each report that changes
    /// nothing.
    pause: Duration,
}

/// Reason for unbound routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// A router has reported that a packet was too long. Anybody can report that about any peer.
    TooLong,
    /// The data plane found no room for a header. The route of the moved pair has this MTU.
    NoRoom(u32),
}

/// A pair whose peer may need unbound routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnboundDue {
    /// The pair.
    pub pair: UlidPair,
    why: Why,
    known: Option<Known>,
}

/// Result of [`Unbound::plan`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnboundPlan {
    /// Peers that need routes now.
    pub wanted: Vec<UnboundPeer>,
    tried: Vec<(UnboundDue, Option<u32>)>,
}

impl Unbound {
    /// Notes that a packet had no room for a header.
    pub fn on_no_room(&mut self, mover: Mover, now: Instant) {
        if self.reported.len() < MAX_REPORTED {
            self.settle(now);
            self.reported.insert(mover);
        }
    }

    /// Notes a router's report that a packet was too long. Anybody can send such a report, so the caller asks the
    /// kernel whether it believes it. Returns whether there is room for the report.
    pub fn on_too_long(&mut self, pair: UlidPair, now: Instant) -> bool {
        let has_room = self.too_long.len() < MAX_TOO_LONG;
        if has_room {
            self.settle(now);
            self.too_long.insert(pair);
        }
        has_room
    }

    /// The pairs of packets that were too long, since the last [`Self::take_due`].
    #[must_use]
    pub const fn too_long(&self) -> &BTreeSet<UlidPair> {
        &self.too_long
    }

    /// Delays the first report. The caller gets a Packet Too Big before the kernel notes the MTU. Later reports are
    /// handled with the first one.
    fn settle(&mut self, now: Instant) {
        if self.is_idle() {
            let settled = now + SETTLE;
            self.next = Some(self.next.map_or(settled, |next| next.max(settled)));
        }
    }

    fn is_idle(&self) -> bool {
        self.reported.is_empty() && self.too_long.is_empty()
    }

    /// Time when [`Self::take_due`] is due; each report can change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next.filter(|_| !self.is_idle())
    }

    /// The pairs to ask the kernel about, one for each peer. `route` gives the route of a mover.
    pub fn take_due(
        &mut self,
        now: Instant,
        route: impl Fn(Mover) -> Option<MovedRoute>,
    ) -> Vec<UnboundDue> {
        let mut due = BTreeMap::new();
        for route in take(&mut self.reported).into_iter().filter_map(route) {
            let (pair, why) = (route.ulids, Why::NoRoom(route.mtu));
            let known = self.fresh(pair.peer, now);
            let same = known.filter(|known| known.why == why);
            if same.is_none_or(|known| now.since(known.since) >= known.pause) {
                due.insert(pair.peer, UnboundDue { pair, why, known });
            }
        }
        for pair in take(&mut self.too_long) {
            let (why, known) = (Why::TooLong, self.fresh(pair.peer, now));
            due.entry(pair.peer).or_insert(UnboundDue { pair, why, known });
        }
        self.next = Some(now + PAUSE);
        due.into_values().collect()
    }

    fn fresh(&self, peer: Ulid, now: Instant) -> Option<Known> {
        self.peers.get(&peer).copied().filter(|known| now.since(known.since) < EXPIRES)
    }

    /// Finds the peers that need routes. `asked` has the pairs that are due, with the kernel's MTU of the path.
    #[must_use]
    pub fn plan(&self, asked: Vec<(UnboundDue, Option<u32>)>, now: Instant) -> UnboundPlan {
        // Anybody can make the kernel believe a Packet Too Big, if it quotes an Echo Reply.
        let is_lately =
            |known: &&Known| known.why == Why::TooLong && now.since(known.since) < LATELY;
        let mut room = MAX_LATELY.saturating_sub(self.peers.values().filter(is_lately).count());
        let mut plan = UnboundPlan::default();
        for (one, path_mtu) in asked {
            let is_reason = |mtu: &u32| {
                let is_news = one.known.is_none_or(|known| known.path_mtu != Some(*mtu));
                let is_told = one.why == Why::TooLong && is_news && room > 0;
                room -= usize::from(is_told);
                is_told || one.why != Why::TooLong
            };
            let Some(path_mtu) = path_mtu.filter(is_reason) else {
                // A forged Packet Too Big has no effect beyond this point.
                plan.tried.extend((one.why != Why::TooLong).then_some((one, None)));
                continue;
            };
            let before = one.known.and_then(|known| known.mtu);
            plan.tried.push((one, Some(path_mtu)));
            plan.wanted.push(UnboundPeer { peer: one.pair.peer, path_mtu, before });
        }
        plan
    }

    /// Notes that the plan was executed: these peers have routes of this MTU. `None` if the kernel has refused some
    /// of the routes, and set the others. Returns the peers whose routes are to be removed.
    pub fn on_set(
        &mut self,
        plan: UnboundPlan,
        set: Option<Vec<(Ulid, u32)>>,
        now: Instant,
    ) -> BTreeSet<Ulid> {
        let is_whole = set.is_some();
        let as_planned = || plan.wanted.iter().map(|one| (one.peer, one.path_mtu)).collect();
        let set: BTreeMap<_, _> = set.unwrap_or_else(as_planned).into_iter().collect();
        let mut gone = BTreeSet::new();
        for (UnboundDue { pair: UlidPair { peer, .. }, why, .. }, path_mtu) in plan.tried {
            let (mtu, path_mtu) = (set.get(&peer).copied(), path_mtu.filter(|_| is_whole));
            let before = self.fresh(peer, now);
            let is_same = |known: &Known| known.mtu == mtu && known.why == why;
            let pause = before.filter(is_same).map_or(PAUSE, |known| known.pause * 2).min(EXPIRES);
            // A report of the data plane stays known, whatever routers report.
            let why = before.filter(|_| why == Why::TooLong).map_or(why, |known| known.why);
            let known = Known { why, mtu, path_mtu, since: now, pause };
            let replaced = self.peers.insert(peer, known);
            if mtu.is_none() && replaced.is_some_and(|known| known.mtu.is_some()) {
                gone.insert(peer);
            }
        }
        // The oldest go first. Peers that anybody can name do not displace peers that the data plane has reported.
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

    /// Forgets these peers. Returns those that had routes.
    pub fn forget(&mut self, peers: impl IntoIterator<Item = Ulid>) -> BTreeSet<Ulid> {
        let had_routes =
            |peer: &Ulid| self.peers.remove(peer).is_some_and(|known| known.mtu.is_some());
        peers.into_iter().filter(had_routes).collect()
    }

    /// Notes that the kernel may have removed unbound routes with an uplink.
    pub fn doubt(&mut self) {
        self.ways = None;
    }

    /// Forgets the peers whose other routes have changed. Returns those that had routes.
    pub fn follow_specific(&mut self, specific: &BTreeSet<SpecificRoute>) -> BTreeSet<Ulid> {
        let changed: Vec<_> = specific.symmetric_difference(&self.specific).copied().collect();
        self.specific.clone_from(specific);
        let is_on_way = |peer: &&Ulid| changed.iter().any(|one| one.destination.contains(peer.0));
        let peers: Vec<Ulid> = self.peers.keys().filter(is_on_way).copied().collect();
        self.forget(peers)
    }

    /// Whether the unbound routes are copies of exactly these default routes.
    #[must_use]
    pub fn is_of(&self, ways: &DefaultWays) -> bool {
        self.ways.as_ref() == Some(ways)
    }

    /// Notes that all unbound routes are removed. The next ones are copies of these default routes.
    pub fn on_all_removed(&mut self, ways: DefaultWays) {
        self.peers.clear();
        self.ways = Some(ways);
    }
}

/// Time from a report until the kernel is asked.
const SETTLE: Duration = Duration::from_millis(5);
/// Time between two sets of routes, and first pause of a peer.
const PAUSE: Duration = Duration::from_millis(50);
/// Lifetime of unbound routes.
const EXPIRES: Duration = Duration::from_secs(600);
/// Largest number of peers with unbound routes.
const MAX_PEERS: usize = 1024;
/// Largest number of waiting reports of the data plane. A report beyond it is lost, and the next packet brings
/// another.
const MAX_REPORTED: usize = 256;
/// Largest number of waiting pairs whose packets were too long.
const MAX_TOO_LONG: usize = 64;
/// Largest number of peers that get new routes in [`LATELY`] because of reports of routers.
const MAX_LATELY: usize = 32;
const LATELY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
