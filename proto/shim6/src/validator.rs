use core::fmt;
use core::hash::Hasher;

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
/// The Responder Nonce is the number of an epoch of [`VALIDATOR_MIN_LIFETIME`], each with a secret
/// of its own. The current and the last epoch are accepted, so a nonce lives 30 to 60 s.
#[derive(Clone)]
pub struct Validators {
    epoch_start: Instant,
    /// Nonce of the current epoch; starts at random so that it does not tell the uptime.
    nonce: u32,
    current: [u8; 16],
    previous: [u8; 16],
}

impl Validators {
    /// Draws the first secrets.
    pub fn new(rng: &mut ChaCha20Rng, now: Instant) -> Self {
        let mut validators =
            Self { epoch_start: now, nonce: rng.next_u32(), current: [0; 16], previous: [0; 16] };
        rng.fill_bytes(&mut validators.current);
        rng.fill_bytes(&mut validators.previous);
        validators
    }

    /// Nonce and validator for an R1 or R1bis.
    pub(crate) fn make(
        &mut self,
        bound: &Bound,
        rng: &mut ChaCha20Rng,
        now: Instant,
    ) -> (u32, [u8; VALIDATOR_LEN]) {
        self.rotate(rng, now);
        (self.nonce, tag(&self.current, self.nonce, bound))
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
        let secret = if nonce == self.nonce {
            &self.current
        } else if nonce == self.nonce.wrapping_sub(1) {
            &self.previous
        } else {
            return Err(DropReason::StaleNonce);
        };
        if equal_in_constant_time(&tag(secret, nonce, bound), validator) {
            Ok(())
        } else {
            Err(DropReason::BadValidator)
        }
    }

    fn rotate(&mut self, rng: &mut ChaCha20Rng, now: Instant) {
        let age = now.since(self.epoch_start);
        if age < VALIDATOR_MIN_LIFETIME {
            return;
        }
        self.previous = self.current;
        if age >= VALIDATOR_MIN_LIFETIME * 2 {
            // Nothing was made in the epochs slept through: what is "previous" now is too old.
            rng.fill_bytes(&mut self.previous);
            self.nonce = self.nonce.wrapping_add(1);
        }
        rng.fill_bytes(&mut self.current);
        self.nonce = self.nonce.wrapping_add(1);
        self.epoch_start = now;
    }
}

impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validators").field("epoch_start", &self.epoch_start).finish_non_exhaustive()
    }
}

fn tag(secret: &[u8; 16], nonce: u32, bound: &Bound) -> [u8; VALIDATOR_LEN] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(&nonce.to_be_bytes());
    bound.hash(&mut hasher);
    hasher.finish128().as_bytes()
}

fn equal_in_constant_time(ours: &[u8; VALIDATOR_LEN], theirs: &[u8]) -> bool {
    theirs.len() == VALIDATOR_LEN
        && ours.iter().zip(theirs).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}
