use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_datapath::ilnp::{ChecksumMode, SessionEntry};
use moorline_types::{IlvPair, Instant, L64, Nonce, Rtt, SessionId, named_enum};
use moorline_wire::ilnp::{AdmissionFlags, Confirm, L64Entry};

use crate::advertisement::Advertisement;
use crate::consts::{
    ANSWERED_LATELY, FIRST_RETRANSMISSION, MAX_FIRST_RETRANSMISSION, MAX_REMOTE_LOCATORS,
    MIN_RETRANSMISSION, QUESTION_PAUSE, RTT_DOUBTED_TRIES,
};
use crate::event::MoveCause;
use crate::heard::Heard;
use crate::paths::{Failed, Locators};
use crate::policy::Why;
use crate::proof::Proofs;
use crate::retry::Retry;

named_enum! {
    /// Progress of a session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum State {
        /// We have confirmed the Accept of the correspondent. The correspondent has not shown yet that it knows the
        /// session.
        Confirming => "confirming",
        /// Our packets have a nonce. The correspondent has not shown yet that it has read the nonce.
        Offered => "offered",
        /// Both ends know the session.
        Established => "established",
    }
}

named_enum! {
    /// Validity of a locator of a correspondent (RFC 6741 s5.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Validity {
        /// In use, and not beyond its lifetime.
        Active => "active",
        /// Not in use, and not beyond its lifetime.
        Valid => "valid",
        /// In use beyond its lifetime, because no other locator has taken its place.
        Expired => "expired",
        /// Not in use, and beyond its lifetime: kept until the next Locator Update (RFC 6741 s5.2).
        Aged => "aged",
    }
}

/// A locator of a correspondent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RemoteLocator {
    /// The locator.
    pub l64: L64,
    /// Preference: lower is better.
    pub preference: u16,
    /// Time when the locator ages; `None` if the correspondent has said no lifetime.
    pub expires: Option<Instant>,
    /// Whether the correspondent has shown that it is at this locator: it has answered a question that went there
    /// (decision 192).
    #[serde(default)]
    pub proven: bool,
}

impl RemoteLocator {
    pub(crate) fn is_aged(&self, now: Instant) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// Signs that the locators in use work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// The locators have shown nothing yet.
    None,
    /// Time when a Locator Update last came by the locators, or when the session began.
    Reached(Instant),
    /// Time when an acknowledgement last came by the locators: both directions work.
    Answered(Instant),
    /// The last question went by every pair of locators in vain.
    AllSilent,
    /// The session has followed its correspondent to these locators while those before brought no answer. They may share the
    /// locator that has failed.
    Doubted,
}

