//! Questions at the addresses that the sockets of a session see (decision 182).
//!
//! A correspondent that has begun anew knows neither the session nor our nonce, and may be without ILNP. If an answer
//! to our nonce says so, [`crate::trial`] and [`crate::known`] take it. But the error of a host without nonces may get
//! lost on the way each time, and a correspondent that had moved may have nothing but its first locator. So if all
//! locators are silent, the question goes to the addresses that the sockets see, by two Echo Requests.
//!
//! * The first one has another nonce of ours, if the correspondent does not name the locator. Somebody else may have the
//!   address by now, who must not learn the nonce of the session. At a locator that the correspondent names it has read
//!   that nonce already, and takes no other. An answer with a nonce makes a new session by these addresses.
//! * The other one has no nonce, and each host answers it. A node that has the session answers with its nonce. An
//!   answer without a nonce says that the node has no session, so the traffic is classic IPv6.

use moorline_types::{DropReason, IlvPair, Instant, Nonce, SessionId};
use moorline_wire::ilnp::{Control, Echo};

use crate::consts::DOUBT_TRIES;
use crate::event::Cause;
use crate::machine::Machine;
use crate::session::{Opening, Session};
use crate::trial::{Aim, Trial};

impl Session {
    /// Whether no pair of locators has brought an answer to the last question or Locator Update.
    fn is_silent_everywhere(&self) -> bool {
        let is_over = |sent: &crate::advertisement::Advertisement| {
            sent.finds_silent(self.wire)
                && (self.owes_update || sent.retry.tries as usize >= sent.question.round)
        };
        self.all_silent() || self.is_mute || self.advertisement.as_deref().is_some_and(is_over)
    }

    /// Whether an answer at the addresses of the sockets may end the session. If a correspondent with the handshake has
    /// moved, its first address may belong to somebody else, and the session waits for the correspondent.
    fn may_be_asked_at_first(&self, pair: IlvPair) -> bool {
        let has_moved = self.wire.1 != pair.remote.l64;
        matches!(self.opening, Opening::Done) && self.settled && !(self.agreed && has_moved)
    }
}

impl Machine {
    /// Whether it is time to doubt that the correspondent still has the session, after so many unanswered Locator
    /// Updates. While no answer comes, the correspondent may be restarting, so the doubt returns.
    pub(crate) const fn is_doubtful(tries: usize, from: usize) -> bool {
        match tries.checked_sub(from) {
            Some(more) => more.is_multiple_of(DOUBT_TRIES),
            None => false,
        }
    }

    /// Goes on after nobody has answered by the locators in use (`wire`): asks at the addresses that the sockets see.
    pub(crate) fn ask_at_first(&mut self, id: SessionId, wire: IlvPair, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        let is_it = session.wire_pair(pair) == wire && session.is_silent_everywhere();
        let may_be_asked = session.may_be_asked_at_first(pair) && self.is_ours(pair);
        if !is_it || !may_be_asked || self.trials.contains_key(&pair) {
            return;
        }
        let (why, ours) = (session.why, session.send_nonce);
        let is_named =
            session.remote.iter().any(|one| one.l64 == pair.remote.l64 && !one.is_aged(now));
        let nonce = if is_named { ours } else { self.draw_nonce() };
        let plain = self.draw_echo();
        self.begin_trial((pair, pair), why, nonce, Aim::First { wire, plain }, now);
    }

    /// Sends the Echo Requests of a trial at the addresses that the sockets see. The first request goes alone, so that a
    /// node with ILNP shows its nonce before it answers without. At the locators in use our nonce has been asked about. A
    /// correspondent with the handshake begins no session by an answer.
    pub(crate) fn send_echoes_at_first(&mut self, trial: &Trial, (wire, plain): (IlvPair, Echo)) {
        let pair = trial.sockets;
        let (source, destination) = (pair.local.address(), pair.remote.address());
        let session = self.ilcc.find_pair(pair).and_then(|id| self.ilcc.get(id));
        let may_begin = wire != pair && session.is_some_and(|session| !session.agreed);
        if may_begin {
            let message = trial.echo.emit(source, destination);
            self.send(pair, &message, Some((trial.nonce, None)));
        }
        if !may_begin || trial.retry.tries > 1 {
            self.send(pair, &plain.emit(source, destination), None);
        }
    }

    /// Handles the answer to a trial at the addresses that the sockets see. If the correspondent has shown itself
    /// meanwhile, the answer changes nothing.
    pub(crate) fn on_reply_at_first(
        &mut self,
        control: &Control<'_>,
        echo: Echo,
        trial: &Trial,
        now: Instant,
    ) -> Result<(), DropReason> {
        let Aim::First { wire, plain } = trial.aim else { return Err(DropReason::Unasked) };
        if ![plain, trial.echo].contains(&echo) {
            return Err(DropReason::BadNonce);
        }
        let id = self.ilcc.find_pair(trial.sockets).ok_or(DropReason::Gone)?;
        let known = self.ilcc.key(id).and_then(|(_, nonce)| nonce);
        match control.nonce {
            Some(nonce) if known == Some(nonce) => {
                self.drop_trial(trial.sockets);
                self.on_proven(id, now);
                Ok(())
            }
            Some(nonce) if echo == trial.echo && wire != trial.sockets => {
                self.take_trial_at_first(id, wire, trial)?;
                self.open_proven((trial.sockets, trial.sockets), trial, nonce, now);
                Ok(())
            }
            None if echo == plain => {
                self.take_trial_at_first(id, wire, trial)?;
                self.deny_session(id, now);
                Ok(())
            }
            None => Err(DropReason::MissingOption),
            Some(_) => Err(DropReason::BadNonce),
        }
    }

    /// Ends a trial at the addresses that the sockets see, and checks that its session is still silent at the same
    /// locators.
    fn take_trial_at_first(
        &mut self,
        id: SessionId,
        wire: IlvPair,
        trial: &Trial,
    ) -> Result<(), DropReason> {
        self.drop_trial(trial.sockets);
        let session = self.ilcc.get(id).ok_or(DropReason::Gone)?;
        let is_silent =
            session.wire_pair(trial.sockets) == wire && session.shown_at < trial.retry.begun;
        if is_silent { Ok(()) } else { Err(DropReason::Disbelieved) }
    }

    /// Handles an error about the nonce of a trial at the addresses that the sockets see: the node there has no ILNP.
    /// Returns whether the error quotes that nonce.
    pub(crate) fn refute_at_first(&mut self, trial: &Trial, quoted: &[u8], now: Instant) -> bool {
        let Aim::First { wire, .. } = trial.aim else { return false };
        let id = self.ilcc.find_pair(trial.sockets).filter(|_| quotes(quoted, trial.nonce));
        let Some(id) = id else { return false };
        match self.take_trial_at_first(id, wire, trial) {
            Ok(()) => self.deny_session(id, now),
            Err(reason) => self.drop_counted(reason),
        }
        true
    }

    /// Ends a session that the correspondent does not know any more. The correspondent may be restarting, so the machine
    /// asks it again soon.
    pub(crate) fn deny_session(&mut self, id: SessionId, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        self.has_spoken(pair, now);
        self.forget(id, Cause::Denied);
    }
}

/// Whether the octets begin with a nonce.
pub(crate) fn quotes(quoted: &[u8], nonce: Nonce) -> bool {
    quoted.starts_with(nonce.octets())
}
