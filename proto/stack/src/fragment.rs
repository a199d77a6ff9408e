//! Fragments of packets that this host sends (RFC 8200 s4.5).
//!
//! [`fragments`] cuts a packet. [`Identifications`] chooses the number that its fragments share.

mod identification;

use moorline_ip::extension::{FRAGMENT_LEN, Fragment, Options, Routing};
use moorline_ip::header::LEN;
use moorline_ip::ip6::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
use moorline_ip::{Header, PacketBuf};

use crate::chain::skim;
pub use identification::Identifications;

/// Cuts a packet into fragments of `mtu` octets at most. A packet that fits comes back as it is: the host never sends an
/// atomic fragment (RFC 8021).
///
/// # Errors
/// [`Unfit`].
//= rfc8504#5.1-5 rfc8504#5.1-8 rfc8504#5.7.1-2
//= rfc8200#4.1-2 rfc8200#4.1-3
pub fn fragments(packet: &[u8], mtu: u32, identification: u32) -> Result<Fragments<'_>, Unfit> {
    let header = Header::parse(packet).map_err(|_| Unfit::Malformed)?;
    let packet = &packet[..header.packet_len()];
    let mtu = usize::try_from(mtu).unwrap_or(usize::MAX);
    let per_fragment = PerFragment::of(packet, &header).ok_or(Unfit::Malformed)?;
    let cut = Fragments { packet, mtu, per_fragment, header, sent: 0, identification };
    if packet.len() <= mtu || cut.is_chain_in_first() { Ok(cut) } else { Err(Unfit::Chain) }
}

/// Reason for which a packet cannot be sent in fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The headers do not all fit into the first fragment (RFC 7112 s5).
    #[error("the headers do not fit into the first fragment")]
    Chain,
    /// The packet has no valid header, or its extension headers are truncated.
    #[error("the packet is not valid")]
    Malformed,
}

/// Iterator over the fragments of a packet, from the first one on.
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    packet: &'a [u8],
    mtu: usize,
    per_fragment: PerFragment,
    header: Header,
    /// Octets behind the per-fragment headers that have been sent.
    sent: usize,
    identification: u32,
}

impl Fragments<'_> {
    /// RFC 7112 s5: a host includes the entire chain of headers in the first fragment.
    //= rfc8504#5.2-5
    //= rfc7112#5-1
    //= rfc8200#4.5-6
    fn is_chain_in_first(&self) -> bool {
        let PerFragment { len, next_header, .. } = self.per_fragment;
        let chain = skim(self.packet, next_header, len).end(self.packet);
        let room = self.room() & !7;
        room > 0 && chain.is_some_and(|end| end - len <= room)
    }

    /// Octets of one fragment behind its Fragment header, at most.
    //= rfc8200#4.5-5
    const fn room(&self) -> usize {
        self.mtu.saturating_sub(self.per_fragment.len + FRAGMENT_LEN)
    }

    //= rfc8200#4.1-1
    fn fragment(&self, data: &[u8], has_more: bool) -> Option<PacketBuf> {
        let PerFragment { len, field, next_header } = self.per_fragment;
        let offset = u16::try_from(self.sent).ok()?;
        let payload_len = u16::try_from(len - LEN + FRAGMENT_LEN + data.len()).ok()?;
        let mut fragment = PacketBuf::with_capacity(len + FRAGMENT_LEN + data.len());
        fragment.extend(&Header { payload_len, ..self.header }.octets());
        fragment.extend(self.packet.get(LEN..len)?);
        *fragment.get_mut(field)? = FRAGMENT;
        let Self { identification, .. } = *self;
        fragment.extend(&Fragment { next_header, offset, has_more, identification }.octets());
        fragment.extend(data);
        Some(fragment)
    }
}

impl Iterator for Fragments<'_> {
    type Item = PacketBuf;

    //= rfc8504#5.1-6
    //= rfc5722#4-1
    //= rfc8200#4.5-7
    fn next(&mut self) -> Option<PacketBuf> {
        let rest = self.packet.get(self.per_fragment.len + self.sent..)?;
        if self.sent == 0 && self.packet.len() <= self.mtu {
            return Some(PacketBuf::copy_of(core::mem::take(&mut self.packet)));
        }
        // RFC 8200 s4.5: the length of each fragment but the last one is a multiple of 8.
        let has_more = rest.len() > self.room();
        let data = if has_more { &rest[..self.room() & !7] } else { rest };
        let fragment = (!data.is_empty()).then(|| self.fragment(data, has_more)).flatten();
        self.sent += data.len();
        fragment
    }
}

/// The headers that are in each fragment: all up to the Routing header if there is one, or else the Hop-by-Hop Options
/// header if there is one, or else the IPv6 header alone (RFC 8200 s4.5).
//= rfc8504#5.2-6 rfc8504#5.2-7
//= rfc8200#4.5-3 rfc8200#4.5-4
#[derive(Clone, Copy, Debug)]
struct PerFragment {
    len: usize,
    /// Offset of the Next Header field of the last of them.
    field: usize,
    next_header: u8,
}

impl PerFragment {
    /// `None` if a header is truncated.
    fn of(packet: &[u8], header: &Header) -> Option<Self> {
        let mut here = Self { len: LEN, field: NEXT_HEADER_AT, next_header: header.next_header };
        let mut last = here;
        loop {
            let octets = packet.get(here.len..)?;
            let (next_header, len) = match here.next_header {
                HOP_BY_HOP | DESTINATION_OPTIONS => {
                    Options::parse(octets).map(|read| (read.next_header, read.len)).ok()?
                }
                ROUTING => Routing::parse(octets).map(|read| (read.next_header, read.len)).ok()?,
                _ => return Some(last),
            };
            let is_per_fragment = here.next_header != DESTINATION_OPTIONS;
            here = Self { len: here.len + len, field: here.len, next_header };
            if is_per_fragment {
                last = here;
            }
        }
    }
}

const NEXT_HEADER_AT: usize = 6;

#[cfg(test)]
mod tests;
