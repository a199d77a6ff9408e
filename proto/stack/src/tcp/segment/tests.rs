use super::*;
use alloc::vec;

const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

fn segment<'a>(flags: Flags, options: &'a [u8], payload: &'a [u8]) -> Segment<'a> {
    Segment {
        source_port: 0x1234,
        destination_port: 80,
        sequence: Seq(0x0102_0304),
        acknowledgment: Seq(0x0506_0708),
        flags,
        window: 0x2000,
        options,
        payload,
    }
}

fn from_a_to_b(destination: Ipv6Addr) -> Header {
    Header::new(A, destination, TCP, 64, 0)
}

#[test]
fn a_segment_round_trips() {
    let written = segment(Flags(0x18), &[1, 1, 1, 0], b"abc");
    let packet = written.to_packet();
    let wanted = "12340050010203040506070860182000000000000101010061\
                  6263";
    assert_eq!(hex::encode(&*packet), wanted);
    assert_eq!(Segment::parse(&packet), Ok(written));
}

#[test]
fn octets_that_are_no_segment_are_refused() {
    let packet = segment(Flags::ACK, &[1, 1, 1, 0], b"").to_packet();
    for len in 0..24 {
        assert_eq!(Segment::parse(&packet[..len]), Err(Drop::Truncated), "{len}");
    }
    let with = |at: usize, octets: &[u8]| {
        let mut packet = packet.clone();
        packet[at..at + octets.len()].copy_from_slice(octets);
        Segment::parse(&packet).err()
    };
    assert_eq!(with(12, &[0x40]), Some(Drop::Malformed), "an offset within the header");
    assert_eq!(with(12, &[0x70]), Some(Drop::Truncated), "an offset behind the octets");
    assert_eq!(with(0, &[0, 0]), Some(Drop::Malformed));
    assert_eq!(with(2, &[0, 0]), Some(Drop::Malformed));
}

#[test]
fn numbers_are_compared_around_the_circle() {
    assert!(Seq(u32::MAX).is_before(Seq(0)) && !Seq(0).is_before(Seq(u32::MAX)));
    assert!(!Seq(5).is_before(Seq(5)));
    assert_eq!(Seq(u32::MAX) + 3, Seq(2));
    assert_eq!(Seq(2).since(Seq(u32::MAX)), 3);
    assert_eq!(Seq(u32::MAX).max(Seq(1)), Seq(1));
}

#[test]
fn options_of_a_syn_round_trip_and_others_are_passed_over() {
    let options = SynOptions { mss: Some(1_440), window_scale: Some(7), is_sack_permitted: true };
    assert_eq!(hex::encode(options.octets()), "020405a00103030701010402");
    assert_eq!(SynOptions::parse(&options.octets()), options);
    let linux = hex::decode("020405a00402080a001122330000000001030307").unwrap();
    assert_eq!(SynOptions::parse(&linux), options);
    assert_eq!(SynOptions::parse(&[3, 3, 200, 0]).window_scale, Some(14), "RFC 7323 s2.3");
    // The end, a length of zero, a length behind the end, a wrong length of an option.
    for octets in [&[0, 2, 4, 5, 0xa0][..], &[9, 0, 2, 4, 5, 0xa0], &[2, 8, 5, 0xa0], &[2]] {
        assert_eq!(SynOptions::parse(octets), SynOptions::default());
    }
    assert_eq!(SynOptions::parse(&[2, 3, 5, 3, 3, 2]).mss, None);
}

#[test]
fn the_mss_of_a_syn_is_lowered_and_never_raised() {
    let options = hex::decode("0101020405a00103030701010402010101").unwrap();
    let clamped = |flags, mss| {
        let mut packet = segment(flags, &options[..16], b"").to_packet();
        let before = packet.clone();
        clamp_mss(&mut packet, mss);
        let changed = (0..packet.len()).filter(|&at| packet[at] != before[at]).count();
        (SynOptions::parse(Segment::parse(&packet).unwrap().options).mss, changed)
    };
    assert_eq!(clamped(Flags::SYN, 1_220), (Some(1_220), 2));
    assert_eq!(clamped(Flags::SYN.with(Flags::ACK), 1_439), (Some(1_439), 1));
    assert_eq!(clamped(Flags::SYN, 9_000), (Some(1_440), 0));
    assert_eq!(clamped(Flags::ACK, 1_220), (Some(1_440), 0), "no SYN");
    let mut short = vec![0; 19];
    clamp_mss(&mut short, 1_220);
    assert_eq!(short, vec![0; 19]);
}

