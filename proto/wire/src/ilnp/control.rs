use moorline_types::{DropReason, Ilv, IlvPair, Nonce};

use crate::ip6::{IP6_LEN, Ip6};

use super::consts::LOCATOR_UPDATE;
use super::echo::{ECHO_REPLY, ECHO_REQUEST, is_echo};
use super::{AdmissionTypes, Chain};

/// A decoded ICMPv6 packet from the network.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    /// The whole packet.
    pub packet: &'a [u8],
    /// Addresses of the packet, as its receiver sees them.
    pub pair: IlvPair,
    /// Nonce in the Nonce option.
    pub nonce: Option<Nonce>,
    /// Sequence number of a Locator Update.
    pub sequence: Option<u32>,
    /// Octets from the ICMPv6 header on.
    pub message: &'a [u8],
}

impl<'a> Control<'a> {
    /// Reads a whole IPv6 packet with an ICMPv6 message, right behind the IPv6 header or behind extension headers.
    ///
    /// # Errors
    /// The reason why the packet is no such packet.
    pub fn read(packet: &'a [u8]) -> Result<Self, DropReason> {
        let ip6 = Ip6::read(packet).ok_or(DropReason::Truncated)?;
        let end = IP6_LEN + usize::from(ip6.payload_len);
        let packet_octets = packet.get(..end).ok_or(DropReason::Truncated)?;
        let pair = IlvPair::new(Ilv::of(ip6.destination), Ilv::of(ip6.source));
        let chain = Chain::read(packet, &ip6)?;
        let at = chain.icmp_at.ok_or(DropReason::UnknownType)?;
        let message = packet_octets.get(at..).unwrap_or_default();
        let nonce = chain.options.and_then(|options| options.nonce);
        let sequence = chain.options.and_then(|options| options.sequence);
        Ok(Self { packet, pair, nonce, sequence, message })
    }

    /// Whether a packet from the network is for the sessions of the host: a Locator Update, a message of the
    /// handshake, or the answer to an [`Echo`](super::Echo). Of a Parameter Problem, the sessions get a copy.
    #[must_use]
    pub fn is_for_sessions(packet: &'a [u8], types: AdmissionTypes) -> bool {
        Self::read(packet).is_ok_and(|control| control.is_control(types, ECHO_REPLY))
    }

    /// Whether a packet from the network is an [`Echo`](super::Echo) of a correspondent. If its nonce is that of a
    /// session, the packet is for the sessions of the host, and otherwise for the stack.
    #[must_use]
    pub fn is_echo_request(packet: &'a [u8]) -> bool {
        Self::read(packet).is_ok_and(|control| is_echo(control.message, ECHO_REQUEST))
    }

    /// Whether a packet that this host sends is a message of its sessions. An answer to an [`Echo`](super::Echo) is
    /// one if it has a nonce: the stack knows no nonces.
    #[must_use]
    pub fn is_of_sessions(packet: &'a [u8], types: AdmissionTypes) -> bool {
        Self::read(packet).is_ok_and(|control| {
            let is_reply = control.nonce.is_some() && is_echo(control.message, ECHO_REPLY);
            is_reply || control.is_control(types, ECHO_REQUEST)
        })
    }

    fn is_control(&self, types: AdmissionTypes, echo: u8) -> bool {
        let kinds = [LOCATOR_UPDATE, types.initiator, types.responder];
        self.message.first().is_some_and(|kind| kinds.contains(kind)) || is_echo(self.message, echo)
    }

    /// Whether a packet is a Locator Update or the answer to an [`Echo`](super::Echo) and shows no nonce. A host accepts no such
    /// Locator Update (RFC 6743 s6), and no such answer but that of [`is_bare_reply`](Self::is_bare_reply).
    #[must_use]
    pub fn is_bare(packet: &'a [u8]) -> bool {
        Self::read(packet).is_ok_and(|control| {
            let is_update = control.message.first() == Some(&LOCATOR_UPDATE);
            control.nonce.is_none() && (is_update || is_echo(control.message, ECHO_REPLY))
        })
    }

    /// Whether a packet is the answer to an [`Echo`](super::Echo) and shows no nonce. It is for the sessions of the host
    /// if a session has its addresses: the machine may have asked without a nonce (decision 182).
    #[must_use]
    pub fn is_bare_reply(packet: &'a [u8]) -> bool {
        Self::read(packet)
            .is_ok_and(|control| control.nonce.is_none() && is_echo(control.message, ECHO_REPLY))
    }

    /// Octets that a Parameter Problem quotes, if it is about an option at the place of our nonce.
    #[must_use]
    pub fn quoted_by_parameter_problem(packet: &'a [u8]) -> Option<&'a [u8]> {
        let control = Self::read(packet).ok()?;
        let is_one = control.message.starts_with(&[PARAMETER_PROBLEM, UNRECOGNIZED_OPTION]);
        let is_at_nonce = control.message.get(4..8) == Some(&NONCE_AT.to_be_bytes());
        (is_one && is_at_nonce).then(|| control.message.get(ERROR_HEADER_LEN..))?
    }
}

/// ICMPv6 type of a Parameter Problem (RFC 4443 s3.4).
pub const PARAMETER_PROBLEM: u8 = 4;
/// Code of a Parameter Problem about an unknown option.
pub const UNRECOGNIZED_OPTION: u8 = 2;
/// Octets of an ICMPv6 error in front of the packet that it quotes.
pub const ERROR_HEADER_LEN: usize = 8;
/// Offset in a packet of the Nonce option that Moorline sends: behind the IPv6 header and two octets.
pub const NONCE_AT: u32 = 42;
