use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_datapath::ilnp::{ChecksumMode, SessionEntry};
use moorline_types::{IlvPair, Instant, L64, Nonce, Rtt, SessionId, named_enum};
use moorline_wire::ilnp::{AdmissionFlags, Confirm, L64Entry};

use crate::consts::{
    CONFIRMATION_TRIES, FIRST_RETRANSMISSION, MAX_FIRST_RETRANSMISSION, MAX_REMOTE_LOCATORS,
    MAX_RETRANSMISSION, MIN_RETRANSMISSION, OFFER_TIMEOUT, RTT_DOUBTED_TRIES,
};
use crate::paths::{Failed, Locators};
use crate::policy::Why;

named_enum! {
    /// How far a session has come.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum State {
        /// We have confirmed what the correspondent has accepted; it has not shown yet that it knows.
        Confirming => "confirming",
        /// Our packets have a nonce; the correspondent has not shown yet that it knows what that is.
        Offered => "offered",
        /// Both know.
        Established => "established",
    }
}

named_enum! {
    /// How good a locator of a correspondent is (RFC 6741 s5.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Validity {
        /// In use, and not beyond its lifetime.
        Active => "active",
        /// Could be used.
        Valid => "valid",
        /// In use beyond its lifetime: nothing has taken its place.
        Expired => "expired",
        /// Beyond its lifetime, kept until the next Locator Update (RFC 6741 s5.2).
        Aged => "aged",
    }
}

/// A locator of a correspondent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RemoteLocator {
    /// The locator.
    pub l64: L64,
    /// Lower is better.
    pub preference: u16,
    /// When it ages; `None`: nobody has said.
    pub expires: Option<Instant>,
}

impl RemoteLocator {
    pub(crate) fn is_aged(&self, now: Instant) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// What is known of a correspondent, for one pair of addresses (decision 071).
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) why: Why,
    pub(crate) opening: Opening,
    /// Whether what opens it proves that the correspondent is at its address.
    pub(crate) proves: bool,
    pub(crate) send_nonce: Nonce,
    pub(crate) checksum: ChecksumMode,
    /// What the correspondent said in the handshake; nothing without one.
    pub(crate) peer: AdmissionFlags,
    /// It did the handshake.
    pub(crate) agreed: bool,
    /// After a handshake: a Locator Update has gone from the responder to the initiator, and both know.
    pub(crate) settled: bool,
    /// Number of the Accept of ours by which it came about; where we have proposed it, of the last one before the correspondent showed
    /// that it knows. A Confirm by that Accept or an earlier one is of an earlier handshake.
    pub(crate) accepted_at: u32,
    /// By preference; never empty.
    pub(crate) remote: Vec<RemoteLocator>,
    /// Source and destination of what we send.
    pub(crate) wire: (L64, L64),
    /// The locators that have failed, until they answer, or locators or preferences of either node, or our routes, change. No preference
    /// leads back there.
    pub(crate) failed: Failed,
    /// Number of the last Locator Update that was taken.
    pub(crate) taken: Option<u32>,
    /// Number of the last Locator Update that was sent.
    pub(crate) sent: u32,
    pub(crate) advertisement: Option<Box<Advertisement>>,
    /// The correspondent has not read our locators as they are now.
    pub(crate) owes_update: bool,
    /// The correspondent has acknowledged a Locator Update: it has read all our locators of then.
    pub(crate) has_acknowledged: bool,
    /// The correspondent did no handshake, and has never acknowledged a Locator Update, though it was told one many times.
    pub(crate) is_mute: bool,
    /// To the correspondent, by what it has answered.
    pub(crate) rtt: Rtt<2>,
    /// Until then all packets have the nonce.
    pub(crate) nonce_until: Option<Instant>,
    pub(crate) last_used: Instant,
    /// When the correspondent last showed that it knows of it.
    pub(crate) shown_at: Instant,
    /// When the correspondent was last asked because of a proposal, or had not answered.
    pub(crate) asked_at: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(crate) enum Opening {
    Confirming(Box<Confirming>),
    /// `None`: there is no traffic that would have to fall back.
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

/// Our locators, on their way.
#[derive(Clone, Debug)]
pub(crate) struct Advertisement {
    pub(crate) locators: Vec<L64Entry>,
    /// Of a question: by which locators it goes, one after another.
    pub(crate) pairs: Vec<Locators>,
    pub(crate) retry: Retry,
    /// When the correspondent last sent its Confirm again, which it does until it reads this.
    pub(crate) confirmed_at: Option<Instant>,
}

/// When something is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Times that it was sent.
    pub(crate) tries: u32,
    /// When it was sent for the first time.
    pub(crate) begun: Instant,
    /// From the last time to the next.
    pause: Duration,
    pub(crate) next: Instant,
}

impl Retry {
    /// It was just sent for the first time, to one of whom nothing is known.
    pub(crate) fn new(now: Instant) -> Self {
        Self::after(FIRST_RETRANSMISSION, now)
    }

    fn after(pause: Duration, now: Instant) -> Self {
        Self { tries: 1, begun: now, pause, next: now + pause }
    }

