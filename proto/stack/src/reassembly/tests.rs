use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use std::collections::{BTreeMap, BTreeSet};

use moorline_ip::extension::Fragment;
use moorline_ip::icmp::Cause;
use moorline_ip::ip6::{DESTINATION_OPTIONS, HOP_BY_HOP, UDP, packet};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use super::*;
use crate::chain::{Step, walk};

mod flood;

type Result = core::result::Result<Option<Whole>, Verdict>;

const ARRIVAL: Arrival<u32> = Arrival { wire: 1, is_link_multicast: false };
const START: Instant = Instant::from_nanos(1_000_000_000);
const ID: u32 = 0xdead_beef;

fn source() -> Ipv6Addr {
    "2001:db8:1::1".parse().expect("address")
}

fn us() -> Ipv6Addr {
    "2001:db8::2".parse().expect("address")
}

/// Octets that depend on their offset, with a UDP header's length at the start.
fn data(range: core::ops::Range<usize>) -> Vec<u8> {
    range.map(|at| (at * 7 + at / 256).to_le_bytes()[0]).collect()
}

fn fragment(
    from: Ipv6Addr,
    identification: u32,
    offset: usize,
    more: bool,
    data: &[u8],
) -> Vec<u8> {
    let offset = u16::try_from(offset).expect("offset");
    let fields = Fragment { next_header: UDP, offset, has_more: more, identification };
    let mut payload = Vec::from(fields.octets());
    payload.extend(data);
    packet(FRAGMENT, from, us(), &payload)
}

const FRAGMENT: u8 = moorline_ip::ip6::FRAGMENT;

/// A fragment with the octets of `range` of the datagram with [`data`].
fn piece(range: core::ops::Range<usize>, more: bool) -> Vec<u8> {
    fragment(source(), ID, range.start, more, &data(range))
}

fn take_at(
    reassembly: &mut Reassembly<u32>,
    packet: &[u8],
    arrival: Arrival<u32>,
    now: Instant,
) -> Result {
    let header = Header::parse(packet).expect("header");
    let Ok(Step::Fragment(position)) = walk(packet, &header, Position::start(&header)) else {
        panic!("no fragment");
    };
    reassembly.handle_fragment(packet, &header, position, arrival, now)
}

fn take(reassembly: &mut Reassembly<u32>, packet: &[u8]) -> Result {
    take_at(reassembly, packet, ARRIVAL, START)
}

fn whole(result: Result) -> Whole {
    result.expect("no verdict").expect("complete")
}

fn discard(reason: Drop) -> Result {
    Err(Verdict::Discard(reason))
}

fn report(reason: Drop, code: u8, pointer: u32) -> Result {
    Err(Verdict::Report(reason, Cause::ParameterProblem(code, pointer)))
}

// RFC 8200 s4.5.
#[test]
fn fragments_in_any_order_make_the_packet() {
    let pieces = [piece(0..16, true), piece(16..24, true), piece(24..29, false)];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut reassembly = Reassembly::default();
        assert_eq!(take(&mut reassembly, &pieces[order[0]]), Ok(None));
        assert_eq!(take(&mut reassembly, &pieces[order[1]]), Ok(None));
        let done = whole(take(&mut reassembly, &pieces[order[2]]));
        assert_eq!(*done.packet, packet(UDP, source(), us(), &data(0..29)), "{order:?}");
        assert_eq!(done.header, Header::parse(&done.packet).expect("header"));
        let position = done.position;
        assert_eq!((position.protocol, position.at, position.field), (UDP, 40, 6));
        assert!(position.was_fragmented && position.headers == 1);
        assert!(reassembly.is_empty() && reassembly.memory() == 0);
    }
}

