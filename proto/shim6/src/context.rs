use alloc::boxed::Box;
use alloc::vec::Vec;

use moorline_types::{
    ContextId, ContextTag, DropReason, Instant, Locator, LocatorPair, Locators, Ulid, named_enum,
};
use moorline_wire::Options;

use crate::announce::Wording;
use crate::consts::MAX_PEER_VALIDATOR_LEN;
use crate::key::Key;
use crate::peer::PeerSet;

/// One ULID-pair context (RFC 5533 s6.1).
#[derive(Clone, Debug)]
pub struct Context {
    /// Its slot.
    pub id: ContextId,
    /// The addresses that sockets see, and which of several contexts between them it is.
    pub key: Key,
    /// CT(local): the tag in what we receive.
    pub local_tag: ContextTag,
    /// Where it stands and what belongs to that.
    pub(crate) stand: Stand,
}

/// What there is of a context in its state.
#[derive(Clone, Debug)]
pub(crate) enum Stand {
    /// In all states but ESTABLISHED.
    Handshake(Box<Handshake>),
    Established(Established),
}

named_enum! {
    /// Context states (RFC 5533 s6.2). IDLE is no entry; E-FAILED and NO-SUPPORT are remembered apart.
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

/// A message of ours that waits for its answer: I1, and after an R1 or R1bis I2 or I2bis. Enough to send it again.
#[derive(Clone, Debug)]
pub(crate) struct Handshake {
    /// In I2BIS-SENT: the context as before, with the CT(peer) that the peer has lost.
    pub established: Option<Established>,
    pub nonce: u32,
    /// The last Responder Nonce that we had given out when it left.
    pub asked_at: u32,
    /// The pair it went by: for I1 the ULIDs, if they can be used; for others that of the R1 or R1bis.
    pub via: LocatorPair,
    /// The pair of an R1bis before, if it was another: its I2bis had the same nonce, and the R2 for it may be on its way.
    pub former_via: Option<LocatorPair>,
    /// What I2 and I2bis echo; none in I1-SENT.
    pub echo: Option<Echo>,
    /// Since this establishment began there was something else to tell of us.
    pub is_retold: bool,
    /// I1s sent after the first, in this establishment as a whole.
    pub i1_retries: u8,
    /// I2s or I2bis' sent after the first.
    pub retries: u8,
    /// In this establishment, an I2 was sent again in vain before the last I1.
    pub is_late: bool,
    pub crossing: Crossing,
    /// I2 or I2bis was sent once more because the peer used the context: not again before its time.
    pub is_hastened: bool,
    /// The same because of another R1bis.
    pub is_referred: bool,
    pub sent: Instant,
    pub deadline: Instant,
}

/// What an R1 or R1bis wants back.
#[derive(Clone, Debug)]
pub(crate) struct Echo {
    pub responder_nonce: u32,
    pub validator: Vec<u8>,
    /// The nonce of the I1 that an R1 has answered.
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
    /// One that begins by this pair.
    pub(crate) const fn new(via: LocatorPair, now: Instant) -> Self {
        Self {
            established: None,
            nonce: 0,
            asked_at: 0,
            via,
            former_via: None,
            echo: None,
            is_retold: false,
            i1_retries: 0,
            retries: 0,
            is_late: false,
            crossing: Crossing::No,
            is_hastened: false,
            is_referred: false,
            sent: now,
            deadline: now,
        }
    }

    /// How much an I2 or I2bis tells.
    pub(crate) fn wording(&self) -> Wording {
        Wording::after(u32::from(self.retries))
    }

    /// The peer has named a tag in an I1.
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

    /// Whether the peer has answered I1, and not I2, which was sent again: it may have the context already.
    pub(crate) const fn is_half_open(&self) -> bool {
        self.established.is_none() && (self.is_late || self.echo.is_some() && self.retries > 0)
    }
}

/// What the peer said of its tag in an I1 of its own that came before the answer to ours (RFC 5533 s7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crossing {
    /// Nothing.
    No,
    /// This, which anybody can have sent.
    Named(Named),
    /// An answer had another tag, and the peer has been asked once more: what it answers now counts.
    AskedAgain(Named),
}

/// A tag in an I1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub tag: ContextTag,
    /// The last Responder Nonce that we had given out when it came.
    pub at: u32,
}

/// What ESTABLISHED keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// CT(peer): the tag in what we send.
    pub peer_tag: ContextTag,
    /// Ls(local): what the peer has been told of us and can verify.
    pub local_locators: Locators,
    /// What the peer told of itself, verified.
    pub peer: PeerSet,
    /// Which side we were.
    pub role: Role,
    /// Edition of what else it has been told: preferences, Send Timeout.
    pub(crate) edition: u32,
    /// What the peer has been told and has not acknowledged.
    pub(crate) update: Option<Box<Update>>,
    /// Which of our lists it takes, if it has shown that it has the context.
    pub(crate) takes: Takes,
    /// The Responder Nonce that the peer has told its tag with, or that was the last when we asked for it:
    /// an I2 with this one or an older one is from before, and if it names another tag, from a life of the
    /// peer's that is over.
    pub(crate) told_at: u32,
}

