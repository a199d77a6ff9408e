use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use moorline_index::Deadlines;
use moorline_types::{
    DropCounters, DropReason, IlvPair, Instant, L64, LocalRoutes, Nid, Nonce, SessionId,
};
use moorline_wire::ilnp::{NonceHeader, Refusal};
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use crate::config::{Config, LocalLocator, NonceLen};
use crate::consts::{MAX_PROPOSALS, NEGATIVE_LIFETIME, VALIDATOR_MIN_LIFETIME};
use crate::denial::Denials;
use crate::event::{Cause, Classic, Event, Transmit};
use crate::heard::Slots;
use crate::negative::{Answers, Hints, Negatives};
use crate::pace::{Pace, Window};
use crate::places::Places;
use crate::proposal::Proposal;
use crate::question::Questions;
use crate::session::{Session, SessionView};
use crate::trial::Trial;
use moorline_datapath::ilnp::Socket;
use moorline_datapath::ilnp::{Report, Update};
use moorline_index::{Ilcc, Validators};
use moorline_wire::ilnp::Control;
use moorline_wire::ip6::{self, DESTINATION_OPTIONS, ICMPV6};

/// All ILNP sessions of a host.
///
/// `handle_*` takes an input, with the time as its last argument. After each input the caller drains
/// [`poll_question`](Self::poll_question), [`poll_update`](Self::poll_update), [`poll_transmit`](Self::poll_transmit)
/// and [`poll_event`](Self::poll_event), and sleeps until [`poll_timeout`](Self::poll_timeout). Equal seeds and
/// inputs give equal outputs.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(crate) config: Config,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) nids: BTreeSet<Nid>,
    /// Our locators, by preference. Of equal ones those come first that the host names first. Correspondents are told the
    /// first [`MAX_REMOTE_LOCATORS`](crate::consts::MAX_REMOTE_LOCATORS); sessions use each one beyond these.
    pub(crate) locators: Vec<LocalLocator>,
    pub(crate) slots: Slots,
    pub(crate) routes: LocalRoutes,
    pub(crate) ilcc: Ilcc<Session>,
    pub(crate) proposals: BTreeMap<IlvPair, Proposal>,
    pub(crate) proposal_places: Places,
    pub(crate) negatives: Negatives,
    pub(crate) hints: Hints,
    /// Limits of answers to proposals, and of denials.
    pub(crate) answers: Answers,
    pub(crate) denials: Denials,
    pub(crate) validators: Validators,
    /// Key of the tokens in questions at locators without proof.
    pub(crate) proof_key: [u8; 16],
    pub(crate) questions: Questions,
    /// Timers of sessions; each session has one.
    pub(crate) session_timers: Deadlines,
    pub(crate) proposal_timers: BTreeSet<(Instant, IlvPair)>,
    pub(crate) trials: BTreeMap<IlvPair, Trial>,
    pub(crate) trial_places: Places,
    pub(crate) trial_timers: BTreeSet<(Instant, IlvPair)>,
    pub(crate) pace: Pace,
    /// Turns of questions that keep the pace although the correspondent has not reached us (decision 222).
    pub(crate) unheard_turns: Window,
    pub(crate) updates: VecDeque<Update>,
    transmits: VecDeque<Transmit>,
    pub(crate) events: VecDeque<Event>,
    drops: DropCounters,
    refused: BTreeMap<Refusal, u64>,
    classic: BTreeMap<Classic, u64>,
}

/// Owner of a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Timer of a session: repetition of a Confirm or Locator Update, end of an offer, end of the time in which all
    /// packets have the nonce, end of the idle time, end of the wait for an answer about sockets.
    Session(SessionId),
    /// Repetition or end of a proposal.
    Proposal(IlvPair),
    /// Repetition or end of a trial.
    Trial(IlvPair),
    /// Messages to many correspondents.
    Pace,
}

