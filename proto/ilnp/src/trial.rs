//! Trials whether a correspondent that did no handshake reads our nonce (decision 146).
//!
//! A nonce that comes in can be anybody's. So the correspondent gets an Echo Request with our nonce and random data.
//! A node without ILNP answers with an error (RFC 6744 s6). A node with ILNP answers as RFC 4443 s4.2 says, and by
//! RFC 6744 s6 its answer has its nonce. Until the answer the traffic is classic IPv6.

use alloc::vec::Vec;

use moorline_datapath::ilnp::Socket;
use moorline_types::{DropReason, Ilv, IlvPair, Instant, Nonce, SessionId};
use moorline_wire::ilnp::{Control, Echo, Refusal};
use rand_core::RngCore;

use crate::consts::{NONCE_AFTER_AGREEMENT, SHOWN_LATELY, TRIAL_TRIES};
use crate::event::{Classic, Event, MoveCause};
use crate::machine::Machine;
use crate::original::quotes;
use crate::policy::{Decision, Stage, Why};
use crate::proposal::take;
use crate::retry::Retry;
use crate::session::{Opening, Session};
use moorline_index::Class;

/// An Echo Request that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// The addresses that sockets see. If the session has moved, the request goes by other locators.
    pub(crate) sockets: IlvPair,
    pub(crate) why: Why,
    /// Our nonce, which the request shows.
    pub(crate) nonce: Nonce,
    pub(crate) echo: Echo,
    pub(crate) retry: Retry,
    pub(crate) aim: Aim,
}

/// Reason of a trial, which says what follows from silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// To begin a session.
    Begin {
        /// If no answer comes to [`TRIAL_TRIES`] requests, the traffic is classic IPv6, with this cause. After fewer
        /// requests the silence is no sign.
        silence: Classic,
        /// Number of times that the request may be repeated. If only packets of the correspondent cause the request, each
        /// further packet with a nonce pays for one (decision 205).
        paid: u32,
    },
    /// To learn whether the correspondent of a session is at a locator that it has not named. The request has no nonce.
    /// If no answer comes, nothing follows.
    Same,
    /// To learn whether the correspondent still has the session, by the locators in use. If no answer comes, the
    /// machine asks at the addresses that the sockets see.
    Known,
    /// To learn who is at the correspondent's address that the sockets see. If no answer comes, the session stays.
    First {
        /// The locators in use, which are silent.
        wire: IlvPair,
        /// A second Echo Request, without a nonce.
        plain: Echo,
    },
}

impl Aim {
    /// Notes a packet with a nonce, which pays for one more request.
    pub(crate) fn pay(&mut self) {
        if let Self::Begin { paid, .. } = self {
            *paid = (*paid + 1).min(TRIAL_TRIES);
        }
    }

    /// Whether the request may be repeated now.
    fn may_repeat(&mut self) -> bool {
        match self {
            Self::Begin { paid, .. } => take(paid),
            Self::Same | Self::Known | Self::First { .. } => true,
        }
    }
}

impl Machine {
    /// Asks a correspondent without a session that has shown a nonce. `paid`: the number of repetitions that its packets
    /// have paid for. Returns whether the policy lets the machine ask.
    pub(crate) fn try_shown(
        &mut self,
        pair: IlvPair,
        socket: Socket,
        paid: u32,
        now: Instant,
    ) -> bool {
        self.try_correspondent(pair, socket, Aim::Begin { silence: Classic::Unread, paid }, now)
    }

    /// Asks a correspondent without a session that the DNS names. A node that is silent may only be down, so the machine
    /// asks the node again soon.
    pub(crate) fn try_named(&mut self, pair: IlvPair, socket: Socket, now: Instant) -> bool {
        let aim = Aim::Begin { silence: Classic::Silent, paid: TRIAL_TRIES };
        self.try_correspondent(pair, socket, aim, now)
    }

    fn try_correspondent(&mut self, pair: IlvPair, socket: Socket, aim: Aim, now: Instant) -> bool {
        let candidate = self.candidate(pair, Stage::Unanswered, socket);
        let Decision::Admit(why) = self.config.policy.clone().decide(&candidate) else {
            return false;
        };
        let nonce = self.draw_nonce();
        self.begin_trial((pair, pair), why, nonce, aim, now);
        true
    }

    /// Asks the correspondent of a session whether it has restarted: packets between the addresses of the session had
    /// another nonce. If the correspondent has moved, another node may have sent them. So the machine first asks by a
    /// Locator Update, and the locators in use have to be silent.
    pub(crate) fn doubt_nonce(&mut self, id: SessionId, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        if session.wire.1 == pair.remote.l64 || session.is_silent() {
            self.doubt_session(id, now);
        } else {
            self.handle_rival(pair, now);
        }
    }