/// All facts about a correspondent, for one pair of addresses (decision 071).
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) why: Why,
    pub(crate) opening: Opening,
    /// Whether the opening proves that the correspondent is at its address.
    pub(crate) proves: bool,
    pub(crate) send_nonce: Nonce,
    pub(crate) checksum: ChecksumMode,
    /// Flags of the correspondent in the handshake; empty without a handshake.
    pub(crate) peer: AdmissionFlags,
    /// Whether the correspondent did the handshake.
    pub(crate) agreed: bool,
    /// Whether each end knows that the other has the session. After a handshake this is so once the correspondent's
    /// Locator Update, or its acknowledgement of ours, has arrived.
    pub(crate) settled: bool,
    /// Number of the Accept of ours that made the session. If we have proposed the session, the number of our last
    /// Accept before the correspondent showed that it knows the session. A Confirm by that Accept or an earlier one
    /// belongs to an earlier handshake.
    pub(crate) accepted_at: u32,
    /// Locators of the correspondent, by preference; never empty.
    pub(crate) remote: Vec<RemoteLocator>,
    /// Source and destination locator of the packets that we send.
    pub(crate) wire: (L64, L64),
    /// The locators that have failed. They stay here until they answer, or until locators or preferences of either
    /// node, or our routes, change. No preference leads back to them.
    pub(crate) failed: Failed,
    /// Number of the last Locator Update that we took.
    pub(crate) taken: Option<u32>,
    /// Number of the last Locator Update that we sent.
    pub(crate) sent: u32,
    pub(crate) advertisement: Option<Box<Advertisement>>,
    /// Whether the correspondent has still to read our present locators.
    pub(crate) owes_update: bool,
    /// Time when the correspondent is told our locators once more, so that they do not age there: half of the shortest
    /// lifetime that it knows. `None` if it knows no lifetime.
    pub(crate) renew_at: Option<Instant>,
    /// Whether the correspondent has ever acknowledged a Locator Update, and so has read all our locators of that
    /// time.
    pub(crate) has_acknowledged: bool,
    /// Whether the correspondent did no handshake and has never acknowledged a Locator Update, although it got many.
    pub(crate) is_mute: bool,
    /// Round-trip time to the correspondent, measured by its answers.
    pub(crate) rtt: Rtt<2>,
    /// Time until which all packets have the nonce.
    pub(crate) nonce_until: Option<Instant>,
    pub(crate) last_used: Instant,
    /// Time when the correspondent last showed that it knows the session.
    pub(crate) shown_at: Instant,
    /// Cause of the last move in this run.
    pub(crate) moved: Option<MoveCause>,
    pub(crate) sign: Sign,
    /// Time of the last question because of a rival, or of the last question or Locator Update without an answer.
    pub(crate) asked_at: Option<Instant>,
    /// `None` while the correspondent has named no locator that needs a proof.
    pub(crate) proofs: Option<Box<Proofs>>,
    /// Our locators at which messages with the nonce of the correspondent have come in.
    pub(crate) heard: Heard,
}

#[derive(Clone, Debug)]
pub(crate) enum Opening {
    Confirming(Box<Confirming>),
    /// `until` is `None` if no traffic would have to fall back.
    Offered {
        until: Option<Instant>,
    },
    Done,
}

#[derive(Clone, Debug)]
pub(crate) struct Confirming {
    pub(crate) message: Confirm,
    pub(crate) retry: Retry,
}

impl Session {
    /// Whether the correspondent has read all our locators. A correspondent without the handshake gets no Locator
    /// Update when the session begins.
    pub(crate) fn is_told(&self) -> bool {
        !self.owes_update && (self.agreed || self.has_acknowledged)
    }

    /// Makes a session that both ends know, by the addresses of its sockets, with our nonce and the number of the
    /// last Accept.
    pub(crate) fn new(
        pair: IlvPair,
        why: Why,
        (send_nonce, accepted_at): (Nonce, u32),
        checksum: ChecksumMode,
        now: Instant,
    ) -> Self {
        Self {
            why,
            opening: Opening::Done,
            proves: true,
            send_nonce,
            checksum,
            peer: AdmissionFlags::default(),
            agreed: false,
            settled: true,
            accepted_at,
            remote: vec![RemoteLocator {
                l64: pair.remote.l64,
                preference: 0,
                expires: None,
                proven: true,
            }],
            wire: (pair.local.l64, pair.remote.l64),
            failed: Failed::default(),
            taken: None,
            sent: 0,
            advertisement: None,
            owes_update: false,
            renew_at: None,
            has_acknowledged: false,
            is_mute: false,
            rtt: Rtt::default(),
            nonce_until: None,
            last_used: now,
            shown_at: now,
            moved: None,
            sign: Sign::Reached(now),
            asked_at: None,
            proofs: None,
            heard: Heard::default(),
        }
    }

    /// Begins the repetition of a message that was just sent for the first time.
    pub(crate) fn retry(&self, now: Instant) -> Retry {
        Self::retry_after(self.rtt.timeout(), MIN_RETRANSMISSION, now)
    }

