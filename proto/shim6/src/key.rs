use moorline_types::{DropReason, LocatorPair, Ulid, UlidPair};
use moorline_wire::{Opt, OptionType};

use crate::event::Incoming;

/// The identity of a context besides its tags (RFC 5533 s12.4).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Key {
    /// The addresses that sockets see.
    pub ulids: UlidPair,
    /// Forked Instance Identifier. Zero for a context that is not forked.
    pub forked_instance: u32,
}

impl Key {
    /// The key of the context that is not forked.
    #[must_use]
    pub const fn of(ulids: UlidPair) -> Self {
        Self { ulids, forked_instance: 0 }
    }

    /// Reads the key of the context that an I1, I2 or I2bis is about, without decoding the message (s7.9, s7.13).
    ///
    /// # Errors
    /// An option that names the context is damaged.
    pub fn read(came: &Incoming<'_>) -> Result<Self, DropReason> {
        //= rfc5533#7.9
        let &Incoming { packet, locators, .. } = came;
        let ulids = match packet.raw_option(OptionType::ULID_PAIR) {
            None => as_ulids(locators),
            Some(contents) => {
                let (ulids, _) =
                    contents.get(ULID_PAIR_RESERVED..).unwrap_or_default().as_chunks::<16>();
                let [sender, receiver] = ulids else { return Err(DropReason::BadLength) };
                UlidPair::new(Ulid::from(*receiver), Ulid::from(*sender))
            }
        };
        // "If there is no FII option in the message, then the FII value is taken to be zero."
        let forked_instance = match packet.raw_option(OptionType::FORKED_INSTANCE) {
            None => 0,
            Some(contents) => {
                u32::from_be_bytes(contents.try_into().map_err(|_| DropReason::BadLength)?)
            }
        };
        Ok(Self { ulids, forked_instance })
    }

    /// The options that an I1, I2 or I2bis by this pair needs to name the context. If the context needs none there are
    /// none, because LinShim6 drops messages with options that it does not know.
    pub(crate) fn options(&self, via: LocatorPair) -> impl Iterator<Item = Opt> + use<> {
        //= rfc5533#7.7
        //= rfc5533#5.4-3 rfc5533#5.4-4 rfc5533#5.6-6 rfc5533#5.6-7 rfc5533#5.9-4 rfc5533#5.15.6-1
        //= rfc5533#5.15.6-2 rfc5533#7.7-1 rfc5533#7.7-2 rfc5533#7.7-3 rfc5533#7.11-3 rfc5533#7.11-4
        //= rfc5533#7.11-5 rfc5533#7.18-2 rfc5533#7.18-3
        let Self { ulids, forked_instance } = *self;
        let pair = Opt::UlidPair { sender: ulids.local, receiver: ulids.peer };
        let fork = Opt::ForkedInstance(forked_instance);
        let is_other_pair = via != ulids.as_locators();
        let pair = Some(pair).filter(|_| is_other_pair);
        pair.into_iter().chain(Some(fork).filter(|_| forked_instance != 0))
    }
}

/// The ULIDs of an establishment message without the ULID-pair option: its locators.
pub(crate) fn as_ulids(locators: LocatorPair) -> UlidPair {
    UlidPair::new(locators.local.as_ulid(), locators.peer.as_ulid())
}

const ULID_PAIR_RESERVED: usize = 4;
