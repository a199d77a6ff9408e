use core::fmt;
use core::hash::Hasher;

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
pub(crate) struct Validators {
    epoch_start: Instant,
    epoch: u32,
    current: [u8; 16],
    previous: [u8; 16],
}

impl Validators {
    pub(crate) fn new(rng: &mut ChaCha20Rng, now: Instant) -> Self {
        let mut secrets = [[0; 16]; 2];
        secrets.iter_mut().for_each(|secret| rng.fill_bytes(secret));
        let [current, previous] = secrets;
        Self { epoch_start: now, epoch: rng.next_u32(), current, previous }
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
        Accept { validator: hash(&self.current, &sealed, (pair, session)), ..sealed }
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
            0 => &self.current,
            1 => &self.previous,
            _ => return Err(DropReason::StaleNonce),
        };
        let ours = hash(secret, accept, (pair, session));
        let pairs = ours.iter().zip(&accept.validator);
        if pairs.fold(0, |difference, (a, b)| difference | (a ^ b)) == 0 {
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
        let was_asleep = age >= VALIDATOR_MIN_LIFETIME * 2;
        self.previous = self.current;
        if was_asleep {
            rng.fill_bytes(&mut self.previous);
        }
        rng.fill_bytes(&mut self.current);
        self.epoch = self.epoch.wrapping_add(if was_asleep { 2 } else { 1 });
        self.epoch_start = now;
    }
}

impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validators").field("epoch_start", &self.epoch_start).finish_non_exhaustive()
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
