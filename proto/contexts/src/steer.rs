//! What people, rules and policies of this host want of its contexts' paths.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use moorline_reap::Cause;
use moorline_types::{ContextId, Instant, Locator, LocatorPair};

use crate::drain::rank;
use crate::machine::Contexts;
use crate::rules::{PathRule, Preference, Scope};

/// A pair of a context as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathView {
    /// The pair.
    pub pair: LocatorPair,
    /// Whether our end can be sent from now.
    pub is_usable: bool,
    /// Whether it is being probed to become current.
    pub is_pending: bool,
    /// What the rules say.
    pub preference: Preference,
    /// When a probe by it was answered last, on any context.
    pub answered: Option<Instant>,
    /// Round-trip time of the last check by it.
    pub rtt: Option<Duration>,
}

/// What comes of a request that can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Payload takes the pair already.
    Already,
    /// It has to answer first; [`EventKind::Moved`](crate::EventKind::Moved) or
    /// [`EventKind::Unanswered`](crate::EventKind::Unanswered) will tell.
    Probing,
}

/// Why a request cannot be granted; each says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such context, or it is not established.
    #[error("there is no established context {0}; `moorline contexts` shows those that there are")]
    NoContext(ContextId),
    /// The local end is none of our locators in the context.
    #[error(
        "{0} is no address of this host that the peer of this context can verify; \
         `moorline path list` shows those that are"
    )]
    NotOurs(Locator),
    /// The local end cannot be used now.
    #[error(
        "{0} cannot be sent from now: its link, route or address is gone; see `moorline status`"
    )]
    NotUsable(Locator),
    /// The peer's end is none of its verified locators.
    #[error(
        "{0} is no verified locator of the peer of this context; `moorline path list` shows those \
         that are"
    )]
    NotThePeers(Locator),
    /// The two ends cannot talk to each other, whoever they are.
    #[error("no packet goes from {} to {}: take two global unicast addresses", .0.local, .0.peer)]
    WrongScope(LocatorPair),
    /// Packets of the pair leave by another link than that of the local end.
    #[error(
        "packets to {} do not leave by the link of {}: a more specific route leads elsewhere; see `ip -6 route`",
        .0.peer, .0.local
    )]
    Unrouted(LocatorPair),
    /// The context is pinned elsewhere.
    #[error("this context is pinned to {0}; unpin it first (`moorline path unpin`)")]
    Pinned(LocatorPair),
}

/// Requests that are in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steering {
    /// The most specific first.
    pub(crate) rules: Vec<PathRule>,
    /// Whether the payload of new contexts takes several pairs at once.
    pub(crate) spreads_new: bool,
    /// Of each pair the last answer.
    answered: BTreeMap<LocatorPair, (Instant, Option<Duration>)>,
}

impl Steering {
    /// What is for a context alone that is there no more: its number may be the next one's.
    pub(crate) fn forget_rules(&mut self, id: ContextId) {
        self.rules.retain(|rule| rule.scope != Scope::Context(id));
    }

    /// The peer has answered by this pair, a check after `rtt`.
    pub(crate) fn note_answer(&mut self, pair: LocatorPair, rtt: Option<Duration>, now: Instant) {
        let rtt = rtt.or_else(|| self.answered.get(&pair)?.1);
        if self.answered.len() >= MAX_ANSWERED && !self.answered.contains_key(&pair) {
            let oldest = self.answered.iter().min_by_key(|(_, (at, _))| *at);
            if let Some(oldest) = oldest.map(|(pair, _)| *pair) {
                self.answered.remove(&oldest);
            }
        }
        self.answered.insert(pair, (now, rtt));
    }

    /// The round-trip time of the last check by this pair that was answered, as far as it is remembered.
    pub(crate) fn rtt_of(&self, pair: LocatorPair) -> Option<Duration> {
        self.answered.get(&pair)?.1
    }

    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }
}

impl Contexts {
    /// Has the payload of a context take `pair` as soon as it has answered a probe; REAP guards it
    /// there as anywhere. A context that is pinned stays.
    ///
    /// # Errors
    /// The pair is not for this context, or not now: nothing was sent.
    pub fn switch(
        &mut self,
        id: ContextId,
        pair: LocatorPair,
        cause: Cause,
        now: Instant,
    ) -> Result<Placed, Refusal> {
        self.check_pair(id, pair)?;
        if let Some(pinned) = self.pinned(id).filter(|pinned| *pinned != pair) {
            return Err(Refusal::Pinned(pinned));
        }
        let active = self.active.get_mut(&id).ok_or(Refusal::NoContext(id))?;
        let placed = active.reap.handle_switch(pair, cause, now);
        let placed = placed.map_err(|_| Refusal::WrongScope(pair))?;
        self.drain_reap(id, now);
        Ok(if placed { Placed::Already } else { Placed::Probing })
    }

    /// Keeps a context on its current pair, or on the one that it is to be put to, while that works:
    /// no rule and no policy takes it away.
    ///
    /// # Errors
    /// There is no such context.
    pub fn pin(&mut self, id: ContextId, now: Instant) -> Result<LocatorPair, Refusal> {
        let active = self.active.get(&id).ok_or(Refusal::NoContext(id))?;
        let pair = active.reap.pending_switch().unwrap_or(active.reap.current_pair());
        self.notes.entry(id).or_default().pin = Some(pair);
        self.go_home(id, now);
        Ok(pair)
    }