    /// Begins for a Locator Update because nothing comes any more. The answer to a question may wait in a queue that has just
    /// filled, and payload goes on until the question has gone unanswered. The third try of a question is over after seven
    /// pauses, so a pause has no margin for answers that are late.
    pub(crate) fn retry_of_update(&self, now: Instant) -> Retry {
        if self.owes_update {
            return self.retry(now);
        }
        let pause = self.rtt.known().map(|known| known + self.rtt.variation());
        Self::retry_after(pause, QUESTION_PAUSE, now)
    }

    fn retry_after(pause: Option<Duration>, least: Duration, now: Instant) -> Retry {
        let bounded = pause.map(|pause| pause.clamp(least, MAX_FIRST_RETRANSMISSION));
        Retry::after(bounded.unwrap_or(FIRST_RETRANSMISSION), now)
    }

    /// Notes the answer to a message that was sent this often. If the message was sent again, the answer may be to
    /// any copy, so it gives no measurement (RFC 6298 s3). If the message was sent many times, the measured time is
    /// of another path and goes.
    pub(crate) fn on_answered(&mut self, retry: Retry, now: Instant) {
        if retry.tries == 1 {
            self.rtt.observe(now.since(retry.begun));
        } else if retry.tries >= RTT_DOUBTED_TRIES {
            self.rtt = Rtt::default();
        }
    }

    /// Notes an acknowledgement that has come by the locators in use.
    pub(crate) fn on_answered_by_wire(&mut self, now: Instant) {
        self.sign = Sign::Answered(now);
        self.failed.forget(self.wire);
    }

    /// Notes a Locator Update that has come by the locators in use. It shows the direction to us alone.
    pub(crate) fn on_reached_by_wire(&mut self, now: Instant) {
        if !self.is_answered(now) && self.sign != Sign::AllSilent {
            self.sign = Sign::Reached(now);
        }
    }

    /// Notes that the session uses other locators, which have shown nothing yet.
    pub(crate) fn on_moved(&mut self, wire: Locators, cause: MoveCause) {
        (self.wire, self.moved) = (wire, Some(cause));
        self.sign = Sign::None;
    }

    /// Time since the last sign that the locators in use work; `None` if there is no sign.
    pub(crate) fn without_sign(&self, now: Instant) -> Option<Duration> {
        match self.sign {
            Sign::Answered(at) | Sign::Reached(at) => Some(now.since(at)),
            Sign::None | Sign::AllSilent | Sign::Doubted => None,
        }
    }

    /// Whether the locators in use have shown nothing yet, and are in use only because no Locator Update was acknowledged, or
    /// because the correspondent has moved while others were silent. A pair that brings an answer is better.
    pub(crate) fn is_guess(&self) -> bool {
        self.is_doubted()
            || self.moved == Some(MoveCause::UpdateUnanswered) && self.sign == Sign::None
    }

    /// Whether the locators in use are in doubt since the session has followed its correspondent.
    pub(crate) fn is_doubted(&self) -> bool {
        self.sign == Sign::Doubted
    }

    /// Whether the last question went by every pair of locators in vain.
    pub(crate) fn all_silent(&self) -> bool {
        self.sign == Sign::AllSilent
    }

    /// Whether the locators in use have just brought an acknowledgement, so that both directions work.
    pub(crate) fn is_answered(&self, now: Instant) -> bool {
        matches!(self.sign, Sign::Answered(at) if now.since(at) < ANSWERED_LATELY)
    }

    pub(crate) fn state(&self) -> State {
        match self.opening {
            Opening::Confirming(_) => State::Confirming,
            Opening::Offered { .. } => State::Offered,
            Opening::Done => State::Established,
        }
    }

    pub(crate) fn is_moved(&self, pair: IlvPair) -> bool {
        self.wire != (pair.local.l64, pair.remote.l64)
    }

    /// The addresses of packets that we send: other locators, the same identifiers.
    //= rfc6740#3.1.1-1
    pub(crate) fn wire_pair(&self, pair: IlvPair) -> IlvPair {
        IlvPair::new(pair.local.at(self.wire.0), pair.remote.at(self.wire.1))
    }