impl Machine {
    /// Makes a machine without identifiers, locators and sessions.
    #[must_use]
    pub fn new(config: Config, seed: [u8; 32], now: Instant) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        let ilcc = Ilcc::new(config.max_sessions, key);
        let validators = Validators::new(VALIDATOR_MIN_LIFETIME, &mut rng, now);
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        let mut proof_key = [0; 16];
        rng.fill_bytes(&mut proof_key);
        Self {
            ilcc,
            validators,
            config,
            rng,
            nids: BTreeSet::new(),
            locators: Vec::new(),
            slots: Slots::default(),
            routes: LocalRoutes::default(),
            proposals: BTreeMap::new(),
            proposal_places: Places::new(MAX_PROPOSALS, key),
            negatives: Negatives::new(key),
            hints: Hints::default(),
            answers: Answers::new(key),
            denials: Denials::new(key),
            proof_key,
            questions: Questions::default(),
            session_timers: Deadlines::new(),
            proposal_timers: BTreeSet::new(),
            trials: BTreeMap::new(),
            trial_places: Places::new(MAX_PROPOSALS, key),
            trial_timers: BTreeSet::new(),
            pace: Pace::default(),
            unheard_turns: Window::default(),
            updates: VecDeque::new(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            drops: DropCounters::new(),
            refused: BTreeMap::new(),
            classic: BTreeMap::new(),
        }
    }

    /// Takes the records that the DNS has of a node: a NID record and these L64 records, all good until then. The
    /// node speaks ILNP (RFC 6742 s2.1).
    ///
    /// If the node has been silent before, the machine asks it again at once. If the node is silent now, the machine
    /// asks it again soon. With [`Initiate::Dns`](crate::Initiate::Dns) the machine asks a node that is silent to the
    /// handshake without the handshake, at one of these locators. A hint alone makes no session: the policy and the
    /// node decide.
    //= rfc6742#2.1 rfc6744#6-7
    pub fn handle_hint(&mut self, nid: Nid, l64s: &[L64], until: Instant, now: Instant) {
        if !self.hints.has(nid, now) {
            self.negatives.forget_node(nid);
        }
        self.hints.add_records(nid, l64s, until, now);
    }

    /// Takes a report of a data plane.
    pub fn handle_report(&mut self, report: Report, now: Instant) {
        match report {
            Report::Candidate { pair, protocol, ports, socket, inbound, nonce } => {
                let candidate = Traffic { pair, protocol, ports, socket, inbound, nonce };
                self.on_candidate(&candidate, now);
            }
            Report::Learned { session, nonce } => self.on_learned(session, nonce, now),
            Report::Authenticated { session } => self.on_shown(session, now),
            Report::Used { session, at } => self.on_used(session, at, now),
            Report::Silent { session } => self.on_silent(session, now),
            Report::NoRoom { .. } => {}
        }
    }

    /// Forgets a session that a data plane has not taken. For that data plane the addresses are classic IPv6.
    pub fn handle_not_taken(&mut self, session: SessionId) {
        self.forget(session, Cause::NotTaken);
    }

    /// Takes a control packet from the network: a whole ICMPv6 packet of a type that [`Control::is_for_sessions`]
    /// names.
    ///
    /// The machine counts each packet that it drops, by reason.
    pub fn handle_control(&mut self, packet: &[u8], now: Instant) {
        let result = Control::read(packet).and_then(|control| self.on_control(&control, now));
        if let Err(reason) = result {
            self.drop_counted(reason);
        }
    }

