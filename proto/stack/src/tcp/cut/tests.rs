use super::*;
use alloc::vec::Vec;
use moorline_ip::Header;
use moorline_ip::ip6::TCP;
use proptest::prelude::*;

const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

fn super_segment(sequence: u32, flags: u8, options: &[u8], payload: &[u8]) -> PacketBuf {
    let segment = Segment {
        source_port: 0x1234,
        destination_port: 80,
        sequence: Seq(sequence),
        acknowledgment: Seq(0x0506_0708),
        flags: Flags(flags),
        window: 0x2000,
        options,
        payload,
    };
    segment.to_packet()
}

fn cut_to_hex(segment: PacketBuf, mss: u16) -> Vec<alloc::string::String> {
    cut(segment, mss, A, B).map(|segment| hex::encode(&*segment)).collect()
}

#[test]
fn every_octet_of_the_segments_is_as_it_should_be() {
    // CWR, ACK, PSH and FIN; a sequence number that wraps; 10 octets in segments of 4.
    let whole = super_segment(0xffff_fffe, 0x80 | 0x10 | 0x08 | 0x01, &[], b"0123456789");
    // Sum of the pseudo-header and of the fields that do not change: 2001+0db8+1 + 2001+0db8+2 + 6, ports 1234+0050,
    // acknowledgment 0506+0708, window 2000. The rest is added here, by hand.
    let fixed = 0x2001 + 0x0db8 + 1 + 0x2001 + 0x0db8 + 2 + 6 + 0x1284 + 0x0c0e + 0x2000_u64;
    let sum = |rest: u64| !moorline_ip::fold(fixed + rest);
    let first = sum(24 + 0xffff + 0xfffe + 0x5090 + 0x3031 + 0x3233);
    let second = sum(24 + 2 + 0x5010 + 0x3435 + 0x3637);
    let third = sum(22 + 6 + 0x5019 + 0x3839);
    let wanted = [
        alloc::format!("12340050fffffffe0506070850902000{first:04x}000030313233"),
        alloc::format!("12340050000000020506070850102000{second:04x}000034353637"),
        alloc::format!("12340050000000060506070850192000{third:04x}00003839"),
    ];
    assert_eq!(cut_to_hex(whole, 4), wanted);
}

#[test]
fn options_are_in_each_segment_and_count_against_the_mss() {
    let whole = super_segment(5, 0x10, &[1, 1, 1, 0], b"abcdef");
    let segments: Vec<PacketBuf> = cut(whole, 7, A, B).collect();
    let payloads: Vec<&[u8]> =
        segments.iter().map(|segment| Segment::parse(segment).unwrap().payload).collect();
    assert_eq!(payloads, [b"abc", b"def"]);
    for segment in &segments {
        assert_eq!(Segment::parse(segment).unwrap().options, [1, 1, 1, 0]);
    }
}

#[test]
fn a_short_segment_comes_out_whole() {
    for payload in [&b""[..], b"abcd"] {
        let whole = super_segment(5, 0x99, &[], payload);
        let mut wanted = whole.clone();
        fill_checksum(&mut wanted, A, B);
        assert_eq!(cut_to_hex(whole, 4), [hex::encode(&*wanted)]);
    }
}

#[test]
fn an_mss_without_room_for_the_options_still_makes_progress() {
    let whole = super_segment(5, 0x10, &[1, 1, 1, 0], b"abc");
    assert_eq!(cut(whole, 0, A, B).count(), 3);
}

#[test]
fn octets_that_are_no_segment_yield_nothing() {
    assert_eq!(cut(PacketBuf::copy_of(&[0; 19]), 1_440, A, B).count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_segments_carry_the_stream_and_the_flags_once(
        payload in proptest::collection::vec(any::<u8>(), 0..20_000),
        mss in 1_u16..3_000,
        sequence: u32,
        flags in prop_oneof![Just(0x10_u8), Just(0x11), Just(0x18), Just(0x99)],
    ) {
        let whole = super_segment(sequence, flags, &[], &payload);
        let segments: Vec<PacketBuf> = cut(whole, mss, A, B).collect();
        prop_assert_eq!(segments.len(), payload.len().div_ceil(mss.into()).max(1));
        let (mut stream, mut next) = (Vec::new(), Seq(sequence));
        for (at, octets) in segments.iter().enumerate() {
            let header = Header::new(A, B, TCP, 64, 0);
            prop_assert!(super::super::is_checksum_right(&header, octets));
            let segment = Segment::parse(octets).unwrap();
            prop_assert_eq!(segment.sequence, next);
            prop_assert!(segment.payload.len() <= mss.into());
            let is_last = at + 1 == segments.len();
            let mut wanted = flags;
            if !is_last { wanted &= !0x09; }
            if at > 0 { wanted &= !0x80; }
            prop_assert_eq!(segment.flags.0, wanted);
            stream.extend_from_slice(segment.payload);
            next = next + u32::try_from(segment.payload.len()).unwrap();
        }
        prop_assert_eq!(stream, payload);
    }
}
