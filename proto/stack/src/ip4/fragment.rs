use moorline_ip::extension::{FRAGMENT_LEN, Fragment};
use moorline_ip::header::LEN;
use moorline_ip::ip4::{self, Ip4};
use moorline_ip::ip6::FRAGMENT;
use moorline_ip::{Header, PacketBuf};

use super::mapped;
use crate::Drop;
use crate::chain::Position;

/// The IPv6 fragment for a fragment of IPv4 (RFC 7915 s4.1), and its header. The reassembly gathers both kinds. The flow label, which
/// IPv4 does not have, keeps the Identification for errors about the datagram.
///
/// # Errors
/// [`Drop::FragmentLength`] if the datagram would be longer than 65,535 octets.
pub(crate) fn as_ip6(ip: &Ip4, packet: &[u8]) -> Result<(PacketBuf, Header), Drop> {
    let data = packet.get(ip.header_len.into()..ip.total_len.into()).ok_or(Drop::Truncated)?;
    let payload_len = u16::try_from(FRAGMENT_LEN + data.len()).map_err(|_| Drop::FragmentLength)?;
    ip.total_len.checked_add(ip.offset).ok_or(Drop::FragmentLength)?;
    let header = Header {
        next_header: FRAGMENT,
        flow_label: ip.identification.into(),
        payload_len,
        ..mapped(ip)
    };
    let fields = Fragment {
        next_header: ip.protocol,
        offset: ip.offset,
        has_more: ip.more_fragments,
        // RFC 791 s2.3: source, destination, protocol and identification name a datagram.
        identification: u32::from(ip.protocol) << 16 | u32::from(ip.identification),
    };
    let mut fragment = PacketBuf::with_capacity(LEN + usize::from(payload_len));
    fragment.extend(&header.octets());
    fragment.extend(&fields.octets());
    fragment.extend(data);
    Ok((fragment, header))
}

/// Cuts a packet of this host, which has no options, into fragments of `mtu` octets at most (RFC 791 s3.2).
pub(crate) fn fragments(
    packet: &[u8],
    header: Ip4,
    mtu: u32,
) -> impl Iterator<Item = PacketBuf> + '_ {
    let room = usize::try_from(mtu).unwrap_or(usize::MAX).saturating_sub(ip4::LEN) & !7;
    let data = packet.get(ip4::LEN..).unwrap_or_default();
    let count = data.len().div_ceil(room.max(8));
    data.chunks(room.max(8)).enumerate().filter_map(move |(index, chunk)| {
        let fields = Ip4 {
            total_len: u16::try_from(ip4::LEN + chunk.len()).ok()?,
            offset: u16::try_from(index * room.max(8)).ok()?,
            more_fragments: index + 1 < count,
            ..header
        };
        let mut fragment = PacketBuf::with_capacity(ip4::LEN + chunk.len());
        fragment.extend(&fields.octets());
        fragment.extend(chunk);
        Some(fragment)
    })
}

/// The place of the upper layer in a packet of IPv4.
impl From<&Ip4> for Position {
    fn from(ip: &Ip4) -> Self {
        Self {
            protocol: ip.protocol,
            at: ip.header_len.into(),
            field: PROTOCOL_AT,
            headers: 0,
            has_router_alert: false,
            was_fragmented: false,
        }
    }
}

/// Offset of the Protocol field.
const PROTOCOL_AT: usize = 9;
