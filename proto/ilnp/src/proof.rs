//! Proof that a correspondent is at a locator that it names (decision 192).
//!
//! A nonce shows that the correspondent names a locator. It does not show that the correspondent is there: a hostile
//! correspondent names the locator of a third party, acknowledges payload that it does not see, and so floods the third
//! party. So payload goes to a locator once the correspondent has answered an Echo Request that went there. The
//! request has a token, which nobody can guess. The answer needs the token and the nonce of the correspondent: the
//! third party knows no nonce, and the correspondent elsewhere knows no token.
//!
//! All that the machine sends to locators without proof has a budget: three times what the correspondent has sent to
//! the machine (RFC 9000 s8), and [`CREDIT_PER_SECOND`]. The budget is that of the session, so it is no larger if the
//! correspondent names many locators. The machine asks at a locator only if it would use the locator.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::Hasher as _;

use moorline_types::{DropReason, IlvPair, Instant, L64, SessionId};
use moorline_wire::ilnp::{Control, Echo};
use moorline_wire::ip6::{IP6_LEN, Ip6};
use siphasher::sip::SipHasher24;

use crate::consts::{
    CREDIT_PER_SECOND, MAX_CREDIT, MAX_CREDIT_BY_TIME, MIN_RETRANSMISSION, PROOF_TRIES, TOKEN_STEP,
    UNPROVEN_FACTOR,
};
use crate::machine::Machine;
use crate::paths::{Came, Locators};
use crate::retry::Retry;
use crate::session::Session;

/// Questions of a session at locators without proof.
#[derive(Clone, Debug)]
pub(crate) struct Proofs {
    /// Octets that may go to locators without proof now; at most [`MAX_CREDIT`].
    credit: u32,
    /// Time up to which time has added to the credit.
    counted: Instant,
    /// Our locator and the correspondent's in the addresses of its last Locator Update with news.
    came: Option<Locators>,
    /// Repetition of the question; `None` if no question waits.
    retry: Option<Retry>,
    /// Number of questions at standby locators since that update.
    spare: u32,
}

impl Proofs {
    const fn new(now: Instant) -> Self {
        Self { credit: 0, counted: now, came: None, retry: None, spare: 0 }
    }

    /// When the question goes again.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.retry.map(|retry| retry.next)
    }

    fn earn(&mut self, octets: usize) {
        let octets = u32::try_from(octets).unwrap_or(u32::MAX);
        self.credit =
            self.credit.saturating_add(octets.saturating_mul(UNPROVEN_FACTOR)).min(MAX_CREDIT);
    }

    /// Takes octets from the credit. Returns false if the credit is too small, and then takes none.
    fn pay(&mut self, octets: usize, now: Instant) -> bool {
        let seconds = u32::try_from(now.since(self.counted).as_secs()).unwrap_or(u32::MAX);
        if seconds > 0 {
            let by_time = self.credit.saturating_add(seconds.saturating_mul(CREDIT_PER_SECOND));
            self.credit = self.credit.max(by_time.min(MAX_CREDIT_BY_TIME));
            self.counted = now;
        }
        let left = u32::try_from(octets).ok().and_then(|octets| self.credit.checked_sub(octets));
        self.credit = left.unwrap_or(self.credit);
        left.is_some()
    }
}

impl Session {
    /// Whether the correspondent has shown that it is at this locator. It has shown that for the locator in use.
    pub(crate) fn is_proven(&self, l64: L64) -> bool {
        l64 == self.wire.1 || self.remote.iter().any(|remote| remote.l64 == l64 && remote.proven)
    }

    /// Whether the correspondent names this locator and has not shown that it is there.
    pub(crate) fn needs_proof(&self, l64: L64) -> bool {
        !self.is_proven(l64) && self.remote.iter().any(|remote| remote.l64 == l64)
    }

    /// Whether a message of so many octets may go to this locator. A message to a locator without proof takes them
    /// from the credit.
    pub(crate) fn may_send(&mut self, to: L64, octets: usize, now: Instant) -> bool {
        self.is_proven(to) || self.proofs.as_mut().is_some_and(|proofs| proofs.pay(octets, now))
    }

    /// Notes a Locator Update with news that has come by these locators. Without locators that need a proof there is
    /// nothing to keep.
    pub(crate) fn note_update(&mut self, by: Locators, now: Instant) {
        let all = self.remote.iter().map(|remote| remote.l64).chain([by.1]);
        if all.clone().all(|l64| self.is_proven(l64)) {
            self.proofs = None;
            return;
        }
        let proofs = self.proofs.get_or_insert_with(|| Box::new(Proofs::new(now)));
        (proofs.came, proofs.spare) = (Some(by), 0);
    }
}