// RFC 8200 s4.5: the headers of the first fragment are kept, and the Next Header of its Fragment header.
//= rfc8200#4.5-23 rfc8200#4.5-24 (test)
#[test]
fn the_first_fragment_gives_the_headers() {
    let options = |next, fields: Fragment, data: &[u8]| {
        let mut payload = vec![FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
        payload.extend(fields.octets());
        payload.extend(data);
        packet(next, source(), us(), &payload)
    };
    let fields = |next_header, offset, has_more| Fragment {
        next_header,
        offset,
        has_more,
        identification: ID,
    };
    let mut reassembly = Reassembly::default();
    let mut last = options(DESTINATION_OPTIONS, fields(253, 8, false), &data(8..16));
    last[7] = 3;
    assert_eq!(take(&mut reassembly, &last), Ok(None));
    let first = options(HOP_BY_HOP, fields(UDP, 0, true), &data(0..8));
    let done = whole(take(&mut reassembly, &first));
    let mut payload = vec![UDP, 0, 1, 4, 0, 0, 0, 0];
    payload.extend(data(0..16));
    assert_eq!(*done.packet, packet(HOP_BY_HOP, source(), us(), &payload));
    assert_eq!((done.position.at, done.position.field, done.position.headers), (48, 40, 2));
    let step = walk(&done.packet, &done.header, done.position);
    assert_eq!(step, Ok(Step::Upper(done.position)));
}

#[test]
fn packets_with_another_name_are_apart() {
    let other: Ipv6Addr = "2001:db8:1::9".parse().expect("address");
    let mut reassembly = Reassembly::default();
    assert_eq!(take(&mut reassembly, &piece(0..8, true)), Ok(None));
    let last = data(8..16);
    assert_eq!(take(&mut reassembly, &fragment(other, ID, 8, false, &last)), Ok(None));
    assert_eq!(take(&mut reassembly, &fragment(source(), ID + 1, 8, false, &last)), Ok(None));
    let mut to_group = piece(8..16, false);
    to_group[24] = 0xff;
    assert_eq!(take(&mut reassembly, &to_group), Ok(None));
    assert_eq!(reassembly.len(), 4);
    whole(take(&mut reassembly, &piece(8..16, false)));
    assert_eq!(reassembly.len(), 3);
}

// RFC 4007 s6: the same link-local address on another link is another source.
#[test]
fn link_local_sources_belong_to_their_link() {
    for (from, is_apart) in [("fe80::1", true), ("2001:db8::1", false)] {
        let from = from.parse().expect("address");
        let mut reassembly = Reassembly::default();
        let first = fragment(from, ID, 0, true, &data(0..8));
        let last = fragment(from, ID, 8, false, &data(8..16));
        assert_eq!(take(&mut reassembly, &first), Ok(None));
        let elsewhere = Arrival { wire: 2, ..ARRIVAL };
        let result = take_at(&mut reassembly, &last, elsewhere, START);
        assert_eq!(result.expect("no verdict").is_none(), is_apart);
    }
}

// RFC 5722 s4, RFC 8200 s4.5.
//= rfc8504#5.1-7 rfc8504#5.7.1-2 (test)
//= rfc5722#4-2 rfc5722#4-3 (test)
//= rfc8200#4.5-19 rfc8200#4.5-20 rfc8200#4.5-21 (test)
#[test]
fn an_overlap_refuses_the_datagram_and_what_follows() {
    for (kept, overlapping) in [
        (vec![(0..16, true)], (8..24, true)),
        (vec![(8..24, true)], (0..16, true)),
        (vec![(0..24, true)], (8..16, true)),
        (vec![(8..16, true)], (0..24, true)),
        (vec![(8..16, true)], (8..24, true)),
        (vec![(8..24, true)], (8..16, true)),
        (vec![(0..8, true), (16..24, true)], (8..24, false)),
        // Ranges that have become one still know their fragments.
        (vec![(0..8, true), (8..16, true)], (0..16, true)),
        (vec![(0..8, true), (8..16, true), (16..24, true)], (8..24, true)),
        // The M flag differs.
        (vec![(8..16, true)], (8..16, false)),
    ] {
        let mut reassembly = Reassembly::default();
        for (range, more) in &kept {
            assert_eq!(take(&mut reassembly, &piece(range.clone(), *more)), Ok(None));
        }
        let (range, more) = overlapping;
        let refused = discard(Drop::FragmentOverlap);
        assert_eq!(take(&mut reassembly, &piece(range.clone(), more)), refused, "{kept:?}");
        for (range, more) in [(0..8, true), (8..16, true), (16..24, true), (24..32, false)] {
            let late = START + TIMEOUT - Duration::from_nanos(1);
            let result = take_at(&mut reassembly, &piece(range, more), ARRIVAL, late);
            assert_eq!(result, refused, "{kept:?}");
        }
        assert!(reassembly.memory() < 1000, "the octets have gone");
        // No error is sent, and the name is free after 60 s.
        reassembly.handle_timeout(START + TIMEOUT);
        assert_eq!((reassembly.poll_output(), reassembly.len()), (None, 0));
        assert_eq!(reassembly.drops().of(Drop::FragmentTimeout), 0);
    }
}

// RFC 8200 s4.5: "an implementation may choose to detect this case and drop exact duplicate fragments".
//= rfc8200#4.5-22 (test)
#[test]
fn exact_duplicates_are_ignored_and_others_are_overlaps() {
    let mut reassembly = Reassembly::default();
    for (range, more) in [(0..8, true), (8..16, true), (24..32, true), (40..45, false)] {
        assert_eq!(take(&mut reassembly, &piece(range.clone(), more)), Ok(None));
        assert_eq!(take(&mut reassembly, &piece(range, more)), Ok(None));
    }
    for (range, more) in [(0..8, true), (8..16, true), (24..32, true), (40..45, false)] {
        assert_eq!(take(&mut reassembly, &piece(range, more)), Ok(None));
    }
    assert_eq!(take(&mut reassembly, &piece(16..24, true)), Ok(None));
    whole(take(&mut reassembly, &piece(32..40, true)));
    assert_eq!(take(&mut reassembly, &piece(8..16, true)), Ok(None));
    let mut changed = piece(8..16, true);
    changed[50] ^= 1;
    assert_eq!(take(&mut reassembly, &changed), discard(Drop::FragmentOverlap));
}

// RFC 6946 s4.
//= rfc6946#4-1 rfc6946#4-2 rfc6946#4-3 (test)
//= rfc8200#4.5-8 rfc8200#4.5-9 (test)
#[test]
fn an_atomic_fragment_is_a_packet_and_touches_no_datagram() {
    let mut reassembly = Reassembly::default();
    assert_eq!(take(&mut reassembly, &piece(0..16, true)), Ok(None));
    let memory = reassembly.memory();
    let done = whole(take(&mut reassembly, &piece(0..13, false)));
    assert_eq!(*done.packet, packet(UDP, source(), us(), &data(0..13)));
    assert!(done.position.was_fragmented);
    assert_eq!((reassembly.memory(), reassembly.len()), (memory, 1));
    let done = whole(take(&mut reassembly, &piece(16..29, false)));
    assert_eq!(*done.packet, packet(UDP, source(), us(), &data(0..29)));
}

/// Each of the Fragment headers counts as a header, so their number has an end.
#[test]
fn atomic_fragments_within_one_another_end_at_the_limit_of_headers() {
    let mut payload = Vec::new();
    for _ in 0..100 {
        payload.extend([FRAGMENT, 0, 0, 0, 0, 0, 0, 1]);
    }
    let packet = packet(FRAGMENT, source(), us(), &payload);
    let mut reassembly = Reassembly::default();
    let mut current = whole(take(&mut reassembly, &packet));
    let mut count = 1;
    let verdict = loop {
        match walk(&current.packet, &current.header, current.position) {
            Ok(Step::Fragment(position)) => {
                let Whole { packet, header, .. } = &current;
                let next = reassembly.handle_fragment(packet, header, position, ARRIVAL, START);
                current = whole(next);
                count += 1;
            }
            other => break other,
        }
    };
    assert_eq!(verdict, Err(Verdict::Discard(Drop::TooManyHeaders)));
    assert_eq!(count, crate::chain::MAX_HEADERS);
}

// RFC 8200 s4.5: the two Parameter Problems, for which that fragment alone is discarded.
//= rfc8200#4.5-13 rfc8200#4.5-14 rfc8200#4.5-15 rfc8200#4.5-16 (test)
#[test]
fn lengths_that_are_not_possible_are_reported() {
    let mut reassembly = Reassembly::default();
    assert_eq!(take(&mut reassembly, &piece(0..8, true)), Ok(None));
    let odd = report(Drop::FragmentLength, 0, 4);
    assert_eq!(take(&mut reassembly, &piece(8..15, true)), odd);
    let long = report(Drop::FragmentLength, 0, 42);
    assert_eq!(take(&mut reassembly, &piece(65_528..65_536, true)), long);
    assert_eq!(take(&mut reassembly, &piece(65_528..65_536, false)), long);
    assert_eq!(take(&mut reassembly, &piece(65_528..65_535, false)), Ok(None));
    assert_eq!(take(&mut reassembly, &piece(8..16, true)), Ok(None));
    assert_eq!(reassembly.len(), 1);
}

/// The Payload Length counts the headers in front of the Fragment header.
//= rfc8200#4.5-15 (test)
#[test]
fn headers_count_for_the_length_of_a_packet() {
    let at = |offset: usize, more, octets: &[u8]| {
        let offset = u16::try_from(offset).expect("offset");
        let fields = Fragment { next_header: UDP, offset, has_more: more, identification: ID };
        let options = [FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
        packet(HOP_BY_HOP, source(), us(), &[&options, &fields.octets()[..], octets].concat())
    };
    let mut reassembly = Reassembly::default();
    let long = report(Drop::FragmentLength, 0, 50);
    assert_eq!(take(&mut reassembly, &at(65_520, false, &[0; 8])), long);
    assert_eq!(take(&mut reassembly, &at(65_520, false, &[0; 7])), Ok(None));
}

#[test]
fn headers_of_a_first_fragment_that_make_the_packet_too_long_refuse_it() {
    let mut reassembly = Reassembly::default();
    assert_eq!(take(&mut reassembly, &piece(60_000..65_535, false)), Ok(None));
    for start in (1000..60_000).step_by(1000) {
        assert_eq!(take(&mut reassembly, &piece(start..start + 1000, true)), Ok(None));
    }
    let mut payload = vec![FRAGMENT, 0, 1, 4, 0, 0, 0, 0];
    let fields = Fragment { next_header: UDP, offset: 0, has_more: true, identification: ID };
    payload.extend(fields.octets());
    payload.extend(data(0..1000));
    let first = packet(DESTINATION_OPTIONS, source(), us(), &payload);
    assert_eq!(take(&mut reassembly, &first), discard(Drop::FragmentLength));
    assert!(reassembly.is_empty());
}

#[test]
fn ends_that_contradict_each_other_refuse_the_datagram() {
    for (kept, wrong, more) in [
        (vec![(16..24, false)], 24..32, true),
        (vec![(16..24, false)], 24..32, false),
        (vec![(16..24, false)], 8..16, false),
        (vec![(16..24, true)], 8..16, false),
        (vec![(0..8, true)], 8..8, true),
        (vec![(0..8, true)], 8..8, false),
    ] {
        let mut reassembly = Reassembly::default();
        for (range, more) in &kept {
            assert_eq!(take(&mut reassembly, &piece(range.clone(), *more)), Ok(None));
        }
        let refused = discard(Drop::FragmentLength);
        assert_eq!(take(&mut reassembly, &piece(wrong, more)), refused, "{kept:?}");
        assert_eq!(take(&mut reassembly, &piece(0..16, true)), refused, "{kept:?}");
    }
}

// RFC 7112 s5, RFC 8200 s4.5.
//= rfc8504#5.2-8 rfc8504#5.2-9 (test)
//= rfc7112#5-2 rfc7112#5-3 rfc7112#5-8 rfc7112#5-9 rfc7112#5-10 (test)
//= rfc8200#4.5-17 rfc8200#4.5-18 (test)
#[test]
fn a_first_fragment_without_the_whole_chain_is_reported() {
    let first = |next_header, data: &[u8]| {
        let fields = Fragment { next_header, offset: 0, has_more: true, identification: ID };
        let mut payload = Vec::from(fields.octets());
        payload.extend(data);
        packet(FRAGMENT, source(), us(), &payload)
    };
    let incomplete = report(Drop::FragmentChain, 3, 0);
    let mut reassembly = Reassembly::default();
    let options = [UDP, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(take(&mut reassembly, &first(DESTINATION_OPTIONS, &options)), incomplete);
    assert_eq!(take(&mut reassembly, &first(6, &[0; 16])), incomplete);
    assert_eq!(take(&mut reassembly, &first(UDP, &[])), incomplete);
    let too_many = [DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0].repeat(10);
    let result = take(&mut reassembly, &first(DESTINATION_OPTIONS, &too_many));
    assert_eq!(result, discard(Drop::TooManyHeaders));
    assert!(reassembly.is_empty());
    let chain = [&options[..], &[0; 8]].concat();
    assert_eq!(take(&mut reassembly, &first(DESTINATION_OPTIONS, &chain)), Ok(None));
}

// RFC 3168 s5.3.
//= rfc8200#4.5-25 (test)
#[test]
fn congestion_that_one_fragment_met_is_kept() {
    let marked = |mut packet: Vec<u8>, ecn: u8| {
        packet[1] |= ecn << 4;
        packet
    };
    for (first, last, expected) in [
        (0, 0, Some(0)),
        (2, 2, Some(2)),
        (2, 3, Some(3)),
        (3, 1, Some(3)),
        (0, 3, None),
        (3, 0, None),
    ] {
        let mut reassembly = Reassembly::default();
        assert_eq!(take(&mut reassembly, &marked(piece(0..8, true), first)), Ok(None));
        let result = take(&mut reassembly, &marked(piece(8..16, false), last));
        match expected {
            Some(ecn) => {
                let done = whole(result);
                assert_eq!((done.packet[1] >> 4 & 3, done.header.traffic_class), (ecn, ecn));
            }
            None => assert_eq!(result, discard(Drop::Malformed)),
        }
    }
}

// RFC 8200 s4.5: 60 s after the first-arriving fragment; Time Exceeded if the first fragment was received.
//= rfc8200#4.5-10 rfc8200#4.5-11 rfc8200#4.5-12 (test)
#[test]
fn a_datagram_that_is_not_complete_is_given_up_after_60_seconds() {
    let mut reassembly = Reassembly::default();
    let first = piece(0..16, true);
    let arrival = Arrival { wire: 7, is_link_multicast: true };
    assert_eq!(take(&mut reassembly, &piece(16..24, true)), Ok(None));
    let later = START + Duration::from_secs(59);
    assert_eq!(take_at(&mut reassembly, &first, arrival, later), Ok(None));
    assert_eq!(reassembly.poll_timeout(), Some(START + TIMEOUT));
    reassembly.handle_timeout(START + TIMEOUT - Duration::from_nanos(1));
    assert_eq!((reassembly.len(), reassembly.poll_output()), (1, None));
    reassembly.handle_timeout(START + TIMEOUT);
    let expired = reassembly.poll_output().expect("an error is due");
    assert_eq!((&*expired.quote, expired.arrival), (&first[..], arrival));
    assert_eq!((reassembly.poll_output(), reassembly.poll_timeout()), (None, None));
    assert_eq!((reassembly.len(), reassembly.memory()), (0, 0));
    assert_eq!(reassembly.drops().of(Drop::FragmentTimeout), 1);
    // A late fragment begins a new datagram, even if nobody has called `handle_timeout`. There is no first fragment,
    // and no error.
    assert_eq!(take_at(&mut reassembly, &piece(24..32, false), ARRIVAL, later), Ok(None));
    let much_later = later + TIMEOUT;
    assert_eq!(take_at(&mut reassembly, &piece(0..24, true), ARRIVAL, much_later), Ok(None));
    assert_eq!(reassembly.poll_output(), None);
    assert_eq!(reassembly.drops().of(Drop::FragmentTimeout), 2);
}

#[test]
fn errors_that_nobody_takes_have_a_limit() {
    let mut reassembly = Reassembly::default();
    for host in 0..200 {
        let from = Ipv6Addr::from_bits(0x2001 << 112 | host);
        assert_eq!(take(&mut reassembly, &fragment(from, 1, 0, true, &[0; 1440])), Ok(None));
    }
    reassembly.handle_timeout(START + TIMEOUT);
    let count = core::iter::from_fn(|| reassembly.poll_output()).count();
    assert_eq!(count, MAX_EXPIRED);
    assert_eq!(reassembly.drops().of(Drop::FragmentTimeout), 200);
}

#[test]
fn a_source_has_64_datagrams() {
    let limit = u32::try_from(MAX_OF_SOURCE).expect("limit");
    let mut reassembly = Reassembly::default();
    for id in 0..=limit {
        assert_eq!(take(&mut reassembly, &fragment(source(), id, 0, true, &data(0..8))), Ok(None));
    }
    assert_eq!(reassembly.len(), MAX_OF_SOURCE);
    assert_eq!(reassembly.drops().of(Drop::FragmentLimit), 1);
    // The oldest one has gone, the next one is there.
    let last = |id| fragment(source(), id, 8, false, &data(8..16));
    whole(take(&mut reassembly, &last(1)));
    assert_eq!(take(&mut reassembly, &last(0)), Ok(None));
}

/// Incomplete datagrams of a /64 that takes more than its share, and an older one of another /64.
#[test]
fn the_oldest_datagram_of_the_greediest_prefix_goes_first() {
    let mut reassembly = Reassembly::default();
    let first = |from, id| fragment(from, id, 0, true, &data(0..1440));
    let last = |from, id| fragment(from, id, 1440, false, &data(1440..1441));
    assert_eq!(take(&mut reassembly, &first(source(), 0)), Ok(None));
    let greedy = |n: u32| Ipv6Addr::from_bits(0x2a00 << 112 | u128::from(n / 64));
    let mut sent = 0;
    while reassembly.drops().of(Drop::FragmentLimit) < 3 {
        assert_eq!(take(&mut reassembly, &first(greedy(sent), sent)), Ok(None));
        sent += 1;
    }
    assert!(reassembly.memory() <= MAX_MEMORY && reassembly.memory() > MAX_MEMORY - 10_000);
    for id in [3, sent - 1] {
        whole(take(&mut reassembly, &last(greedy(id), id)));
    }
    whole(take(&mut reassembly, &last(source(), 0)));
    for id in 0..3 {
        assert_eq!(take(&mut reassembly, &last(greedy(id), id)), Ok(None));
    }
}

/// A fragment that touches the end of a range becomes part of it, in amortized constant time. Any other one is a
/// range of its own, and there are [`MAX_RANGES`].
#[test]
fn tiny_fragments_take_no_quadratic_time() {
    const COUNT: usize = 8191;
    let tiny = |index: usize| piece(index * 8..index * 8 + 8, index + 1 < COUNT);
    let mut reassembly = Reassembly::default();
    let mut sizes = BTreeSet::new();
    for index in 0..COUNT - 1 {
        assert_eq!(take(&mut reassembly, &tiny(index)), Ok(None));
        sizes.insert(reassembly.memory());
    }
    // The octets have moved only as often as their allocation has grown.
    assert!(sizes.len() < 40, "{} sizes", sizes.len());
    assert_eq!(whole(take(&mut reassembly, &tiny(COUNT - 1))).packet.len(), 40 + COUNT * 8);

    let mut order: Vec<usize> = (0..COUNT).collect();
    let mut random = ChaCha20Rng::seed_from_u64(1);
    for index in (1..COUNT).rev() {
        order.swap(index, random.next_u32() as usize % (index + 1));
    }
    let results: Vec<Result> =
        order.iter().map(|&index| take(&mut reassembly, &tiny(index))).collect();
    let taken = results.iter().take_while(|result| **result == Ok(None)).count();
    assert!((MAX_RANGES..2 * MAX_RANGES).contains(&taken), "{taken}");
    assert!(results[taken..].iter().all(|result| *result == discard(Drop::FragmentLimit)));
}

//= rfc8200#5-8 (test)
#[test]
fn the_longest_datagram_completes_in_the_worst_order() {
    let ends: Vec<usize> = (0..65_535).step_by(1232).skip(1).chain([65_535]).collect();
    let starts: Vec<usize> = (0..65_535).step_by(1232).collect();
    let mut reassembly = Reassembly::default();
    for (&start, &end) in starts.iter().zip(&ends).rev().take(starts.len() - 1) {
        assert_eq!(take(&mut reassembly, &piece(start..end, end < 65_535)), Ok(None));
    }
    let done = whole(take(&mut reassembly, &piece(0..1232, true)));
    assert_eq!(done.packet[40..], data(0..65_535));
}

#[test]
fn a_fragment_that_is_truncated_is_discarded() {
    let mut reassembly = Reassembly::default();
    let packet = packet(FRAGMENT, source(), us(), &[UDP, 0, 0, 1, 0, 0, 0]);
    assert_eq!(take(&mut reassembly, &packet), discard(Drop::Truncated));
}

/// Model of a datagram by the rules, without any care for time and memory.
#[derive(Default)]
struct Model {
    fragments: BTreeMap<usize, (Vec<u8>, bool)>,
    refused: bool,
}

impl Model {
    fn take(&mut self, start: usize, octets: &[u8], more: bool) -> Option<Vec<u8>> {
        if self.refused || self.fragments.get(&start) == Some(&(octets.to_vec(), more)) {
            return None;
        }
        let end = start + octets.len();
        let ends = |(at, (octets, _)): (&usize, &(Vec<u8>, bool))| at + octets.len();
        let overlaps = self.fragments.iter().any(|it| *it.0 < end && ends(it) > start);
        let last = self.fragments.iter().find(|(_, (_, more))| !more).map(ends);
        let contradicts = last.is_some_and(|last| end > last || !more)
            || !more && self.fragments.iter().any(|it| ends(it) > end);
        self.refused = overlaps || contradicts;
        self.fragments.insert(start, (octets.to_vec(), more));
        let whole: Vec<u8> = self.fragments.values().flat_map(|it| it.0.clone()).collect();
        let has_last = self.fragments.values().any(|it| !it.1);
        let covers = self.fragments.iter().map(ends).max() == Some(whole.len());
        (!self.refused && has_last && covers).then_some(whole)
    }
}

/// Identification, offset and length in units of 8 octets, M flag, and whether the data is another one.
fn op() -> impl Strategy<Value = (u32, usize, usize, bool, bool)> {
    let flags = (prop::bool::weighted(0.8), prop::bool::weighted(0.1));
    (0_u32..3, 0_usize..6, 1_usize..4, flags)
        .prop_map(|(id, start, units, (more, changed))| (id, start, units, more, changed))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Fragments of three datagrams, with overlaps, duplicates, and wrong ends, give what the rules say.
    #[test]
    fn results_are_those_of_the_rules(
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut reassembly = Reassembly::default();
        let mut models: BTreeMap<u32, Model> = BTreeMap::new();
        for (id, start, units, more, is_changed) in ops {
            if start == 0 && !more {
                continue;
            }
            let (start, end) = (start * 8, (start + units) * 8);
            let mut octets = data(start..end);
            octets[0] ^= u8::from(is_changed);
            let model = models.entry(id).or_default();
            let expected = model.take(start, &octets, more);
            let result = take(&mut reassembly, &fragment(source(), id, start, more, &octets));
            prop_assert_eq!(result.is_err(), model.refused);
            let packet = result.ok().flatten().map(|whole| whole.packet[40..].to_vec());
            prop_assert_eq!(&packet, &expected);
            if expected.is_some() {
                models.remove(&id);
            }
        }
        let memory = reassembly.memory();
        reassembly.handle_timeout(START + TIMEOUT);
        prop_assert!((memory > 0) != models.is_empty());
        prop_assert_eq!((reassembly.memory(), reassembly.len()), (0, 0));
    }
}
