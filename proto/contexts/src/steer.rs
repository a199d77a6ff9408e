//! Steering: requests of people, rules and policies of this host about the paths of its contexts.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use moorline_reap::{Cause, Rank};
use moorline_types::{ContextId, Instant, Locator, LocatorPair};

use crate::drain::rank;
use crate::machine::Contexts;
use crate::rules::{PathRule, Preference, Scope};

/// A pair of a context, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathView {
    /// The pair.
    pub pair: LocatorPair,
    /// Whether this host can send from our end now.
    pub is_usable: bool,
    /// Whether the machine probes the pair to make it current.
    pub is_pending: bool,
    /// Preference of the rules for the pair.
    pub preference: Preference,
    /// When a probe by the pair was last answered, in any context.
    pub answered: Option<Instant>,
    /// Round-trip time of the last check by the pair.
    pub rtt: Option<Duration>,
}

/// Result of a request that can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// Payload takes the pair already.
    Already,
    /// The pair has to answer first. [`EventKind::Moved`](crate::EventKind::Moved) or
    /// [`EventKind::Unanswered`](crate::EventKind::Unanswered) tells the result.
    Probing,
}

/// Reason why a request cannot be granted. Each message says what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such context, or it is not established.
    #[error("there is no established context {0}; `moorline contexts` shows those that there are")]
    NoContext(ContextId),
    /// The local end is not one of our locators in the context.
    #[error(
        "{0} is no address of this host that the peer of this context can verify; \
         `moorline path list` shows those that are"
    )]
    NotOurs(Locator),
    /// This host cannot send from the local end now.
    #[error(
        "{0} cannot be sent from now: its link, route or address is gone; see `moorline status`"
    )]
    NotUsable(Locator),
    /// The peer's end is not one of its verified locators.
    #[error(
        "{0} is no verified locator of the peer of this context; `moorline path list` shows those \
         that are"
    )]
    NotThePeers(Locator),
    /// No two hosts can talk between the two ends.
    #[error("no packet goes from {} to {}: take two global unicast addresses", .0.local, .0.peer)]
    WrongScope(LocatorPair),
    /// Packets of the pair leave by another link than that of the local end.
    #[error(
        "packets to {} do not leave by the link of {}: a more specific route leads elsewhere; see `ip -6 route`",
        .0.peer, .0.local
    )]
    Unrouted(LocatorPair),
    /// The context is pinned to another pair.
    #[error("this context is pinned to {0}; unpin it first (`moorline path unpin`)")]
    Pinned(LocatorPair),
}

/// Requests in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steering {
    /// The rules, the most specific first.
    pub(crate) rules: Vec<PathRule>,
    /// Whether the payload of new contexts takes several pairs at once.
    pub(crate) spreads_new: bool,
    /// The time of the last answer by each pair, and its round-trip time if known.
    answered: BTreeMap<LocatorPair, (Instant, Option<Duration>)>,
}

impl Steering {
    /// Removes the rules for a single context that is gone. The next context may get the same slot.
    pub(crate) fn forget_rules(&mut self, id: ContextId) {
        self.rules.retain(|rule| rule.scope != Scope::Context(id));
    }

    /// Notes that the peer has answered by this pair. `rtt`: round-trip time, if the answer was to a check.
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

    /// Round-trip time of the last answered check by this pair, while the machine remembers it.
    pub(crate) fn rtt_of(&self, pair: LocatorPair) -> Option<Duration> {
        self.answered.get(&pair)?.1
    }

    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }
}

impl Contexts {
    /// Makes payload of a context take `pair` as soon as the pair has answered a probe. REAP watches the new pair as
    /// any other. A pinned context stays.
    ///
    /// # Errors
    /// The pair is not for this context, or not usable now. Nothing was sent.
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

    /// Pins a context to its current pair, or to the pair of a running switch. While that pair works, no rule and no
    /// policy moves the context.
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

    /// Ends the effect of [`pin`](Self::pin) and [`switch`](Self::switch). Returns false if there was neither.
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

    /// The pair to which a context is pinned.
    #[must_use]
    pub fn pinned(&self, id: ContextId) -> Option<LocatorPair> {
        self.notes.get(&id)?.pin
    }

    /// The pair to which a context is pinned or was switched.
    pub(crate) fn wanted_home(&self, id: ContextId) -> Option<LocatorPair> {
        let notes = self.notes.get(&id)?;
        notes.pin.or(notes.home)
    }

    /// The pairs of an established context: the current pair, then the others in the order of the rules.
    #[must_use]
    pub fn paths(&self, id: ContextId) -> Vec<PathView> {
        let Some(active) = self.active.get(&id) else { return Vec::new() };
        let (current, pending) = (active.reap.current_pair(), active.reap.pending_switch());
        let round_trip = |pair| active.reap.round_trip().filter(|_| pair == current);
        let noted = |pair| self.steering.answered.get(&pair).copied();
        let view = |pair: LocatorPair| PathView {
            pair,
            is_usable: self.can_send_by(pair),
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

    /// A context has moved. If a switch or the congestion policy moved it, the new pair becomes the pair to go back to.
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

    /// Tells REAP to which pair to go back, if any.
    pub(crate) fn go_home(&mut self, id: ContextId, now: Instant) {
        let (home, pin) = (self.wanted_home(id), self.pinned(id));
        let home = home.or_else(|| self.best(id)).or_else(|| self.first_home(id));
        if let Some(active) = self.active.get_mut(&id) {
            active.reap.handle_preferred(home, now);
            active.reap.handle_pinned(pin);
        }
    }

    /// The ULIDs, unless the peer prefers another of its locators. In that case traffic on another pair stays there. A
    /// locator that the peer calls broken counts as any other: anybody may have said so, and REAP asks the locator
    /// before traffic goes back (decision 164).
    pub(crate) fn first_home(&self, id: ContextId) -> Option<LocatorPair> {
        let context = self.shim6.context(id)?;
        let (ulids, peer) = (context.key.ulids.as_locators(), &context.established()?.peer);
        let of = |locator| Rank { is_broken: false, ..rank(peer.preference_of(locator)) };
        let is_best =
            !peer.has_lost_ulid && peer.locators.iter().all(|other| of(ulids.peer) <= of(*other));
        is_best.then_some(ulids)
    }

    /// Checks whether a context could be [switched](Self::switch) to a pair, apart from pins.
    ///
    /// # Errors
    /// The pair is not for this context, or not usable now.
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
        if !self.can_send_by(pair) {
            return Err(Refusal::NotUsable(pair.local));
        }
        if self.ulids(id).is_some_and(|ulids| !self.is_routed(ulids, pair)) {
            return Err(Refusal::Unrouted(pair));
        }
        Ok(())
    }

    /// All pairs of a context that could be tried if all our ends were up.
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

/// Whether packets could go between the two ends at all.
fn is_global(pair: LocatorPair) -> bool {
    pair.local != pair.peer && pair.is_global_unicast()
}

/// Limit of the pairs whose last answer is kept.
const MAX_ANSWERED: usize = 1024;
