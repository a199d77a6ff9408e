use core::hash::Hasher as _;

use moorline_types::{DropReason, IlvPair, Instant};
use moorline_wire::ilnp::Accept;
use siphasher::sip128::SipHasher24;

use crate::machine::Machine;

/// Before the Confirm, a responder has no other state of a session than a keyed hash over an Accept and its
/// addresses.
///
/// Accepts have numbers. The number says whether an Accept is later than the one that made a session. A correspondent
/// proposes a session only while it has no later one, so a Confirm by an earlier Accept belongs to an earlier
/// handshake (decision 070).
impl Machine {
    /// Fills in the number and the validator. The pair is the responder's.
    pub(crate) fn seal(&mut self, accept: Accept, pair: IlvPair, now: Instant) -> Accept {
        let hash = |number, hasher: &mut _| hash(&accept, number, pair, hasher);
        let (number, validator) = self.validators.make(&mut self.rng, now, hash);
        Accept { number, validator, ..accept }
    }

    /// Checks that this Accept came from us a short time ago, for this pair.
    pub(crate) fn check_seal(
        &mut self,
        accept: &Accept,
        pair: IlvPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let theirs = (accept.number, &accept.validator[..]);
        let hash = |number, hasher: &mut _| hash(accept, number, pair, hasher);
        self.validators.check(theirs, &mut self.rng, now, hash)
    }
}

fn hash(accept: &Accept, number: u32, pair: IlvPair, hasher: &mut SipHasher24) {
    hasher.write(&pair.local.address().octets());
    hasher.write(&pair.remote.address().octets());
    let flow = &accept.flow;
    hasher.write(&[flow.protocol, flow.flags.0, accept.flags.0]);
    hasher.write_u16(flow.initiator_port);
    hasher.write_u16(flow.responder_port);
    hasher.write_u32(flow.transaction);
    hasher.write_u32(number);
    hasher.write(accept.responder_nonce.octets());
}
