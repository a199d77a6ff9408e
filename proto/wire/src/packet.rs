use crate::consts::{CONTROL_HEADER_LEN, MAX_MESSAGE_LEN};
use crate::locators::LocatorList;
use crate::option::{OPTION_HEADER_LEN, OptionIter, RawOption};
use crate::probe::{COUNTS_AT, Probe};
use crate::{Message, MessageType, OptionType};
use core::net::Ipv6Addr;
use moorline_ip::checksum;
use moorline_types::{ContextTag, DropReason};

/// A control message with right lengths, addresses and checksum. Its options are not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    octets: &'a [u8],
    kind: MessageType,
    options_at: usize,
}

impl<'a> Packet<'a> {
    /// Makes the checks that RFC 5533 s12.3 asks for in each control message. `octets` begin at Next Header. Octets
    /// behind the length that the header gives are not part of the message.
    ///
    /// The type may be unknown, as a host answers such a message: see [`Packet::message`].
    ///
    /// # Errors
    /// [`DropReason::Truncated`], [`DropReason::BadFormat`], [`DropReason::BadLength`], [`DropReason::BadAddress`],
    /// [`DropReason::BadChecksum`].
    //= rfc5533#5.3 rfc5533#12.3
    pub fn parse(octets: &'a [u8], src: Ipv6Addr, dst: Ipv6Addr) -> Result<Self, DropReason> {
        let &[_, ext_len, p_and_type, code_and_s, ..] =
            octets.first_chunk::<CONTROL_HEADER_LEN>().ok_or(DropReason::Truncated)?;
        //= rfc5533#5.4-1 rfc5533#5.5-1 rfc5533#5.6-1 rfc5533#5.7-1 rfc5533#5.8-1 rfc5533#5.9-1
        //= rfc5533#5.10-1 rfc5533#5.11-1 rfc5534#5.1-2 rfc5534#5.2-2
        // If P is set, this is a payload header. If S is set, it is HIP (RFC 5533 s5.3).
        if p_and_type & 0x80 != 0 || code_and_s & 1 != 0 {
            return Err(DropReason::BadFormat);
        }
        let len = (usize::from(ext_len) + 1) * 8;
        if len > MAX_MESSAGE_LEN {
            return Err(DropReason::BadLength);
        }
        let octets = octets.get(..len).ok_or(DropReason::Truncated)?;
        if [src, dst].iter().any(|address| address.is_multicast() || address.is_unspecified()) {
            return Err(DropReason::BadAddress);
        }
        if checksum(octets) != 0 {
            return Err(DropReason::BadChecksum);
        }
        let kind = MessageType::new(p_and_type);
        let options_at = options_at(kind, octets)?;
        Ok(Self { octets, kind, options_at })
    }

    /// Type of the message.
    #[must_use]
    pub const fn kind(&self) -> MessageType {
        self.kind
    }

    /// Octets of the message, from Next Header to the end that its header gives.
    #[must_use]
    pub const fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Context tag that the sender has allocated: in I1, I2, I2bis, R2.
    #[must_use]
    pub fn sender_tag(&self) -> Option<ContextTag> {
        self.tag_in(&[MessageType::I1, MessageType::I2, MessageType::I2BIS, MessageType::R2], 6)
    }

    /// Context tag that the receiver has allocated: in Update Request and Acknowledgement, Keepalive, Probe.
    #[must_use]
    pub fn receiver_tag(&self) -> Option<ContextTag> {
        let kinds = [
            MessageType::UPDATE_REQUEST,
            MessageType::UPDATE_ACK,
            MessageType::KEEPALIVE,
            MessageType::PROBE,
        ];
        self.tag_in(&kinds, 6)
    }

    /// Packet Context Tag: in R1bis, I2bis.
    #[must_use]
    pub fn packet_tag(&self) -> Option<ContextTag> {
        self.tag_in(&[MessageType::R1BIS], 6).or_else(|| self.tag_in(&[MessageType::I2BIS], 26))
    }

    /// Initiator Nonce: in I1, R1, I2, I2bis, R2.
    #[must_use]
    pub fn initiator_nonce(&self) -> Option<u32> {
        let kinds = [MessageType::I1, MessageType::I2, MessageType::I2BIS, MessageType::R2];
        self.u32_in(&[MessageType::R1], 8).or_else(|| self.u32_in(&kinds, 12))
    }

