//! Contexts that another host claims (decision 095).

use alloc::collections::BTreeMap;
use core::time::Duration;

use moorline_index::Deadlines;
use moorline_types::{ContextId, DropReason, Instant, LocatorPair};

use crate::machine::Contexts;

/// The contexts whose peer was asked whether it still has them, see [`Contexts::contest`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Contests {
    contests: BTreeMap<ContextId, Contest>,
    /// When the machine draws each claim again.
    due: Deadlines,
}

#[derive(Clone, Debug)]
struct Contest {
    asked: Instant,
    /// The pair of the last refused R1bis.
    claim: Option<LocatorPair>,
}

impl Contests {
    /// When the next claim is drawn again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| at)
    }

    /// When the peer was asked. `None`: it was not asked.
    pub(crate) fn asked(&self, id: ContextId) -> Option<Instant> {
        self.contests.get(&id).map(|contest| contest.asked)
    }

    /// Notes that the peer is asked now.
    fn begin(&mut self, id: ContextId, now: Instant) {
        self.contests.insert(id, Contest { asked: now, claim: None });
    }

    /// The peer has the context, or the context is gone: ends the contest.
    pub(crate) fn end(&mut self, id: ContextId) {
        self.contests.remove(&id);
        self.due.set(id.0, None);
    }

    /// Notes the pair of an R1bis until the time for the peer's answer is over. The next probe by this pair may be
    /// minutes away.
    fn note_claim(&mut self, id: ContextId, pair: LocatorPair) {
        if let Some(contest) = self.contests.get_mut(&id) {
            contest.claim = Some(pair);
            self.due.set(id.0, Some(contest.asked + CONTEST_TIMEOUT));
        }
    }
}

/// Contests. A context is contested from the moment when the peer is asked whether it still has the context. The
/// contest ends when the peer acknowledges an update, or reports a probe that left after that moment. Any other message
/// may be an old one that the network or an attacker has repeated. Payload does not count: between the ULIDs it has no
/// tag, and comes from any host that has the address. Payload of a moved peer has the tag, but only the data plane sees
/// it, and reports it only when a timer of REAP asks.
impl Contexts {
    /// If a peer has moved a context away from its ULID, the next host with that address must not get the context. So a
    /// sender that does not know the tags of the context, at a locator other than the peer's, has to wait until the
    /// peer does not answer at its own locator.
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

    /// Does the same as [`contest`](Self::contest) for an R1bis. Nobody repeats an R1bis. So if the peer does not
    /// answer, this host draws another R1bis from the place of the first.
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

    /// Makes contexts whose peer has not answered probe the pair of the refused R1bis. The R1bis that the probe draws
    /// is believed. The refused one is not: its pair may have failed since, and a lost I2bis would end the context.
    pub(crate) fn ask_for_claims(&mut self, now: Instant) {
        while let Some(id) = self.contests.due.pop(now).map(ContextId) {
            let claim = self.contests.contests.get_mut(&id).and_then(|one| one.claim.take());
            if let Some(pair) = claim {
                self.change(id, now, |reap| reap.handle_claimed(pair, now));
            }
        }
    }
}

/// Time for the peer to answer when another host claims its context: 10 s, in which the peer is asked twice.
const CONTEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which the silence of a peer counts: 2 min. This is longer than the Max Probe Timeout (RFC 5534 s4.3),
/// because each probe may draw the next R1bis.
const CONTEST_LIFETIME: Duration = Duration::from_secs(120);
