//! Extension headers (RFC 8200 s4): options, routing headers, fragment headers.

use core::fmt;

use crate::Malformed;
use crate::reader::Reader;

/// A Hop-by-Hop Options or Destination Options header (RFC 8200 s4.3, s4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// Next Header.
    pub next_header: u8,
    /// Octets of the header.
    pub len: usize,
    contents: &'a [u8],
}

impl<'a> Options<'a> {
    /// Reads the header at the start of `octets`. [`Options::iter`] reads the options.
    ///
    /// # Errors
    /// [`Malformed::Truncated`].
    pub fn parse(octets: &'a [u8]) -> Result<Self, Malformed> {
        let (next_header, len, header) = extent(octets)?;
        Ok(Self { next_header, len, contents: &header[2..] })
    }

    /// The options, without padding. After an option that is not valid, the iterator ends.
    #[must_use]
    pub const fn iter(&self) -> OptionIter<'a> {
        OptionIter { rest: self.contents, at: 2 }
    }
}

impl<'a> IntoIterator for Options<'a> {
    type Item = Result<RawOption<'a>, Malformed>;
    type IntoIter = OptionIter<'a>;

    fn into_iter(self) -> OptionIter<'a> {
        self.iter()
    }
}

/// An option as it is on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawOption<'a> {
    /// Option Type.
    pub kind: u8,
    /// Offset of the Option Type in the header.
    pub at: usize,
    /// Option Data.
    pub data: &'a [u8],
}

impl RawOption<'_> {
    /// Reaction of a node that does not know the option (RFC 8200 s4.2).
    //= rfc8200#4.2-3
    #[must_use]
    pub const fn action(&self) -> UnknownAction {
        match self.kind >> 6 {
            0 => UnknownAction::Skip,
            1 => UnknownAction::Discard,
            2 => UnknownAction::Report,
            _ => UnknownAction::ReportUnlessMulticast,
        }
    }
}

/// Reaction of a node to a packet with an option that the node does not know: the two highest bits of the Option Type
/// (RFC 8200 s4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownAction {
    /// 00: skip the option.
    Skip,
    /// 01: discard the packet.
    Discard,
    /// 10: discard the packet and send a Parameter Problem, code 2.
    Report,
    /// 11: as [`UnknownAction::Report`], but send nothing if the destination of the packet is a multicast address.
    ReportUnlessMulticast,
}

/// Iterator over the options of a header, without Pad1 and PadN.
#[derive(Clone, Copy, Debug)]
pub struct OptionIter<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> OptionIter<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        self.at += len;
        Some(head)
    }

    fn fail(&mut self) -> Option<Result<RawOption<'a>, Malformed>> {
        self.rest = &[];
        Some(Err(Malformed::Option))
    }
}

impl<'a> Iterator for OptionIter<'a> {
    type Item = Result<RawOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (&kind, behind) = self.rest.split_first()?;
            if kind == PAD1 {
                self.take(1)?;
                continue;
            }
            let Some(&len) = behind.first() else { return self.fail() };
            let at = self.at;
            let Some(option) = self.take(2 + usize::from(len)) else { return self.fail() };
            if kind != PADN {
                return Some(Ok(RawOption { kind, at, data: &option[2..] }));
            }
        }
    }
}

/// The part of a Routing header that all types have (RFC 8200 s4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Routing {
    /// Next Header.
    pub next_header: u8,
    /// Octets of the header.
    pub len: usize,
    /// Routing Type.
    pub kind: u8,
    /// Segments Left: nodes that the packet has still to visit.
    pub segments_left: u8,
}

impl Routing {
    /// Reads the header at the start of `octets`.
    ///
    /// # Errors
    /// [`Malformed::Truncated`].
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let (next_header, len, header) = extent(octets)?;
        Ok(Self { next_header, len, kind: header[2], segments_left: header[3] })
    }
}

/// A Fragment header (RFC 8200 s4.5).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Next Header of the original packet's fragmentable part.
    pub next_header: u8,
    /// Offset of the data in the fragmentable part, in octets; a multiple of 8.
    pub offset: u16,
    /// M flag: whether more fragments follow.
    pub has_more: bool,
    /// Identification of the original packet.
    pub identification: u32,
}

