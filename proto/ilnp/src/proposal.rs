use alloc::boxed::Box;

use moorline_types::{DropReason, Ilv, IlvPair, Instant, Nonce, SessionId};
use moorline_wire::ilnp::{Accept, Admission, AdmissionFlags, Confirm, Flow, Refusal};
use rand_core::RngCore;

use crate::config::{Initiate, NonceMode};
use crate::consts::{ASK_INTERVAL, OFFER_TIMEOUT, PROPOSAL_TRIES, SHOWN_LATELY, TRIAL_TRIES};
use crate::event::{Cause, Classic, Event};
use crate::machine::{Machine, Traffic};
use crate::policy::{Decision, Stage, Why};
use crate::question::Waiting;
use crate::retry::Retry;
use crate::session::{Confirming, Opening, Session};
use crate::trial::Aim;
use moorline_datapath::ilnp::{CANDIDATE_INTERVAL, ChecksumMode, Socket};
use moorline_index::Class;

/// A session that we have proposed.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    flow: Flow,
    socket: Socket,
    /// Whether a nonce has come in the name of the correspondent. The sender of a nonce speaks ILNP, but perhaps not the
    /// handshake.
    is_shown: bool,
    /// Whether a packet of the correspondent caused this proposal: a Propose, or one with a nonce. Then the proposal is
    /// repeated for each further Propose, and by its timer if `paid` is not 0: anybody can send such packets.
    is_answer: bool,
    /// Number of further packets with a nonce. Each pays for one message of ours (decision 205).
    paid: u32,
    retry: Retry,
}

impl Machine {
    /// Decides whether traffic without a session gets one.
    pub(crate) fn on_candidate(&mut self, traffic: &Traffic, now: Instant) {
        let &Traffic { pair, nonce, .. } = traffic;
        if !self.is_ours(pair) || self.on_asked(traffic, now) {
            return;
        }
        let was_asked = nonce.is_some() && self.negatives.doubt(pair.remote, now);
        let is_hinted = self.hints.has(pair.remote.nid, now);
        if self.negatives.is_classic(pair.remote, is_hinted, now) || self.try_sibling(traffic, now)
        {
            return;
        }
        self.ask_whether_same(traffic, now);
        // The packet pays for the Echo Request.
        if was_asked && self.try_shown(pair, traffic.socket, 0, now) {
            return;
        }
        let stage = match traffic.inbound {
            true => Stage::Inbound { nonce: nonce.is_some() },
            false => Stage::Outbound,
        };
        let policy = self.config.policy.clone();
        match policy.decide(&self.candidate(pair, stage, traffic.socket)) {
            Decision::Admit(why) => self.offer(pair, nonce, traffic.socket, why, now),
            Decision::Propose => self.propose(traffic, nonce.is_some(), now),
            Decision::Refuse(_) => {}
        }
    }

    /// Notes traffic of a correspondent that the machine asks already, or that has a session. Returns whether the
    /// correspondent is one of these.
    fn on_asked(&mut self, traffic: &Traffic, now: Instant) -> bool {
        let (pair, is_shown) = (traffic.pair, traffic.nonce.is_some());
        if let Some(trial) = self.trials.get_mut(&pair).filter(|trial| trial.aim != Aim::Same) {
            if is_shown {
                trial.aim.pay();
            }
            return true;
        }
        if let Some(id) = self.ilcc.find_pair(pair)
            && !self.is_lost(id, traffic, now)
        {
            if is_shown {
                self.doubt_nonce(id, now);
            }
            return true;
        }
        let Some(proposal) = self.proposals.get_mut(&pair) else { return false };
        proposal.is_shown |= is_shown;
        // Traffic that this host sends has the proposal repeated.
        proposal.is_answer &= traffic.inbound;
        proposal.paid = (proposal.paid + u32::from(is_shown)).min(MAX_PAID);
        true
    }

    /// Whether the correspondent of a session has lost it. The correspondent uses a nonce that nobody agreed on, and
    /// has not shown otherwise for a while that it knows the session. It has restarted, or a message of the handshake
    /// came late. The two ends then agree on a new session. A report of a packet from before the session began shows
    /// nothing.
    fn is_lost(&self, id: SessionId, traffic: &Traffic, now: Instant) -> bool {
        let is_kept = self.ilcc.get(id).is_none_or(|session| {
            let is_heard = now.since(session.shown_at) < CANDIDATE_INTERVAL;
            !session.agreed || session.is_moved(traffic.pair) || is_heard
        });
        traffic.inbound && !is_kept
    }