    /// Responder Nonce: in R1, I2, R1bis, I2bis.
    #[must_use]
    pub fn responder_nonce(&self) -> Option<u32> {
        self.u32_in(&[MessageType::R1, MessageType::R1BIS], 12)
            .or_else(|| self.u32_in(&[MessageType::I2, MessageType::I2BIS], 16))
    }

    /// Request Nonce: in Update Request and Acknowledgement.
    #[must_use]
    pub fn request_nonce(&self) -> Option<u32> {
        self.u32_in(&[MessageType::UPDATE_REQUEST, MessageType::UPDATE_ACK], 12)
    }

    /// The options, not decoded. An Error message and a message of unknown type have none.
    #[must_use]
    pub fn options(&self) -> OptionIter<'a> {
        OptionIter::new(self.octets_from(self.options_at), self.options_at)
    }

    /// Contents of the first option of this type. The option must be listed for the message, and no malformed option
    /// may precede it. [`crate::Options`] gives the same option.
    #[must_use]
    pub fn raw_option(&self, kind: OptionType) -> Option<&'a [u8]> {
        self.find(kind).map(|raw| raw.contents)
    }

    /// Offset of the first option that has the critical bit set and is unknown, or not listed for this type of
    /// message. The offset is the Pointer of the Error message that is due. If there is such an option, no part of
    /// the message may be processed (RFC 5533 s5.15).
    //= rfc5533#5.15-5
    #[must_use]
    pub fn unknown_critical(&self) -> Option<u16> {
        self.options()
            .map_while(Result::ok)
            .find(|raw| raw.critical && !self.kind.lists(raw.kind))
            .map(|raw| raw.offset)
    }

    /// Offset of the verification method of a locator: the Pointer of an Error message with
    /// [`crate::ErrorCode::VERIFICATION_METHOD`].
    #[must_use]
    pub fn verification_method_offset(&self, index: usize) -> Option<u16> {
        let raw = self.find(OptionType::LOCATOR_LIST)?;
        let count = *raw.contents.get(LocatorList::METHODS_AT - 1)?;
        (index < usize::from(count)).then_some(())?;
        let within = u16::try_from(OPTION_HEADER_LEN + LocatorList::METHODS_AT + index).ok()?;
        raw.offset.checked_add(within)
    }

    /// Decodes the whole message.
    ///
    /// # Errors
    /// [`DropReason::UnknownType`], and the reason why an option, a probe report or their number is refused.
    pub fn message(&self) -> Result<Message, DropReason> {
        Message::decode(self)
    }

    pub(crate) fn octets_from(&self, at: usize) -> &'a [u8] {
        self.octets.get(at..).unwrap_or(&[])
    }

    fn find(&self, kind: OptionType) -> Option<RawOption<'a>> {
        if !self.kind.lists(kind) {
            return None;
        }
        self.options().map_while(Result::ok).find(|raw| raw.kind == kind)
    }

    fn tag_in(&self, kinds: &[MessageType], at: usize) -> Option<ContextTag> {
        self.field_in(kinds, at).map(ContextTag::from_octets)
    }

    fn u32_in(&self, kinds: &[MessageType], at: usize) -> Option<u32> {
        self.field_in(kinds, at).map(u32::from_be_bytes)
    }

    fn field_in<const N: usize>(&self, kinds: &[MessageType], at: usize) -> Option<[u8; N]> {
        if !kinds.contains(&self.kind) {
            return None;
        }
        self.octets_from(at).first_chunk::<N>().copied()
    }
}

//= rfc5533#7.9-1 rfc5533#7.11-1 rfc5533#7.13-1 rfc5533#7.16-1 rfc5533#7.18-1 rfc5533#7.20-1
//= rfc5533#10.4-1 rfc5533#10.5-1
fn options_at(kind: MessageType, octets: &[u8]) -> Result<usize, DropReason> {
    let Some(fixed) = kind.fixed_len() else { return Ok(octets.len()) };
    if octets.len() < fixed {
        return Err(DropReason::BadLength);
    }
    let at = match kind {
        MessageType::ERROR => octets.len(),
        MessageType::PROBE => fixed + Probe::reports_len(octets[COUNTS_AT]),
        _ => fixed,
    };
    if at > octets.len() { Err(DropReason::BadLength) } else { Ok(at) }
}
