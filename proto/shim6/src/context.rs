use alloc::boxed::Box;
use alloc::vec::Vec;

use moorline_types::{ContextId, ContextTag, Instant, Locator, LocatorPair, Locators, Ulid};

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
    pub state: State,
}

/// Context states (RFC 5533 s6.2). IDLE is no entry; E-FAILED and NO-SUPPORT are remembered apart.
#[derive(Clone, Debug)]
pub enum State {
    /// I1 sent, R1 awaited.
    I1Sent(Box<I1Sent>),
    /// I2 sent, R2 awaited.
    I2Sent(Box<I2Sent>),
    /// The peer has lost the context: I2bis sent, R2 awaited. Payload goes on as before.
    I2bisSent(Box<I2bisSent>),
    /// In use.
    Established(Established),
}

impl State {
    /// RFC 5533's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::I1Sent(_) => "i1-sent",
            Self::I2Sent(_) => "i2-sent",
            Self::I2bisSent(_) => "i2bis-sent",
            Self::Established(_) => "established",
        }
    }
}

impl State {
    /// The same after the peer has named a tag in an I1. In I2BIS-SENT that says nothing: there is more to
    /// lose by an I1 that somebody made up than by an R2 that is late.
    pub(crate) fn crossed_by(&self, named: Named) -> Option<Self> {
        let mut state = self.clone();
        let crossing = match &mut state {
            Self::I1Sent(state) => &mut state.crossing,
            Self::I2Sent(state) => &mut state.crossing,
            Self::I2bisSent(_) | Self::Established(_) => return None,
        };
        *crossing = match crossing {
            Crossing::No | Crossing::Named(_) => Crossing::Named(named),
            Crossing::AskedAgain(_) => Crossing::AskedAgain(named),
        };
        Some(state)
    }

