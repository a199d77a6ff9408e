//! Signs of packets and timers: a correspondent knows a session, or a session is in use or quiet.

use moorline_datapath::ilnp::SILENCE;
use moorline_index::Class;
use moorline_types::{IlvPair, Instant, Nonce, SessionId};

use crate::consts::{HEARD_TURNS, NONCE_AFTER_AGREEMENT};
use crate::event::{Cause, Classic, Event};
use crate::known::is_let_be;
use crate::machine::Machine;
use crate::session::Opening;

impl Machine {
    pub(crate) fn on_learned(&mut self, id: SessionId, nonce: Nonce, now: Instant) {
        if let Some((_, None)) = self.ilcc.key(id) {
            self.ilcc.set_nonce(id, nonce);
            self.on_shown(id, now);
        }
    }

    /// Handles a packet with the right nonce.
    pub(crate) fn on_shown(&mut self, id: SessionId, now: Instant) {
        let offered = self.ilcc.get(id).map(|session| &session.opening);
        if matches!(offered, Some(Opening::Offered { .. })) {
            self.try_offered(id, now);
        } else {
            self.on_proven(id, now);
        }
    }

    /// Notes that the correspondent has shown that it knows the session.
    pub(crate) fn on_proven(&mut self, id: SessionId, now: Instant) {
        let Some((pair, Some(_))) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get_mut(id) else { return };
        session.last_used = session.last_used.max(now);
        session.shown_at = now;
        if matches!(session.opening, Opening::Done) {
            return;
        }
        session.opening = Opening::Done;
        session.accepted_at = self.validators.latest();
        if !session.agreed {
            session.settled = true;
            // The packet may have been sent before ours arrived: "the first few packets" (RFC 6744 s6).
            session.attach_until(now + NONCE_AFTER_AGREEMENT);
        }
        let (why, proves) = (session.why, session.proves);
        self.drop_proposal(pair);
        if proves {
            self.ilcc.promote(id, Class::Unproven);
        }
        self.events.push_back(Event::Established { session: id, pair, why });
        self.advertise_if_of_use(id, now);
        self.tell(id, now);
        self.schedule(id);
    }

    pub(crate) fn on_used(&mut self, id: SessionId, at: Instant, now: Instant) {
        self.ilcc.touch(id);
        let Some(session) = self.ilcc.get_mut(id) else { return };
        session.last_used = session.last_used.max(at);
        let Some(session) = self.ilcc.get(id) else { return };
        let is_quiet = session.advertisement.is_none();
        if is_quiet && session.owes_update && !is_let_be(session, now) {
            self.advertise(id, now);
        } else if is_quiet && self.is_in_doubt(session, now) {
            self.ask_whether_known(id, now);
            self.pace_update(id, now);
        }
        self.renew_if_due(id, now);
        self.note_in_use(id, at);
        self.prove_anew(id, now);
    }

    /// The correspondent has sent nothing since a packet left, although it had sent a moment before. If the session can
    /// go by other locators, the machine asks the correspondent at once.
    pub(crate) fn on_silent(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.ilcc.get(id) else { return };
        let is_done = matches!(session.opening, Opening::Done) && session.advertisement.is_none();
        let is_answered = session.without_sign(now).is_some_and(|time| time < SILENCE);
        if is_done && !is_answered && !is_let_be(session, now) && self.has_other_pairs(session) {
            self.ask_whether_known(id, now);
        }
        self.pace_update(id, now);
        self.note_in_use(id, now);
        let session = self.ilcc.get_mut(id);
        if let Some(sent) = session.and_then(|session| session.advertisement.as_mut()) {
            sent.question.unheard_turns = HEARD_TURNS;
        }
    }

    /// A Locator Update that waits for its acknowledgement is repeated as if it were new: its pauses may have grown.
    fn pace_update(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let fresh = session.retry_of_update(now);
        if let Some(sent) = &mut session.advertisement {
            sent.retry = if sent.retry.begun == now { fresh } else { sent.retry.hastened(fresh) };
            self.schedule(id);
        }
    }

    /// The question that is under way, if there is one, is about a session in use.
    fn note_in_use(&mut self, id: SessionId, at: Instant) {
        let session = self.ilcc.get_mut(id);
        if let Some(sent) = session.and_then(|session| session.advertisement.as_mut()) {
            sent.question.on_used(at);
        }
    }

    pub(crate) fn on_session_timer(&mut self, id: SessionId, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        if let Opening::Offered { until: Some(until) } = session.opening
            && until <= now
        {
            self.forget(id, Cause::Unanswered);
            self.remember_classic(pair, Classic::Unread, now);
            return;
        }
        if self.is_quiet(id, now) && self.ask_whether_connected(id, pair, now) {
            return;
        }
        let Some(session) = self.ilcc.get_mut(id) else { return };
        if session.nonce_until.is_some_and(|until| until <= now) {
            session.nonce_until = None;
            self.tell(id, now);
        }
        if self.repeat_confirmation(id, pair, now) {
            self.repeat_proof(id, now);
            self.repeat_advertisement(id, pair, now);
            self.schedule(id);
        }
    }

    /// Whether a session has not been used for the idle time.
    pub(crate) fn is_quiet(&self, id: SessionId, now: Instant) -> bool {
        let idle = self.config.idle_timeout;
        self.ilcc.get(id).is_some_and(|session| session.last_used + idle <= now)
    }

    /// Asks whether a connected socket has the addresses of a quiet session, unless that question waits. Returns
    /// whether the other deadlines of the session wait for the answer as well. They wait for the first question only,
    /// so that a lost answer stops nothing.
    fn ask_whether_connected(&mut self, id: SessionId, pair: IlvPair, now: Instant) -> bool {
        let asked = self.questions.waits_until(id);
        if asked.is_some_and(|until| until > now) {
            return false;
        }
        let until = self.questions.ask_about_quiet(id, pair, now);
        self.session_timers.set(id.0, Some(until));
        asked.is_none()
    }
}
