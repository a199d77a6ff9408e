use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_types::DropReason;

use super::icmp::check;
use crate::fill_icmp_checksum;

/// An ICMPv6 Echo Request of the sessions. Its answer shows that the correspondent reads our nonce (decision 146), and
/// that it is at the destination (decision 192).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Random number for this request. It is all data of the message.
    pub token: [u8; 8],
}

impl Echo {
    /// The Echo Request, for a packet with these addresses.
    #[must_use]
    pub fn emit(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        self.message(ECHO_REQUEST, src, dst)
    }

    /// The Echo Reply to this request, for a packet with these addresses (RFC 4443 s4.2).
    #[must_use]
    pub fn emit_reply(&self, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        self.message(ECHO_REPLY, src, dst)
    }

    fn message(&self, kind: u8, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let mut message = Vec::with_capacity(ECHO_LEN);
        message.extend([kind, 0, 0, 0]);
        message.extend(ECHO_MARK);
        message.extend(self.token);
        fill_icmp_checksum(&mut message, src, dst);
        message
    }

    /// Reads an Echo Request of the sessions of a correspondent.
    ///
    /// # Errors
    /// As [`parse_reply`](Self::parse_reply) has them.
    pub fn parse_request(message: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Self, DropReason> {
        Self::parse(ECHO_REQUEST, message, src, dst)
    }

    /// Reads the Echo Reply to an Echo Request of the sessions.
    ///
    /// # Errors
    /// [`DropReason::BadAddress`] and [`DropReason::BadChecksum`]; [`DropReason::BadLength`] if the data of the reply
    /// are not 8 octets; [`DropReason::UnknownType`] if the message is no Echo Reply to a request of the sessions.
    pub fn parse_reply(message: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Self, DropReason> {
        Self::parse(ECHO_REPLY, message, src, dst)
    }

    fn parse(kind: u8, message: &[u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Self, DropReason> {
        if !is_echo(message, kind) {
            return Err(DropReason::UnknownType);
        }
        check(message, src, dst)?;
        let token = message.get(ECHO_DATA_AT..).unwrap_or_default();
        let token = token.try_into().map_err(|_| DropReason::BadLength)?;
        Ok(Self { token })
    }
}

/// Whether an ICMPv6 message is an Echo Request or Reply (`kind`) with the mark of the sessions.
pub(super) fn is_echo(message: &[u8], kind: u8) -> bool {
    message.starts_with(&[kind, 0]) && message.get(4..ECHO_DATA_AT) == Some(&ECHO_MARK)
}

/// ICMPv6 type of an Echo Request (RFC 4443 s4.1).
pub const ECHO_REQUEST: u8 = 128;
/// ICMPv6 type of an Echo Reply (RFC 4443 s4.2).
pub const ECHO_REPLY: u8 = 129;
/// Identifier and Sequence Number of Echo Requests of the sessions.
pub const ECHO_MARK: [u8; 4] = *b"MLno";
const ECHO_DATA_AT: usize = 8;
/// Octets of an Echo Request of the sessions.
const ECHO_LEN: usize = 16;
