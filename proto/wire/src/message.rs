use crate::consts::{CONTROL_HEADER_LEN, MAX_MESSAGE_LEN};
use crate::reader::Reader;
use crate::writer::Writer;
use crate::{ErrorCode, MessageType, Options, Packet, Probe};
use alloc::vec::Vec;
use moorline_types::{ContextTag, DropReason};

/// A decoded control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// RFC 5533 s5.4.
    I1(I1),
    /// RFC 5533 s5.5.
    R1(R1),
    /// RFC 5533 s5.6.
    I2(I2),
    /// RFC 5533 s5.7.
    R2(R2),
    /// RFC 5533 s5.8.
    R1bis(R1bis),
    /// RFC 5533 s5.9.
    I2bis(I2bis),
    /// RFC 5533 s5.10.
    UpdateRequest(UpdateRequest),
    /// RFC 5533 s5.11.
    UpdateAck(UpdateAck),
    /// RFC 5534 s5.1.
    Keepalive(Keepalive),
    /// RFC 5534 s5.2.
    Probe(Probe),
    /// RFC 5533 s5.14.
    Error(ErrorMessage),
}

impl Message {
    /// Type of the message.
    //= rfc5534#5.1-1 rfc5534#5.2-1
    #[must_use]
    pub const fn kind(&self) -> MessageType {
        match self {
            Self::I1(_) => MessageType::I1,
            Self::R1(_) => MessageType::R1,
            Self::I2(_) => MessageType::I2,
            Self::R2(_) => MessageType::R2,
            Self::R1bis(_) => MessageType::R1BIS,
            Self::I2bis(_) => MessageType::I2BIS,
            Self::UpdateRequest(_) => MessageType::UPDATE_REQUEST,
            Self::UpdateAck(_) => MessageType::UPDATE_ACK,
            Self::Keepalive(_) => MessageType::KEEPALIVE,
            Self::Probe(_) => MessageType::PROBE,
            Self::Error(_) => MessageType::ERROR,
        }
    }

    /// Options of the message; `None` for an Error message, which has none.
    #[must_use]
    pub const fn options(&self) -> Option<&Options> {
        match self {
            Self::I1(m) => Some(&m.options),
            Self::R1(m) => Some(&m.options),
            Self::I2(m) => Some(&m.options),
            Self::R2(m) => Some(&m.options),
            Self::R1bis(m) => Some(&m.options),
            Self::I2bis(m) => Some(&m.options),
            Self::UpdateRequest(m) => Some(&m.options),
            Self::UpdateAck(m) => Some(&m.options),
            Self::Keepalive(m) => Some(&m.options),
            Self::Probe(m) => Some(&m.options),
            Self::Error(_) => None,
        }
    }

    /// Returns the octets of the message, from Next Header on, with its checksum.
    ///
    /// RFC 5533 s5.3: the checksum has no pseudo-header, so it does not depend on addresses or protocol number. A
    /// message that is emitted once may be sent on any pair.
    ///
    /// The result has [`MAX_MESSAGE_LEN`] octets at most. Options that do not fit are left out: see
    /// [`Message::fits`].
    #[must_use]
    pub fn octets(&self) -> Vec<u8> {
        self.writer().finish().0
    }

    /// Whether [`Message::octets`] contains the whole message. Otherwise it leaves out options, locators or reports
    /// (RFC 5533 s5.1: "omit part of the locator address information").
    //= rfc5533#5.1
    #[must_use]
    pub fn fits(&self) -> bool {
        self.writer().finish().1
    }