    /// Begins a session as RFC 6744 s6 describes: with a nonce in the first packets.
    //= rfc6744#6-2 rfc6744#6-10
    //= rfc6741#10.6-1
    fn offer(
        &mut self,
        pair: IlvPair,
        nonce: Option<Nonce>,
        socket: Socket,
        why: Why,
        now: Instant,
    ) {
        let mut session = self.new_session(pair, why, now);
        // A nonce that came before ours may be anybody's. A nonce that answers ours shows that its sender has read
        // ours.
        session.proves = nonce.is_none() || socket == Socket::Connected;
        let is_for_traffic = nonce.is_none();
        session.opening = Opening::Offered { until: is_for_traffic.then_some(now + OFFER_TIMEOUT) };
        let class = if session.proves && nonce.is_some() { Class::Proven } else { Class::Unproven };
        self.admit(pair, nonce, class, session, now);
    }

    //= rfc6744#6-9
    pub(crate) fn new_session(&mut self, pair: IlvPair, why: Why, now: Instant) -> Session {
        let accepted_at = self.validators.latest();
        let nonce = self.draw_nonce();
        Session::new(pair, why, (nonce, accepted_at), self.config.checksum, now)
    }

    fn propose(&mut self, traffic: &Traffic, is_answer: bool, now: Instant) {
        if !self.has_place_for_proposal(traffic.pair.remote) {
            self.drop_counted(DropReason::TableFull);
            return;
        }
        let flow = Flow {
            protocol: traffic.protocol,
            initiator_port: traffic.ports.0,
            responder_port: traffic.ports.1,
            transaction: self.rng.next_u32(),
            flags: self.flags(traffic.socket),
        };
        let retry = Retry::new(now);
        let (socket, is_shown) = (traffic.socket, traffic.nonce.is_some());
        let proposal = Proposal { flow, socket, is_shown, is_answer, paid: 0, retry };
        self.proposals.insert(traffic.pair, proposal);
        self.proposal_places.add(traffic.pair.remote);
        self.proposal_timers.insert((retry.next, traffic.pair));
        self.send_admission(&Admission::Propose(flow), traffic.pair);
    }

    /// Whether a proposal to this correspondent has a place. If all places are taken, the proposal whose timer is due
    /// first gives way: while correspondents without an answer flood the table, it is the eldest.
    fn has_place_for_proposal(&mut self, remote: Ilv) -> bool {
        if !self.proposal_places.allow(remote) {
            return false;
        }
        if self.proposal_places.are_full()
            && let Some(&(_, pair)) = self.proposal_timers.first()
        {
            self.drop_proposal(pair);
            if !self.has_session(pair) {
                self.events.push_back(Event::GivenUp { pair });
            }
        }
        true
    }

    pub(crate) fn flags(&self, socket: Socket) -> AdmissionFlags {
        AdmissionFlags::SEQUENCE
            .with(AdmissionFlags::CONNECTED, socket == Socket::Connected)
            .with(AdmissionFlags::FULL_CHECKSUM, self.config.checksum == ChecksumMode::Full)
            .with(AdmissionFlags::ALWAYS_NONCE, self.config.nonce == NonceMode::Always)
    }

    pub(crate) fn send_admission(&mut self, message: &Admission, pair: IlvPair) {
        let (src, dst) = (pair.local.address(), pair.remote.address());
        let octets = message.emit(self.config.types, src, dst);
        self.send(pair, &octets, None);
    }

    /// Leaves these addresses to another protocol. A session that both ends have agreed on stays. A Propose or
    /// Confirm that waits for a socket is forgotten.
    pub fn withdraw(&mut self, pair: IlvPair) {
        self.questions.forget_admissions(|asked| asked == pair);
        self.drop_proposal(pair);
        self.drop_trial(pair);
        if self.is_confirming(pair)
            && let Some(id) = self.ilcc.find_pair(pair)
        {
            self.forget(id, Cause::Unanswered);
        }
    }

    /// Notes that the correspondent has made a context for this pair and has proved its addresses. If the
    /// correspondent has not shown yet that it knows the session of the pair, it has given the session up, and the
    /// session is forgotten.
    pub fn handle_context(&mut self, pair: IlvPair) {
        let Some(id) = self.ilcc.find_pair(pair) else { return };
        let is_done = |session: &Session| matches!(session.opening, Opening::Done);
        if self.ilcc.get(id).is_some_and(|session| is_done(session) && !session.settled) {
            self.forget(id, Cause::Unanswered);
        }
    }

