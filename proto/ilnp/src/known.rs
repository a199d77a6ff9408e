//! Questions whether both ends still know a session (decision 089).

use alloc::vec::Vec;

use moorline_types::{IlvPair, Instant, Nonce, SessionId};
use moorline_wire::fill_icmp_checksum;
use moorline_wire::ilnp::{
    ERROR_HEADER_LEN, NONCE_AT, NonceHeader, PARAMETER_PROBLEM, UNRECOGNIZED_OPTION,
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
    /// changes. If the session still waits for its turn to tell new locators, it tells them now.
    pub(crate) fn ask_whether_known(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.ilcc.get(id) else { return };
        if session.owes_update && session.advertisement.is_none() {
            self.advertise(id, now);
        } else if !self.locators.is_empty() {
            self.say_locators(id, now);
        }
    }

    /// Tells the correspondent our locators once more before they age there (RFC 6741 s5.2). A correspondent that sees us
    /// by our questions asks none itself, so this does not wait for a doubt.
    pub(crate) fn renew_if_due(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.ilcc.get(id) else { return };
        let is_quiet = session.advertisement.is_none() && matches!(session.opening, Opening::Done);
        if is_quiet && session.renew_at.is_some_and(|at| at <= now) && !is_let_be(session, now) {
            self.ask_whether_known(id, now);
        }
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

    pub(crate) fn send_parameter_problem(&mut self, pair: IlvPair, about: &[u8]) {
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
