use core::hash::Hasher;

use moorline_index::{Numbered, Secrets, equal_in_constant_time};
use moorline_types::{DropReason, IlvPair, Instant};
use moorline_wire::ilnp::Accept;
use moorline_wire::ilnp::consts::ADMISSION_VALIDATOR_LEN;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::consts::VALIDATOR_MIN_LIFETIME;

/// Makes and checks what keeps a responder without state: a keyed hash over an Accept and its addresses.
///
/// As for Shim6 (decision 004), secrets change, and those of the current epoch and of the one before are good. Accepts are counted: the
/// number names the secret, and says whether an Accept is later than the one by which a session came about. A correspondent proposes a
/// session only while it has no later one, so a Confirm by an earlier Accept is of an earlier handshake (decision 070).
#[derive(Clone, Debug)]
pub(crate) struct Validators {
    numbers: Numbered,
}

impl Validators {
    pub(crate) fn new(rng: &mut ChaCha20Rng, now: Instant) -> Self {
        let secrets = Secrets::new(VALIDATOR_MIN_LIFETIME, |octets| rng.fill_bytes(octets), now);
        Self { numbers: Numbered::new(secrets, rng.next_u32()) }
    }

    /// Fills in number and validator. The pair is the responder's.
    pub(crate) fn seal(
        &mut self,
        accept: Accept,
        pair: IlvPair,
        rng: &mut ChaCha20Rng,
        now: Instant,
    ) -> Accept {
        let (number, secret) = self.numbers.give(|octets| rng.fill_bytes(octets), now);
        let numbered = Accept { number, ..accept };
        Accept { validator: hash(secret, &numbered, pair), ..numbered }
    }

    /// Whether this came from us, of late, for this pair.
    pub(crate) fn check(
        &mut self,
        accept: &Accept,
        pair: IlvPair,
        rng: &mut ChaCha20Rng,
        now: Instant,
    ) -> Result<(), DropReason> {
        let secret = self.numbers.secret_of(accept.number, |octets| rng.fill_bytes(octets), now);
        let ours = hash(secret.ok_or(DropReason::StaleNonce)?, accept, pair);
        if equal_in_constant_time(&ours, &accept.validator) {
            Ok(())
        } else {
            Err(DropReason::BadValidator)
        }
    }

    /// The number of the last Accept.
    pub(crate) const fn latest(&self) -> u32 {
        self.numbers.latest()
    }

    /// Whether an Accept that is good still is later than the Accept with the other number.
    pub(crate) fn is_later(&self, accept: &Accept, other: u32) -> bool {
        self.numbers.is_newer(accept.number, other)
    }
}

fn hash(secret: &[u8; 16], accept: &Accept, pair: IlvPair) -> [u8; ADMISSION_VALIDATOR_LEN] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(&pair.local.address().octets());
    hasher.write(&pair.remote.address().octets());
    let flow = &accept.flow;
    hasher.write(&[flow.protocol, flow.flags.0, accept.flags.0]);
    hasher.write_u16(flow.initiator_port);
    hasher.write_u16(flow.responder_port);
    hasher.write_u32(flow.transaction);
    hasher.write_u32(accept.number);
    hasher.write(accept.responder_nonce.octets());
    hasher.finish128().as_bytes()
}