    //= rfc6744#6-7
    pub(crate) fn on_proposal_timer(&mut self, pair: IlvPair, now: Instant) {
        let Some(proposal) = self.proposals.get_mut(&pair) else { return };
        if proposal.retry.turns < PROPOSAL_TRIES {
            let repeats = !proposal.is_answer || take(&mut proposal.paid);
            proposal.retry = proposal.retry.next_turn(repeats, now);
            let Proposal { flow, retry, .. } = *proposal;
            self.proposal_timers.insert((retry.next, pair));
            if repeats {
                self.send_admission(&Admission::Propose(flow), pair);
            }
            return;
        }
        let Some(mut proposal) = self.drop_proposal(pair) else { return };
        let Proposal { socket, is_shown, .. } = proposal;
        let is_named =
            self.config.initiate == Initiate::Dns && self.hints.has_records(pair.remote, now);
        let is_tried = if is_named {
            self.try_named(pair, socket, now)
        } else {
            take(&mut proposal.paid) && self.try_shown(pair, socket, proposal.paid, now)
        };
        if is_tried {
            return;
        }
        self.remember_classic(pair, Classic::Silent, now);
        if is_shown {
            self.negatives.note_asked(pair.remote, now);
        }
    }

    pub(crate) fn on_admission(
        &mut self,
        message: &Admission,
        pair: IlvPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        if !self.is_ours(pair) {
            return Err(DropReason::NotOurs);
        }
        match message {
            Admission::Propose(flow) => self.on_propose(*flow, pair, now),
            Admission::Accept(accept) => self.on_accept(accept, pair, now),
            Admission::Refuse(flow, reason) => self.on_refuse(flow, *reason, pair, now),
            Admission::Confirm(confirm) => self.on_confirm(confirm, pair, now),
        }
    }

    /// Goes on with a Propose or Confirm when its socket is known. Sessions, proposals and locators may have changed
    /// since the question.
    pub(crate) fn on_socket(
        &mut self,
        waiting: &Waiting,
        socket: Socket,
        now: Instant,
    ) -> Result<(), DropReason> {
        let pair = waiting.pair;
        if !self.is_ours(pair) {
            return Err(DropReason::NotOurs);
        }
        match &waiting.confirm {
            None => self.answer_propose(waiting.flow, pair, socket, now),
            Some(confirm) => self.answer_confirm(confirm, pair, socket, now),
        }
    }

    /// Whether our proposal goes on and the correspondent's does not. Of two proposals that cross, the one from the
    /// higher address goes on.
    pub(crate) fn prevails(&self, pair: IlvPair) -> bool {
        pair.local > pair.remote && (self.proposals.contains_key(&pair) || self.is_confirming(pair))
    }

    /// Repeats our proposal, which prevails. If the proposal has been due again before, it may have got lost, or the
    /// correspondent may have been down then. If the correspondent proposes after we had to send our Confirm again, it may have
    /// lost its Accept, so the handshake begins anew.
    pub(crate) fn insist(&mut self, pair: IlvPair, now: Instant) -> Result<(), DropReason> {
        if let Some(proposal) = self.proposals.get_mut(&pair) {
            if proposal.retry.turns <= 1 {
                return Err(DropReason::Crossed);
            }
            self.answers.take(pair.remote.l64, now)?;
            proposal.retry.tries += 1;
            let flow = proposal.flow;
            self.send_admission(&Admission::Propose(flow), pair);
            return Ok(());
        }
        let traffic = self.confirmed_in_vain(pair).ok_or(DropReason::Crossed)?;
        self.answers.take(pair.remote.l64, now)?;
        // The session stays until the Accept: the Propose may have crossed the Confirm.
        self.propose(&traffic, true, now);
        Ok(())
    }

    /// The traffic for which we proposed a session, if we had to send the session's Confirm again.
    fn confirmed_in_vain(&self, pair: IlvPair) -> Option<Traffic> {
        let Opening::Confirming(confirming) = &self.session_of(pair)?.opening else { return None };
        let Flow { protocol, initiator_port, responder_port, flags, .. } =
            confirming.message.accept.flow;
        let socket = match flags.has(AdmissionFlags::CONNECTED) {
            true => Socket::Connected,
            false => Socket::Unconnected,
        };
        let ports = (initiator_port, responder_port);
        let traffic = Traffic { pair, protocol, ports, socket, inbound: false, nonce: None };
        (confirming.retry.tries > 1).then_some(traffic)
    }

    fn session_of(&self, pair: IlvPair) -> Option<&Session> {
        self.ilcc.get(self.ilcc.find_pair(pair)?)
    }

    /// The session of a pair, if its handshake is over.
    pub(crate) fn agreed_session(&self, pair: IlvPair) -> Option<&Session> {
        self.session_of(pair).filter(|session| matches!(session.opening, Opening::Done))
    }

    pub(crate) fn is_confirming(&self, pair: IlvPair) -> bool {
        let is_it = |session: &Session| matches!(session.opening, Opening::Confirming(_));
        self.session_of(pair).is_some_and(is_it)
    }