    /// The tag that the peer has named in an I1.
    pub(crate) const fn named(&self) -> Option<Named> {
        let crossing = match self {
            Self::I1Sent(state) => state.crossing,
            Self::I2Sent(state) => state.crossing,
            Self::I2bisSent(_) | Self::Established(_) => return None,
        };
        match crossing {
            Crossing::No => None,
            Crossing::Named(named) | Crossing::AskedAgain(named) => Some(named),
        }
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

/// What I1-SENT keeps.
#[derive(Clone, Debug)]
pub struct I1Sent {
    pub(crate) nonce: u32,
    /// The last Responder Nonce that we had given out when it left.
    pub(crate) asked_at: u32,
    /// The pair it went by: the ULIDs, if they can be used.
    pub(crate) via: LocatorPair,
    /// Since this establishment began there was something else to tell of us.
    pub(crate) is_retold: bool,
    /// I1s sent after the first, in this establishment as a whole.
    pub(crate) retries: u8,
    /// In this establishment, an I2 was sent again in vain.
    pub(crate) is_late: bool,
    pub(crate) crossing: Crossing,
    pub(crate) sent: Instant,
    pub(crate) deadline: Instant,
}

/// What I2-SENT keeps: enough to send the I2 again.
#[derive(Clone, Debug)]
pub struct I2Sent {
    pub(crate) nonce: u32,
    /// As in [`I1Sent`].
    pub(crate) asked_at: u32,
    pub(crate) via: LocatorPair,
    pub(crate) responder_nonce: u32,
    pub(crate) validator: Vec<u8>,
    pub(crate) is_retold: bool,
    pub(crate) retries: u8,
    pub(crate) i1_retries: u8,
    /// As in [`I1Sent`].
    pub(crate) is_late: bool,
    pub(crate) crossing: Crossing,
    /// It was sent once more because the peer used the context: not again before its time.
    pub(crate) is_hastened: bool,
    pub(crate) sent: Instant,
    pub(crate) deadline: Instant,
}

/// What I2BIS-SENT keeps: enough to send the I2bis again, and the context as it was.
#[derive(Clone, Debug)]
pub struct I2bisSent {
    /// As before, with the CT(peer) that the peer has lost.
    pub established: Established,
    pub(crate) nonce: u32,
    /// As in [`I1Sent`].
    pub(crate) asked_at: u32,
    /// The pair of the R1bis.
    pub(crate) via: LocatorPair,
    /// The pair of an R1bis before, if it was another: its I2bis had the same nonce, and the R2 for it may be on its way.
    pub(crate) former_via: Option<LocatorPair>,
    pub(crate) responder_nonce: u32,
    pub(crate) validator: Vec<u8>,
    pub(crate) is_retold: bool,
    pub(crate) retries: u8,
    /// It was sent once more because the peer used the context: not again before its time.
    pub(crate) is_hastened: bool,
    /// The same because of another R1bis.
    pub(crate) is_referred: bool,
    pub(crate) sent: Instant,
    pub(crate) deadline: Instant,
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
    /// The Responder Nonce that the peer has told its tag with, or that was the last when we asked for it:
    /// an I2 with this one or an older one is from before, and if it names another tag, from a life of the
    /// peer's that is over.
    pub(crate) told_at: u32,
    /// See [`is_confirmed`](Self::is_confirmed).
    pub(crate) is_confirmed: bool,
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
            update: None,
            told_at: 0,
            is_confirmed: false,
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
        self.is_confirmed
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

/// Side in the establishment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sent the I1.
    Initiator,
    /// Answered it.
    Responder,
}

impl Context {
    /// What there is of the peer, in the two states where payload may use it: ESTABLISHED and
    /// I2BIS-SENT (RFC 5533 s11).
    #[must_use]
    pub fn established(&self) -> Option<&Established> {
        match &self.state {
            State::Established(established) => Some(established),
            State::I2bisSent(state) => Some(&state.established),
            State::I1Sent(_) | State::I2Sent(_) => None,
        }
    }

    /// Whether the peer has answered I1, and not I2, which was sent again: it may have the context already.
    #[must_use]
    pub fn is_half_open(&self) -> bool {
        match &self.state {
            State::I1Sent(state) => state.is_late,
            State::I2Sent(state) => state.is_late || state.retries > 0,
            State::I2bisSent(_) | State::Established(_) => false,
        }
    }

    /// Whether the peer has not answered I1, which was sent again, twice or more.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        matches!(&self.state, State::I1Sent(state) if !state.is_late && state.retries > 1)
    }

    /// Whether the peer has answered with R1bis, and not I2bis, which was sent again.
    #[must_use]
    pub fn is_renewal_late(&self) -> bool {
        matches!(&self.state, State::I2bisSent(state) if state.retries > 0)
    }

    /// Whether a packet with these addresses may belong to the context (RFC 5533 s12.4).
    #[must_use]
    pub fn has_locators(&self, locators: LocatorPair) -> bool {
        self.established().is_some_and(|established| established.has_locators(locators))
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::I1Sent(state) => Some(state.deadline),
            State::I2Sent(state) => Some(state.deadline),
            State::I2bisSent(state) => Some(state.deadline),
            State::Established(state) => state.update.as_ref().map(|update| update.deadline),
        }
    }

    /// The nonce and the pair by which R1 and R2 find it.
    pub(crate) fn awaits(&self) -> Option<(u32, LocatorPair)> {
        match &self.state {
            State::I1Sent(state) => Some((state.nonce, state.via)),
            State::I2Sent(state) => Some((state.nonce, state.via)),
            State::I2bisSent(state) => Some((state.nonce, state.via)),
            State::Established(_) => None,
        }
    }

    /// Whether an R1 or R2 with this nonce, by this pair, may be the answer to what it has sent.
    pub(crate) fn may_be_answered(&self, nonce: u32, by: LocatorPair) -> bool {
        let former = match &self.state {
            State::I2bisSent(state) => state.former_via,
            State::I1Sent(_) | State::I2Sent(_) | State::Established(_) => None,
        };
        let is_by = |via| via == by || former == Some(by);
        self.awaits().is_some_and(|(own, via)| own == nonce && is_by(via))
    }
}
