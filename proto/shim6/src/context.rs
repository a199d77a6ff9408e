use alloc::boxed::Box;
use alloc::vec::Vec;

use moorline_types::{
    ContextId, ContextTag, DropReason, Instant, Locator, LocatorPair, Locators, Ulid, named_enum,
};
use moorline_wire::Options;

use crate::announce::Wording;
use crate::claim::Neighbors;
use crate::consts::MAX_PEER_VALIDATOR_LEN;
use crate::key::Key;
use crate::peer::PeerSet;

/// One ULID-pair context (RFC 5533 s6.1).
#[derive(Clone, Debug)]
pub struct Context {
    /// The slot of the context.
    pub id: ContextId,
    /// The ULIDs, and which of several contexts between them this one is.
    pub key: Key,
    /// CT(local): the tag in packets from the peer.
    pub local_tag: ContextTag,
    /// The state, with its data.
    pub(crate) stand: Stand,
    pub(crate) neighbors: Neighbors,
    /// Whether traffic between the ULIDs needs the context: traffic of this host has triggered it, or payload has come
    /// since.
    pub(crate) has_traffic: bool,
}

/// The data of a context in its state.
#[derive(Clone, Debug)]
pub(crate) enum Stand {
    /// All states but ESTABLISHED.
    Handshake(Box<Handshake>),
    Established(Established),
}

named_enum! {
    /// Context states (RFC 5533 s6.2). A context in IDLE has no entry. E-FAILED and NO-SUPPORT are remembered
    /// elsewhere.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum State {
        /// I1 sent, R1 awaited.
        I1Sent => "i1-sent",
        /// I2 sent, R2 awaited.
        I2Sent => "i2-sent",
        /// The peer has lost the context: I2bis sent, R2 awaited. Payload goes on as before.
        I2bisSent => "i2bis-sent",
        /// In use.
        Established => "established",
    }
}

/// A message that waits for its answer: I1, or after an R1 or R1bis an I2 or I2bis. The fields suffice to send it
/// again.
#[derive(Clone, Debug)]
pub(crate) struct Handshake {
    /// The context before I2BIS-SENT, with the CT(peer) that the peer has lost. `None` in other states.
    pub established: Option<Established>,
    /// The list that the peer took before I2BIS-SENT.
    pub took: Takes,
    pub nonce: u32,
    /// The last Responder Nonce that this host had given out when the message left.
    pub asked_at: u32,
    /// The pair of the message. An I1 takes the ULIDs, if this host can send from its own; the others take the pair of
    /// the R1 or R1bis.
    pub via: LocatorPair,
    /// The pair of an earlier R1bis, if it was another pair. The I2bis to it had the same nonce, and its R2 may be on
    /// the way.
    pub former_via: Option<LocatorPair>,
    /// The values that I2 and I2bis echo. `None` in I1-SENT.
    pub echo: Option<Echo>,
    /// Whether the information about this host has changed since this establishment began.
    pub is_retold: bool,
    /// Whether the two hosts had this context before, and this host asks for it anew.
    pub is_anew: bool,
    /// I1s sent after the first, in this establishment.
    pub i1_retries: u8,
    /// I2s or I2bis' sent after the first.
    pub retries: u8,
    /// Whether an I2 of this establishment was sent again in vain before the last I1.
    pub is_late: bool,
    /// Whether an R2 of this establishment had locators or parameters that could not be verified.
    pub is_unverified: bool,
    pub crossing: Crossing,
    /// Whether an I1 of the peer has drawn R2 in I2BIS-SENT. Further ones draw R1 (decision 188).
    pub has_answered_i1: bool,
    /// Whether I2 or I2bis has been sent early because the peer used the context. The next one waits for its time.
    pub is_hastened: bool,
    /// Whether I2bis has been sent early because of another R1bis. The next one waits for its time.
    pub is_referred: bool,
    pub sent: Instant,
    /// When the last R1bis came that an I2bis answers.
    pub referred: Instant,
    pub deadline: Instant,
}