    pub(crate) fn has_moved(&self, pair: IlvPair) -> bool {
        self.session_of(pair).is_some_and(|session| session.is_moved(pair))
    }

    /// Asks the correspondent of a session whether it still knows the session. The caller reports a rival: a node
    /// that has proposed another session for the same addresses, or wants a context of Shim6 for them. The rival may
    /// be the correspondent, after it has lost its state.
    pub fn handle_rival(&mut self, pair: IlvPair, now: Instant) {
        let Some(id) = self.ilcc.find_pair(pair) else { return };
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let is_agreed = matches!(session.opening, Opening::Done) && !session.owes_update;
        let is_asked = session.asked_at.is_some_and(|at| now.since(at) < ASK_INTERVAL);
        let is_shown = now.since(session.shown_at) < SHOWN_LATELY;
        if is_agreed && session.advertisement.is_none() && !is_asked && !is_shown {
            session.asked_at = Some(now);
            self.ask_whether_known(id, now);
        }
    }

    fn take_proposal(&mut self, flow: &Flow, pair: IlvPair) -> Result<Proposal, DropReason> {
        let proposal = self.proposals.get(&pair).ok_or(DropReason::Unasked)?;
        if proposal.flow != *flow {
            return Err(DropReason::BadNonce);
        }
        self.drop_proposal(pair).ok_or(DropReason::Unasked)
    }

    pub(crate) fn drop_proposal(&mut self, pair: IlvPair) -> Option<Proposal> {
        let proposal = self.proposals.remove(&pair)?;
        self.proposal_timers.remove(&(proposal.retry.next, pair));
        self.proposal_places.remove(pair.remote);
        Some(proposal)
    }

    fn on_accept(
        &mut self,
        accept: &Accept,
        pair: IlvPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let proposal = self.take_proposal(&accept.flow, pair)?;
        let mut session = self.new_session(pair, Why::WeProposed, now);
        session.on_answered(proposal.retry, now);
        let message = Confirm { accept: *accept, initiator_nonce: session.send_nonce };
        let retry = session.retry(now);
        session.opening = Opening::Confirming(Box::new(Confirming { message, retry }));
        session.agree(accept.flow.flags, accept.flags, accept.flags);
        self.negatives.forget(pair.remote);
        self.admit(pair, Some(accept.responder_nonce), Class::Proven, session, now);
        self.send_admission(&Admission::Confirm(message), pair);
        Ok(())
    }

    fn on_refuse(
        &mut self,
        flow: &Flow,
        reason: Refusal,
        pair: IlvPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        self.take_proposal(flow, pair)?;
        self.remember_classic(pair, Classic::Refused(reason), now);
        Ok(())
    }

    /// Repeats the Confirm if it is due. Returns whether the session still exists.
    pub(crate) fn repeat_confirmation(
        &mut self,
        id: SessionId,
        pair: IlvPair,
        now: Instant,
    ) -> bool {
        let begins_anew = self.proposals.contains_key(&pair);
        let Some(session) = self.ilcc.get_mut(id) else { return false };
        let Opening::Confirming(confirming) = &mut session.opening else { return true };
        if confirming.retry.next > now {
            return true;
        }
        if confirming.retry.is_in_vain(now) {
            // The correspondent has answered our proposal, which has no nonce.
            self.forget(id, Cause::Unanswered);
            self.remember_classic(pair, Classic::Unread, now);
            return false;
        }
        confirming.retry = confirming.retry.again(now);
        let message = Admission::Confirm(confirming.message);
        // If this Confirm came after the new Propose, the correspondent would refuse the Confirm of the new
        // handshake.
        if !begins_anew {
            self.send_admission(&message, pair);
        }
        true
    }
}

/// Takes one from a count. Returns whether there was one.
pub(crate) fn take(count: &mut u32) -> bool {
    let left = count.checked_sub(1);
    *count = left.unwrap_or_default();
    left.is_some()
}

/// Largest number of messages that packets with a nonce pay for in advance: all that a correspondent is asked.
const MAX_PAID: u32 = PROPOSAL_TRIES + TRIAL_TRIES;

impl Session {
    /// Takes the flags that both ends want, and the flags of the correspondent.
    pub(crate) fn agree(
        &mut self,
        initiator: AdmissionFlags,
        responder: AdmissionFlags,
        peer: AdmissionFlags,
    ) {
        let both = AdmissionFlags(initiator.0 & responder.0);
        self.checksum = match both.has(AdmissionFlags::FULL_CHECKSUM) {
            true => ChecksumMode::Full,
            false => ChecksumMode::NidOnly,
        };
        self.peer = peer;
        self.agreed = true;
        self.settled = false;
    }
}