#[test]
fn a_checksum_covers_the_addresses_and_the_segment() {
    let mut packet = segment(Flags::ACK, &[], b"odd").to_packet();
    fill_checksum(&mut packet, A, B);
    assert!(is_checksum_right(&from_a_to_b(B), &packet));
    assert!(!is_checksum_right(&from_a_to_b(A), &packet));
    packet[22] ^= 1;
    assert!(!is_checksum_right(&from_a_to_b(B), &packet));
}

#[test]
fn v4_mapped_addresses_give_the_checksum_of_ipv4() {
    // A segment of 20 octets from 192.0.2.1 to 192.0.2.2, with the pseudo-header of RFC 9293 s3.1 by hand.
    let [a, b] = [[192, 0, 2, 1], [192, 0, 2, 2]];
    let mut packet = segment(Flags::SYN, &[], b"").to_packet();
    let mut pseudo = vec![192, 0, 2, 1, 192, 0, 2, 2, 0, 6, 0, 20];
    pseudo.extend(&*packet);
    let [a, b] = [a, b].map(|octets| core::net::Ipv4Addr::from(octets).to_ipv6_mapped());
    fill_checksum(&mut packet, a, b);
    assert_eq!(packet[16..18], moorline_ip::checksum(&pseudo).to_be_bytes());
}

#[test]
fn a_segment_without_ack_gets_a_reset_that_acknowledges_it() {
    // RFC 9293 s3.10.7.1: <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>.
    let octets = segment(Flags::SYN.with(Flags::FIN), &[], b"abc").to_packet();
    let reset = reset_for(&from_a_to_b(B), &octets).unwrap();
    let parsed = Segment::parse(&reset).unwrap();
    assert_eq!((parsed.source_port, parsed.destination_port), (80, 0x1234));
    assert_eq!((parsed.sequence, parsed.acknowledgment), (Seq(0), Seq(0x0102_0304 + 5)));
    assert_eq!(parsed.flags, Flags::RST.with(Flags::ACK));
    assert!(is_checksum_right(&Header::new(B, A, TCP, 64, 20), &reset));
}

#[test]
fn a_segment_with_ack_gets_a_reset_at_the_number_that_it_acknowledges() {
    // RFC 9293 s3.10.7.1: <SEQ=SEG.ACK><CTL=RST>.
    for flags in [Flags::ACK, Flags::SYN.with(Flags::ACK), Flags::FIN.with(Flags::ACK)] {
        let octets = segment(flags, &[], b"abc").to_packet();
        let reset = reset_for(&from_a_to_b(B), &octets).unwrap();
        let parsed = Segment::parse(&reset).unwrap();
        assert_eq!((parsed.sequence, parsed.acknowledgment), (Seq(0x0506_0708), Seq(0)));
        assert_eq!((parsed.flags, reset.len()), (Flags::RST, 20));
    }
}

#[test]
fn resets_groups_and_unspecified_sources_get_no_reset() {
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let syn = segment(Flags::SYN, &[], b"").to_packet();
    assert_eq!(reset_for(&from_a_to_b(group), &syn), None);
    assert_eq!(reset_for(&Header::new(group, B, TCP, 64, 20), &syn), None);
    assert_eq!(reset_for(&Header::new(Ipv6Addr::UNSPECIFIED, B, TCP, 64, 20), &syn), None);
    assert_eq!(reset_for(&from_a_to_b(B), &syn[..19]), None);
    let reset = segment(Flags::RST, &[], b"").to_packet();
    assert_eq!(reset_for(&from_a_to_b(B), &reset), None);
    assert!(reset_for(&from_a_to_b(B), &syn).is_some());
}
