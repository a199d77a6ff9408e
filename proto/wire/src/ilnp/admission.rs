use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::net::Ipv6Addr;

use moorline_types::{DropReason, Nonce};

use super::consts::{ADMISSION_INITIATOR, ADMISSION_RESPONDER, ADMISSION_VALIDATOR_LEN};
use super::icmp;
use crate::fill_icmp_checksum;
use crate::numbers::number_space;
use crate::reader::{Reader, exactly};

/// ICMPv6 types of the handshake messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionTypes {
    /// Type of Propose and Confirm.
    pub initiator: u8,
    /// Type of Accept and Refuse.
    pub responder: u8,
}

impl Default for AdmissionTypes {
    fn default() -> Self {
        Self { initiator: ADMISSION_INITIATOR, responder: ADMISSION_RESPONDER }
    }
}

/// Properties that one end has or offers.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct AdmissionFlags(pub u8);

impl AdmissionFlags {
    /// The socket of this end is connected (table 1 of the ILCC paper).
    pub const CONNECTED: Self = Self(1);
    /// Transport checksums are those of classic IPv6, not over identifiers alone.
    pub const FULL_CHECKSUM: Self = Self(2);
    /// This end numbers its Locator Updates (decision 072).
    pub const SEQUENCE: Self = Self(4);
    /// This end asks for the nonce in each packet.
    pub const ALWAYS_NONCE: Self = Self(8);

    /// Whether all of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Adds `flags` if `set`.
    #[must_use]
    pub const fn with(self, flags: Self, set: bool) -> Self {
        if set { Self(self.0 | flags.0) } else { self }
    }
}

impl fmt::Debug for AdmissionFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdmissionFlags({:#x})", self.0)
    }
}

/// Traffic for which the session is, as its initiator sees it, and the number of the attempt: fields of each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Port of the initiator's socket, zero without ports.
    pub initiator_port: u16,
    /// Port of the responder's socket, zero without ports.
    pub responder_port: u16,
    /// Random number of the attempt, which comes back in each answer.
    pub transaction: u32,
    /// Flags of the initiator.
    pub flags: AdmissionFlags,
}

/// Second message: yes. Its sender keeps no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Traffic of the Propose.
    pub flow: Flow,
    /// Flags of the responder.
    pub flags: AdmissionFlags,
    /// Number of this Accept, which the responder counts. It tells with which secret the validator was made, and
    /// which of two Accepts came first.
    pub number: u32,
    /// Keyed hash that binds the whole message to the two addresses.
    pub validator: [u8; ADMISSION_VALIDATOR_LEN],
    /// Nonce that the responder will send.
    pub responder_nonce: Nonce,
}

/// Third message: agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    /// Fields of the Accept.
    pub accept: Accept,
    /// Nonce that the initiator will send.
    pub initiator_nonce: Nonce,
}

number_space! {
    /// Reason why a host refuses a session.
    Refusal(u8, 0xff, "reason") {
        /// No socket takes the traffic.
        NO_SOCKET = 1, "no socket";
        /// Neither end has a connected socket (table 1 of the ILCC paper).
        NOT_CONNECTED = 2, "no connected socket";
        /// No room, or too many sessions with this host.
        RESOURCES = 3, "no room";
        /// The host does not accept sessions now.
        POLICY = 4, "policy";
    }
}

/// A message of the admission handshake (decision 070).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// First message: shall we have a session for this traffic?
    Propose(Flow),
    /// Second message: yes.
    Accept(Accept),
    /// Second message: no, for the traffic of the Propose.
    Refuse(Flow, Refusal),
    /// Third message: agreed.
    Confirm(Confirm),
}

impl Admission {
    /// Reads an ICMPv6 message of one of the two types, from a packet with these addresses.
    ///
    /// # Errors
    /// [`DropReason::UnknownType`] if it is another message or code; [`DropReason::Truncated`],
    /// [`DropReason::BadLength`], [`DropReason::BadAddress`], [`DropReason::BadChecksum`]; [`DropReason::BadFormat`]
    /// if the message has another version.
    pub fn parse(
        octets: &[u8],
        types: AdmissionTypes,
        src: Ipv6Addr,
        dst: Ipv6Addr,
    ) -> Result<Self, DropReason> {
        let mut reader = Reader::new(octets);
        let [kind, code, _, _] = reader.array()?;
        let is_initiators = kind == types.initiator;
        let len = match (is_initiators, kind == types.responder, code) {
            (true, false, 0) | (false, true, 0) => ACCEPT_LEN,
            (true, false, 1) => CONFIRM_LEN,
            (false, true, 1) => HEADER_LEN,
            _ => return Err(DropReason::UnknownType),
        };
        let [version, initiator_flags, responder_flags, reason] = reader.array()?;
        let [protocol, initiator_len, responder_len, _] = reader.array()?;
        let flow = Flow {
            protocol,
            initiator_port: reader.u16()?,
            responder_port: reader.u16()?,
            transaction: reader.u32()?,
            flags: AdmissionFlags(initiator_flags),
        };
        if version != VERSION {
            return Err(DropReason::BadFormat);
        }
        match octets.len().cmp(&len) {
            Ordering::Less => return Err(DropReason::Truncated),
            Ordering::Greater => return Err(DropReason::BadLength),
            Ordering::Equal => {}
        }
        icmp::check(octets, src, dst)?;
        let mut accept = || {
            Ok(Accept {
                flow,
                flags: AdmissionFlags(responder_flags),
                number: reader.u32()?,
                validator: reader.array()?,
                responder_nonce: read_nonce(&mut reader, responder_len)?,
            })
        };
        Ok(match (is_initiators, code) {
            (true, 0) => Self::Propose(flow),
            (false, 0) => Self::Accept(accept()?),
            (false, _) => Self::Refuse(flow, Refusal::new(reason)),
            (true, _) => {
                let accept = accept()?;
                let initiator_nonce = read_nonce(&mut reader, initiator_len)?;
                Self::Confirm(Confirm { accept, initiator_nonce })
            }
        })
    }

