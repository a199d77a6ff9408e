use core::hash::Hasher;

use moorline_index::{Secrets, equal_in_constant_time};
use moorline_types::{DropReason, IlvPair, Instant, Nonce};
use moorline_wire::ilnp::Accept;
use moorline_wire::ilnp::consts::ADMISSION_VALIDATOR_LEN;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::consts::VALIDATOR_MIN_LIFETIME;

/// Makes and checks what keeps a responder without state: a keyed hash over an Accept and its addresses.
///
/// As for Shim6 (decision 004), the epoch in the message names the secret, and the current and the last one
/// are good. The hash covers the session that the pair had when the Accept was made: its nonce, which no other has. So a Confirm
/// that comes once more, after another handshake, is good for nothing.
#[derive(Debug)]
pub(crate) struct Validators {
    secrets: Secrets,
    epoch: u32,
}

impl Validators {
    pub(crate) fn new(rng: &mut ChaCha20Rng, now: Instant) -> Self {
        let secrets = Secrets::new(VALIDATOR_MIN_LIFETIME, |octets| rng.fill_bytes(octets), now);
        Self { secrets, epoch: rng.next_u32() }
    }

    /// Fills in epoch and validator. The pair is the responder's, and so is the session that it has now.
    pub(crate) fn seal(
        &mut self,
        accept: Accept,
        (pair, session): (IlvPair, Option<Nonce>),
        rng: &mut ChaCha20Rng,
        now: Instant,
    ) -> Accept {
        self.rotate(rng, now);
        let sealed = Accept { epoch: self.epoch, ..accept };
        Accept { validator: hash(self.secrets.current(), &sealed, (pair, session)), ..sealed }
    }

    /// Whether this came from us, of late, for this pair while it had this session.
    pub(crate) fn check(
        &mut self,
        accept: &Accept,
        (pair, session): (IlvPair, Option<Nonce>),
        rng: &mut ChaCha20Rng,
        now: Instant,
    ) -> Result<(), DropReason> {
        self.rotate(rng, now);
        let secret = match self.epoch.wrapping_sub(accept.epoch) {
            0 => self.secrets.current(),
            1 => self.secrets.previous(),
            _ => return Err(DropReason::StaleNonce),
        };
        let ours = hash(secret, accept, (pair, session));
        if equal_in_constant_time(&ours, &accept.validator) {
            Ok(())
        } else {
            Err(DropReason::BadValidator)
        }
    }

    fn rotate(&mut self, rng: &mut ChaCha20Rng, now: Instant) {
        let begun = self.secrets.rotate(|octets| rng.fill_bytes(octets), now);
        self.epoch = self.epoch.wrapping_add(begun);
    }
}

fn hash(
    secret: &[u8; 16],
    accept: &Accept,
    (pair, session): (IlvPair, Option<Nonce>),
) -> [u8; ADMISSION_VALIDATOR_LEN] {
    let mut hasher = SipHasher24::new_with_key(secret);
    hasher.write(&pair.local.address().octets());
    hasher.write(&pair.remote.address().octets());
    let flow = &accept.flow;
    hasher.write(&[flow.protocol, flow.flags.0, accept.flags.0]);
    hasher.write_u16(flow.initiator_port);
    hasher.write_u16(flow.responder_port);
    hasher.write_u32(flow.transaction);
    hasher.write_u32(accept.epoch);
    hasher.write(accept.responder_nonce.octets());
    let session = session.as_ref().map_or(&[][..], Nonce::octets);
    hasher.write_usize(session.len());
    hasher.write(session);
    hasher.finish128().as_bytes()
}
