use alloc::boxed::Box;
use alloc::vec::Vec;

use moorline_types::{ContextId, ContextTag, Instant, Locator, LocatorPair, UlidPair};

use crate::peer::PeerSet;

/// One ULID-pair context (RFC 5533 s6.1).
#[derive(Clone, Debug)]
pub struct Context {
    /// Its slot.
    pub id: ContextId,
    /// The addresses that sockets see.
    pub ulids: UlidPair,
    /// CT(local): the tag in what we receive.
    pub local_tag: ContextTag,
    /// Where it stands and what belongs to that.
    pub state: State,
}

/// Context states (RFC 5533 s6.2). IDLE is no entry; E-FAILED and NO-SUPPORT are remembered apart.
#[derive(Clone, Debug)]
pub enum State {
    /// I1 sent, R1 awaited.
    I1Sent(I1Sent),
    /// I2 sent, R2 awaited.
    I2Sent(I2Sent),
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
            Self::Established(_) => "established",
        }
    }
}

/// What I1-SENT keeps.
#[derive(Clone, Debug)]
pub struct I1Sent {
    pub(crate) nonce: u32,
    /// I1s sent after the first, in this establishment as a whole.
    pub(crate) retries: u8,
    pub(crate) deadline: Instant,
}

/// What I2-SENT keeps: enough to send the I2 again.
#[derive(Clone, Debug)]
pub struct I2Sent {
    pub(crate) nonce: u32,
    pub(crate) responder_nonce: u32,
    pub(crate) validator: Vec<u8>,
    /// What the I2 told of us.
    pub(crate) local_locators: Vec<Locator>,
    pub(crate) retries: u8,
    pub(crate) i1_retries: u8,
    pub(crate) deadline: Instant,
}

/// What ESTABLISHED keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Established {
    /// CT(peer): the tag in what we send.
    pub peer_tag: ContextTag,
    /// Ls(local): what the peer has been told of us and can verify.
    pub local_locators: Vec<Locator>,
    /// What the peer told of itself, verified.
    pub peer: PeerSet,
    /// Which side we were.
    pub role: Role,
    /// What the peer has been told and has not acknowledged.
    pub(crate) update: Option<Box<Update>>,
}

impl Established {
    /// A context with nothing on its way to the peer.
    #[must_use]
    pub const fn new(
        peer_tag: ContextTag,
        local_locators: Vec<Locator>,
        peer: PeerSet,
        role: Role,
    ) -> Self {
        Self { peer_tag, local_locators, peer, role, update: None }
    }
}

/// An Update Request on its way, at most one at a time (RFC 5533 s10.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    pub nonce: u32,
    /// The locators it tells of.
    pub local_locators: Vec<Locator>,
    pub retries: u8,
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
    /// The data of ESTABLISHED, if that is the state.
    #[must_use]
    pub fn established(&self) -> Option<&Established> {
        match &self.state {
            State::Established(established) => Some(established),
            State::I1Sent(_) | State::I2Sent(_) => None,
        }
    }

    /// Whether a packet with these addresses may belong to the context (RFC 5533 s12.4).
    #[must_use]
    pub fn has_locators(&self, locators: LocatorPair) -> bool {
        self.established().is_some_and(|established| {
            established.peer.locators.contains(&locators.peer)
                && established.local_locators.contains(&locators.local)
        })
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::I1Sent(state) => Some(state.deadline),
            State::I2Sent(state) => Some(state.deadline),
            State::Established(state) => state.update.as_ref().map(|update| update.deadline),
        }
    }
}
