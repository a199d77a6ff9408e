//! Questions to the sockets of the host, and the admissions and sessions that wait for the answers.

use alloc::collections::BTreeMap;
use core::ops::Bound::{Excluded, Unbounded};

use moorline_datapath::ilnp::{Socket, Sockets};
use moorline_types::{DropReason, IlvPair, Instant, SessionId};
use moorline_wire::ilnp::{Confirm, Flow};

use crate::consts::{MAX_QUESTIONS, QUESTION_LIFETIME};
use crate::event::Cause;
use crate::machine::Machine;
use moorline_index::Class;

/// A question to the sockets of the host. The machine waits for the answer for [`QUESTION_LIFETIME`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The best socket for the flow of a Propose or Confirm, as [`Sockets::kind`] gives it. [`Machine::handle_socket`] takes the
    /// answer.
    Socket {
        /// Number of the question.
        id: QuestionId,
        /// The addresses.
        pair: IlvPair,
        /// Upper-layer protocol.
        protocol: u8,
        /// Our port and the correspondent's; zero without ports.
        ports: (u16, u16),
    },
    /// Whether a connected socket has the addresses of a quiet session, as [`Sockets::any_between`] gives it.
    /// [`Machine::handle_connected`] takes the answer.
    Connected {
        /// Number of the question.
        id: QuestionId,
        /// The addresses that the sockets of the session see.
        pair: IlvPair,
    },
}

/// Number of a question. A machine uses no number twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QuestionId(u64);

impl Machine {
    /// The next question to the sockets of the host; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_question(&mut self) -> Option<Question> {
        self.questions.poll()
    }

    /// Takes the answer to [`Question::Socket`]: the machine goes on with the Propose or Confirm. If no such question
    /// waits, the answer changes nothing.
    pub fn handle_socket(&mut self, id: QuestionId, socket: Socket, now: Instant) {
        let Some(admission) = self.questions.take_admission(id, now) else { return };
        if let Err(reason) = self.on_socket(&admission, socket, now) {
            self.drop_counted(reason);
        }
    }

    /// Takes the answer to [`Question::Connected`]. If a connected socket has the addresses of the session, the
    /// session stays. Otherwise a session that is still quiet is forgotten. If no such question waits, the answer
    /// changes nothing.
    pub fn handle_connected(&mut self, id: QuestionId, is_connected: bool, now: Instant) {
        let Some(id) = self.questions.take_quiet(id) else { return };
        if !is_connected && self.is_quiet(id, now) {
            self.forget(id, Cause::Idle);
            return;
        }
        if is_connected && let Some(session) = self.ilcc.get_mut(id) {
            // RFC 6741 s5.2: a session that a socket still has is kept, however quiet.
            session.last_used = session.last_used.max(now);
            self.ilcc.promote(id, Class::Guest);
        }
        self.on_session_timer(id, now);
    }

    /// Answers all questions at once, for a caller that can ask its sockets without waiting.
    pub fn answer_all(&mut self, sockets: &dyn Sockets, now: Instant) {
        while let Some(question) = self.poll_question() {
            self.answer(question, sockets, now);
        }
    }

    /// Answers a question by these sockets.
    pub fn answer(&mut self, question: Question, sockets: &dyn Sockets, now: Instant) {
        match question {
            Question::Socket { id, pair, protocol, ports } => {
                self.handle_socket(id, sockets.kind(pair, protocol, ports), now);
            }
            Question::Connected { id, pair } => {
                self.handle_connected(id, sockets.any_between(pair), now);
            }
        }
    }
}

/// Questions that wait for an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions {
    last: QuestionId,
    last_polled: QuestionId,
    /// At most [`MAX_QUESTIONS`].
    admissions: BTreeMap<QuestionId, Waiting>,
    /// At most one question for each session.
    quiet: BTreeMap<QuestionId, Quiet>,
    by_session: BTreeMap<SessionId, QuestionId>,
}

/// A Propose or Confirm that waits for a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) flow: Flow,
    /// `None` for a Propose.
    pub(crate) confirm: Option<Confirm>,
    pub(crate) pair: IlvPair,
    until: Instant,
}

/// A session that has been quiet for the idle time.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    session: SessionId,
    pair: IlvPair,
    until: Instant,
}

impl Questions {
    fn poll(&mut self) -> Option<Question> {
        let unasked = (Excluded(self.last_polled), Unbounded);
        let admission = self.admissions.range(unasked).next();
        let admission = admission.map(|(id, admission)| (*id, admission.question(*id)));
        let quiet = self.quiet.range(unasked).next();
        let quiet = quiet.map(|(&id, quiet)| (id, Question::Connected { id, pair: quiet.pair }));
        let (id, question) = admission.into_iter().chain(quiet).min_by_key(|(id, _)| *id)?;
        self.last_polled = id;
        Some(question)
    }

    /// Asks for the socket that a Propose or Confirm is about. A full table drops the message.
    pub(crate) fn ask_for_socket(
        &mut self,
        flow: Flow,
        confirm: Option<Confirm>,
        pair: IlvPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        if self.admissions.len() >= MAX_QUESTIONS {
            self.admissions.retain(|_, admission| admission.until > now);
        }
        if self.admissions.len() >= MAX_QUESTIONS {
            return Err(DropReason::TableFull);
        }
        let id = self.next_id();
        let until = now + QUESTION_LIFETIME;
        self.admissions.insert(id, Waiting { flow, confirm, pair, until });
        Ok(())
    }

    /// Asks about a quiet session, in place of an earlier question about that session. Returns until when the question waits.
    pub(crate) fn ask_about_quiet(
        &mut self,
        session: SessionId,
        pair: IlvPair,
        now: Instant,
    ) -> Instant {
        self.forget_session(session);
        let (id, until) = (self.next_id(), now + QUESTION_LIFETIME);
        self.quiet.insert(id, Quiet { session, pair, until });
        self.by_session.insert(session, id);
        until
    }

    fn next_id(&mut self) -> QuestionId {
        self.last = QuestionId(self.last.0 + 1);
        self.last
    }

    fn take_admission(&mut self, id: QuestionId, now: Instant) -> Option<Waiting> {
        self.admissions.remove(&id).filter(|admission| admission.until > now)
    }

    fn take_quiet(&mut self, id: QuestionId) -> Option<SessionId> {
        let Quiet { session, .. } = self.quiet.remove(&id)?;
        self.by_session.remove(&session);
        Some(session)
    }

    /// Time until which a question about a quiet session waits.
    pub(crate) fn waits_until(&self, session: SessionId) -> Option<Instant> {
        let id = self.by_session.get(&session)?;
        self.quiet.get(id).map(|quiet| quiet.until)
    }

    /// Forgets the question about a session that is gone, because another session may get its slot.
    pub(crate) fn forget_session(&mut self, session: SessionId) {
        if let Some(id) = self.by_session.remove(&session) {
            self.quiet.remove(&id);
        }
    }

    /// Forgets each Propose and Confirm that waits, if its addresses are such.
    pub(crate) fn forget_admissions(&mut self, is_it: impl Fn(IlvPair) -> bool) {
        self.admissions.retain(|_, admission| !is_it(admission.pair));
    }
}

impl Waiting {
    fn question(&self, id: QuestionId) -> Question {
        let Flow { protocol, initiator_port, responder_port, .. } = self.flow;
        Question::Socket { id, pair: self.pair, protocol, ports: (responder_port, initiator_port) }
    }
}
