//! Reading answers of the kernel attribute by attribute.
//!
//! Only the few attributes we need are looked at: a link with an attribute of a newer kernel that a
//! full decoder trips over must not vanish from the view, as that would look like a dead uplink.

use std::net::Ipv6Addr;

/// One message of an answer: its fixed header and its attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// `RTM_NEWLINK` and so on.
    pub(crate) kind: u16,
    fixed: usize,
    octets: Vec<u8>,
}

impl Row {
    /// Splits a message behind its netlink header; `None` if it is shorter than its fixed header.
    pub(crate) fn parse(kind: u16, payload: &[u8]) -> Option<Self> {
        let fixed = match kind {
            libc::RTM_NEWLINK | libc::RTM_DELLINK => 16,
            libc::RTM_NEWADDR | libc::RTM_DELADDR => 8,
            libc::RTM_NEWPREFIX | libc::RTM_NEWNEIGH | libc::RTM_DELNEIGH => 12,
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE | libc::RTM_NEWRULE | libc::RTM_DELRULE => 12,
            RTM_NEWADDRLABEL => 12,
            _ => 0,
        };
        (payload.len() >= fixed).then(|| Self { kind, fixed, octets: payload.to_vec() })
    }

    pub(crate) fn byte(&self, offset: usize) -> u8 {
        self.octets
            .get(..self.fixed)
            .and_then(|header| header.get(offset))
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn header_u32(&self, offset: usize) -> u32 {
        self.octets.get(offset..self.fixed).and_then(read_u32).unwrap_or_default()
    }

    pub(crate) fn attribute(&self, number: u16) -> Option<&[u8]> {
        attribute(self.octets.get(self.fixed..)?, number)
    }

    pub(crate) fn u32(&self, number: u16) -> Option<u32> {
        self.attribute(number).and_then(read_u32)
    }

    pub(crate) fn u8(&self, number: u16) -> Option<u8> {
        self.attribute(number).and_then(|value| value.first().copied())
    }

    pub(crate) fn address(&self, number: u16) -> Option<Ipv6Addr> {
        self.attribute(number).and_then(read_address)
    }

    pub(crate) fn text(&self, number: u16) -> Option<String> {
        self.attribute(number).map(read_text)
    }
}

/// An attribute of a message or of a nested attribute; what is behind a broken one is not looked at.
pub(crate) fn attribute(mut octets: &[u8], number: u16) -> Option<&[u8]> {
    while let [l0, l1, k0, k1, ..] = *octets {
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = octets.get(4..length)?;
        if u16::from_ne_bytes([k0, k1]) & NLA_TYPE_MASK == number {
            return Some(value);
        }
        octets = octets.get(align(length)..).unwrap_or_default();
    }
    None
}

/// Lengths in netlink are rounded up to four octets.
pub(crate) const fn align(length: usize) -> usize {
    (length + 3) & !3
}

pub(crate) fn read_u32(octets: &[u8]) -> Option<u32> {
    octets.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

pub(crate) fn read_address(octets: &[u8]) -> Option<Ipv6Addr> {
    octets.first_chunk::<16>().map(|chunk| Ipv6Addr::from(*chunk))
}

pub(crate) fn read_text(octets: &[u8]) -> String {
    let end = octets.iter().position(|octet| *octet == 0).unwrap_or(octets.len());
    String::from_utf8_lossy(&octets[..end]).into_owned()
}

const RTM_NEWADDRLABEL: u16 = 72;
/// The two top bits of an attribute's number are flags.
const NLA_TYPE_MASK: u16 = 0x3fff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_up_to_a_broken_one() {
        let mut octets = vec![8, 0, 3, 0x80, 1, 2, 3, 4];
        octets.extend([5, 0, 4, 0, 9, 0, 0, 0]);
        octets.extend([200, 0, 5, 0, 1]);
        let values = [3, 4, 5].map(|number| attribute(&octets, number));
        assert_eq!(values, [Some(&[1, 2, 3, 4][..]), Some(&[9][..]), None]);
    }

    #[test]
    fn a_length_below_its_own_header_ends_the_list() {
        assert_eq!(attribute(&[2, 0, 1, 0, 0, 0, 0, 0], 1), None);
        assert_eq!(attribute(&[2, 0, 0, 0, 4, 0, 1, 0], 1), None);
    }

    #[test]
    fn a_message_shorter_than_its_header_is_none() {
        assert_eq!(Row::parse(libc::RTM_NEWLINK, &[0; 15]), None);
        assert!(Row::parse(libc::RTM_NEWLINK, &[0; 16]).is_some());
    }
}