impl Machine {
    /// Notes a message with the nonce of the correspondent: it has reached our locator, and adds to the credit of its
    /// session, if the session needs one.
    pub(crate) fn earn(&mut self, id: SessionId, control: &Control<'_>, now: Instant) {
        let octets =
            Ip6::read(control.packet).map_or(0, |ip6| IP6_LEN + usize::from(ip6.payload_len));
        self.note_heard(id, control.pair.local.l64);
        let Some(session) = self.ilcc.get_mut(id) else { return };
        if session.proofs.is_some() || !session.is_proven(control.pair.remote.l64) {
            session.proofs.get_or_insert_with(|| Box::new(Proofs::new(now))).earn(octets);
        }
    }

    /// The locators at which the correspondent of a session has shown to be, with what the sessions that share its
    /// nonces know.
    pub(crate) fn proven_locators(&self, id: SessionId) -> Vec<L64> {
        let mut all = Vec::new();
        for session in self.siblings(id).into_iter().filter_map(|one| self.ilcc.get(one)) {
            all.push(session.wire.1);
            let proven = session.remote.iter().filter(|remote| remote.proven);
            all.extend(proven.map(|remote| remote.l64));
        }
        all
    }

    /// Asks at the best locator that needs a proof, if the session would use it. Without such a locator no question
    /// waits any more.
    pub(crate) fn prove(&mut self, id: SessionId, now: Instant) {
        let best = self.locators_to_prove(id, now).first().copied();
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let Some(best) = best else {
            session.proofs.iter_mut().for_each(|proofs| proofs.retry = None);
            return;
        };
        let retry = session.retry(now);
        let proofs = session.proofs.get_or_insert_with(|| Box::new(Proofs::new(now)));
        let soonest = proofs.retry.map(|retry| retry.sent_at() + MIN_RETRANSMISSION);
        if soonest.is_none_or(|soonest| soonest <= now) {
            proofs.retry = Some(retry);
            self.ask_at_remote(id, best, now);
            self.schedule(id);
        }
    }

    /// Asks again at locators that need a proof, if no question waits. If the session would use none of them now, it
    /// asks at one standby locator, so that it need not ask when the locators in use fail.
    pub(crate) fn prove_anew(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.ilcc.get(id) else { return };
        let waits = session.proofs.as_ref().is_some_and(|proofs| proofs.retry.is_some());
        let others = session.remote.iter().filter(|one| !one.is_aged(now));
        let others: Vec<_> =
            others.map(|one| one.l64).filter(|l64| session.needs_proof(*l64)).collect();
        if waits || others.is_empty() {
            return;
        }
        self.prove(id, now);
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let proofs = session.proofs.get_or_insert_with(|| Box::new(Proofs::new(now)));
        let nth = proofs.spare as usize;
        // A correspondent that acknowledges nothing can show no path, so it needs no standby locator.
        if proofs.retry.is_none() && !session.is_mute && nth < PROOF_TRIES as usize * others.len() {
            proofs.spare += 1;
            others
                .get(nth % others.len())
                .into_iter()
                .for_each(|to| self.ask_at_remote(id, *to, now));
        }
    }

    /// Repeats the question if it is due, at each locator in turn.
    pub(crate) fn repeat_proof(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.ilcc.get(id) else { return };
        let waiting = session.proofs.as_ref().and_then(|proofs| proofs.retry);
        let Some(retry) = waiting.filter(|retry| retry.next <= now) else { return };
        let all = self.locators_to_prove(id, now);
        let goes_on = retry.tries < PROOF_TRIES && !all.is_empty();
        let Some(session) = self.ilcc.get_mut(id) else { return };
        if let Some(proofs) = &mut session.proofs {
            proofs.retry = goes_on.then(|| retry.again(now));
        }
        if goes_on && let Some(to) = all.get(retry.tries as usize % all.len()) {
            self.ask_at_remote(id, *to, now);
        }
    }

    /// The locators without proof that are better than all locators with one; the best first.
    fn locators_to_prove(&self, id: SessionId, now: Instant) -> Vec<L64> {
        let Some((pair, _)) = self.ilcc.key(id) else { return Vec::new() };
        let Some(session) = self.ilcc.get(id) else { return Vec::new() };
        let likely = session.proofs.as_ref().and_then(|proofs| proofs.came).map(|came| came.1);
        let ranks = session
            .remote
            .iter()
            .map(|remote| (self.rank(session, pair.remote, likely, remote, now), remote));
        let (proven, others): (Vec<_>, Vec<_>) =
            ranks.partition(|(_, remote)| session.is_proven(remote.l64));
        let best = proven.into_iter().map(|(rank, _)| rank).min();
        let is_better = |rank| best.is_none_or(|best| rank < best);
        let mut better: Vec<_> = others
            .into_iter()
            .filter(|(rank, remote)| is_better(*rank) && !remote.is_aged(now))
            .collect();
        better.sort_by_key(|(rank, _)| *rank);
        better.into_iter().map(|(_, remote)| remote.l64).collect()
    }

