use super::*;
use alloc::vec::Vec;
use hex::FromHex as _;

/// A datagram of UDP from 192.0.2.1 to 192.0.2.2 with four octets behind its header. Written by hand from RFC 791 s3.1.
/// The words of the header sum up to 0x2 5b60, so the checksum is !0x5b62.
const PACKET: &str = "45000018123440004011a49dc0000201c0000202deadbeef";

fn packet() -> Vec<u8> {
    Vec::from_hex(PACKET).expect("hex")
}

/// RFC 1071 s1, word for word, for a header of 20 octets.
fn sum_by_hand(packet: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for at in (0..20).step_by(2).filter(|at| *at != 10) {
        sum += u32::from(packet[at]) << 8 | u32::from(packet[at + 1]);
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !u16::try_from(sum).expect("folded")
}

fn header() -> Ip4 {
    Ip4 {
        tos: 0,
        header_len: 20,
        total_len: 24,
        identification: 0x1234,
        dont_fragment: true,
        more_fragments: false,
        offset: 0,
        ttl: 64,
        protocol: 17,
        source: Ipv4Addr::new(192, 0, 2, 1),
        destination: Ipv4Addr::new(192, 0, 2, 2),
    }
}

#[test]
fn a_header_round_trips() {
    let packet = packet();
    assert_eq!(Ip4::parse(&packet), Ok(header()));
    assert_eq!(header().octets(), packet[..20]);
    let mut padded = packet.clone();
    padded.extend([0; 22]);
    assert_eq!(Ip4::parse(&padded), Ok(header()), "padding of the link");
}

#[test]
fn fields_of_fragments_are_in_units_of_eight_octets() {
    let fragment = Ip4 { dont_fragment: false, more_fragments: true, offset: 1480, ..header() };
    let mut packet = Vec::from(fragment.octets());
    assert_eq!(packet[6..8], [0x20, 185]);
    packet.extend([0; 4]);
    assert_eq!(Ip4::parse(&packet), Ok(fragment));
    assert!(fragment.is_fragment() && !header().is_fragment());
    assert!(Ip4 { offset: 8, ..header() }.is_fragment());
}

#[test]
fn each_wrong_field_is_refused() {
    let good = packet();
    for len in 0..20 {
        assert_eq!(Ip4::parse(&good[..len]), Err(Malformed::Truncated), "{len}");
    }
    for len in 20..24 {
        assert_eq!(Ip4::parse(&good[..len]), Err(Malformed::Truncated), "{len}");
    }
    let changed = |at: usize, octet: u8| {
        let mut packet = good.clone();
        packet[at] = octet;
        let sum = sum_by_hand(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        Ip4::parse(&packet)
    };
    assert_eq!(changed(0, 0x65), Err(Malformed::Version));
    assert_eq!(changed(0, 0x44), Err(Malformed::Length), "a header of 16 octets");
    assert_eq!(changed(0, 0x4f), Err(Malformed::Truncated), "a header of 60 octets");
    assert_eq!(changed(3, 19), Err(Malformed::Length), "a packet shorter than its header");
    for at in 0..20 {
        let mut packet = good.clone();
        packet[at] ^= 0x10;
        assert!(Ip4::parse(&packet).is_err(), "{at}");
    }
    let mut packet = good.clone();
    packet[8] -= 1;
    assert_eq!(Ip4::parse(&packet), Err(Malformed::Checksum));
    assert_eq!(Ip4::read(&packet).map(|header| header.ttl), Ok(63), "a quote");
    assert_eq!(Ip4::read(&packet[..20]).map(|header| header.total_len), Ok(24), "a cut quote");
}

#[test]
fn options_are_listed_and_wrong_lengths_have_their_offset() {
    let options = |octets: &[u8]| {
        let words = u8::try_from(5 + octets.len() / 4).expect("short");
        let mut packet = packet();
        packet.splice(20..20, octets.iter().copied());
        let header = Ip4 { header_len: words * 4, ..header() };
        header.options(&packet).collect::<Vec<_>>()
    };
    // Router Alert (RFC 2113), padding, and a loose source route with one address.
    let octets = [148, 4, 0, 0, 1, LOOSE_SOURCE_ROUTE, 7, 4, 10, 0, 0, 1];
    assert_eq!(options(&octets), [Ok(148), Ok(LOOSE_SOURCE_ROUTE)]);
    // Nothing counts behind the end of the list.
    assert_eq!(options(&[1, 0, 131, 9]), []);
    assert_eq!(options(&[1, 7, 1, 0]), [Err(22)], "a length that is too short");
    assert_eq!(options(&[7, 5, 0, 0]), [Err(21)], "a length beyond the header");
    assert_eq!(options(&[1, 1, 1, 7]), [Err(24)], "no length at all");
    assert_eq!(options(&[68, 4, 5, 0, 7, 0, 0, 0]), [Ok(68), Err(25)]);
}
