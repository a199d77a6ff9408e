//! Contexts that somebody else claims (decision 095).

use alloc::collections::BTreeMap;
use core::time::Duration;

use moorline_index::Deadlines;
use moorline_types::{ContextId, DropReason, Instant, LocatorPair};

use crate::machine::Contexts;

/// The contexts whose peer was asked whether it still has them: see [`Contexts::contest`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Contests {
    contests: BTreeMap<ContextId, Contest>,
    /// When the claims that have come are to be asked for once more.
    due: Deadlines,
}

#[derive(Clone, Debug)]
struct Contest {
    asked: Instant,
    /// The pair that the last R1bis came by that was refused.
    claim: Option<LocatorPair>,
}

impl Contests {
    /// When the next claim is to be asked for once more.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| at)
    }

    /// When the peer was asked, if it was.
    pub(crate) fn asked(&self, id: ContextId) -> Option<Instant> {
        self.contests.get(&id).map(|contest| contest.asked)
    }

    /// The peer is asked now.
    fn begin(&mut self, id: ContextId, now: Instant) {
        self.contests.insert(id, Contest { asked: now, claim: None });
    }

    /// The peer has the context, or the context is gone.
    pub(crate) fn end(&mut self, id: ContextId) {
        self.contests.remove(&id);
        self.due.set(id.0, None);
    }

    /// Notes where an R1bis came from until the time is over in which the peer may answer. The next probe that takes this pair may be
    /// minutes away.
    fn note_claim(&mut self, id: ContextId, pair: LocatorPair) {
        if let Some(contest) = self.contests.get_mut(&id) {
            contest.claim = Some(pair);
            self.due.set(id.0, Some(contest.asked + CONTEST_TIMEOUT));
        }
    }
}

/// A contested context is one whose peer has been asked whether it still has it, and has acknowledged no update since then, nor reported
/// a probe that left since then. Any other message may be an old one that the network or somebody on the path has repeated. Payload does
/// not count: between the ULIDs it has no tag, and comes from whoever has the address. Payload of a moved peer has the tag, but the
/// data plane alone sees it, and reports it only when a timer of REAP asks.
impl Contexts {
    /// A context that the peer has moved away from its ULID with is not for who has that address now. So one who does not
    /// know its tags, elsewhere than where the peer is, has to wait until the peer does not answer there.
    pub(crate) fn contest(
        &mut self,
        id: ContextId,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let Some(active) = self.active.get(&id) else { return Ok(()) };
        if active.reap.was_peer_at(locators.peer) {
            return Ok(());
        }
        match self.contests.asked(id).map(|asked| now.since(asked)) {
            Some(waited) if waited < CONTEST_TIMEOUT => Err(DropReason::Disbelieved),
            Some(waited) if waited < CONTEST_LIFETIME => Ok(()),
            Some(_) | None => {
                self.contests.begin(id, now);
                self.shim6.ask(id, now);
                Err(DropReason::Disbelieved)
            }
        }
    }

    /// As [`contest`](Self::contest), for an R1bis, which nobody repeats: if the peer does not answer, another one is asked for where this one came from.
    pub(crate) fn contest_r1bis(
        &mut self,
        id: ContextId,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let outcome = self.contest(id, locators, now);
        if outcome.is_err() {
            self.contests.note_claim(id, locators);
        }
        outcome
    }

    /// Has contexts whose peer has not answered probe the pair that an R1bis came by. The R1bis that the probe draws is believed. The
    /// refused one is not: its pair may have failed since, and an I2bis that gets lost ends the context.
    pub(crate) fn ask_for_claims(&mut self, now: Instant) {
        while let Some(id) = self.contests.due.pop(now).map(ContextId) {
            let claim = self.contests.contests.get_mut(&id).and_then(|one| one.claim.take());
            if let Some(pair) = claim {
                self.change(id, now, |reap| reap.handle_claimed(pair, now));
            }
        }
    }
}

/// How long a peer is waited for that somebody else claims a context of: 10 s, in which it is asked twice.
const CONTEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the silence of a peer counts: 2 min, more than the Max Probe Timeout (RFC 5534 s4.3), as each probe may draw the next
/// R1bis.
const CONTEST_LIFETIME: Duration = Duration::from_secs(120);