    //= rfc5533#5.5-2 rfc5533#5.6-3 rfc5533#5.9-3 rfc5534#5.1-4 rfc5534#5.1-5
    pub(crate) fn decode(packet: &Packet<'_>) -> Result<Self, DropReason> {
        // The length check of the type has made sure that the fixed fields are there.
        let mut fields = Reader::new(packet.octets_from(FIELDS_AT));
        let options = || Options::decode(packet);
        Ok(match packet.kind() {
            MessageType::I1 => Self::I1(I1 {
                initiator_tag: fields.tag()?,
                initiator_nonce: fields.u32()?,
                options: options()?,
            }),
            MessageType::R1 => {
                fields.octets(2)?;
                Self::R1(R1 {
                    initiator_nonce: fields.u32()?,
                    responder_nonce: fields.u32()?,
                    options: options()?,
                })
            }
            MessageType::I2 => Self::I2(I2 {
                initiator_tag: fields.tag()?,
                initiator_nonce: fields.u32()?,
                responder_nonce: fields.u32()?,
                options: options()?,
            }),
            MessageType::R2 => Self::R2(R2 {
                responder_tag: fields.tag()?,
                initiator_nonce: fields.u32()?,
                options: options()?,
            }),
            MessageType::R1BIS => Self::R1bis(R1bis {
                packet_tag: fields.tag()?,
                responder_nonce: fields.u32()?,
                options: options()?,
            }),
            MessageType::I2BIS => Self::I2bis(I2bis {
                initiator_tag: fields.tag()?,
                initiator_nonce: fields.u32()?,
                responder_nonce: fields.u32()?,
                packet_tag: fields.octets(6).and_then(|_reserved| fields.tag())?,
                options: options()?,
            }),
            MessageType::UPDATE_REQUEST => Self::UpdateRequest(UpdateRequest {
                receiver_tag: fields.tag()?,
                request_nonce: fields.u32()?,
                options: options()?,
            }),
            MessageType::UPDATE_ACK => Self::UpdateAck(UpdateAck {
                receiver_tag: fields.tag()?,
                request_nonce: fields.u32()?,
                options: options()?,
            }),
            MessageType::KEEPALIVE => {
                Self::Keepalive(Keepalive { receiver_tag: fields.tag()?, options: options()? })
            }
            MessageType::PROBE => Self::Probe(Probe::decode(packet)?),
            MessageType::ERROR => Self::Error(ErrorMessage::decode(packet)?),
            _ => return Err(DropReason::UnknownType),
        })
    }

    fn writer(&self) -> Writer {
        let start = |code| Writer::new(self.kind(), code);
        let named =
            |tag: ContextTag, nonce: u32| start(0).field(&tag.octets()).field(&nonce.to_be_bytes());
        let writer = match self {
            Self::I1(m) => named(m.initiator_tag, m.initiator_nonce),
            Self::R1(m) => start(0)
                .field(&[0; 2])
                .field(&m.initiator_nonce.to_be_bytes())
                .field(&m.responder_nonce.to_be_bytes()),
            Self::I2(m) => named(m.initiator_tag, m.initiator_nonce)
                .field(&m.responder_nonce.to_be_bytes())
                .field(&[0; 4]),
            Self::R2(m) => named(m.responder_tag, m.initiator_nonce),
            Self::R1bis(m) => named(m.packet_tag, m.responder_nonce),
            Self::I2bis(m) => named(m.initiator_tag, m.initiator_nonce)
                .field(&m.responder_nonce.to_be_bytes())
                .field(&[0; 6])
                .field(&m.packet_tag.octets()),
            Self::UpdateRequest(m) => named(m.receiver_tag, m.request_nonce),
            Self::UpdateAck(m) => named(m.receiver_tag, m.request_nonce),
            Self::Keepalive(m) => start(0).field(&m.receiver_tag.octets()).field(&[0; 4]),
            Self::Probe(m) => m.write(start(0)),
            Self::Error(m) => m.write(start(m.code.value())),
        };
        match self.options() {
            Some(options) => writer.options(options),
            None => writer,
        }
    }
}

/// First message of the initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct I1 {
    /// Tag that the initiator has allocated for the context.
    pub initiator_tag: ContextTag,
    /// Nonce that comes back in R1.
    pub initiator_nonce: u32,
    /// Options: ULID Pair, Forked Instance Identifier.
    pub options: Options,
}

