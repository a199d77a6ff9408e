use moorline_ip::extension::{FRAGMENT_LEN, Fragment};
use moorline_ip::header::LEN;
use moorline_ip::icmp::{ERRONEOUS_FIELD, INCOMPLETE_CHAIN};
use moorline_ip::{Header, PacketBuf};

use super::Whole;
use crate::Drop;
use crate::chain::{Position, Skim, Verdict, problem, skim};

/// A fragment that is valid by itself.
pub(super) struct Incoming<'a> {
    /// Its Fragment header.
    pub(super) fields: Fragment,
    /// Its headers, up to and with the Fragment header.
    pub(super) headers: &'a [u8],
    /// Octets behind the Fragment header.
    pub(super) data: &'a [u8],
    /// Position of the Fragment header.
    pub(super) position: Position,
}

impl<'a> Incoming<'a> {
    pub(super) fn check(
        packet: &'a [u8],
        header: &Header,
        position: Position,
    ) -> Result<Self, Verdict> {
        let truncated = Verdict::Discard(Drop::Truncated);
        let packet = packet.get(..header.packet_len()).ok_or(truncated)?;
        let behind = position.at + FRAGMENT_LEN;
        let (headers, data) = packet.split_at_checked(behind).ok_or(truncated)?;
        let fields = headers.get(position.at..).map(Fragment::parse);
        let fields = fields.and_then(Result::ok).ok_or(truncated)?;
        let fragment = Self { fields, headers, data, position };
        fragment.check_length()?;
        fragment.check_chain(packet)?;
        Ok(fragment)
    }

    //= rfc8200#4.5-13 rfc8200#4.5-14 rfc8200#4.5-15 rfc8200#4.5-16
    fn check_length(&self) -> Result<(), Verdict> {
        // RFC 8200 s4.5: the length is not a multiple of 8 octets and the M flag is 1.
        if self.fields.has_more && !self.data.len().is_multiple_of(8) {
            return Err(problem(Drop::FragmentLength, ERRONEOUS_FIELD, PAYLOAD_LEN_AT));
        }
        // RFC 8200 s4.5: the Payload Length of the packet reassembled from that fragment would exceed 65,535 octets.
        if self.position.at.saturating_sub(LEN) + self.end() > MAX_PAYLOAD {
            let offset_at = self.position.at + OFFSET_AT;
            return Err(problem(Drop::FragmentLength, ERRONEOUS_FIELD, offset_at));
        }
        Ok(())
    }

    /// RFC 8200 s4.5, RFC 7112 s5: a first fragment includes all headers through an upper-layer header, or the host
    /// discards the fragment and sends a Parameter Problem with code 3 and pointer zero.
    //= rfc8504#5.2-8 rfc8504#5.2-9
    //= rfc7112#5-2 rfc7112#5-3 rfc7112#5-8 rfc7112#5-9 rfc7112#5-10
    //= rfc8200#4.5-17 rfc8200#4.5-18
    fn check_chain(&self, packet: &[u8]) -> Result<(), Verdict> {
        if self.fields.offset > 0 || self.fields.is_atomic() {
            return Ok(());
        }
        let chain = skim(packet, self.fields.next_header, self.headers.len());
        match (chain, chain.end(packet)) {
            (Skim::TooLong, _) => Err(Verdict::Discard(Drop::TooManyHeaders)),
            // A fragment within a fragment is not complete yet; the walk comes to it after this reassembly.
            (Skim::LaterFragment(_), _) | (_, Some(_)) => Ok(()),
            (_, None) => Err(problem(Drop::FragmentChain, INCOMPLETE_CHAIN, 0)),
        }
    }

    pub(super) fn start(&self) -> usize {
        self.fields.offset.into()
    }

    pub(super) fn end(&self) -> usize {
        self.start() + self.data.len()
    }

    /// The packet of an atomic fragment.
    //= rfc8200#4.5-8
    pub(super) fn alone(&self) -> Option<Whole> {
        assemble(self.headers, self.position, None, &[self.data])
    }
}

/// The packet with the headers of a first fragment, without its Fragment header, and with this data. `None` if the
/// packet would be too long.
//= rfc8200#4.5-24
pub(super) fn assemble(
    headers: &[u8],
    position: Position,
    traffic_class: Option<u8>,
    data: &[&[u8]],
) -> Option<Whole> {
    let (headers, fields) = headers.split_at_checked(position.at)?;
    let len = headers.len() + data.iter().map(|octets| octets.len()).sum::<usize>();
    let mut packet = PacketBuf::with_capacity(len);
    packet.extend(headers);
    data.iter().for_each(|octets| packet.extend(octets));
    // RFC 8200 s4.5: the Next Header of the last header in front is that of the first fragment's Fragment header.
    let protocol = *fields.first()?;
    *packet.get_mut(position.field)? = protocol;
    let payload_len = u16::try_from(len.checked_sub(LEN)?).ok()?;
    let payload_field = packet.get_mut(PAYLOAD_LEN_AT..PAYLOAD_LEN_AT + 2)?;
    payload_field.copy_from_slice(&payload_len.to_be_bytes());
    let mut header = Header::parse(&packet).ok()?;
    if let Some(traffic_class) = traffic_class {
        header.traffic_class = traffic_class;
        packet.get_mut(..LEN)?.copy_from_slice(&header.octets());
    }
    let headers = position.headers + 1;
    let position = Position { protocol, headers, was_fragmented: true, ..position };
    Some(Whole { packet, header, position })
}

const MAX_PAYLOAD: usize = 65_535;
const PAYLOAD_LEN_AT: usize = 4;
/// Offset of the Fragment Offset field in a Fragment header.
const OFFSET_AT: usize = 2;
