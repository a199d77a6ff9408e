use core::net::Ipv6Addr;

use moorline_datapath::ilnp::Sockets;
use moorline_types::{DropReason, Ilv, IlvPair, Instant, Nonce, SessionId};
use moorline_wire::ilnp::consts::{DESTINATION_OPTIONS, ICMPV6, LOCATOR_UPDATE};
use moorline_wire::ilnp::{Admission, AdmissionTypes, NONCE_OPTION, OptionsHeader};

use crate::event::{Cause, Classic};
use crate::machine::{IP6_LEN, Machine};
use crate::session::Opening;

/// An ICMPv6 packet from the network, taken apart.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    pub(crate) packet: &'a [u8],
    /// The addresses, as the receiver has them.
    pub(crate) pair: IlvPair,
    pub(crate) nonce: Option<Nonce>,
    pub(crate) sequence: Option<u32>,
    pub(crate) message: &'a [u8],
}

impl<'a> Control<'a> {
    /// Reads a whole IPv6 packet with an ICMPv6 message, with or without a Destination Options header.
    ///
    /// # Errors
    /// The reason why it is none.
    pub fn read(packet: &'a [u8]) -> Result<Self, DropReason> {
        let (header, rest) = packet.split_first_chunk::<IP6_LEN>().ok_or(DropReason::Truncated)?;
        let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let rest = rest.get(..len).ok_or(DropReason::Truncated)?;
        let address = |at: usize| {
            let octets = header.get(at..).and_then(<[u8]>::first_chunk::<16>);
            octets.map(|octets| Ilv::of(Ipv6Addr::from(*octets))).ok_or(DropReason::Truncated)
        };
        let pair = IlvPair::new(address(24)?, address(8)?);
        match header[6] {
            ICMPV6 => Ok(Self { packet, pair, nonce: None, sequence: None, message: rest }),
            DESTINATION_OPTIONS => {
                let options = OptionsHeader::parse(rest)?;
                if options.next_header != ICMPV6 {
                    return Err(DropReason::UnknownType);
                }
                let message = rest.get(options.len..).unwrap_or(&[]);
                let OptionsHeader { nonce, sequence, .. } = options;
                Ok(Self { packet, pair, nonce, sequence, message })
            }
            _ => Err(DropReason::UnknownType),
        }
    }

    /// Whether a packet is one for [`Machine::handle_control`]: a Locator Update or a message of the handshake.
    /// Of Parameter Problems a copy is.
    #[must_use]
    pub fn is_ours(packet: &'a [u8], types: AdmissionTypes) -> bool {
        Self::read(packet).is_ok_and(|control| {
            let kinds = [LOCATOR_UPDATE, types.initiator, types.responder];
            control.message.first().is_some_and(|kind| kinds.contains(kind))
        })
    }

    /// Whether it is a Locator Update that shows no nonce, which the machine would take from nobody (RFC 6743 s6).
    pub(crate) fn is_bare_update(packet: &'a [u8]) -> bool {
        Self::read(packet).is_ok_and(|control| {
            control.nonce.is_none() && control.message.first() == Some(&LOCATOR_UPDATE)
        })
    }

    /// What a Parameter Problem quotes that is about an option where we put our nonce.
    pub(crate) fn quoted_by_parameter_problem(packet: &'a [u8]) -> Option<&'a [u8]> {
        let control = Self::read(packet).ok()?;
        let is_one = control.message.starts_with(&[PARAMETER_PROBLEM, UNRECOGNIZED_OPTION]);
        let is_at_nonce = control.message.get(4..8) == Some(&NONCE_AT.to_be_bytes());
        (is_one && is_at_nonce).then(|| control.message.get(ERROR_HEADER_LEN..))?
    }
}

impl Machine {
    //= rfc6743#5-1
    pub(crate) fn on_control(
        &mut self,
        control: &Control<'_>,
        sockets: &dyn Sockets,
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
            return self.on_admission(&message, control.pair, sockets, now);
        }
        if control.message.starts_with(&[PARAMETER_PROBLEM, UNRECOGNIZED_OPTION]) {
            return self.on_parameter_problem(control, now);
        }
        Err(DropReason::UnknownType)
    }

    /// The correspondent does not know our nonce: classic IPv6 from now on (RFC 6744 s6). If it has shown before that it
    /// does, it has begun anew, and is asked anew (decision 089).
    ///
    /// Believed only with the nonce in the quote, which is not to be guessed.
    //= rfc6744#6-13
    fn on_parameter_problem(
        &mut self,
        control: &Control<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let quoted = control.message.get(ERROR_HEADER_LEN..).ok_or(DropReason::Truncated)?;
        let id = self.quoted_session(quoted)?;
        let (pair, _) = self.ilcc.key(id).ok_or(DropReason::UnexpectedState)?;
        let session = self.ilcc.get(id).ok_or(DropReason::UnexpectedState)?;
        let has_known = matches!(session.opening, Opening::Done);
        if control.pair.remote.nid != pair.remote.nid {
            return Err(DropReason::UnexpectedState);
        }
        let pointer = control.message.get(4..8).ok_or(DropReason::Truncated)?;
        if pointer != NONCE_AT.to_be_bytes() {
            return Err(DropReason::BadFormat);
        }
        if has_known {
            self.has_spoken(pair, now);
            self.forget(id, Cause::Denied);
        } else {
            self.forget(id, Cause::Unanswered);
            self.remember_classic(pair, Classic::NoSupport, now);
        }
        Ok(())
    }

    /// The session that sent a packet, which may be cut off behind its nonce.
    fn quoted_session(&self, quoted: &[u8]) -> Result<SessionId, DropReason> {
        let (header, rest) = quoted.split_first_chunk::<IP6_LEN>().ok_or(DropReason::Truncated)?;
        let address = |at: usize| {
            let octets = header.get(at..).and_then(<[u8]>::first_chunk::<16>);
            octets.map(|octets| Ilv::of(Ipv6Addr::from(*octets))).ok_or(DropReason::Truncated)
        };
        let (source, destination) = (address(8)?, address(24)?);
        let &[_, _, option, len] = rest.first_chunk().ok_or(DropReason::Truncated)?;
        if header[6] != DESTINATION_OPTIONS || option != NONCE_OPTION {
            return Err(DropReason::MissingOption);
        }
        let nonce = rest.get(4..4 + usize::from(len)).ok_or(DropReason::Truncated)?;
        let is_it = |id: &SessionId| {
            self.ilcc.get(*id).is_some_and(|session| session.send_nonce.octets() == nonce)
        };
        let mut sessions = self.ilcc.between(source.nid, destination.nid);
        sessions.find(is_it).ok_or(DropReason::BadNonce)
    }
}

/// RFC 4443 s3.4.
pub(crate) const PARAMETER_PROBLEM: u8 = 4;
pub(crate) const UNRECOGNIZED_OPTION: u8 = 2;
pub(crate) const ERROR_HEADER_LEN: usize = 8;
/// Where the Nonce option is in what we send: behind the IPv6 header and two octets.
pub(crate) const NONCE_AT: u32 = 42;