    /// It was just sent again.
    pub(crate) fn again(self, now: Instant) -> Self {
        let pause = (self.pause * 2).min(MAX_RETRANSMISSION);
        Self { tries: self.tries + 1, pause, next: now + pause, ..self }
    }

    /// Of a new session, whose nonces nobody has answered yet: it has been sent often enough, for long enough.
    pub(crate) fn is_in_vain(&self, now: Instant) -> bool {
        self.tries >= CONFIRMATION_TRIES && self.is_over(OFFER_TIMEOUT, now)
    }

    /// When the message was last sent by this timer.
    fn sent_at(&self) -> Instant {
        self.next - self.pause
    }

    /// It has been sent again for so long.
    pub(crate) fn is_over(&self, lifetime: Duration, now: Instant) -> bool {
        now.since(self.begun) >= lifetime
    }
}

impl Session {
    /// Whether the correspondent has read all our locators. One without the handshake is told of none when the session begins.
    pub(crate) fn is_told(&self) -> bool {
        !self.owes_update && (self.agreed || self.has_acknowledged)
    }

    /// One that both ends know of, with our nonce and the number of the last Accept, by the addresses of its sockets.
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
            remote: vec![RemoteLocator { l64: pair.remote.l64, preference: 0, expires: None }],
            wire: (pair.local.l64, pair.remote.l64),
            failed: Failed::default(),
            taken: None,
            sent: 0,
            advertisement: None,
            owes_update: false,
            has_acknowledged: false,
            is_mute: false,
            rtt: Rtt::default(),
            nonce_until: None,
            last_used: now,
            shown_at: now,
            asked_at: None,
        }
    }

    /// Something was just sent for the first time.
    pub(crate) fn retry(&self, now: Instant) -> Retry {
        let measured = self.rtt.timeout();
        let bounded =
            measured.map(|pause| pause.clamp(MIN_RETRANSMISSION, MAX_FIRST_RETRANSMISSION));
        Retry::after(bounded.unwrap_or(FIRST_RETRANSMISSION), now)
    }

    /// What was sent so often is answered now. Of what was sent again nobody knows which one is answered (RFC 6298 s3); if
    /// that was often, the path is another one than was measured.
    pub(crate) fn on_answered(&mut self, retry: Retry, now: Instant) {
        if retry.tries == 1 {
            self.rtt.observe(now.since(retry.begun));
        } else if retry.tries >= RTT_DOUBTED_TRIES {
            self.rtt = Rtt::default();
        }
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

    /// The addresses of what we send: other locators, the same identifiers.
    //= rfc6740#3.1.1-1
    pub(crate) fn wire_pair(&self, pair: IlvPair) -> IlvPair {
        IlvPair::new(pair.local.at(self.wire.0), pair.remote.at(self.wire.1))
    }

    /// Takes the correspondent's locators in place of those it had (RFC 6743 s4). Whether any is left: those
    /// that can be none are not counted.
    pub(crate) fn set_remote(&mut self, entries: &[L64Entry], now: Instant) -> bool {
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

    //= rfc6741#5.2-1
    pub(crate) fn validity(&self, remote: &RemoteLocator, now: Instant) -> Validity {
        match (remote.l64 == self.wire.1, remote.is_aged(now)) {
            (true, false) => Validity::Active,
            (false, false) => Validity::Valid,
            (true, true) => Validity::Expired,
            (false, true) => Validity::Aged,
        }
    }

    /// A Locator Update or a question was sent in vain. From now on a correspondent that acknowledges nothing is told and asked more rarely.
    pub(crate) fn on_unanswered(&mut self, now: Instant) {
        self.advertisement = None;
        self.is_mute = !self.agreed && !self.has_acknowledged;
        self.asked_at = Some(now);
    }

    /// Whether the Locator Update that ends the handshake has been sent in vain: options do not pass. Payload with the right nonce since
    /// the last repetition shows that the correspondent has the session, and no Confirm since then that the correspondent's daemon has stopped.
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

    /// All packets have the nonce until this time, or longer if they have to already.
    pub(crate) fn attach_until(&mut self, until: Instant) {
        self.nonce_until = self.nonce_until.max(Some(until));
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
            // One that may come to nothing yet is not worth a route.
            always: is_open && self.always_attaches(always),
            maps_tcp: self.agreed,
            settled: self.settled,
            receive_nonce,
            remote: self.remote.iter().map(|remote| remote.l64).collect::<Arc<[L64]>>(),
            confirming: matches!(self.opening, Opening::Confirming(_)),
            checksum: self.checksum,
            watch: !is_open || self.awaits_first_answer(),
        }
    }
}

/// A session as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Slot.
    pub id: SessionId,
    /// The addresses of its sockets.
    pub pair: IlvPair,
    /// The addresses of what we send.
    pub wire: IlvPair,
    /// How far it has come.
    pub state: State,
    /// Why it was admitted.
    pub why: Why,
    /// Locators of the correspondent.
    pub remote: Vec<(RemoteLocator, Validity)>,
    /// The nonce that we send, and the one that comes. Whoever knows them can send as one of the two.
    pub nonces: (Nonce, Option<Nonce>),
    /// Whether our last Locator Update has not been acknowledged.
    pub awaits_acknowledgement: bool,
    /// When it was last used.
    pub last_used: Instant,
}
