use moorline_types::DropReason;

use super::OptionsHeader;
use crate::ip6::{DESTINATION_OPTIONS, ICMPV6, IP6_LEN, Ip6, MAX_CHAIN, next_header};

/// Parts of the extension headers of a packet that matter to ILNP. The Nonce option may be in any Destination Options
/// header (RFC 8200 s4.1): in front of a Routing header or a Fragment header, or in the second one, which a sender
/// that fragments has in its first fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The Destination Options header with the nonce. If there is no nonce, the last Destination Options header.
    pub options: Option<OptionsHeader>,
    /// Offset of that header in the packet.
    pub options_at: usize,
    /// Offset of the ICMPv6 message in the packet, if the headers lead to one.
    pub icmp_at: Option<usize>,
}

impl Chain {
    /// Walks up to [`MAX_CHAIN`] extension headers of a packet.
    ///
    /// # Errors
    /// As [`OptionsHeader::parse`], for each Destination Options header. Two nonces are an error, wherever they are
    /// (RFC 6744 s2).
    //= rfc6744#2-1
    pub fn read(packet: &[u8], ip6: &Ip6) -> Result<Self, DropReason> {
        let mut found = Self { options: None, options_at: 0, icmp_at: None };
        let payload = ip6.payload(packet);
        let (mut protocol, mut at) = (ip6.next_header, 0);
        for _ in 0..MAX_CHAIN {
            let rest = payload.get(at..).unwrap_or_default();
            if protocol == DESTINATION_OPTIONS {
                let options = OptionsHeader::parse(rest)?;
                found.take(options, IP6_LEN + at)?;
                (protocol, at) = (options.next_header, at + options.len);
                continue;
            }
            let Some((next, len)) = next_header(protocol, rest) else { break };
            let Some(len) = len else { return Ok(found) };
            (protocol, at) = (next, at + len);
        }
        found.icmp_at = (protocol == ICMPV6 && at < payload.len()).then_some(IP6_LEN + at);
        Ok(found)
    }

    fn take(&mut self, options: OptionsHeader, at: usize) -> Result<(), DropReason> {
        let has_nonce = self.options.is_some_and(|known| known.nonce.is_some());
        match (has_nonce, options.nonce) {
            (true, Some(_)) => return Err(DropReason::DuplicateOption),
            (true, None) => {}
            (false, _) => (self.options, self.options_at) = (Some(options), at),
        }
        Ok(())
    }
}
