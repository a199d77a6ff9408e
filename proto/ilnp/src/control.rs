use moorline_types::{DropReason, Ilv, IlvPair, Instant, SessionId};
use moorline_wire::ilnp::consts::LOCATOR_UPDATE;
use moorline_wire::ilnp::{
    Admission, Control, ECHO_REPLY, ECHO_REQUEST, ERROR_HEADER_LEN, NONCE_AT, NONCE_OPTION,
    PARAMETER_PROBLEM, UNRECOGNIZED_OPTION,
};

use crate::event::{Cause, Classic};
use crate::machine::Machine;
use crate::session::Opening;
use moorline_wire::ip6::{DESTINATION_OPTIONS, IP6_LEN, Ip6};

impl Machine {
    //= rfc6743#5-1
    pub(crate) fn on_control(
        &mut self,
        control: &Control<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        if !self.nids.contains(&control.pair.local.nid) {
            return Err(DropReason::NotOurs);
        }
        let kind = *control.message.first().ok_or(DropReason::Truncated)?;
        let types = self.config.types;
        if kind == LOCATOR_UPDATE {
            return self.on_locator_update(control, now);
        }
        if kind == types.initiator || kind == types.responder {
            let (src, dst) = (control.pair.remote.address(), control.pair.local.address());
            let message = Admission::parse(control.message, types, src, dst)?;
            return self.on_admission(&message, control.pair, now);
        }
        if kind == ECHO_REPLY {
            return self.on_echo_reply(control, now);
        }
        if kind == ECHO_REQUEST {
            return self.on_echo_request(control, now);
        }
        if control.message.starts_with(&[PARAMETER_PROBLEM, UNRECOGNIZED_OPTION]) {
            return self.on_parameter_problem(control, now);
        }
        Err(DropReason::UnknownType)
    }

    /// Handles an error that says that the correspondent does not know our nonce: classic IPv6 from now on (RFC 6744
    /// s6). If the correspondent has known the session before, it has restarted, and the machine asks it again
    /// (decision 089).
    ///
    /// The error has to quote the nonce, which nobody can guess.
    //= rfc6744#6-13
    fn on_parameter_problem(
        &mut self,
        control: &Control<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let quoted = control.message.get(ERROR_HEADER_LEN..).ok_or(DropReason::Truncated)?;
        let nonce = quoted.get(NONCE_AT as usize + 2..).unwrap_or_default();
        if self.refute_trial(control.pair, nonce, now) {
            return Ok(());
        }
        let id = self.quoted_session(quoted)?;
        let (pair, _) = self.ilcc.key(id).ok_or(DropReason::Gone)?;
        let session = self.ilcc.get(id).ok_or(DropReason::Gone)?;
        let has_known = matches!(session.opening, Opening::Done);
        // A node at a locator without proof may be anybody, and no correspondent (decision 192).
        let is_strange = !session.is_proven(control.pair.remote.l64);
        if control.pair.remote.nid != pair.remote.nid || is_strange {
            return Err(DropReason::Disbelieved);
        }
        let pointer = control.message.get(4..8).ok_or(DropReason::Truncated)?;
        if pointer != NONCE_AT.to_be_bytes() {
            return Err(DropReason::BadFormat);
        }
        if has_known {
            self.deny_session(id, now);
        } else {
            self.forget(id, Cause::Unanswered);
            self.remember_classic(pair, Classic::NoSupport, now);
        }
        Ok(())
    }

    /// The session that sent a packet, which may be cut off behind its nonce. Of sessions that share the nonce
    /// (decision 149), a session at the locators of the packet goes before others.
    fn quoted_session(&self, quoted: &[u8]) -> Result<SessionId, DropReason> {
        let header = Ip6::read(quoted).ok_or(DropReason::Truncated)?;
        let rest = quoted.get(IP6_LEN..).unwrap_or_default();
        let &[_, _, option, len] = rest.first_chunk().ok_or(DropReason::Truncated)?;
        if header.next_header != DESTINATION_OPTIONS || option != NONCE_OPTION {
            return Err(DropReason::MissingOption);
        }
        let nonce = rest.get(4..4 + usize::from(len)).ok_or(DropReason::Truncated)?;
        let sent = IlvPair::new(Ilv::of(header.source), Ilv::of(header.destination));
        let (local, remote) = sent.nids();
        let is_elsewhere = |id: SessionId| {
            let session = self.ilcc.get(id).filter(|one| one.send_nonce.octets() == nonce)?;
            Some((session.wire_pair(self.ilcc.key(id)?.0) != sent, id))
        };
        let nearest = self.ilcc.between(local, remote).filter_map(is_elsewhere).min();
        nearest.map(|(_, id)| id).ok_or(DropReason::BadNonce)
    }
}
