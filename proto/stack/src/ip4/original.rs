use alloc::vec::Vec;

use moorline_ip::extension::{FRAGMENT_LEN, Fragment};
use moorline_ip::header::LEN;
use moorline_ip::icmp4::MAX_QUOTE;
use moorline_ip::ip4::{self, Ip4};
use moorline_ip::ip6::{FRAGMENT, Ip6};

use super::is_ip4;

/// The packet of IPv4 that an error quotes, up to [`MAX_QUOTE`] octets. `packet` is as it came in, or as [`super::as_ip6`] and the
/// reassembly have made it: then the header is written anew, with the length of the datagram. `None` if the packet is one of IPv6.
pub(crate) fn original(packet: &[u8]) -> Option<Vec<u8>> {
    if is_ip4(packet) {
        return packet.get(..packet.len().min(MAX_QUOTE)).map(Vec::from);
    }
    let ip6 = Ip6::read(packet)?;
    let (source, destination) = (ip6.source.to_ipv4_mapped()?, ip6.destination.to_ipv4_mapped()?);
    let fields = (ip6.next_header == FRAGMENT).then(|| packet.get(LEN..).map(Fragment::parse));
    let fields = fields.flatten().and_then(Result::ok);
    let skipped = if fields.is_some() { FRAGMENT_LEN } else { 0 };
    let data = packet.get(LEN + skipped..)?;
    let data_len = usize::from(ip6.payload_len).checked_sub(skipped)?;
    let header = Ip4 {
        tos: ip6.traffic_class,
        header_len: 20,
        total_len: u16::try_from(ip4::LEN + data_len).unwrap_or(u16::MAX),
        identification: u16::from_be_bytes(*packet.get(LABEL_AT..)?.first_chunk()?),
        dont_fragment: false,
        more_fragments: fields.is_some_and(|fields| fields.has_more),
        offset: fields.map_or(0, |fields| fields.offset),
        ttl: *packet.get(HOP_LIMIT_AT)?,
        protocol: fields.map_or(ip6.next_header, |fields| fields.next_header),
        source,
        destination,
    };
    let mut original = Vec::from(header.octets());
    original.extend_from_slice(&data[..data.len().min(MAX_QUOTE - ip4::LEN)]);
    Some(original)
}

/// Offset of the lower 16 bits of the flow label.
const LABEL_AT: usize = 2;
const HOP_LIMIT_AT: usize = 7;