impl Fragment {
    /// Reads the header at the start of `octets`. Reserved fields are ignored.
    ///
    /// # Errors
    /// [`Malformed::Truncated`].
    pub fn parse(octets: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let [next_header, _reserved] = reader.array()?;
        let word = reader.u16()?;
        let identification = reader.u32()?;
        Ok(Self { next_header, offset: word & !7, has_more: word & 1 != 0, identification })
    }

    /// The octets of the header.
    #[must_use]
    pub fn octets(&self) -> [u8; FRAGMENT_LEN] {
        let word = (self.offset & !7 | u16::from(self.has_more)).to_be_bytes();
        let id = self.identification.to_be_bytes();
        [self.next_header, 0, word[0], word[1], id[0], id[1], id[2], id[3]]
    }

    /// Whether the fragment is the whole packet (RFC 6946 s2: an atomic fragment).
    #[must_use]
    pub const fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.has_more
    }
}

impl fmt::Debug for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { next_header, offset, has_more, identification } = self;
        write!(f, "Fragment({identification:#010x}, at {offset}, next {next_header}")?;
        f.write_str(if *has_more { ", more)" } else { ", last)" })
    }
}

/// Next Header, length and octets of the header at the start of `octets`, whose second octet counts units of 8 octets
/// behind the first 8.
fn extent(octets: &[u8]) -> Result<(u8, usize, &[u8]), Malformed> {
    let &[next_header, units] = octets.first_chunk().ok_or(Malformed::Truncated)?;
    let len = (usize::from(units) + 1) * 8;
    let header = octets.get(..len).ok_or(Malformed::Truncated)?;
    Ok((next_header, len, header))
}

/// Octets of a Fragment header.
pub const FRAGMENT_LEN: usize = 8;
/// The Router Alert option (RFC 2711).
pub const ROUTER_ALERT: u8 = 5;
const PAD1: u8 = 0;
const PADN: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    //= rfc8200#4.2-6 (test)
    #[test]
    fn options_are_read_without_their_padding() {
        let octets = [17, 1, 5, 2, 0, 0, 0, 0xc2, 1, 9, 1, 3, 0, 0, 0, 0];
        let options = Options::parse(&octets).expect("header");
        assert_eq!((options.next_header, options.len), (17, 16));
        let read: Vec<_> = options.iter().map(|option| option.expect("option")).collect();
        assert_eq!(read[0], RawOption { kind: ROUTER_ALERT, at: 2, data: &[0, 0] });
        assert_eq!(read[1], RawOption { kind: 0xc2, at: 7, data: &[9] });
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].action(), UnknownAction::Skip);
        assert_eq!(read[1].action(), UnknownAction::ReportUnlessMulticast);
    }

    #[test]
    fn an_option_that_leaves_the_header_ends_the_options() {
        for contents in [[5, 5, 0, 0, 0, 0], [1, 1, 0, 5, 2, 0], [0, 0, 0, 0, 0, 5]] {
            let mut octets = Vec::from([59, 0]);
            octets.extend(contents);
            let options = Options::parse(&octets).expect("header");
            let read: Vec<_> = options.iter().collect();
            assert_eq!(read, [Err(Malformed::Option)]);
        }
        assert_eq!(Options::parse(&[59, 1, 0, 0, 0, 0, 0, 0]), Err(Malformed::Truncated));
    }

    #[test]
    fn routing_and_fragment_headers_are_read() {
        let routing = Routing::parse(&[58, 0, 0, 2, 0, 0, 0, 0]).expect("header");
        assert_eq!(routing, Routing { next_header: 58, len: 8, kind: 0, segments_left: 2 });
        let fragment =
            Fragment { next_header: 17, offset: 1448, has_more: true, identification: 7 };
        assert_eq!(fragment.octets(), [17, 0, 0x05, 0xa9, 0, 0, 0, 7]);
        assert_eq!(Fragment::parse(&fragment.octets()), Ok(fragment));
        assert!(!fragment.is_atomic());
        // The reserved bits do not count.
        assert!(Fragment::parse(&[17, 9, 0, 6, 0, 0, 0, 1]).expect("header").is_atomic());
    }
}