    /// Replaces the correspondent's locators (RFC 6743 s4), and skips entries that cannot be the locator of a host.
    /// Returns whether any locator is left; if none is, the session is unchanged. `proven`: the locators that the
    /// correspondent has shown to be its own.
    pub(crate) fn set_remote(
        &mut self,
        entries: &[L64Entry],
        proven: &[L64],
        now: Instant,
    ) -> bool {
        let mut remote: Vec<RemoteLocator> = Vec::new();
        let mut entries: Vec<_> =
            entries.iter().filter(|entry| entry.l64.is_global_unicast()).collect();
        entries.sort_by_key(|entry| entry.preference);
        for entry in entries {
            let is_new = remote.iter().all(|known| known.l64 != entry.l64);
            if is_new && remote.len() < MAX_REMOTE_LOCATORS {
                let expires = now + Duration::from_secs(entry.lifetime.into());
                remote.push(RemoteLocator {
                    l64: entry.l64,
                    preference: entry.preference,
                    expires: Some(expires),
                    proven: proven.contains(&entry.l64),
                });
            }
        }
        if remote.is_empty() {
            return false;
        }
        let known = |one: &RemoteLocator| (one.l64, one.preference);
        let is_known = |one| self.remote.iter().any(|had| known(had) == known(one));
        // The session follows a correspondent that comes back to a locator, whatever has failed before.
        if remote.len() != self.remote.len() || !remote.iter().all(is_known) {
            self.failed = Failed::default();
        }
        self.remote = remote;
        true
    }

    /// The correspondent has repeated the Locator Update that we took last: its locators live from now on.
    pub(crate) fn renew_remote(&mut self, entries: &[L64Entry], now: Instant) {
        for remote in &mut self.remote {
            let told = entries.iter().filter(|entry| entry.l64 == remote.l64);
            if let Some(best) = told.min_by_key(|entry| entry.preference) {
                remote.expires = Some(now + Duration::from_secs(best.lifetime.into()));
            }
        }
    }

    //= rfc6741#5.2-1
    pub(crate) fn validity(&self, remote: &RemoteLocator, now: Instant) -> Validity {
        match (remote.l64 == self.wire.1, remote.is_aged(now)) {
            (true, false) => Validity::Active,
            (false, false) => Validity::Valid,
            (true, true) => Validity::Expired,
            (false, true) => Validity::Aged,
        }
    }

    /// Notes that a Locator Update or question got no answer. From now on the machine tells and asks less often a
    /// correspondent that acknowledges nothing.
    pub(crate) fn on_unanswered(&mut self, now: Instant) {
        self.is_mute = !self.agreed && !self.has_acknowledged;
        self.asked_at = Some(now);
        self.advertisement = None;
    }

    /// Notes that a question has gone by all pairs in vain. The question goes on while the session is in use.
    pub(crate) fn on_all_silent(&mut self, goes_on: bool, now: Instant) {
        let question = self.advertisement.take();
        self.on_unanswered(now);
        if let Some(asked) = question.as_deref().filter(|_| !self.all_silent()) {
            let pairs: Vec<_> = asked.question.asked(asked.retry.tries).collect();
            self.failed.leave(self.wire, &pairs, now);
        }
        self.sign = Sign::AllSilent;
        self.advertisement = question.filter(|_| goes_on && !self.is_mute);
    }

    /// Whether the last question went by every pair of locators in vain. Packets of the correspondent by other locators
    /// change nothing. A correspondent that acknowledges nothing shows no path.
    pub(crate) fn stands_still(&self) -> bool {
        self.all_silent() && self.settled && !self.owes_update && !self.is_mute
    }

    /// Whether the locators in use have brought no answer to a question.
    pub(crate) fn is_silent(&self) -> bool {
        let asked = self.advertisement.as_deref();
        let finds_silent = asked.is_some_and(|asked| asked.finds_silent(self.wire));
        self.all_silent() || self.is_doubted() || finds_silent
    }

