//! The responder of the handshake (decision 070): answers a Propose without state, and makes the session by the
//! Confirm.

use moorline_datapath::ilnp::Socket;
use moorline_index::Class;
use moorline_types::{DropReason, IlvPair, Instant, SessionId};
use moorline_wire::ilnp::{Accept, Admission, AdmissionFlags, Confirm, Flow, Refusal};

use crate::event::Event;
use crate::machine::Machine;
use crate::policy::{Decision, Stage};
use crate::session::Session;

impl Machine {
    fn judge(&self, flow: &Flow, pair: IlvPair, socket: Socket) -> Decision {
        let stage = Stage::Proposed { connected: flow.flags.has(AdmissionFlags::CONNECTED) };
        self.config.policy.decide(&self.candidate(pair, stage, socket))
    }

    pub(crate) fn on_propose(
        &mut self,
        flow: Flow,
        pair: IlvPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        if self.prevails(pair) {
            return self.insist(pair, now);
        }
        self.answers.take(pair.remote.l64, now)?;
        self.questions.ask_for_socket(flow, None, pair, now)
    }

    /// Answers a Propose and keeps nothing of it: the Confirm brings all of it back.
    pub(crate) fn answer_propose(
        &mut self,
        flow: Flow,
        pair: IlvPair,
        socket: Socket,
        now: Instant,
    ) -> Result<(), DropReason> {
        if self.prevails(pair) {
            return self.insist(pair, now);
        }
        let refusal = match self.judge(&flow, pair, socket) {
            Decision::Refuse(reason) => Some(reason),
            // The node that now has the old address of a moved session may not displace the session.
            _ if self.has_moved(pair) => {
                self.handle_rival(pair, now);
                Some(Refusal::POLICY)
            }
            Decision::Admit(_) | Decision::Propose => None,
        };
        if let Some(reason) = refusal {
            self.refusal_counted(reason);
            self.send_admission(&Admission::Refuse(flow, reason), pair);
            return Ok(());
        }
        let accept = Accept {
            flow,
            flags: self.flags(socket),
            number: 0,
            validator: [0; 16],
            responder_nonce: self.draw_nonce(),
        };
        let accept = self.seal(accept, pair, now);
        self.send_admission(&Admission::Accept(accept), pair);
        Ok(())
    }

    pub(crate) fn on_confirm(
        &mut self,
        confirm: &Confirm,
        pair: IlvPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        if !self.is_new(confirm, pair, now)? {
            return Ok(());
        }
        self.questions.ask_for_socket(confirm.accept.flow, Some(*confirm), pair, now)
    }

    /// Checks a Confirm. If the Confirm has made its session already, the responder repeats the answer, and the result is
    /// false.
    fn is_new(
        &mut self,
        confirm: &Confirm,
        pair: IlvPair,
        now: Instant,
    ) -> Result<bool, DropReason> {
        if let Some(id) = self.confirmed(confirm, pair) {
            self.repeat_answer(id, now);
            return Ok(false);
        }
        self.check_confirm(confirm, pair, now).map(|()| true)
    }

    /// The session that a Confirm has made.
    fn confirmed(&self, confirm: &Confirm, pair: IlvPair) -> Option<SessionId> {
        let id = self.ilcc.find_pair(pair)?;
        let (_, theirs) = self.ilcc.key(id)?;
        let nonces = (self.ilcc.get(id)?.send_nonce, theirs);
        let confirmed = (confirm.accept.responder_nonce, Some(confirm.initiator_nonce));
        (nonces == confirmed).then_some(id)
    }

    /// Repeats the Locator Update that answers a Confirm: a repeated Confirm shows that the update got lost.
    fn repeat_answer(&mut self, id: SessionId, now: Instant) {
        let session = self.ilcc.get_mut(id);
        match session.and_then(|session| session.advertisement.as_deref_mut()) {
            Some(advertisement) => {
                advertisement.confirmed_at = Some(now);
                self.send_advertisement(id, now);
            }
            None => self.advertise(id, now),
        }
    }

    /// Checks that a Confirm may make a session, or replace the session of its addresses.
    fn check_confirm(
        &mut self,
        confirm: &Confirm,
        pair: IlvPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        self.check_seal(&confirm.accept, pair, now)?;
        let is_later = |session: &Session| {
            self.validators.is_newer(confirm.accept.number, session.accepted_at)
        };
        if !self.agreed_session(pair).is_none_or(is_later) {
            return Err(DropReason::StaleNonce);
        }
        // The two handshakes have crossed at every step: the one from the higher address goes on.
        let is_crossed = self.is_confirming(pair) && pair.local > pair.remote;
        if is_crossed {
            return Err(DropReason::Crossed);
        }
        if self.has_moved(pair) { Err(DropReason::Disbelieved) } else { Ok(()) }
    }

    pub(crate) fn answer_confirm(
        &mut self,
        confirm: &Confirm,
        pair: IlvPair,
        socket: Socket,
        now: Instant,
    ) -> Result<(), DropReason> {
        if !self.is_new(confirm, pair, now)? {
            return Ok(());
        }
        let Confirm { accept, initiator_nonce } = confirm;
        let decision = self.judge(&accept.flow, pair, socket);
        let why = match decision {
            Decision::Admit(why) => why,
            Decision::Refuse(Refusal::RESOURCES) => return Err(DropReason::TableFull),
            Decision::Refuse(_) | Decision::Propose => return Err(DropReason::Unwanted),
        };
        let is_proposed_here = self.drop_proposal(pair).is_some() || self.is_confirming(pair);
        let class = match socket {
            Socket::Connected => Class::Proven,
            Socket::None | Socket::Unconnected if is_proposed_here => Class::Proven,
            Socket::None | Socket::Unconnected => Class::Guest,
        };
        self.negatives.forget(pair.remote);
        let mut session = self.new_session(pair, why, now);
        session.send_nonce = accept.responder_nonce;
        session.accepted_at = accept.number;
        session.agree(accept.flow.flags, accept.flags, accept.flow.flags);
        let id = self.admit(pair, Some(*initiator_nonce), class, session, now);
        self.events.push_back(Event::Established { session: id, pair, why });
        self.advertise(id, now);
        Ok(())
    }
}