    /// Asks the correspondent of a session whether it has restarted, by the locators in use.
    pub(crate) fn doubt_session(&mut self, id: SessionId, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        let is_open = matches!(session.opening, Opening::Done);
        let wire = session.wire_pair(pair);
        if is_open && !self.is_asking(wire) && now.since(session.shown_at) >= SHOWN_LATELY {
            let (why, ours) = (session.why, session.send_nonce);
            let nonce = self.read_at(wire, now).unwrap_or(ours);
            self.begin_trial((pair, wire), why, nonce, Aim::Known, now);
        }
    }

    /// Asks a correspondent that has shown its nonce on a session that we have offered. A packet with the nonce
    /// proves nothing: anybody can send a nonce twice.
    pub(crate) fn try_offered(&mut self, id: SessionId, now: Instant) {
        let Some((pair, _)) = self.ilcc.key(id) else { return };
        let Some(session) = self.ilcc.get(id) else { return };
        if !self.is_asking(pair) {
            let (why, nonce) = (session.why, session.send_nonce);
            let aim = Aim::Begin { silence: Classic::Unread, paid: TRIAL_TRIES };
            self.begin_trial((pair, pair), why, nonce, aim, now);
        }
    }

    /// Whether a trial by this pair waits for its answer. A question without a nonce gives way to others.
    pub(crate) fn is_asking(&self, pair: IlvPair) -> bool {
        self.trials.get(&pair).is_some_and(|trial| trial.aim != Aim::Same)
    }

    /// Begins to ask the correspondent of these sockets by `pair`.
    pub(crate) fn begin_trial(
        &mut self,
        (sockets, pair): (IlvPair, IlvPair),
        why: Why,
        nonce: Nonce,
        aim: Aim,
        now: Instant,
    ) {
        if !self.has_place_for_trial(pair.remote) {
            self.drop_counted(DropReason::TableFull);
            return;
        }
        let echo = self.draw_echo();
        // A question of before, for other sockets, is over.
        self.drop_trial(pair);
        let retry = Retry::new(now);
        let trial = Trial { sockets, why, nonce, echo, retry, aim };
        self.trials.insert(pair, trial);
        self.trial_places.add(pair.remote);
        self.trial_timers.insert((retry.next, pair));
        self.send_echo(pair, &trial);
    }

    pub(crate) fn draw_echo(&mut self) -> Echo {
        let mut token = [0; 8];
        self.rng.fill_bytes(&mut token);
        Echo { token }
    }

    /// Whether a trial of this correspondent has a place. If all places are taken, the trial whose timer is due first
    /// gives way.
    fn has_place_for_trial(&mut self, remote: Ilv) -> bool {
        if !self.trial_places.allow(remote) {
            return false;
        }
        if self.trial_places.are_full()
            && let Some(&(_, pair)) = self.trial_timers.first()
            && let Some(trial) = self.drop_trial(pair)
            && trial.aim != Aim::Same
            && !self.has_session(trial.sockets)
        {
            self.events.push_back(Event::GivenUp { pair: trial.sockets });
        }
        true
    }

    fn send_echo(&mut self, pair: IlvPair, trial: &Trial) {
        if let Aim::First { wire, plain } = trial.aim {
            return self.send_echoes_at_first(pair, trial, (wire, plain));
        }
        let message = trial.echo.emit(pair.local.address(), pair.remote.address());
        let nonce = (trial.aim != Aim::Same).then_some((trial.nonce, None));
        self.send(pair, &message, nonce);
    }

    pub(crate) fn drop_trial(&mut self, pair: IlvPair) -> Option<Trial> {
        let trial = self.trials.remove(&pair)?;
        self.trial_timers.remove(&(trial.retry.next, pair));
        self.trial_places.remove(pair.remote);
        Some(trial)
    }

    pub(crate) fn on_trial_timer(&mut self, pair: IlvPair, now: Instant) {
        let Some(trial) = self.trials.get_mut(&pair) else { return };
        if trial.retry.turns < TRIAL_TRIES {
            let repeats = trial.aim.may_repeat();
            trial.retry = trial.retry.next_turn(repeats, now);
            let trial = *trial;
            self.trial_timers.insert((trial.retry.next, pair));
            if repeats {
                self.send_echo(pair, &trial);
            }
            return;
        }
        let Trial { aim, sockets, retry, .. } = *trial;
        self.drop_trial(pair);
        match (aim, self.ilcc.find_pair(sockets)) {
            // Each request may have got lost. The next packet with a nonce pays for another.
            (Aim::Begin { .. }, None) if retry.tries < TRIAL_TRIES => {
                self.remember_classic(sockets, Classic::Silent, now);
                self.negatives.note_asked(sockets.remote, now);
            }
            (Aim::Begin { silence, .. }, None) => self.remember_classic(sockets, silence, now),
            (Aim::Known, None) => self.remember_classic(sockets, Classic::Unread, now),
            (Aim::Known, Some(id)) => self.ask_at_first(id, pair, now),
            (Aim::Begin { .. }, Some(_)) | (Aim::Same | Aim::First { .. }, _) => {}
        }
    }