/// The values of an R1 or R1bis that the answer echoes.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    pub responder_nonce: u32,
    pub validator: Vec<u8>,
    /// The nonce of the I1 that the R1 has answered.
    pub initiator_nonce: Option<u32>,
}

impl Echo {
    pub(crate) fn of(responder_nonce: u32, options: &Options) -> Result<Self, DropReason> {
        let validator = options.validator().ok_or(DropReason::MissingOption)?;
        if validator.len() > MAX_PEER_VALIDATOR_LEN {
            return Err(DropReason::TooMany);
        }
        Ok(Self { responder_nonce, validator: validator.to_vec(), initiator_nonce: None })
    }
}

impl Handshake {
    /// Begins a handshake by this pair.
    pub(crate) const fn new(via: LocatorPair, now: Instant) -> Self {
        Self {
            established: None,
            took: Takes::Unknown,
            nonce: 0,
            asked_at: 0,
            via,
            former_via: None,
            echo: None,
            is_retold: false,
            is_anew: false,
            i1_retries: 0,
            retries: 0,
            is_late: false,
            is_unverified: false,
            crossing: Crossing::No,
            has_answered_i1: false,
            is_hastened: false,
            is_referred: false,
            sent: now,
            referred: now,
            deadline: now,
        }
    }

    /// Wording of the I2 or I2bis.
    pub(crate) fn wording(&self) -> Wording {
        Wording::after(u32::from(self.retries))
    }

    /// Records that the peer has named a tag in an I1.
    pub(crate) fn cross(&mut self, named: Named) {
        self.crossing = match self.crossing {
            Crossing::No | Crossing::Named(_) => Crossing::Named(named),
            Crossing::AskedAgain(_) => Crossing::AskedAgain(named),
        };
    }

    /// The tag that the peer has named in an I1.
    pub(crate) const fn named(&self) -> Option<Named> {
        match self.crossing {
            Crossing::No => None,
            Crossing::Named(named) | Crossing::AskedAgain(named) => Some(named),
        }
    }

    /// Whether the peer has answered I1, and has not answered a repeated I2. The peer may have the context already.
    pub(crate) const fn is_half_open(&self) -> bool {
        self.established.is_none() && (self.is_late || self.echo.is_some() && self.retries > 0)
    }
}

/// The tag that the peer has named in an I1 of its own, which came before the answer to ours (RFC 5533 s7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossing {
    /// The peer has named no tag.
    No,
    /// An I1 has named this tag. Anybody can have sent that I1.
    Named(Named),
    /// An answer had another tag, and this host has asked the peer once more. The next answer counts.
    AskedAgain(Named),
}

/// A tag in an I1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub tag: ContextTag,
    /// The last Responder Nonce that this host had given out when the I1 came.
    pub at: u32,
}

/// The data of ESTABLISHED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// CT(peer): the tag in packets to the peer.
    pub peer_tag: ContextTag,
    /// Ls(local): the locators of this host that the peer has been told and can verify.
    pub local_locators: Locators,
    /// The verified locators and options of the peer.
    pub peer: PeerSet,
    /// The side of this host.
    pub role: Role,
    /// Edition of the other information that the peer has been told: preferences, Send Timeout.
    pub(crate) edition: u32,
    /// The information that the peer has been told and has not acknowledged.
    pub(crate) update: Option<Box<Update>>,
    /// The list that the peer takes, if the peer has shown that it has the context.
    pub(crate) takes: Takes,
    /// The Responder Nonce with which the peer has named its tag, or the last one when this host asked for the tag. An
    /// I2 with this nonce or an older one is from before. If such an I2 names another tag, it is from a past life of
    /// the peer.
    pub(crate) told_at: u32,
}