    /// Takes [`pin`](Self::pin) and [`switch`](Self::switch) back. False if there was neither.
    pub fn unpin(&mut self, id: ContextId, now: Instant) -> bool {
        let was_pinned = self.wanted_home(id).is_some();
        if let Some(notes) = self.notes.get_mut(&id) {
            (notes.pin, notes.home) = (None, None);
        }
        self.go_home(id, now);
        self.consider(id, now);
        self.drain_reap(id, now);
        was_pinned
    }

    /// The pair that a context is pinned to.
    #[must_use]
    pub fn pinned(&self, id: ContextId) -> Option<LocatorPair> {
        self.notes.get(&id)?.pin
    }

    /// The pair that a context is pinned to or was switched to.
    pub(crate) fn wanted_home(&self, id: ContextId) -> Option<LocatorPair> {
        let notes = self.notes.get(&id)?;
        notes.pin.or(notes.home)
    }

    /// The pairs of an established context: the current one, then the others as rules have them.
    #[must_use]
    pub fn paths(&self, id: ContextId) -> Vec<PathView> {
        let Some(active) = self.active.get(&id) else { return Vec::new() };
        let (current, pending) = (active.reap.current_pair(), active.reap.pending_switch());
        let round_trip = |pair| active.reap.round_trip().filter(|_| pair == current);
        let noted = |pair| self.steering.answered.get(&pair).copied();
        let view = |pair: LocatorPair| PathView {
            pair,
            is_usable: self.usable.contains(&pair.local),
            is_pending: pending == Some(pair),
            preference: self.preference(id, pair),
            answered: noted(pair).map(|(at, _)| at),
            rtt: round_trip(pair).or_else(|| noted(pair)?.1),
        };
        let mut views: Vec<_> = self.pairs_of(id).into_iter().map(view).collect();
        views.sort_by_key(|view| {
            let shared = view.pair.shared_ends(current);
            (view.pair != current, Reverse((view.is_usable, view.preference, shared)))
        });
        views
    }

    /// A context has moved: if somebody wanted it there, it is there that it goes back to.
    pub(crate) fn on_steered(
        &mut self,
        id: ContextId,
        to: LocatorPair,
        cause: Cause,
        now: Instant,
    ) {
        self.refresh_paths(id, now);
        if matches!(cause, Cause::Switch | Cause::Congested) {
            self.notes.entry(id).or_default().home = Some(to);
            self.go_home(id, now);
        }
    }

    /// Tells REAP which pair to go back to, if any.
    pub(crate) fn go_home(&mut self, id: ContextId, now: Instant) {
        let (home, pin) = (self.wanted_home(id), self.pinned(id));
        let home = home.or_else(|| self.best(id)).or_else(|| self.first_home(id));
        if let Some(active) = self.active.get_mut(&id) {
            active.reap.handle_preferred(home, now);
            active.reap.handle_pinned(pin);
        }
    }

    /// The ULIDs, unless the peer would rather have another of its locators used: then traffic that is
    /// elsewhere stays there.
    pub(crate) fn first_home(&self, id: ContextId) -> Option<LocatorPair> {
        let context = self.shim6.context(id)?;
        let (ulids, peer) = (context.key.ulids.as_locators(), &context.established()?.peer);
        let of = |locator| rank(peer.preference_of(locator));
        let is_best = peer.locators.iter().all(|other| of(ulids.peer) <= of(*other));
        is_best.then_some(ulids)
    }

    /// Whether a context could be [switched](Self::switch) to a pair, were it not pinned.
    ///
    /// # Errors
    /// The pair is not for this context, or not now.
    pub fn check_pair(&self, id: ContextId, pair: LocatorPair) -> Result<(), Refusal> {
        let established = self.established(id).ok_or(Refusal::NoContext(id))?;
        if !is_global(pair) {
            return Err(Refusal::WrongScope(pair));
        }
        if !established.local_locators.contains(&pair.local) {
            return Err(Refusal::NotOurs(pair.local));
        }
        if !established.peer.locators.contains(&pair.peer) {
            return Err(Refusal::NotThePeers(pair.peer));
        }
        if !self.usable.contains(&pair.local) {
            return Err(Refusal::NotUsable(pair.local));
        }
        if self.ulids(id).is_some_and(|ulids| !self.is_routed(ulids, pair)) {
            return Err(Refusal::Unrouted(pair));
        }
        Ok(())
    }

    /// All pairs of a context that could be tried if our ends were up.
    pub(crate) fn pairs_of(&self, id: ContextId) -> Vec<LocatorPair> {
        let Some(context) = self.shim6.context(id) else { return Vec::new() };
        let Some(established) = context.established() else { return Vec::new() };
        let peers = &established.peer.locators;
        let ours = established.local_locators.iter();
        let pairs = ours.flat_map(|local| peers.iter().map(|peer| LocatorPair::new(*local, *peer)));
        let is_routed = |pair: &LocatorPair| self.is_routed(context.key.ulids, *pair);
        pairs.filter(|pair| is_global(*pair)).filter(is_routed).collect()
    }
}

/// Whether packets could go from the one to the other at all.
fn is_global(pair: LocatorPair) -> bool {
    pair.local != pair.peer && pair.is_global_unicast()
}

/// Pairs whose last answer is kept.
const MAX_ANSWERED: usize = 1024;
