use moorline_ip::upper_layer_checksum;
use proptest::prelude::*;

use super::*;

/// Frame of TCP or UDP with a payload that counts up, and with a checksum of the pseudo-header alone.
fn frame(is_ip6: bool, protocol: u8, extension: bool, len: usize) -> Vec<u8> {
    let mut upper = vec![0x10, 0x01, 0, 80];
    if protocol == TCP {
        // Sequence number, acknowledgement, 24 octets of header with two options, CWR, PSH, ACK and FIN.
        upper.extend([0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9, 0x60, 0x80 | 0x19, 1, 0, 0, 0, 0, 0]);
        upper.extend([1, 1, 1, 1]);
    } else {
        upper.extend([0, 0, 0, 0]);
    }
    upper.extend((0..=u8::MAX).cycle().take(len));
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if is_ip6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        let next = if extension { 60 } else { protocol };
        frame.extend(short(upper.len() + usize::from(extension) * 8).to_be_bytes());
        frame.extend([next, 64]);
        frame.extend([0x20; 16]);
        frame.extend([0x30; 16]);
        if extension {
            frame.extend([protocol, 0, 1, 4, 0, 0, 0, 0]);
        }
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend(short(upper.len() + 20).to_be_bytes());
        frame.extend([0xff, 0xff, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    }
    frame.extend(upper);
    let layout = Layout::of(&frame).unwrap();
    layout.begin_checksum(&mut frame);
    frame
}

fn segmentation(is_ip6: bool, protocol: u8, size: u16) -> Segmentation {
    let kind = match (protocol, is_ip6) {
        (UDP, _) => Kind::Udp,
        (_, true) => Kind::Tcp6,
        (_, false) => Kind::Tcp4,
    };
    Segmentation { kind, size, header_len: 0 }
}

/// Notes that leave the cutting for an adapter, and not the checksum.
fn notes(segmentation: Segmentation) -> Notes {
    Notes { checksum: None, segmentation: Some(segmentation) }
}

fn cut(frame: &[u8], segmentation: Segmentation) -> Vec<PacketBuf> {
    cut_with(frame, notes(segmentation))
}

fn cut_with(frame: &[u8], notes: Notes) -> Vec<PacketBuf> {
    let mut cutter = Cutter::new(frame, notes).unwrap();
    std::iter::from_fn(|| cutter.next_segment()).collect()
}

/// Checksum of the upper layer with its pseudo-header, by other code than that which made it; zero if it is right.
fn residue(segment: &[u8], layout: Layout) -> u16 {
    let upper = &segment[layout.upper..];
    let protocol = if layout.is_tcp { TCP } else { UDP };
    if layout.is_ip6 {
        let address = |at: usize| <[u8; 16]>::try_from(&segment[at..at + 16]).unwrap().into();
        return upper_layer_checksum(address(22), address(38), protocol, upper);
    }
    let mut octets = segment[26..34].to_vec();
    octets.extend([0, protocol]);
    octets.extend(short(upper.len()).to_be_bytes());
    octets.extend(upper);
    checksum(&octets)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn segments_hold_the_payload_once_with_right_checksums(
        is_ip6: bool,
        extension: bool,
        is_tcp: bool,
        len in 1..5000_usize,
        size in 1..2000_u16,
    ) {
        let protocol = if is_tcp { TCP } else { UDP };
        let whole = frame(is_ip6, protocol, extension && is_ip6, len);
        let layout = Layout::of(&whole).unwrap();
        let mut payload = Vec::new();
        for segment in cut(&whole, segmentation(is_ip6, protocol, size)) {
            prop_assert!(segment.len() - layout.payload <= usize::from(size));
            prop_assert_eq!(residue(&segment, layout), 0);
            prop_assert!(is_ip6 || checksum(&segment[14..34]) == 0);
            payload.extend_from_slice(&segment[layout.payload..]);
        }
        prop_assert_eq!(&payload[..], &whole[layout.payload..]);
    }

    #[test]
    fn no_frame_and_no_notes_panic(
        octets in proptest::collection::vec(any::<u8>(), 0..200),
        notes: [u8; crate::vnet::LEN],
        is_ip6: bool,
    ) {
        let mut frame = octets;
        if frame.len() > 14 {
            frame[12..15].copy_from_slice(if is_ip6 { &[0x86, 0xdd, 0x60] } else { &[8, 0, 0x45] });
        }
        if let Ok(Notes { checksum: Some(partial), .. }) = Notes::parse(&notes) {
            complete(&mut frame, partial);
        }
        for kind in [Kind::Tcp4, Kind::Tcp6, Kind::Udp] {
            let segmentation = Segmentation { kind, size: u16::from(notes[0]), header_len: 0 };
            let partial = PartialChecksum { start: u16::from(notes[1]), offset: 0 };
            let checksum = (notes[2] < 128).then_some(partial);
            let notes = Notes { checksum, segmentation: Some(segmentation) };
            if let Some(mut cutter) = Cutter::new(&frame, notes) {
                while cutter.next_segment().is_some() {}
            }
        }
        prepare(&mut frame, 1000);
    }
}

#[test]
fn sequence_numbers_go_on_and_flags_belong_to_one_segment() {
    let segments = cut(&frame(true, TCP, false, 25), segmentation(true, TCP, 10));
    let tcp = |segment: &PacketBuf| {
        let header = &segment[54..];
        (u32::from_be_bytes(header[4..8].try_into().unwrap()), header[TCP_FLAGS_AT])
    };
    let seen: Vec<_> = segments.iter().map(tcp).collect();
    // CWR first, PSH and FIN last, ACK in all; the sequence number wraps.
    assert_eq!(seen, [(0xffff_fff0, 0x90), (0xffff_fffa, 0x10), (4, 0x19)]);
    assert_eq!(segments.iter().map(|segment| take(segment, 18)).collect::<Vec<_>>(), [34, 34, 29]);
}

/// Linux with Shim6 or ILNP has changed the addresses of the packet, and not the sum of the pseudo-header.
#[test]
fn a_checksum_over_other_addresses_is_one_over_them_in_each_segment() {
    for (protocol, has_header) in [(TCP, false), (UDP, false), (TCP, true)] {
        let mut whole = frame(true, protocol, false, 2500);
        if has_header {
            // The payload header of Shim6 (RFC 5533 s5.1).
            whole.splice(54..54, [protocol, 0, 0x80, 1, 2, 3, 4, 5]);
            whole[20] = SHIM6;
            let len = take(&whole, 18) + 8;
            put(&mut whole, 18, len);
        }
        let layout = Layout::of(&whole).unwrap();
        let addresses = whole[22..54].to_vec();
        whole[22..54].fill(0x44);
        let partial =
            PartialChecksum { start: short(layout.upper), offset: short(layout.checksum_at()) };
        let segmentation = Some(segmentation(true, protocol, 1000));
        let segments = cut_with(&whole, Notes { checksum: Some(partial), segmentation });
        assert_eq!(segments.len(), 3);
        for mut segment in segments {
            assert_ne!(residue(&segment, layout), 0);
            segment[22..54].copy_from_slice(&addresses);
            assert_eq!(residue(&segment, layout), 0);
        }
    }
}

#[test]
fn datagrams_have_their_length_and_packets_of_ipv4_their_identification() {
    let segments = cut(&frame(false, UDP, false, 25), segmentation(false, UDP, 10));
    let seen: Vec<_> = segments
        .iter()
        .map(|segment| (take(segment, 16), take(segment, 18), take(segment, 38)))
        .collect();
    assert_eq!(seen, [(38, 0xffff, 18), (38, 0, 18), (33, 1, 13)]);
}

#[test]
fn a_frame_that_does_not_fit_its_notes_is_refused() {
    let whole = frame(true, TCP, false, 25);
    for (is_ip6, protocol, size) in [(false, TCP, 10), (true, UDP, 10), (true, TCP, 0)] {
        assert!(Cutter::new(&whole, notes(segmentation(is_ip6, protocol, size))).is_none());
    }
    assert!(
        Cutter::new(&whole[..70], notes(segmentation(true, TCP, 10))).is_none(),
        "half a TCP header"
    );
    let mut short_header = whole.clone();
    short_header[54 + 12] = 0x40;
    assert!(Cutter::new(&short_header, notes(segmentation(true, TCP, 10))).is_none());
}

#[test]
fn a_checksum_outside_of_the_frame_changes_nothing() {
    let mut octets = vec![1_u8; 20];
    assert!(!complete(&mut octets, PartialChecksum { start: 10, offset: 9 }));
    assert!(!complete(&mut octets, PartialChecksum { start: 0xffff, offset: 0xffff }));
    assert_eq!(octets, [1; 20]);
    assert!(complete(&mut octets, PartialChecksum { start: 10, offset: 8 }));
    assert_eq!(checksum(&octets[10..]), 0x0101, "the sum that the field held");
}

#[test]
fn an_adapter_gets_the_sum_of_the_pseudo_header() {
    for is_ip6 in [true, false] {
        let whole = frame(is_ip6, TCP, false, 100);
        let mut prepared = whole.clone();
        let start = if is_ip6 { 54 } else { 34 };
        put(&mut prepared, start + TCP_CHECKSUM_AT, 0xabcd);
        let notes = prepare(&mut prepared, 40).unwrap();
        assert_eq!(prepared, whole);
        let partial = PartialChecksum { start: short(start), offset: 16 };
        assert_eq!(notes.checksum, Some(partial));
        let kind = if is_ip6 { Kind::Tcp6 } else { Kind::Tcp4 };
        let header_len = short(start + 24);
        assert_eq!(notes.segmentation, Some(Segmentation { kind, size: 40, header_len }));
        assert!(complete(&mut prepared, partial));
        assert_eq!(residue(&prepared, Layout::of(&prepared).unwrap()), 0);
    }
    assert_eq!(prepare(&mut frame(true, UDP, false, 100), 40), None);
}
