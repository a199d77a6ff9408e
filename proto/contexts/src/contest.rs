//! Contexts that somebody else claims (decision 095).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::time::Duration;

use moorline_index::Deadlines;
use moorline_shim6::Incoming;
use moorline_types::{ContextId, DropReason, Instant, LocatorPair};

use crate::machine::Contexts;

/// The contexts whose peer was asked whether it still has them: see [`Contexts::contest`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Contests {
    contests: BTreeMap<ContextId, Contest>,
    /// When the claims that have come are to be taken.
    due: Deadlines,
}

#[derive(Clone, Debug)]
struct Contest {
    asked: Instant,
    /// The last R1bis that was refused, and the pair that it came by.
    claim: Option<(Box<[u8]>, LocatorPair)>,
}

impl Contests {
    /// When the next claim is to be taken.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| at)
    }

    /// When the peer was asked, if it was.
    pub(crate) fn asked(&self, id: ContextId) -> Option<Instant> {
        self.contests.get(&id).map(|contest| contest.asked)
    }

    /// The peer has the context, or the context is gone.
    pub(crate) fn end(&mut self, id: ContextId) {
        self.contests.remove(&id);
        self.due.set(id.0, None);
    }

    /// Keeps an R1bis until the time is over in which the peer may answer: another one follows the next probe that gets through only,
    /// which may be minutes away.
    fn keep_claim(&mut self, id: ContextId, came: &Incoming<'_>) {
        let Some(contest) = self.contests.get_mut(&id) else { return };
        let octets = came.packet.octets();
        if octets.len() <= LONGEST_CLAIM {
            contest.claim = Some((octets.into(), came.locators));
            self.due.set(id.0, Some(contest.asked + CONTEST_TIMEOUT));
        }
    }

    /// The next claim that is to be taken by now.
    fn pop(&mut self, now: Instant) -> Option<(Box<[u8]>, LocatorPair)> {
        while let Some(id) = self.due.pop(now).map(ContextId) {
            let claim = self.contests.get_mut(&id).and_then(|contest| contest.claim.take());
            if claim.is_some() {
                return claim;
            }
        }
        None
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
                self.contests.contests.insert(id, Contest { asked: now, claim: None });
                self.shim6.ask(id, now);
                Err(DropReason::Disbelieved)
            }
        }
    }

    /// The same for an R1bis, which nobody repeats: it counts once the peer has not answered, though no other comes.
    pub(crate) fn contest_r1bis(
        &mut self,
        id: ContextId,
        came: &Incoming<'_>,
    ) -> Result<(), DropReason> {
        let outcome = self.contest(id, came.locators, came.now);
        if outcome.is_err() {
            self.contests.keep_claim(id, came);
        }
        outcome
    }

    /// Takes what was refused and has not been contradicted since.
    pub(crate) fn take_claims(&mut self, now: Instant) {
        while let Some((octets, locators)) = self.contests.pop(now) {
            self.handle_control(&octets, locators, now);
        }
    }
}

/// How long a peer is waited for that somebody else claims a context of: 10 s, in which it is asked twice.
const CONTEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the silence of a peer counts: 2 min, more than the Max Probe Timeout (RFC 5534 s4.3), as each probe may draw the next
/// R1bis.
const CONTEST_LIFETIME: Duration = Duration::from_secs(120);
/// A longer R1bis is not kept: ours has 40 octets, and RFC 5533 has no option for it but the validator.
const LONGEST_CLAIM: usize = 128;
