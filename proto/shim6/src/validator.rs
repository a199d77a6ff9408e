use core::hash::Hasher as _;

use moorline_types::{ContextTag, DropReason, LocatorPair};
use moorline_wire::MessageType;
use siphasher::sip128::SipHasher24;

use crate::event::Incoming;
use crate::key::Key;

/// The values that a Responder Validator covers, seen from the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// R1 and I2 (RFC 5533 s7.10.1).
    R1 { key: Key, locators: LocatorPair, initiator_tag: ContextTag },
    /// R1bis and I2bis (s7.17.1).
    R1bis { locators: LocatorPair, packet_tag: ContextTag },
}

impl Bound {
    /// The values that the validator of an I2 or I2bis covers.
    pub(crate) fn of(key: Key, came: &Incoming<'_>) -> Result<Self, DropReason> {
        let &Incoming { packet, locators, .. } = came;
        if packet.kind() == MessageType::I2 {
            let initiator_tag = packet.sender_tag().ok_or(DropReason::Truncated)?;
            return Ok(Self::R1 { key, locators, initiator_tag });
        }
        let packet_tag = packet.packet_tag().ok_or(DropReason::Truncated)?;
        Ok(Self::R1bis { locators, packet_tag })
    }

    pub(crate) fn hash(&self, nonce: u32, hasher: &mut SipHasher24) {
        hasher.write(&nonce.to_be_bytes());
        let (locators, tag) = match self {
            Self::R1 { key, locators, initiator_tag } => {
                hasher.write(&[1]);
                hasher.write(&key.ulids.local.octets());
                hasher.write(&key.ulids.peer.octets());
                hasher.write(&key.forked_instance.to_be_bytes());
                (locators, initiator_tag)
            }
            Self::R1bis { locators, packet_tag } => {
                hasher.write(&[2]);
                (locators, packet_tag)
            }
        };
        hasher.write(&locators.local.octets());
        hasher.write(&locators.peer.octets());
        hasher.write(&tag.octets());
    }
}