/// The list that a peer takes. This matters if our list has signed locators besides the members of an HBA set, because
/// some peers never acknowledge such a list (decision 008).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// The peer has not shown that it has the context.
    Unknown,
    /// The peer has not shown this after an R2 either.
    Answered,
    /// The peer has not shown this after two R2s either.
    AnsweredTwice,
    /// The whole list, as far as is known.
    All,
    /// The whole list, which it was told once more after the plain one.
    AllAgain,
    /// The peer has acknowledged the plain list, and not the whole list. The whole list may have been lost, and is sent
    /// once more.
    Doubtful,
    /// The plain list alone.
    Plain,
}

impl Takes {
    /// The value after one more R2.
    pub(crate) const fn after_r2(self) -> Self {
        match self {
            Self::Unknown => Self::Answered,
            Self::Answered | Self::AnsweredTwice => Self::AnsweredTwice,
            Self::All | Self::AllAgain | Self::Doubtful | Self::Plain => self,
        }
    }

    /// Whether the peer has acknowledged a plain list. What follows has a later generation (decision 193).
    pub(crate) const fn is_after_plain(self) -> bool {
        matches!(self, Self::AllAgain | Self::Doubtful | Self::Plain)
    }
}

/// Information about this host that a peer has been told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub locators: Locators,
    pub edition: u32,
}

impl Told {
    /// The content that counts if the peer has been told either this or an earlier version: the locators that are
    /// usable in both cases, and an edition that makes this host tell the peer again.
    pub(crate) fn uncertain(&self, ulid: Ulid, via: LocatorPair) -> Self {
        let both = [ulid.as_locator(), via.local];
        let locators = if both[0] == both[1] { &both[..1] } else { &both };
        Self { locators: locators.into(), ..self.outdated() }
    }

    /// The same locators with an edition that makes this host tell the peer again.
    pub(crate) fn outdated(&self) -> Self {
        Self { locators: self.locators.clone(), edition: self.edition.wrapping_sub(1) }
    }
}

impl Established {
    /// Makes a context with no Update Request on its way. The peer has been told no preferences.
    #[must_use]
    pub const fn new(
        peer_tag: ContextTag,
        local_locators: Locators,
        peer: PeerSet,
        role: Role,
    ) -> Self {
        Self {
            peer_tag,
            local_locators,
            peer,
            role,
            edition: 0,
            takes: Takes::Unknown,
            update: None,
            told_at: 0,
        }
    }

    pub(crate) fn with(
        (peer_tag, told_at): (ContextTag, u32),
        told: Told,
        peer: PeerSet,
        role: Role,
    ) -> Self {
        let edition = told.edition;
        Self { edition, told_at, ..Self::new(peer_tag, told.locators, peer, role) }
    }

    /// Whether the peer has shown that it has the context: by an R2 for I2 or I2bis, or by a later message with our
    /// tag. A responder does not know whether its R2 has arrived. An R2 for I1 shows nothing either, because a host
    /// answers crossing I1s without a context (RFC 5533 s7.4).
    #[must_use]
    pub const fn is_confirmed(&self) -> bool {
        matches!(self.takes, Takes::All) || self.takes.is_after_plain()
    }

    /// Whether a packet with these addresses may belong to the context (RFC 5533 s12.4).
    pub(crate) fn has_locators(&self, locators: LocatorPair) -> bool {
        self.peer.locators.contains(&locators.peer) && self.may_know(locators.local)
    }

    /// Whether the peer may send to this locator: the peer has acknowledged it, or the peer was told of it and the
    /// acknowledgement may be late or lost.
    pub(crate) fn may_know(&self, local: Locator) -> bool {
        self.local_locators.contains(&local) || self.told().contains(&local)
    }

    /// The newest list that was sent to the peer, acknowledged or not.
    #[must_use]
    pub fn told(&self) -> &Locators {
        let sent = self.update.as_ref().filter(|update| update.sent > 0);
        sent.map_or(&self.local_locators, |update| &update.told.locators)
    }

    /// Number of times that the unacknowledged Update Request went out.
    #[must_use]
    pub fn update_tries(&self) -> u32 {
        self.update.as_ref().map_or(0, |update| update.sent)
    }
}

