use core::hash::Hasher;

use moorline_index::{Numbered, Secrets, equal_in_constant_time};
use moorline_types::{ContextTag, DropReason, Instant, LocatorPair};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::consts::{VALIDATOR_LEN, VALIDATOR_MIN_LIFETIME};
use crate::key::Key;

/// What a Responder Validator binds, seen from the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// In R1 and I2 (RFC 5533 s7.10.1).
    R1 { key: Key, locators: LocatorPair, initiator_tag: ContextTag },
    /// In R1bis and I2bis (s7.17.1).
    R1bis { locators: LocatorPair, packet_tag: ContextTag },
}

impl Bound {
    fn hash(&self, hasher: &mut SipHasher24) {
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

/// Makes and checks Responder Validators without state per initiator (RFC 5533 s7.10.1).
///
/// Responder Nonces are counted; their order is the order in which peers asked. Secrets change every
/// [`VALIDATOR_MIN_LIFETIME`]. Those of the current epoch and of the one before are accepted, so a nonce lives 30 to 60 s.
#[derive(Clone, Debug)]
pub struct Validators {
    nonces: Numbered,
}

impl Validators {
    /// Draws the first secrets.
    pub fn new(rng: &mut ChaCha20Rng, now: Instant) -> Self {
        let first = rng.next_u32();
        let secrets = Secrets::new(VALIDATOR_MIN_LIFETIME, |octets| rng.fill_bytes(octets), now);
        Self { nonces: Numbered::new(secrets, first) }
    }

    /// Nonce and validator for an R1 or R1bis.
    pub(crate) fn make(
        &mut self,
        bound: &Bound,
        rng: &mut ChaCha20Rng,
        now: Instant,
    ) -> (u32, [u8; VALIDATOR_LEN]) {
        let (nonce, secret) = self.nonces.give(|octets| rng.fill_bytes(octets), now);
        (nonce, tag(secret, nonce, bound))
    }

    /// Checks nonce and validator of an I2 or I2bis.
    pub(crate) fn check(
        &mut self,
        bound: &Bound,
        nonce: u32,
        validator: &[u8],
        rng: &mut ChaCha20Rng,
        now: Instant,
    ) -> Result<(), DropReason> {
        //= rfc5533#7.13-2 rfc5533#7.20-2
        let secret = self.nonces.secret_of(nonce, |octets| rng.fill_bytes(octets), now);
        let secret = secret.ok_or(DropReason::StaleNonce)?;
        if equal_in_constant_time(&tag(secret, nonce, bound), validator) {
            Ok(())
        } else {
            Err(DropReason::BadValidator)
        }
    }

    /// The nonce that was given out last.
    pub(crate) const fn latest(&self) -> u32 {
        self.nonces.latest()
    }

    /// Whether of two nonces the first was given out later. The first is one that is accepted; what is
    /// not accepted any more is older than it.
    pub(crate) fn is_newer(&self, nonce: u32, other: u32) -> bool {
        self.nonces.is_newer(nonce, other)
    }
}

fn tag(secret: &[u8; 16], nonce: u32, bound: &Bound) -> [u8; VALIDATOR_LEN] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(&nonce.to_be_bytes());
    bound.hash(&mut hasher);
    hasher.finish128().as_bytes()
}
