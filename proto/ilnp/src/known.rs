//! Questions whether both ends still know a session, and the answer that one end does not (decision 089).

use alloc::vec::Vec;

use moorline_types::{DropReason, IlvPair, Instant, Nonce, SessionId};
use moorline_wire::fill_icmp_checksum;
use moorline_wire::ilnp::{
    Control, ERROR_HEADER_LEN, NONCE_AT, NONCE_OPTION, NonceHeader, PARAMETER_PROBLEM,
    UNRECOGNIZED_OPTION,
};
use moorline_wire::ip6::{self, DESTINATION_OPTIONS, IP6_LEN, MIN_MTU};

use crate::consts::{CHECK_INTERVAL, PATH_CHECK_INTERVAL};
use crate::event::Cause;
use crate::machine::Machine;
use crate::session::{Opening, Session};

impl Machine {
    /// Whether a correspondent has not shown for a while that it knows the session and that the locators in use work.
    pub(crate) fn is_in_doubt(&self, session: &Session, now: Instant) -> bool {
        // A correspondent that did no handshake does not say that it has lost the session.
        let shown = Some(now.since(session.shown_at));
        let (without_sign, interval) = match (self.has_other_pairs(session), session.agreed) {
            (true, _) => (session.without_sign(now), PATH_CHECK_INTERVAL),
            (false, false) => (shown, PATH_CHECK_INTERVAL),
            (false, true) => (shown, CHECK_INTERVAL),
        };
        let is_done = matches!(session.opening, Opening::Done);
        let is_due = session.all_silent() || without_sign.is_none_or(|time| time >= interval);
        is_done && is_due && !is_let_be(session, now)
    }

    /// Asks the correspondent by the last Locator Update once more. The correspondent acknowledges it, and nothing
    /// changes.
    pub(crate) fn ask_whether_known(&mut self, id: SessionId, now: Instant) {
        if !self.locators.is_empty() {
            self.say_locators(id, now);
        }
    }

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
        if !is_ours || !has_option {
            return;
        }
        if self.answers.take(control.pair.remote.l64, now).is_err() {
            self.drop_counted(DropReason::RateLimited);
            return;
        }
        self.send_parameter_problem(control.pair, control.packet);
    }

    /// Whether a session between the identifiers uses the correspondent's locator of this pair, or has it by a Locator
    /// Update.
    fn is_named(&self, pair: IlvPair) -> bool {
        let (local, remote) = pair.nids();
        let mut sessions = self.ilcc.between(local, remote).filter_map(|id| self.ilcc.get(id));
        let l64 = pair.remote.l64;
        sessions.any(|session| session.is_proven(l64) || session.needs_proof(l64))
    }

    /// Ends all sessions and tells the correspondents. Their packets are classic IPv6 from now on.
    pub fn handle_end(&mut self) {
        self.questions.forget_admissions(|_| true);
        let known = self.ilcc.iter().filter_map(|(id, pair, session)| {
            let (_, nonce) = self.ilcc.key(id)?;
            Some((id, session.wire_pair(pair), nonce))
        });
        let known: Vec<_> = known.collect();
        for (id, wire, nonce) in known {
            self.forget(id, Cause::Ended);
            if let Some(nonce) = nonce {
                self.send_parameter_problem(wire, &showing(wire.reversed(), nonce));
            }
        }
    }

    fn send_parameter_problem(&mut self, pair: IlvPair, about: &[u8]) {
        let mut message = Vec::with_capacity(ERROR_HEADER_LEN + about.len());
        message.extend([PARAMETER_PROBLEM, UNRECOGNIZED_OPTION, 0, 0]);
        message.extend(NONCE_AT.to_be_bytes());
        let room = usize::from(MIN_MTU) - IP6_LEN - ERROR_HEADER_LEN;
        message.extend(about.get(..room).unwrap_or(about));
        let (src, dst) = (pair.local.address(), pair.remote.address());
        fill_icmp_checksum(&mut message, src, dst);
        self.send(pair, &message, None);
    }
}

/// Whether a correspondent that acknowledges nothing was told or asked a short time ago. While it shows itself by nothing
/// else either, it may be restarting (decision 182).
pub(crate) fn is_let_be(session: &Session, now: Instant) -> bool {
    let Some(asked_at) = session.asked_at.filter(|_| session.is_mute) else { return false };
    let has_shown = session.shown_at >= asked_at;
    let interval = if has_shown { CHECK_INTERVAL } else { PATH_CHECK_INTERVAL };
    now.since(asked_at) < interval
}

/// A packet with nothing but this nonce, from `pair.local`.
fn showing(pair: IlvPair, nonce: Nonce) -> Vec<u8> {
    let options = NonceHeader { next_header: NO_NEXT_HEADER, nonce, sequence: None }.emit();
    ip6::packet(DESTINATION_OPTIONS, pair.local.address(), pair.remote.address(), &options)
}

const NO_NEXT_HEADER: u8 = 59;
