//! Rules: which pairs of its contexts this host would rather use.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use moorline_reap::Cause;
use moorline_types::{ContextId, Instant, LocatorPair, Prefix, named_enum};

use crate::machine::Contexts;

named_enum! {
    /// What a rule says of the pairs that it is about; the greater is the better.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Preference {
        /// Only when no other works.
        Avoid => "avoid",
        /// Nothing.
        #[default]
        Neutral => "neutral",
        /// Rather than others.
        Prefer => "prefer",
    }
}

/// The contexts that a rule applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The one in this slot.
    Context(ContextId),
    /// Those whose peer's ULID, or one of its locators, is in the prefix.
    Peer(Prefix),
}

/// What to think of the pairs from and to these prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// In these contexts.
    pub scope: Scope,
    /// Our end.
    pub local: Prefix,
    /// The peer's end.
    pub peer: Prefix,
    /// What to think of them.
    pub preference: Preference,
}

impl Contexts {
    /// Rules in place of those before. Contexts that a rule would have elsewhere go there once the
    /// pair has answered.
    pub fn set_path_rules(&mut self, mut rules: Vec<PathRule>, now: Instant) {
        rules.sort_by_key(PathRule::breadth);
        if self.steering.rules == rules {
            return;
        }
        self.steering.rules = rules;
        self.notes.values_mut().for_each(|notes| notes.tried = None);
        self.refresh_all(now);
    }

    /// What the rules say of a pair of a context.
    #[must_use]
    pub fn preference(&self, id: ContextId, pair: LocatorPair) -> Preference {
        let rule = self.steering.rules.iter().find(|rule| self.applies(rule, id, pair));
        rule.map_or(Preference::Neutral, |rule| rule.preference)
    }

    /// Where the rules would rather have a context than where it is.
    pub(crate) fn better(&self, id: ContextId) -> Option<LocatorPair> {
        let current = self.active.get(&id)?.reap.current_pair();
        let best = self.best(id)?;
        (self.preference(id, best) > self.preference(id, current)).then_some(best)
    }

    /// What the rules like best, as near to where the context is as can be; `None`: there are no rules.
    pub(crate) fn best(&self, id: ContextId) -> Option<LocatorPair> {
        if !self.steering.has_rules() {
            return None;
        }
        let current = self.active.get(&id)?.reap.current_pair();
        let usable = self.pairs_of(id).into_iter();
        let usable = usable.filter(|pair| self.usable.contains(&pair.local));
        usable.min_by_key(|pair| Reverse((self.preference(id, *pair), pair.shared_ends(current))))
    }

    /// An order of pairs from outside, the best first; it counts among pairs that rules make no
    /// difference between. Pairs that are none of this context are not looked at.
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

    /// Tells REAP in which order pairs are tried.
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

    /// A context is new, has other locators, or there are other rules: is there a better pair?
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
        // It is a candidate.
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

    /// Whether the peer of a context is known by an address in this prefix.
    #[must_use]
    pub fn is_with(&self, id: ContextId, prefix: Prefix) -> bool {
        let Some(context) = self.shim6.context(id) else { return false };
        let locators = context.established().map(|established| &*established.peer.locators);
        prefix.contains(context.key.ulids.peer.0)
            || locators.unwrap_or_default().iter().any(|peer| prefix.contains(peer.0))
    }
}

impl PathRule {
    /// The most specific rule has the least: that for one context, then the longest prefix of the
    /// peer, then the narrowest pair.
    fn breadth(&self) -> (u8, u16) {
        let scope = match self.scope {
            Scope::Context(_) => 0,
            Scope::Peer(prefix) => 1 + (128 - prefix.length()),
        };
        (scope, 256 - u16::from(self.local.length()) - u16::from(self.peer.length()))
    }
}

/// Pairs of an order from outside that are looked at: all that a context can have.
const MAX_RANKED: usize = 1024;
/// Least time between two switches to the same pair by rules, if it does not answer.
const TRY_AGAIN: Duration = Duration::from_secs(60);