    /// Handles all timers that are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, timer)) = self.next_timer().filter(|(at, _)| *at <= now) {
            match timer {
                Timer::Session(id) => {
                    self.session_timers.set(id.0, None);
                    self.on_session_timer(id, now);
                }
                Timer::Proposal(pair) => {
                    self.proposal_timers.remove(&(at, pair));
                    self.on_proposal_timer(pair, now);
                }
                Timer::Trial(pair) => {
                    self.trial_timers.remove(&(at, pair));
                    self.on_trial_timer(pair, now);
                }
                Timer::Pace => self.take_turns(now),
            }
        }
    }

    fn next_timer(&self) -> Option<(Instant, Timer)> {
        let session = self.session_timers.first();
        let session = session.map(|(at, slot)| (at, Timer::Session(SessionId(slot))));
        let proposal = self.proposal_timers.first().map(|&(at, pair)| (at, Timer::Proposal(pair)));
        let trial = self.trial_timers.first().map(|&(at, pair)| (at, Timer::Trial(pair)));
        let pace = self.pace.next().map(|at| (at, Timer::Pace));
        session.into_iter().chain(proposal).chain(trial).chain(pace).min()
    }

    /// The next update for the data plane; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_update(&mut self) -> Option<Update> {
        self.updates.pop_front()
    }

    /// The next packet to send; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// The next event; `None` until the next `handle_*`.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Time when [`handle_timeout`](Self::handle_timeout) is due; each `handle_*` can change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.next_timer().map(|(at, _)| at)
    }

    /// Counts of dropped packets, by reason.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        self.drops.iter()
    }

    /// Counts of refused proposals of correspondents, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        self.refused.iter().map(|(reason, count)| (*reason, *count))
    }

    /// Counts of correspondents that we asked and whose traffic went on as classic IPv6, by cause.
    pub fn classic(&self) -> impl Iterator<Item = (Classic, u64)> + '_ {
        self.classic.iter().map(|(cause, count)| (*cause, *count))
    }

    /// Views of all sessions in the correspondent cache, by slot.
    pub fn sessions(&self, now: Instant) -> impl Iterator<Item = SessionView> + '_ {
        self.sessions_after(None, now)
    }

    /// The pairs that sockets see of all sessions, by slot.
    pub fn pairs(&self) -> impl Iterator<Item = IlvPair> + '_ {
        self.ilcc.iter().map(|(_, pair, _)| pair)
    }

    /// Views of the sessions behind this slot, or of all sessions, by slot.
    pub fn sessions_after(
        &self,
        slot: Option<SessionId>,
        now: Instant,
    ) -> impl Iterator<Item = SessionView> + '_ {
        let first = slot.map_or(0, |SessionId(slot)| slot.saturating_add(1));
        self.ilcc.iter_from(SessionId(first)).map(move |(id, pair, session)| SessionView {
            id,
            pair,
            wire: session.wire_pair(pair),
            moved: session.moved,
            state: session.state(),
            why: session.why,
            remote: session
                .remote
                .iter()
                .map(|remote| (*remote, session.validity(remote, now)))
                .collect(),
            nonces: (session.send_nonce, self.ilcc.key(id).and_then(|(_, nonce)| nonce)),
            awaits_acknowledgement: session.advertisement.is_some(),
            stands_still: session.stands_still(),
            last_used: session.last_used,
        })
    }

    /// Whether these addresses have a session, or may have one soon: a proposal or trial waits for the correspondent. A
    /// question without a nonce gives way.
    #[must_use]
    pub fn is_taken(&self, pair: IlvPair) -> bool {
        self.proposals.contains_key(&pair) || self.is_asking(pair) || self.has_session(pair)
    }

    /// Whether these addresses have a session.
    #[must_use]
    pub fn has_session(&self, pair: IlvPair) -> bool {
        self.ilcc.find_pair(pair).is_some()
    }

    /// Whether these addresses have a session whose handshake is over.
    #[must_use]
    pub fn has_agreed_session(&self, pair: IlvPair) -> bool {
        self.agreed_session(pair).is_some()
    }

    /// Our identifiers.
    #[must_use]
    pub const fn nids(&self) -> &BTreeSet<Nid> {
        &self.nids
    }

    /// Our locators, by preference.
    #[must_use]
    pub fn locators(&self) -> &[LocalLocator] {
        &self.locators
    }

    /// Number of entries in the correspondent cache.
    #[must_use]
    pub const fn session_count(&self) -> usize {
        self.ilcc.len()
    }

    //= rfc6744#2-2 rfc6744#7-4
    //= rfc6741#11.1-19 rfc6741#11.2-2
    pub(crate) fn drop_counted(&mut self, reason: DropReason) {
        self.drops.count(reason);
    }

    pub(crate) fn refusal_counted(&mut self, reason: Refusal) {
        *self.refused.entry(reason).or_default() += 1;
    }

    /// Sends an ICMPv6 message between these addresses, with the nonce if the message belongs to a session. If the
    /// node no longer has the source locator, it sends nothing.
    pub(crate) fn send(
        &mut self,
        pair: IlvPair,
        message: &[u8],
        nonce: Option<(Nonce, Option<u32>)>,
    ) {
        if let Some(transmit) = self.packet(pair, message, nonce) {
            self.transmits.push_back(transmit);
        }
    }

    /// Sends a message of a session, with its nonce and this number. If the destination is a locator without proof and
    /// the session has no credit for the message, it sends nothing (decision 192). Returns whether it has sent the message.
    pub(crate) fn send_of(
        &mut self,
        id: SessionId,
        pair: IlvPair,
        message: &[u8],
        number: Option<u32>,
        now: Instant,
    ) -> bool {
        let Some(session) = self.ilcc.get(id) else { return false };
        let Some(transmit) = self.packet(pair, message, Some((session.send_nonce, number))) else {
            return false;
        };
        let Some(session) = self.ilcc.get_mut(id) else { return false };
        let may_send = session.may_send(pair.remote.l64, transmit.packet.len(), now);
        if may_send {
            self.transmits.push_back(transmit);
        } else {
            self.drop_counted(DropReason::RateLimited);
        }
        may_send
    }

    fn packet(
        &self,
        pair: IlvPair,
        message: &[u8],
        nonce: Option<(Nonce, Option<u32>)>,
    ) -> Option<Transmit> {
        if !self.has_locator(pair.local.l64) {
            return None;
        }
        let options = nonce.map_or_else(Vec::new, |(nonce, sequence)| {
            NonceHeader { next_header: ICMPV6, nonce, sequence }.emit()
        });
        let next_header = if options.is_empty() { ICMPV6 } else { DESTINATION_OPTIONS };
        let (source, destination) = (pair.local.address(), pair.remote.address());
        let packet = ip6::packet(next_header, source, destination, &[&options, message].concat());
        Some(Transmit { source, packet })
    }

    //= rfc6744#6-8 rfc6744#7-10
    pub(crate) fn draw_nonce(&mut self) -> Nonce {
        let mut octets = [0; 12];
        self.rng.fill_bytes(&mut octets);
        match self.config.nonce_len {
            NonceLen::Long => Nonce::Long(octets),
            NonceLen::Short => {
                let [a, b, c, d, ..] = octets;
                Nonce::Short([a, b, c, d])
            }
        }
    }

    /// Whether this node can speak ILNP between these addresses.
    pub(crate) fn is_ours(&self, pair: IlvPair) -> bool {
        self.nids.contains(&pair.local.nid)
            && self.has_locator(pair.local.l64)
            && pair.remote.l64.is_global_unicast()
            && !pair.remote.nid.is_group()
            && !self.nids.contains(&pair.remote.nid)
    }

    pub(crate) fn has_locator(&self, l64: L64) -> bool {
        self.locators.iter().any(|local| local.l64 == l64)
    }

    /// Remembers for a while that the traffic of a correspondent is classic IPv6.
    //= rfc6740#8-2
    pub(crate) fn remember_classic(&mut self, pair: IlvPair, cause: Classic, now: Instant) {
        let is_silence = matches!(cause, Classic::Silent | Classic::Unread);
        if is_silence && !self.has_locator(pair.local.l64) {
            // No answer can come to a locator that the host has left.
            self.events.push_back(Event::GivenUp { pair });
            return;
        }
        let is_hinted = self.hints.has(pair.remote.nid, now);
        if !self.negatives.remember(pair.remote, cause, is_hinted, now) {
            self.drop_counted(DropReason::TableFull);
        }
        *self.classic.entry(cause).or_default() += 1;
        self.events.push_back(Event::Classic { pair, cause });
    }

    /// Notes that the correspondent has just shown that it speaks ILNP. If the correspondent is silent next, it may
    /// be restarting, so the machine asks it again soon.
    pub(crate) fn has_spoken(&mut self, pair: IlvPair, now: Instant) {
        self.hints.add(pair.remote.nid, now + NEGATIVE_LIFETIME, now);
    }
}

/// Traffic without a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Traffic {
    pub(crate) pair: IlvPair,
    pub(crate) protocol: u8,
    pub(crate) ports: (u16, u16),
    pub(crate) socket: Socket,
    pub(crate) inbound: bool,
    pub(crate) nonce: Option<Nonce>,
}
