//! The answer that this host does not know a session (decision 089), and the limits of such answers.
//!
//! The answer quotes the Locator Update (RFC 4443 s2.4), and is 48 octets longer. Anybody can send a Locator Update in the
//! name of another host. So each second Locator Update from an address draws an answer: the first one pays for the
//! difference.

use moorline_index::{FairLimit, Lately};
use moorline_types::{DropReason, Ilv, IlvPair, Instant};
use moorline_wire::ilnp::{Control, NONCE_AT, NONCE_OPTION};

use crate::consts::{DENIAL_SHARES, DENIALS_RENEWED, PAID_LIFETIME};
use crate::machine::Machine;
use crate::negative::Answers;

/// Payments for answers that this host does not know a session, and limits of these answers.
#[derive(Clone, Debug)]
pub(crate) struct Denials {
    /// Addresses from which a Locator Update has come without an answer.
    paid: Lately,
    shares: FairLimit<{ DENIAL_SHARES.len() }>,
}

impl Denials {
    /// Makes the limits. Nobody else may know the key.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        let shares = FairLimit::new(key, DENIAL_SHARES, DENIALS_RENEWED);
        Self { paid: Lately::new(key, PAID_LIFETIME), shares }
    }

    /// Whether an earlier Locator Update from this address has paid for an answer. If not, this one pays for the next.
    fn is_paid(&mut self, remote: Ilv, now: Instant) -> bool {
        let source = remote.address().octets();
        let is_paid = self.paid.has(source, now);
        if !is_paid {
            self.paid.add(source, now);
        }
        is_paid
    }

    /// Takes an answer from the shares of the address and from the limits of all answers, and takes its payment.
    fn take(&mut self, remote: Ilv, answers: &mut Answers, now: Instant) -> Result<(), DropReason> {
        self.shares.take(remote.address(), now)?;
        answers.take(remote.l64, now)?;
        self.paid.remove(remote.address().octets());
        Ok(())
    }
}

impl Machine {
    /// Says that the nonce of a Locator Update belongs to no session of its addresses, with the error of a host
    /// without nonces (RFC 6744 s8).
    ///
    /// If a session with the node has these addresses or names the locator, the nonce is wrong and draws nothing. A
    /// Locator Update with a number comes from a node with the handshake. Each of its sessions has nonces of its own, so
    /// the addresses of the sockets alone count.
    //= rfc6743#6-4
    pub(crate) fn deny(&mut self, control: &Control<'_>, now: Instant) {
        let is_wrong = self.has_session(control.pair)
            || control.sequence.is_none() && self.is_named(control.pair);
        let is_ours = self.is_ours(control.pair) && !is_wrong;
        let has_option = control.packet.get(NONCE_AT as usize) == Some(&NONCE_OPTION);
        let remote = control.pair.remote;
        if !is_ours || !has_option || !self.denials.is_paid(remote, now) {
            return;
        }
        match self.denials.take(remote, &mut self.answers, now) {
            Ok(()) => self.send_parameter_problem(control.pair, control.packet),
            Err(reason) => self.drop_counted(reason),
        }
    }

    /// Whether a session between the identifiers uses the correspondent's locator of this pair, or has it by a Locator
    /// Update.
    fn is_named(&self, pair: IlvPair) -> bool {
        let (local, remote) = pair.nids();
        let mut sessions = self.ilcc.between(local, remote).filter_map(|id| self.ilcc.get(id));
        let l64 = pair.remote.l64;
        sessions.any(|session| session.is_proven(l64) || session.needs_proof(l64))
    }
}