    /// Handles an error that quotes our nonce: the node at the correspondent's address does not know the option (RFC
    /// 6744 s6). If the addresses have a session, the session stays: its own packets show whether the correspondent
    /// knows it. Returns whether a trial ends.
    //= rfc6744#6-13
    pub(crate) fn refute_trial(&mut self, pair: IlvPair, quoted: &[u8], now: Instant) -> bool {
        let Some(trial) = self.trials.get(&pair).copied() else { return false };
        if matches!(trial.aim, Aim::First { .. }) {
            return self.refute_at_first(pair, &trial, quoted, now);
        }
        if self.has_session(trial.sockets) || !quotes(quoted, trial.nonce) {
            return false;
        }
        self.drop_trial(pair);
        self.remember_classic(pair, Classic::NoSupport, now);
        true
    }

    /// Handles the answer: its sender has read our nonce, and the nonce in the answer is the correspondent's.
    pub(crate) fn on_echo_reply(
        &mut self,
        control: &Control<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let pair = control.pair;
        let (src, dst) = (pair.remote.address(), pair.local.address());
        let echo = Echo::parse_reply(control.message, src, dst)?;
        if self.on_proof(control, echo, now) {
            return Ok(());
        }
        let trial = *self.trials.get(&pair).ok_or(DropReason::Unasked)?;
        if matches!(trial.aim, Aim::First { .. }) {
            return self.on_reply_at_first(control, echo, &trial, now);
        }
        if trial.echo != echo {
            return Err(DropReason::BadNonce);
        }
        let nonce = control.nonce.ok_or(DropReason::MissingOption)?;
        if trial.aim == Aim::Same {
            return self.on_same(pair, nonce, now);
        }
        let trial = self.drop_trial(pair).ok_or(DropReason::Unasked)?;
        let known = self.ilcc.find_pair(trial.sockets);
        let session = known.and_then(|id| self.ilcc.get(id));
        if session.is_some_and(|session| session.wire_pair(trial.sockets) != pair) {
            return Err(DropReason::Disbelieved);
        }
        match known {
            Some(id) if self.has_nonces(id, Some(trial.nonce), nonce) => {
                self.on_proven(id, now);
            }
            // Other sessions may have begun since the question.
            _ if self.has_no_room_with_node(trial.sockets) => {
                self.remember_classic(trial.sockets, Classic::Refused(Refusal::RESOURCES), now);
                return Err(DropReason::TableFull);
            }
            _ => {
                let others = known.map_or_else(Vec::new, |id| self.others_by(id, pair));
                for sockets in [trial.sockets].into_iter().chain(others) {
                    self.open_proven((sockets, pair), &trial, nonce, now);
                }
            }
        }
        Ok(())
    }

    /// Whether a session has these nonces: ours, unless it is `None`, and the correspondent's.
    pub(crate) fn has_nonces(&self, id: SessionId, ours: Option<Nonce>, theirs: Nonce) -> bool {
        let is_ours = |session: &Session| ours.is_none_or(|ours| session.send_nonce == ours);
        let is_theirs = self.ilcc.key(id).is_some_and(|(_, known)| known == Some(theirs));
        is_theirs && self.ilcc.get(id).is_some_and(is_ours)
    }

    /// The sockets of the other sessions that share the nonces of a session and use these locators.
    fn others_by(&self, id: SessionId, by: IlvPair) -> Vec<IlvPair> {
        let uses = |other: SessionId| {
            let (sockets, _) = self.ilcc.key(other)?;
            (self.ilcc.get(other)?.wire_pair(sockets) == by).then_some(sockets)
        };
        self.siblings(id).into_iter().skip(1).filter_map(uses).collect()
    }

    /// Makes a session with a correspondent that did no handshake and has answered our nonce by these addresses. An
    /// older session of the same sockets gives way, because the correspondent has restarted.
    pub(crate) fn open_proven(
        &mut self,
        (sockets, by): (IlvPair, IlvPair),
        trial: &Trial,
        nonce: Nonce,
        now: Instant,
    ) {
        let accepted_at = self.validators.latest();
        let ours = (trial.nonce, accepted_at);
        let mut session = Session::new(by, trial.why, ours, self.config.checksum, now);
        session.on_answered(trial.retry, now);
        session.moved = (by != sockets).then_some(MoveCause::BegunAnew);
        // RFC 6744 s6: "the first few packets".
        session.attach_until(now + NONCE_AFTER_AGREEMENT);
        self.negatives.forget(by.remote);
        let id = self.admit(sockets, Some(nonce), Class::Proven, session, now);
        self.events.push_back(Event::Established { session: id, pair: sockets, why: trial.why });
        if by != sockets {
            let cause = MoveCause::BegunAnew;
            self.events.push_back(Event::Moved { session: id, from: sockets, wire: by, cause });
            // The correspondent knows our locator in use alone.
            self.advertise(id, now);
        }
    }
}
