//! Rules: the preferences of this host for pairs of its contexts.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use moorline_reap::Cause;
use moorline_types::{ContextId, Instant, LocatorPair, Prefix, named_enum};

use crate::machine::Contexts;
use crate::sweep::Input;

named_enum! {
    /// Preference of a rule for its pairs. Greater is better.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Preference {
        /// Use the pair only if no other works.
        Avoid => "avoid",
        /// No preference.
        #[default]
        Neutral => "neutral",
        /// Use the pair rather than others.
        Prefer => "prefer",
    }
}

/// The contexts that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The context in this slot.
    Context(ContextId),
    /// Contexts whose peer has its ULID, or one of its locators, in the prefix.
    Peer(Prefix),
}

/// A preference for the pairs between two prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// The contexts of the rule.
    pub scope: Scope,
    /// Prefix of our end.
    pub local: Prefix,
    /// Prefix of the peer's end.
    pub peer: Prefix,
    /// Preference for these pairs.
    pub preference: Preference,
}

impl Contexts {
    /// Replaces the rules. If the rules prefer another pair for a context, the context moves there once the pair has
    /// answered.
    pub fn set_path_rules(&mut self, mut rules: Vec<PathRule>, now: Instant) {
        rules.sort_by_key(PathRule::breadth);
        if self.steering.rules == rules {
            return;
        }
        self.steering.rules = rules;
        self.notes.values_mut().for_each(|notes| notes.tried = None);
        self.sweep(Input::Refresh, now);
    }

    /// The preference of the rules for a pair of a context.
    #[must_use]
    pub fn preference(&self, id: ContextId, pair: LocatorPair) -> Preference {
        let rule = self.steering.rules.iter().find(|rule| self.applies(rule, id, pair));
        rule.map_or(Preference::Neutral, |rule| rule.preference)
    }

    /// The pair that the rules prefer to the current pair of a context.
    pub(crate) fn better(&self, id: ContextId) -> Option<LocatorPair> {
        let current = self.active.get(&id)?.reap.current_pair();
        let best = self.best(id)?;
        (self.preference(id, best) > self.preference(id, current)).then_some(best)
    }

    /// The pair that the rules prefer most. Among equals, the pair that shares the most ends with the current one.
    /// `None`: there are no rules.
    pub(crate) fn best(&self, id: ContextId) -> Option<LocatorPair> {
        if !self.steering.has_rules() {
            return None;
        }
        let current = self.active.get(&id)?.reap.current_pair();
        let usable = self.pairs_of(id).into_iter();
        let usable = usable.filter(|pair| self.can_send_by(*pair));
        usable.min_by_key(|pair| Reverse((self.preference(id, *pair), pair.shared_ends(current))))
    }

    /// Sets an order of pairs from an outside program, the best first. The order counts among pairs that are equal by
    /// the rules. Pairs that do not belong to the context are ignored.
    pub fn set_ranking(&mut self, id: ContextId, ranking: &[LocatorPair], now: Instant) {
        if self.active.get(&id).is_none() {
            return;
        }
        let known = self.pairs_of(id);
        let mut order: Vec<LocatorPair> = Vec::new();
        for pair in ranking.iter().take(MAX_RANKED) {
            if known.contains(pair) && !order.contains(pair) {
                order.push(*pair);
            }
        }
        self.notes.entry(id).or_default().ranking = order;
        self.refresh_order(id);
        self.drain_reap(id, now);
    }

    /// Tells REAP the order in which to try pairs.
    pub(crate) fn refresh_order(&mut self, id: ContextId) {
        let ranked = self.notes.get(&id).map(|notes| notes.ranking.clone()).unwrap_or_default();
        let (mut order, mut avoided) = (Vec::new(), Vec::new());
        if self.steering.has_rules() {
            let place = |pair: &LocatorPair| ranked.iter().position(|one| one == pair);
            let mut pairs = self.pairs_of(id);
            pairs.sort_by_key(|pair| place(pair).unwrap_or(usize::MAX));
            for pair in pairs {
                match self.preference(id, pair) {
                    Preference::Prefer => order.push(pair),
                    Preference::Avoid => avoided.push(pair),
                    Preference::Neutral => {}
                }
            }
        }
        let others: Vec<_> = ranked.into_iter().filter(|pair| !order.contains(pair)).collect();
        order.extend(others);
        if let Some(active) = self.active.get_mut(&id) {
            active.reap.handle_order(&order, &avoided);
        }
    }

    /// Looks for a better pair, because a context is new, has other locators, or the rules have changed.
    pub(crate) fn consider(&mut self, id: ContextId, now: Instant) {
        if self.steering.has_rules() {
            self.go_home(id, now);
        }
        self.refresh_order(id);
        self.refresh_paths(id, now);
        if self.wanted_home(id).is_some() {
            return;
        }
        let Some(better) = self.better(id) else { return };
        let Some(active) = self.active.get_mut(&id) else { return };
        let tried = self.notes.get(&id).and_then(|notes| notes.tried);
        let is_recent = |(pair, at)| pair == better && now.since(at) < TRY_AGAIN;
        if active.reap.state() != moorline_reap::State::Operational
            || active.reap.pending_switch().is_some()
            || tried.is_some_and(is_recent)
        {
            return;
        }
        self.notes.entry(id).or_default().tried = Some((better, now));
        // The pair is a candidate.
        let _ = active.reap.handle_switch(better, Cause::Preferred, now);
    }

    fn applies(&self, rule: &PathRule, id: ContextId, pair: LocatorPair) -> bool {
        rule.local.contains(pair.local.0)
            && rule.peer.contains(pair.peer.0)
            && match rule.scope {
                Scope::Context(only) => only == id,
                Scope::Peer(prefix) => self.is_with(id, prefix),
            }
    }

    /// Whether the peer of a context has its ULID or a locator in this prefix.
    #[must_use]
    pub fn is_with(&self, id: ContextId, prefix: Prefix) -> bool {
        let Some(context) = self.shim6.context(id) else { return false };
        let locators = context.established().map(|established| &*established.peer.locators);
        prefix.contains(context.key.ulids.peer.0)
            || locators.unwrap_or_default().iter().any(|peer| prefix.contains(peer.0))
    }
}

impl PathRule {
    /// Sort key of the rules. The most specific rule comes first: a rule for one context, then the longest prefix of
    /// the peer, then the narrowest pair.
    fn breadth(&self) -> (u8, u16) {
        let scope = match self.scope {
            Scope::Context(_) => 0,
            Scope::Peer(prefix) => 1 + (128 - prefix.length()),
        };
        (scope, 256 - u16::from(self.local.length()) - u16::from(self.peer.length()))
    }
}

/// Pairs of an outside order that count: as many as a context can have.
const MAX_RANKED: usize = 1024;
/// Least time between two switches by rules to the same pair, if the pair does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(60);