    fn ask_at_remote(&mut self, id: SessionId, remote: L64, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        let came = session.proofs.as_ref().and_then(|proofs| proofs.came);
        let near = came.filter(|came| came.1 == remote && self.has_locator(came.0));
        let current = near.map_or(session.wire.0, |came| came.0);
        if let Some(local) = self.local_that_works(session, current, pair.remote.at(remote)) {
            self.ask_at(id, (local, remote), now);
        }
    }

    /// Asks the correspondent of a session by these locators whether it is there.
    pub(crate) fn ask_at(&mut self, id: SessionId, (local, remote): Locators, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(token) = self.token(id, remote, step(now)) else { return };
        let by = IlvPair::new(pair.local.at(local), pair.remote.at(remote));
        let message = Echo { token }.emit(by.local.address(), by.remote.address());
        self.send_of(id, by, &message, None, now);
    }

    /// The token of questions at this locator, in this step of the time. A keyed hash needs no state.
    fn token(&self, id: SessionId, remote: L64, step: u64) -> Option<[u8; 8]> {
        let (pair, _) = self.ilcc.key(id)?;
        let session = self.ilcc.get(id)?;
        let mut hasher = SipHasher24::new_with_key(&self.proof_key);
        hasher.write(&pair.local.address().octets());
        hasher.write(&pair.remote.address().octets());
        hasher.write(session.send_nonce.octets());
        hasher.write(&remote.octets());
        hasher.write_u64(step);
        Some(hasher.finish().to_be_bytes())
    }

    /// Answers a question of the correspondent by the way it came.
    pub(crate) fn on_echo_request(
        &mut self,
        control: &Control<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let pair = control.pair;
        let (src, dst) = (pair.remote.address(), pair.local.address());
        let echo = Echo::parse_request(control.message, src, dst)?;
        let nonce = control.nonce.ok_or(DropReason::MissingOption)?;
        let (local, remote) = pair.nids();
        let id = self.ilcc.find_nonce(local, remote, nonce).ok_or(DropReason::BadNonce)?;
        self.earn(id, control, now);
        self.send_of(id, pair, &echo.emit_reply(dst, src), None, now);
        self.on_shown(id, now);
        if self.has_locator(pair.local.l64) {
            self.on_reached_by(id, (pair.local.l64, pair.remote.l64), Came::Echo, now);
        }
        Ok(())
    }

    /// Handles an Echo Reply. Returns whether it answers a question at a locator without proof. The answer may come
    /// from another locator.
    pub(crate) fn on_proof(&mut self, control: &Control<'_>, echo: Echo, now: Instant) -> bool {
        let (local, remote) = control.pair.nids();
        let id = control.nonce.and_then(|nonce| self.ilcc.find_nonce(local, remote, nonce));
        let Some((id, session)) = id.and_then(|id| Some((id, self.ilcc.get(id)?))) else {
            return false;
        };
        let is_answered = |l64: &L64| {
            let steps = [step(now), step(now).saturating_sub(1)];
            let asked = self.siblings(id).into_iter();
            let tokens = asked.flat_map(|one| steps.map(|step| self.token(one, *l64, step)));
            session.needs_proof(*l64) && tokens.flatten().any(|token| token == echo.token)
        };
        let named = session.remote.iter().map(|remote| remote.l64);
        let Some(proven) = named.clone().find(is_answered) else { return false };
        let by = (control.pair.local.l64, control.pair.remote.l64);
        self.note_heard(id, by.0);
        for one in self.siblings(id) {
            self.take_proof(one, proven, by, now);
        }
        self.on_shown(id, now);
        true
    }

    /// The correspondent is at this locator, and its answer has come by these. If the locators in use are silent, the
    /// answer shows a pair that is not.
    fn take_proof(&mut self, id: SessionId, proven: L64, by: Locators, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let named = session.remote.iter_mut().filter(|remote| remote.l64 == proven);
        named.for_each(|remote| remote.proven = true);
        let came = session.proofs.as_mut().and_then(|proofs| {
            proofs.retry = None;
            proofs.came
        });
        let source = came.map_or(session.wire.1, |came| came.1);
        let waiting = if session.is_silent() { session.advertisement.take() } else { None };
        match waiting {
            Some(asked) => {
                self.on_answer_by(id, by, &asked, now);
                if let Some(session) = self.ilcc.get_mut(id) {
                    session.advertisement.get_or_insert(asked);
                }
            }
            None => self.follow_proof(id, pair.remote.at(source), by, now),
        }
        self.prove(id, now);
        self.tell(id, now);
        self.schedule(id);
    }
}

/// Number of the step of the time.
const fn step(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000_000 / TOKEN_STEP.as_secs()
}
