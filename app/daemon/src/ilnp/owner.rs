//! Which of the two protocols a pair of addresses belongs to: ILNP asks first, and whom Shim6 has moved stays its own
//! (decision 071).

use std::collections::{BTreeMap, BTreeSet};

use moorline_datapath::shim6::{Report, Update};
use moorline_host::Removal;
use moorline_types::{ContextId, Ilv, IlvPair, LocatorPair, UlidPair};

use super::ulids;
use crate::clock;
use crate::protect::Mover;
use crate::shell::Daemon;

/// Pairs that Shim6 has moved, while ILNP is on. A context whose payload still has its ULIDs can go at any time without a
/// packet that is the worse for it, and does when the correspondent wants a session.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    contexts: BTreeMap<ContextId, UlidPair>,
    /// Forked contexts share a pair.
    pairs: BTreeMap<UlidPair, u32>,
}

impl Owned {
    pub(crate) fn contains(&self, pair: IlvPair) -> bool {
        self.pairs.contains_key(&ulids(pair))
    }

    fn insert(&mut self, context: ContextId, pair: UlidPair) {
        let before = self.contexts.insert(context, pair);
        if before != Some(pair) {
            self.release(before);
            *self.pairs.entry(pair).or_default() += 1;
        }
    }

    fn remove(&mut self, context: ContextId) {
        let before = self.contexts.remove(&context);
        self.release(before);
    }

    fn release(&mut self, pair: Option<UlidPair>) {
        let Some(pair) = pair else { return };
        if let Some(count) = self.pairs.get_mut(&pair) {
            *count -= 1;
            if *count == 0 {
                self.pairs.remove(&pair);
            }
        }
    }
}

/// Traffic that would have earned a context, while ILNP asks the peer for a session.
#[derive(Debug, Default)]
pub(super) struct Postponed(BTreeSet<UlidPair>);

impl Daemon {
    /// What the programs of Shim6 have seen goes to its machine, but for what ILNP has or may have soon. Its programs have
    /// seen the same packets before.
    pub(crate) fn on_shim6_report(&mut self, report: Report) {
        if let (Report::Trigger { ulids }, Some(ilnp)) = (&report, &mut self.ilnp)
            && ilnp.machine.is_taken(ilvs(*ulids))
        {
            ilnp.postponed.0.insert(*ulids);
            return;
        }
        if let Report::NoRoom { context } = report {
            self.unbound.on_no_room(Mover::Context(context));
        }
        self.host.handle_report(report, clock::now());
    }

    /// ILNP has no session for a pair after all: if its traffic has earned a context meanwhile, it is Shim6's turn.
    pub(super) fn on_classic(&mut self, pair: UlidPair) {
        let is_postponed = self.ilnp.as_mut().is_some_and(|ilnp| ilnp.postponed.0.remove(&pair));
        if is_postponed {
            self.host.handle_report(Report::Trigger { ulids: pair }, clock::now());
        }
    }

    /// ILNP has a session for a pair: should that end, its traffic counts for Shim6 again.
    pub(super) fn on_session(&mut self, pair: UlidPair) {
        if let Some(ilnp) = &mut self.ilnp {
            ilnp.postponed.0.remove(&pair);
        }
        // What has not moved gives way, be it an I1 that the correspondent does not answer.
        let begun = self.host.contexts().filter(|context| context.ulids == pair);
        for id in begun.map(|context| context.id).collect::<Vec<_>>() {
            self.host.remove(id, Removal::Requested);
        }
        if let Err(error) = self.datapath.apply(&Update::Rearm { ulids: pair }) {
            tracing::debug!(%error, "traffic of a session");
        }
    }

    /// Whether the route of a session is that of a context by now.
    pub(crate) fn is_left_to_context(&self, mover: Mover, pair: UlidPair) -> bool {
        matches!(mover, Mover::Session(_)) && self.owned.contains(ilvs(pair))
    }

    /// Keeps the books of Shim6's pairs. A context that came about while ILNP had a session already goes again; what is not
    /// agreed on yet goes for one that moves.
    pub(crate) fn note_owners(&mut self, updates: &[Update]) {
        let Some(ilnp) = &mut self.ilnp else { return };
        for update in updates {
            if let Update::Upsert(entry) = update
                && entry.is_moved()
            {
                ilnp.machine.withdraw(ilvs(entry.ulids));
            }
            match update {
                Update::Upsert(entry) if ilnp.has_session(ilvs(entry.ulids)) => {
                    tracing::debug!(context = %entry.id, "the pair is ILNP's");
                    self.host.remove(entry.id, Removal::Requested);
                }
                Update::Upsert(entry) if entry.is_moved() => {
                    self.owned.insert(entry.id, entry.ulids);
                }
                Update::Upsert(entry) => self.owned.remove(entry.id),
                Update::Remove { context } => self.owned.remove(*context),
                Update::Heard { .. } | Update::Rearm { .. } => {}
            }
        }
    }
}

impl super::Ilnp {
    /// Whether a packet of protocol 140 is an I1 between addresses that are ILNP's: it gets no answer.
    pub(crate) fn turns_away(&self, octets: &[u8], locators: LocatorPair) -> bool {
        let pair = UlidPair::new(locators.local.as_ulid(), locators.peer.as_ulid());
        octets.get(TYPE_AT) == Some(&I1) && self.machine.is_taken(ilvs(pair))
    }

    fn has_session(&self, pair: IlvPair) -> bool {
        self.machine.has_session(pair)
    }
}

fn ilvs(pair: UlidPair) -> IlvPair {
    IlvPair::new(Ilv::of(pair.local.0), Ilv::of(pair.peer.0))
}

/// Of the type in a Shim6 control message (RFC 5533 s5.3).
const TYPE_AT: usize = 2;
/// RFC 5533 s17.
const I1: u8 = 1;

#[cfg(test)]
mod tests {
    use moorline_types::Ulid;

    use super::*;

    #[test]
    fn a_pair_is_shim6s_as_long_as_one_of_its_contexts_has_moved() {
        let pair = |end: &str| {
            let ulid = |text: &str| Ulid(text.parse().expect("an address"));
            UlidPair::new(ulid("2001:db8:a::1"), ulid(end))
        };
        let (one, other) = (pair("2001:db8:b::1"), pair("2001:db8:b::2"));
        let mut owned = Owned::default();
        owned.insert(ContextId(1), one);
        owned.insert(ContextId(1), one);
        owned.insert(ContextId(2), one);
        owned.remove(ContextId(1));
        assert!(owned.contains(ilvs(one)) && !owned.contains(ilvs(other)));
        // The slot is used again for another pair.
        owned.insert(ContextId(2), other);
        assert!(!owned.contains(ilvs(one)) && owned.contains(ilvs(other)));
        owned.remove(ContextId(2));
        owned.remove(ContextId(2));
        assert!(!owned.contains(ilvs(other)));
    }
}