    /// Whether the Locator Update that ends the handshake has been sent in vain, because options do not pass. If
    /// payload with the right nonce has come since the last repetition and no Confirm, the correspondent has the
    /// session and only its daemon has stopped, so the update is not in vain.
    pub(crate) fn is_in_vain(&self, sent: &Advertisement, now: Instant) -> bool {
        let last = sent.retry.sent_at();
        let is_in_use = self.shown_at > last && sent.confirmed_at.is_none_or(|at| at <= last);
        self.awaits_first_answer() && sent.retry.is_in_vain(now) && !is_in_use
    }

    /// Whether the Locator Update that ends the handshake waits for its acknowledgement.
    pub(crate) fn awaits_first_answer(&self) -> bool {
        self.agreed && !self.settled
    }

    /// Whether all packets have the nonce for good, by our setting or the correspondent's.
    fn always_attaches(&self, always: bool) -> bool {
        always || self.peer.has(AdmissionFlags::ALWAYS_NONCE)
    }

    /// Whether all packets have the nonce now.
    //= rfc6741#11.1-6
    fn attaches(&self, always: bool, now: Instant) -> bool {
        self.always_attaches(always)
            || !matches!(self.opening, Opening::Done)
            || self.owes_update
            || !self.settled
            || self.nonce_until.is_some_and(|until| now < until)
    }

    /// Has all packets carry the nonce until this time at least.
    pub(crate) fn attach_until(&mut self, until: Instant) {
        self.nonce_until = self.nonce_until.max(Some(until));
    }

    /// The locators from which the correspondent may send. A correspondent without the handshake that has begun anew,
    /// and has named none, also sends from `sockets`, the locator that its sockets have.
    fn sources(&self, sockets: L64) -> Arc<[L64]> {
        let named = self.remote.iter().map(|remote| remote.l64);
        let is_source = self.remote.iter().all(|remote| remote.expires.is_none());
        let is_named = self.remote.iter().any(|remote| remote.l64 == sockets);
        named.chain((is_source && !is_named).then_some(sockets)).collect()
    }

    pub(crate) fn entry(
        &self,
        id: SessionId,
        (pair, receive_nonce): (IlvPair, Option<Nonce>),
        always: bool,
        now: Instant,
    ) -> SessionEntry {
        let is_open = matches!(self.opening, Opening::Done);
        SessionEntry {
            id,
            pair,
            wire: self.wire,
            send_nonce: self.send_nonce,
            attach: self.attaches(always, now),
            // A session that may still fail to open is not worth a route.
            always: is_open && self.always_attaches(always),
            maps_tcp: self.agreed,
            settled: self.settled,
            receive_nonce,
            remote: self.sources(pair.remote.l64),
            confirming: matches!(self.opening, Opening::Confirming(_)),
            checksum: self.checksum,
            watch: !is_open || self.awaits_first_answer(),
        }
    }
}

/// A session for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Slot.
    pub id: SessionId,
    /// The addresses that sockets see.
    pub pair: IlvPair,
    /// The addresses of packets that we send.
    pub wire: IlvPair,
    /// Cause of the last move in this run of the daemon.
    pub moved: Option<MoveCause>,
    /// Progress of the session.
    pub state: State,
    /// Reason of the admission.
    pub why: Why,
    /// Locators of the correspondent.
    pub remote: Vec<(RemoteLocator, Validity)>,
    /// The nonce that we send, and the nonce of the correspondent. Whoever knows a nonce can send as its owner.
    pub nonces: (Nonce, Option<Nonce>),
    /// Whether our last Locator Update has not been acknowledged.
    pub awaits_acknowledgement: bool,
    /// Whether the last question went by every pair of locators in vain.
    pub stands_still: bool,
    /// Time of the last use.
    pub last_used: Instant,
}
