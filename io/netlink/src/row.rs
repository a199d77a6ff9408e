//! Messages from and to the kernel: a fixed header, with attributes behind it.
//!
//! Only the few attributes that we need are read. A full decoder may fail on an attribute of a newer kernel, and the
//! link with that attribute would vanish from the view like a dead uplink.

use moorline_types::Prefix;
use std::net::Ipv6Addr;

/// A message, or an attribute that contains attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// `RTM_NEWLINK` and so on.
    pub(crate) kind: u16,
    fixed: usize,
    octets: Vec<u8>,
}

impl Row {
    /// Creates a message with this fixed header.
    pub(crate) fn new(kind: u16, header: &[u8]) -> Self {
        Self { kind, fixed: header.len(), octets: header.to_vec() }
    }

    /// Creates a message about IPv6: its family is in the first octet, and the other octets of the header are zero.
    pub(crate) fn ipv6(kind: u16) -> Self {
        Self::new(kind, &vec![0; fixed_len(kind)]).at(0, [INET6])
    }

    /// Splits a message, behind its netlink header. `None` if it is shorter than its fixed header.
    pub(crate) fn parse(kind: u16, payload: &[u8]) -> Option<Self> {
        Self::split(kind, fixed_len(kind), payload)
    }

    /// As [`Self::parse`], with a fixed header of this length.
    pub(crate) fn split(kind: u16, fixed: usize, payload: &[u8]) -> Option<Self> {
        (payload.len() >= fixed).then(|| Self { kind, fixed, octets: payload.to_vec() })
    }

    /// Adds an attribute.
    pub(crate) fn with(mut self, number: u16, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        let length = u16::try_from(ATTRIBUTE_HEADER + value.len()).unwrap_or(u16::MAX);
        self.octets.extend([length, number].map(u16::to_ne_bytes).as_flattened());
        self.octets.extend(value);
        self.octets.resize(align(self.octets.len()), 0);
        self
    }

    /// Adds an attribute if there is a value.
    pub(crate) fn with_some(self, number: u16, value: Option<impl AsRef<[u8]>>) -> Self {
        match value {
            Some(value) => self.with(number, value),
            None => self,
        }
    }

    /// Adds an attribute with a number.
    pub(crate) fn with_u32(self, number: u16, value: u32) -> Self {
        self.with(number, value.to_ne_bytes())
    }

    /// Adds the address of a prefix, and sets its length at `length_at` of the fixed header.
    pub(crate) fn with_prefix(self, number: u16, length_at: usize, value: Option<Prefix>) -> Self {
        let length = value.map_or(0, |prefix| prefix.length());
        self.at(length_at, [length])
            .with_some(number, value.map(|prefix| prefix.address().octets()))
    }

    /// Sets octets of the fixed header.
    pub(crate) fn at(mut self, offset: usize, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref();
        self.octets[offset..offset + value.len()].copy_from_slice(value);
        self
    }

    /// The same message with another kind.
    pub(crate) fn of_kind(&self, kind: u16) -> Self {
        Self { kind, ..self.clone() }
    }

    pub(crate) fn is_ipv6(&self) -> bool {
        self.byte(0) == INET6
    }

    pub(crate) fn byte(&self, offset: usize) -> u8 {
        self.header(offset).and_then(|octets| octets.first().copied()).unwrap_or_default()
    }

    pub(crate) fn header_u32(&self, offset: usize) -> u32 {
        self.header(offset).and_then(read_u32).unwrap_or_default()
    }

    /// The fixed header from this octet on.
    pub(crate) fn header(&self, offset: usize) -> Option<&[u8]> {
        self.octets.get(offset..self.fixed)
    }

    pub(crate) fn attributes(&self) -> impl Iterator<Item = (u16, &[u8])> {
        attributes(self.octets.get(self.fixed..).unwrap_or_default())
    }

    pub(crate) fn attribute(&self, number: u16) -> Option<&[u8]> {
        self.attributes().find(|(one, _)| *one == number).map(|(_, value)| value)
    }

