use core::hash::Hasher;

use moorline_index::{Secrets, equal_in_constant_time};
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
/// Responder Nonces are counted, from a random start, so that they do not tell the uptime; their order is
/// the order in which peers asked. Secrets change every [`VALIDATOR_MIN_LIFETIME`]. Those of the current
/// epoch and of the one before are accepted, so a nonce lives 30 to 60 s.
#[derive(Clone, Debug)]
pub struct Validators {
    secrets: Secrets,
    /// The next nonce, and the first ones of the current epoch and of the one before.
    next: u32,
    current_first: u32,
    previous_first: u32,
}

impl Validators {
    /// Draws the first secrets.
    pub fn new(rng: &mut ChaCha20Rng, now: Instant) -> Self {
        let first = rng.next_u32();
        let secrets = Secrets::new(VALIDATOR_MIN_LIFETIME, |octets| rng.fill_bytes(octets), now);
        Self { secrets, next: first, current_first: first, previous_first: first }
    }

    /// Nonce and validator for an R1 or R1bis.
    pub(crate) fn make(
        &mut self,
        bound: &Bound,
        rng: &mut ChaCha20Rng,
        now: Instant,
    ) -> (u32, [u8; VALIDATOR_LEN]) {
        self.rotate(rng, now);
        let nonce = self.next;
        self.next = nonce.wrapping_add(1);
        (nonce, tag(self.secrets.current(), nonce, bound))
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
        self.rotate(rng, now);
        //= rfc5533#7.13-2 rfc5533#7.20-2
        let age = self.age(nonce).ok_or(DropReason::StaleNonce)?;
        let is_current = age <= self.next.wrapping_sub(self.current_first);
        let secret = if is_current { self.secrets.current() } else { self.secrets.previous() };
        if equal_in_constant_time(&tag(secret, nonce, bound), validator) {
            Ok(())
        } else {
            Err(DropReason::BadValidator)
        }
    }

    /// The nonce that was given out last.
    pub(crate) const fn latest(&self) -> u32 {
        self.next.wrapping_sub(1)
    }

    /// Whether of two nonces the first was given out later. The first is one that is accepted; what is
    /// not accepted any more is older than it.
    pub(crate) fn is_newer(&self, nonce: u32, other: u32) -> bool {
        self.age(other).is_none_or(|age| self.age(nonce).is_some_and(|newer| newer < age))
    }

    /// One for the nonce that was given out last, and so on; `None` for one that is not accepted.
    fn age(&self, nonce: u32) -> Option<u32> {
        let age = self.next.wrapping_sub(nonce);
        (age > 0 && age <= self.next.wrapping_sub(self.previous_first)).then_some(age)
    }

    fn rotate(&mut self, rng: &mut ChaCha20Rng, now: Instant) {
        let begun = self.secrets.rotate(|octets| rng.fill_bytes(octets), now);
        if begun > 0 {
            // Of the epochs slept through there is nothing, and what was made before is too old.
            self.previous_first = if begun > 1 { self.next } else { self.current_first };
            self.current_first = self.next;
        }
    }
}

fn tag(secret: &[u8; 16], nonce: u32, bound: &Bound) -> [u8; VALIDATOR_LEN] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(&nonce.to_be_bytes());
    bound.hash(&mut hasher);
    hasher.finish128().as_bytes()
}