/// Which list a peer takes, where ours has signed locators besides those of an HBA set: some peers never acknowledge such a one
/// (decision 008).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// The peer has not shown that it has the context.
    Unknown,
    /// Nor after an R2.
    Answered,
    /// Nor after two.
    AnsweredTwice,
    /// The whole one, as far as is known.
    All,
    /// It has acknowledged the plain one, and not the whole one: that may have been lost, and is told once more.
    Doubtful,
    /// The plain one alone.
    Plain,
}

impl Takes {
    /// One more R2 goes out.
    pub(crate) const fn after_r2(self) -> Self {
        match self {
            Self::Unknown => Self::Answered,
            Self::Answered | Self::AnsweredTwice => Self::AnsweredTwice,
            Self::All | Self::Doubtful | Self::Plain => self,
        }
    }
}

/// What a peer has been told of us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub locators: Locators,
    pub edition: u32,
}

impl Told {
    /// This or what was to tell before, and which of them the peer has got is not known: what may be used
    /// in any case, and that there is more to tell.
    pub(crate) fn uncertain(&self, ulid: Ulid, via: LocatorPair) -> Self {
        let both = [ulid.as_locator(), via.local];
        let locators = if both[0] == both[1] { &both[..1] } else { &both };
        Self { locators: locators.into(), ..self.outdated() }
    }

    /// With an edition that makes it be told once more.
    pub(crate) fn outdated(&self) -> Self {
        Self { locators: self.locators.clone(), edition: self.edition.wrapping_sub(1) }
    }
}

impl Established {
    /// A context with nothing on its way to the peer, which was told no preferences.
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
    /// tag. A responder does not know whether its R2 has arrived. Nor does an R2 for I1 show anything, as I1s that
    /// cross are answered without a context (RFC 5533 s7.4).
    #[must_use]
    pub const fn is_confirmed(&self) -> bool {
        matches!(self.takes, Takes::All | Takes::Doubtful | Takes::Plain)
    }

    /// Whether a packet with these addresses may belong to the context (RFC 5533 s12.4).
    pub(crate) fn has_locators(&self, locators: LocatorPair) -> bool {
        self.peer.locators.contains(&locators.peer) && self.may_know(locators.local)
    }

    /// Whether the peer may send to this locator: it has acknowledged it, or was told of it, and its
    /// acknowledgement may be late or lost.
    pub(crate) fn may_know(&self, local: Locator) -> bool {
        self.local_locators.contains(&local) || self.told().contains(&local)
    }

    /// The newest list that the peer was sent, acknowledged or not.
    #[must_use]
    pub fn told(&self) -> &Locators {
        let sent = self.update.as_ref().filter(|update| update.sent > 0);
        sent.map_or(&self.local_locators, |update| &update.told.locators)
    }

    /// How often the Update Request that waits for its acknowledgement went out.
    #[must_use]
    pub fn update_tries(&self) -> u32 {
        self.update.as_ref().map_or(0, |update| update.sent)
    }
}

/// An Update Request on its way, at most one at a time (RFC 5533 s10.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub nonce: u32,
    /// What it tells.
    pub told: Told,
    /// How often it went out; zero: it waits for its turn.
    pub sent: u32,
    pub deadline: Instant,
}

named_enum! {
    /// Side in the establishment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum Role {
        /// Sent the I1.
        Initiator => "initiator",
        /// Answered it.
        Responder => "responder",
    }
}

impl Context {
    /// Where it stands.
    #[must_use]
    pub fn state(&self) -> State {
        match &self.stand {
            Stand::Established(_) => State::Established,
            Stand::Handshake(asked) if asked.established.is_some() => State::I2bisSent,
            Stand::Handshake(asked) if asked.echo.is_some() => State::I2Sent,
            Stand::Handshake(_) => State::I1Sent,
        }
    }

    /// What there is of the peer, in the two states where payload may use it: ESTABLISHED and
    /// I2BIS-SENT (RFC 5533 s11).
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

    /// The same in ESTABLISHED alone.
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

    /// Whether the peer has answered I1, and not I2, which was sent again: it may have the context already.
    #[must_use]
    pub fn is_half_open(&self) -> bool {
        self.handshake().is_some_and(Handshake::is_half_open)
    }

    /// Whether the peer has not answered I1, which was sent again, twice or more.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        let is_late = |handshake: &Handshake| !handshake.is_late && handshake.i1_retries > 1;
        self.state() == State::I1Sent && self.handshake().is_some_and(is_late)
    }

    /// Whether the peer has answered with R1bis, and not I2bis, which was sent again.
    #[must_use]
    pub fn is_renewal_late(&self) -> bool {
        self.handshake().is_some_and(|h| h.established.is_some() && h.retries > 0)
    }

    /// Whether a packet with these addresses may belong to the context (RFC 5533 s12.4).
    #[must_use]
    pub fn has_locators(&self, locators: LocatorPair) -> bool {
        self.established().is_some_and(|established| established.has_locators(locators))
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.stand {
            Stand::Handshake(asked) => Some(asked.deadline),
            Stand::Established(known) => known.update.as_ref().map(|update| update.deadline),
        }
    }

    /// Whether an R1 or R2 with this nonce, by this pair, may be the answer to what it has sent.
    pub(crate) fn may_be_answered(&self, nonce: u32, by: LocatorPair) -> bool {
        let is_by = |h: &Handshake| h.nonce == nonce && (h.via == by || h.former_via == Some(by));
        self.handshake().is_some_and(is_by)
    }
}
