//! Questions at the addresses that the sockets of a session see (decision 182).
//!
//! A correspondent that has begun anew knows neither the session nor our nonce, and may be without ILNP. If an answer
//! to our nonce says so, [`crate::trial`] and [`crate::known`] take it. But the error of a host without nonces may get
//! lost on the way each time, and a correspondent that had moved may have nothing but its first locator. So if all
//! locators are silent, the question goes to the addresses that the sockets see, by two Echo Requests.
//!
//! * The first one has the nonce of ours that the node at the locator has read ([`Machine::read_at`]), as the node
//!   takes no other. If the machine knows of no such nonce, the request has a new one: somebody else may have the
//!   address by now, who must not learn the nonce of the session. An answer with a nonce makes a new session.
//! * The other one has no nonce, and each host answers it. A node that has the session answers with its nonce. An
//!   answer without a nonce says that the node has no session, so the traffic is classic IPv6.
//!
//! If this host has lost the local address of the sockets, the first request goes from another locator, and the other
//! request does not go: no traffic can be classic IPv6 from an address that is gone.

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

    /// Goes on after nobody has answered by the locators in use (`wire`): asks at the correspondent's address that the
    /// sockets see.
    pub(crate) fn ask_at_first(&mut self, id: SessionId, wire: IlvPair, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        let is_it = session.wire_pair(pair) == wire && session.is_silent_everywhere();
        let may_be_asked = is_it && session.may_be_asked_at_first(pair);
        let by = self.first_pair(session, pair).filter(|_| may_be_asked);
        let Some(by) = by.filter(|by| !self.is_asking(*by)) else { return };
        let (why, read) = (session.why, self.read_at(by, now));
        let nonce = read.unwrap_or_else(|| self.draw_nonce());
        let plain = self.draw_echo();
        self.begin_trial((pair, by), why, nonce, Aim::First { wire, plain }, now);
    }

    /// The addresses of a question at the correspondent's address that the sockets of a session see: the addresses of the
    /// sockets, or those with another locator of ours if packets cannot leave from the sockets' one.
    fn first_pair(&self, session: &Session, pair: IlvPair) -> Option<IlvPair> {
        let leads =
            |by: &IlvPair| self.is_ours(*by) && !self.leads_elsewhere(by.local.l64, by.remote);
        let wire = session.wire_pair(pair);
        let other = self.best_local(session.wire.0, pair.remote).filter(|_| !session.agreed);
        let other = other.map(|local| IlvPair::new(pair.local.at(local), pair.remote));
        let others = other.filter(|by| *by != wire && leads(by));
        let first = Some(pair).filter(leads).or(others);
        first.or_else(|| self.is_ours(pair).then_some(pair))
    }

    /// Sends the Echo Requests of a trial at the correspondent's address that the sockets see. The first request goes
    /// alone, so that a node with ILNP shows its nonce before it answers without. At the locators in use our nonce has been
    /// asked about. A correspondent with the handshake begins no session by an answer.
    pub(crate) fn send_echoes_at_first(
        &mut self,
        by: IlvPair,
        trial: &Trial,
        (wire, plain): (IlvPair, Echo),
    ) {
        let (source, destination) = (by.local.address(), by.remote.address());
        let session = self.ilcc.find_pair(trial.sockets).and_then(|id| self.ilcc.get(id));
        let may_begin = wire != by && session.is_some_and(|session| !session.agreed);
        if may_begin {
            let message = trial.echo.emit(source, destination);
            self.send(by, &message, Some((trial.nonce, None)));
        }
        if by == trial.sockets && (!may_begin || trial.retry.tries > 1) {
            self.send(by, &plain.emit(source, destination), None);
        }
    }

    /// Handles the answer to a trial at the correspondent's address that the sockets see. If the correspondent has shown
    /// itself meanwhile, the answer changes nothing.
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
        let by = control.pair;
        let has_read = echo == trial.echo;
        match control.nonce {
            Some(nonce) if self.has_nonces(id, has_read.then_some(trial.nonce), nonce) => {
                self.drop_trial(by);
                self.on_proven(id, now);
                Ok(())
            }
            Some(nonce) if has_read && wire != by => {
                self.take_trial_at_first(id, by, trial)?;
                self.open_proven((trial.sockets, by), trial, nonce, now);
                Ok(())
            }
            None if echo == plain => {
                self.take_trial_at_first(id, by, trial)?;
                self.deny_session(id, now);
                Ok(())
            }
            None => Err(DropReason::MissingOption),
            Some(_) => Err(DropReason::BadNonce),
        }
    }

    /// Ends a trial by these addresses, and checks that its session is still silent at the same locators.
    fn take_trial_at_first(
        &mut self,
        id: SessionId,
        by: IlvPair,
        trial: &Trial,
    ) -> Result<(), DropReason> {
        let Aim::First { wire, .. } = trial.aim else { return Err(DropReason::Unasked) };
        self.drop_trial(by);
        let session = self.ilcc.get(id).ok_or(DropReason::Gone)?;
        let is_silent =
            session.wire_pair(trial.sockets) == wire && session.shown_at < trial.retry.begun;
        if is_silent { Ok(()) } else { Err(DropReason::Disbelieved) }
    }

    /// Handles an error about the nonce of a trial by these addresses: the node there has no ILNP. The session ends if
    /// its traffic can be classic IPv6, from the addresses of its sockets. Returns whether the error quotes that nonce.
    pub(crate) fn refute_at_first(
        &mut self,
        by: IlvPair,
        trial: &Trial,
        quoted: &[u8],
        now: Instant,
    ) -> bool {
        let id = self.ilcc.find_pair(trial.sockets).filter(|_| quotes(quoted, trial.nonce));
        let Some(id) = id else { return false };
        match self.take_trial_at_first(id, by, trial) {
            Ok(()) if by == trial.sockets => self.deny_session(id, now),
            Ok(()) => {}
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