    /// An attribute that contains attributes.
    pub(crate) fn nested(&self, number: u16) -> Option<Self> {
        Self::split(number, 0, self.attribute(number)?)
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

    /// An address, with the length of its prefix at `length_at` of the fixed header.
    pub(crate) fn prefix(&self, number: u16, length_at: usize) -> Option<Prefix> {
        self.address(number).map(|address| Prefix::new(address, self.byte(length_at)))
    }

    pub(crate) fn text(&self, number: u16) -> Option<String> {
        self.attribute(number).map(read_text)
    }
}

impl AsRef<[u8]> for Row {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

/// Length in octets of the fixed header of such a message.
pub(crate) const fn fixed_len(kind: u16) -> usize {
    match kind {
        libc::RTM_NEWLINK..=libc::RTM_SETLINK => 16,
        libc::RTM_NEWADDR..=libc::RTM_GETADDR => 8,
        libc::RTM_NEWROUTE..=libc::RTM_GETROUTE
        | libc::RTM_NEWNEIGH..=libc::RTM_GETNEIGH
        | libc::RTM_NEWRULE..=libc::RTM_GETRULE
        | libc::RTM_NEWADDRLABEL..=libc::RTM_GETADDRLABEL
        | libc::RTM_NEWPREFIX => 12,
        _ => 0,
    }
}

/// Attributes of a message or of a nested attribute. Attributes behind a broken one are not read.
fn attributes(mut octets: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let [l0, l1, k0, k1, ..] = *octets else { return None };
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = octets.get(ATTRIBUTE_HEADER..length)?;
        octets = octets.get(align(length)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & NUMBER, value))
    })
}

/// Rounds a length up to four octets, as lengths in netlink are.
pub(crate) const fn align(length: usize) -> usize {
    length.next_multiple_of(4)
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

/// `AF_INET6`
pub(crate) const INET6: u8 = 10;
const ATTRIBUTE_HEADER: usize = 4;
/// Flag in the number of an attribute: it contains attributes.
pub(crate) const NESTED: u16 = 0x8000;
/// The two top bits of an attribute's number are flags.
const NUMBER: u16 = 0x3fff;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(attributes: &[u8]) -> Row {
        Row::split(0, 0, attributes).unwrap()
    }

    #[test]
    fn attributes_are_read_up_to_a_broken_one() {
        let mut octets = vec![8, 0, 3, 0x80, 1, 2, 3, 4];
        octets.extend([5, 0, 4, 0, 9, 0, 0, 0]);
        octets.extend([200, 0, 5, 0, 1]);
        let row = row(&octets);
        let values = [3, 4, 5].map(|number| row.attribute(number));
        assert_eq!(values, [Some(&[1, 2, 3, 4][..]), Some(&[9][..]), None]);
    }

    #[test]
    fn a_length_below_its_own_header_ends_the_list() {
        assert_eq!(row(&[2, 0, 1, 0, 0, 0, 0, 0]).attribute(1), None);
        assert_eq!(row(&[2, 0, 0, 0, 4, 0, 1, 0]).attribute(1), None);
    }

    #[test]
    fn a_message_shorter_than_its_header_is_none() {
        assert_eq!(Row::parse(libc::RTM_NEWLINK, &[0; 15]), None);
        assert!(Row::parse(libc::RTM_NEWLINK, &[0; 16]).is_some());
    }

    #[test]
    fn what_is_put_together_is_read_as_such() {
        let address = "2001:db8::1".parse::<Ipv6Addr>().unwrap();
        let nested = Row::default().with_u32(7, 1500);
        let row = Row::ipv6(libc::RTM_NEWROUTE)
            .at(1, [128])
            .at(8, 0x200_u32.to_ne_bytes())
            .with(1, address.octets())
            .with(2, "up1")
            .with(8 | NESTED, &nested)
            .with_some(9, None::<[u8; 4]>);
        let read = Row::parse(libc::RTM_NEWROUTE, row.as_ref()).unwrap();
        assert_eq!(read, row);
        assert_eq!((read.byte(1), read.header_u32(8)), (128, 0x200));
        assert_eq!(read.prefix(1, 1), Some(Prefix::new(address, 128)));
        assert_eq!(read.text(2).as_deref(), Some("up1"));
        assert_eq!(read.nested(8).and_then(|nested| nested.u32(7)), Some(1500));
        assert_eq!(read.attribute(9), None);
    }
}