/// First message of the responder, which keeps no state for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct R1 {
    /// Nonce of the I1.
    pub initiator_nonce: u32,
    /// Nonce that comes back in I2.
    pub responder_nonce: u32,
    /// Options: Responder Validator.
    pub options: Options,
}

/// Second message of the initiator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct I2 {
    /// Tag that the initiator has allocated for the context.
    pub initiator_tag: ContextTag,
    /// Nonce that comes back in R2.
    pub initiator_nonce: u32,
    /// Nonce of the R1.
    pub responder_nonce: u32,
    /// Options: all of them make sense, except Locator Preferences without a Locator List.
    pub options: Options,
}

/// Second message of the responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct R2 {
    /// Tag that the responder has allocated for the context.
    pub responder_tag: ContextTag,
    /// Nonce of the I2, or of the I1 if two I1 crossed.
    pub initiator_nonce: u32,
    /// Options: Locator List and the proof of its locators, timeouts.
    pub options: Options,
}

/// Answer to a packet that refers to a context that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct R1bis {
    /// Tag in the packet that this message answers.
    pub packet_tag: ContextTag,
    /// Nonce that comes back in I2bis.
    pub responder_nonce: u32,
    /// Options: Responder Validator.
    pub options: Options,
}

/// Answer to R1bis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct I2bis {
    /// Tag that the initiator has allocated for the context.
    pub initiator_tag: ContextTag,
    /// Nonce that comes back in R2.
    pub initiator_nonce: u32,
    /// Nonce of the R1bis.
    pub responder_nonce: u32,
    /// Tag of the R1bis.
    pub packet_tag: ContextTag,
    /// Options, as in I2.
    pub options: Options,
}

/// New locators or preferences, which replace all earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRequest {
    /// Tag that the receiver has allocated for the context.
    pub receiver_tag: ContextTag,
    /// Nonce that comes back in the acknowledgement.
    pub request_nonce: u32,
    /// Options: Locator List and the proof of its locators, timeouts.
    pub options: Options,
}

/// Answer to [`UpdateRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateAck {
    /// Tag that the receiver has allocated for the context.
    pub receiver_tag: ContextTag,
    /// Nonce of the request.
    pub request_nonce: u32,
    /// Options; the RFCs define none.
    pub options: Options,
}

/// Answer to payload when the host has no payload to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Tag that the receiver has allocated for the context.
    pub receiver_tag: ContextTag,
    /// Options; the RFCs define none.
    pub options: Options,
}

/// Message about a critical part of another message that the sender could not process.
//= rfc5533#5.14
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorMessage {
    /// Reason.
    pub code: ErrorCode,
    /// Place of the part: octets from the start of the invoking packet.
    pub pointer: u16,
    /// First octets of the invoking packet. On the wire they are cut to fit, or padded with zeros to 8 octets.
    pub packet: Vec<u8>,
}

impl ErrorMessage {
    fn decode(packet: &Packet<'_>) -> Result<Self, DropReason> {
        let octets = packet.octets();
        let &[_, _, _, code, _, _, p0, p1] =
            octets.first_chunk::<CONTROL_HEADER_LEN>().ok_or(DropReason::Truncated)?;
        Ok(Self {
            code: ErrorCode::new(code >> 1),
            pointer: u16::from_be_bytes([p0, p1]),
            packet: packet.octets_from(CONTROL_HEADER_LEN).to_vec(),
        })
    }

    fn write(&self, mut writer: Writer) -> Writer {
        let packet = self.packet.get(..MAX_MESSAGE_LEN - CONTROL_HEADER_LEN);
        if packet.is_some_and(|start| start.len() < self.packet.len()) {
            writer.cut();
        }
        writer.field(&self.pointer.to_be_bytes()).field(packet.unwrap_or(&self.packet))
    }
}

/// Offset of the first field behind the checksum.
const FIELDS_AT: usize = 6;