    /// Octets of the ICMPv6 message, for a packet with these addresses.
    #[must_use]
    pub fn emit(&self, types: AdmissionTypes, src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
        let (flow, accept, initiator_nonce) = (self.flow(), self.accept(), self.initiator_nonce());
        let (number, code, len) = match self {
            Self::Propose(_) => (types.initiator, 0, ACCEPT_LEN),
            Self::Confirm(_) => (types.initiator, 1, CONFIRM_LEN),
            Self::Accept(_) => (types.responder, 0, ACCEPT_LEN),
            Self::Refuse(..) => (types.responder, 1, HEADER_LEN),
        };
        let reason = if let Self::Refuse(_, reason) = self { reason.value() } else { 0 };
        let nonce_len = |nonce: Option<Nonce>| nonce.map_or(0, len_of);
        let mut octets = Vec::with_capacity(len);
        octets.extend([number, code, 0, 0, VERSION, flow.flags.0]);
        octets.extend([accept.map_or(0, |accept| accept.flags.0), reason, flow.protocol]);
        octets.push(nonce_len(initiator_nonce));
        octets.extend([nonce_len(accept.map(|accept| accept.responder_nonce)), 0]);
        octets.extend(flow.initiator_port.to_be_bytes());
        octets.extend(flow.responder_port.to_be_bytes());
        octets.extend(flow.transaction.to_be_bytes());
        if let Some(accept) = accept {
            octets.extend(accept.number.to_be_bytes());
            octets.extend(accept.validator);
            emit_nonce(&mut octets, accept.responder_nonce);
        }
        if let Some(nonce) = initiator_nonce {
            emit_nonce(&mut octets, nonce);
        }
        // A Propose is as long as its answer. So a host that forges its source gains no octet by the answer.
        octets.resize(len, 0);
        fill_icmp_checksum(&mut octets, src, dst);
        octets
    }

    /// Traffic of the message.
    #[must_use]
    pub const fn flow(&self) -> &Flow {
        match self {
            Self::Propose(flow) | Self::Refuse(flow, _) => flow,
            Self::Accept(accept) => &accept.flow,
            Self::Confirm(confirm) => &confirm.accept.flow,
        }
    }

    const fn accept(&self) -> Option<&Accept> {
        match self {
            Self::Accept(accept) | Self::Confirm(Confirm { accept, .. }) => Some(accept),
            Self::Propose(_) | Self::Refuse(..) => None,
        }
    }

    const fn initiator_nonce(&self) -> Option<Nonce> {
        match self {
            Self::Confirm(confirm) => Some(confirm.initiator_nonce),
            Self::Propose(_) | Self::Accept(_) | Self::Refuse(..) => None,
        }
    }
}

fn read_nonce(reader: &mut Reader<'_>, len: u8) -> Result<Nonce, DropReason> {
    let field: [u8; NONCE_LEN] = exactly(reader.octets(NONCE_LEN)?)?;
    let (nonce, rest) = field.split_at_checked(len.into()).ok_or(DropReason::BadLength)?;
    if rest.iter().any(|octet| *octet != 0) {
        return Err(DropReason::BadFormat);
    }
    Nonce::from_octets(nonce).ok_or(DropReason::BadLength)
}

fn emit_nonce(octets: &mut Vec<u8>, nonce: Nonce) {
    let end = octets.len() + NONCE_LEN;
    octets.extend_from_slice(nonce.octets());
    octets.resize(end, 0);
}

const fn len_of(nonce: Nonce) -> u8 {
    match nonce {
        Nonce::Short(_) => 4,
        Nonce::Long(_) => 12,
    }
}

const VERSION: u8 = 1;
const HEADER_LEN: usize = 20;
const NONCE_LEN: usize = 12;
const ACCEPT_LEN: usize = HEADER_LEN + 4 + ADMISSION_VALIDATOR_LEN + NONCE_LEN;
const CONFIRM_LEN: usize = ACCEPT_LEN + NONCE_LEN;