/// An Update Request on its way, at most one at a time (RFC 5533 s10.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub nonce: u32,
    /// Content of the request.
    pub told: Told,
    /// Number of times that the request went out. Zero: the request waits for its turn.
    pub sent: u32,
    pub deadline: Instant,
}

named_enum! {
    /// Side in the establishment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum Role {
        /// This side sent the I1.
        Initiator => "initiator",
        /// This side answered the I1.
        Responder => "responder",
    }
}

impl Context {
    /// The state of the context.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.stand {
            Stand::Established(_) => State::Established,
            Stand::Handshake(asked) if asked.established.is_some() => State::I2bisSent,
            Stand::Handshake(asked) if asked.echo.is_some() => State::I2Sent,
            Stand::Handshake(_) => State::I1Sent,
        }
    }

    /// Whether traffic needs the context: traffic of this host has triggered it, or payload has come since.
    #[must_use]
    pub const fn has_traffic(&self) -> bool {
        self.has_traffic
    }

    /// The data about the peer, in the two states in which payload may use the context: ESTABLISHED and I2BIS-SENT (RFC
    /// 5533 s11).
    #[must_use]
    pub fn established(&self) -> Option<&Established> {
        match &self.stand {
            Stand::Established(established) => Some(established),
            Stand::Handshake(asked) => asked.established.as_ref(),
        }
    }

    pub(crate) fn established_mut(&mut self) -> Option<&mut Established> {
        match &mut self.stand {
            Stand::Established(established) => Some(established),
            Stand::Handshake(asked) => asked.established.as_mut(),
        }
    }

    /// The data about the peer, in ESTABLISHED alone.
    pub(crate) fn settled(&self) -> Option<&Established> {
        self.established().filter(|_| self.handshake().is_none())
    }

    /// The message that waits for its answer.
    pub(crate) fn handshake(&self) -> Option<&Handshake> {
        match &self.stand {
            Stand::Handshake(asked) => Some(asked),
            Stand::Established(_) => None,
        }
    }

    /// Whether the peer has answered I1, and has not answered a repeated I2. The peer may have the context already.
    #[must_use]
    pub fn is_half_open(&self) -> bool {
        self.handshake().is_some_and(Handshake::is_half_open)
    }

    /// Whether the peer has answered with R2, and the R2 was dropped because its locators or parameters could not be
    /// verified.
    #[must_use]
    pub fn is_unverified(&self) -> bool {
        self.handshake().is_some_and(|asked| asked.is_unverified)
    }

    /// Whether I1 was sent again at least twice without an answer.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        let is_late = |handshake: &Handshake| !handshake.is_late && handshake.i1_retries > 1;
        self.state() == State::I1Sent && self.handshake().is_some_and(is_late)
    }

    /// Whether the peer has answered with R1bis, and has not answered a repeated I2bis.
    #[must_use]
    pub fn is_renewal_late(&self) -> bool {
        self.handshake().is_some_and(|h| h.established.is_some() && h.retries > 0)
    }

    /// Whether a packet with these addresses may belong to the context (RFC 5533 s12.4).
    #[must_use]
    pub fn has_locators(&self, locators: LocatorPair) -> bool {
        self.established().is_some_and(|established| established.has_locators(locators))
    }

    /// Whether the peer has spoken Shim6 in this context, or in the one that this context replaces.
    pub(crate) fn has_spoken(&self) -> bool {
        self.established().is_some() || self.handshake().is_some_and(|asked| asked.is_anew)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.stand {
            Stand::Handshake(asked) => Some(asked.deadline),
            Stand::Established(known) => known.update.as_ref().map(|update| update.deadline),
        }
    }

    /// Whether an R1 or R2 with this nonce, by this pair, may answer the message of this context.
    pub(crate) fn may_be_answered(&self, nonce: u32, by: LocatorPair) -> bool {
        let is_by = |h: &Handshake| h.nonce == nonce && (h.via == by || h.former_via == Some(by));
        self.handshake().is_some_and(is_by)
    }
}
