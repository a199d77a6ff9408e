use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::nd::NeighborAdvertisement;
use moorline_ip::{Mac, PacketBuf};
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::*;

mod bounds;
mod properties;
mod states;

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const US: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const PEER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x1234);

fn neighbors() -> Neighbors {
    Neighbors::new(ChaCha20Rng::from_seed([7; 32]))
}

/// The neighbor number `n`.
fn peer(n: usize) -> Ipv6Addr {
    Ipv6Addr::from_bits(PEER.to_bits() + (1 << 32) + u128::try_from(n).expect("small"))
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1000 + seconds)
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A packet from [`US`] with this number behind its addresses.
fn packet(n: u8) -> PacketBuf {
    let mut octets = [0; 41];
    octets[8..24].copy_from_slice(&US.octets());
    octets[40] = n;
    PacketBuf::copy_of(&octets)
}

fn advertisement(target: Ipv6Addr, flags: &str) -> NeighborAdvertisement {
    let [is_router, is_solicited, overrides] = ['R', 'S', 'O'].map(|flag| flags.contains(flag));
    NeighborAdvertisement { target, is_router, is_solicited, overrides }
}

fn outputs(neighbors: &mut Neighbors) -> Vec<Output> {
    core::iter::from_fn(|| neighbors.poll_output()).collect()
}

fn solicit(to: Option<Mac>) -> Output {
    Output::Solicit { target: PEER, source_hint: Some(US), to }
}

fn sent(mac: Mac, n: u8) -> Output {
    Output::Send { mac, packet: packet(n) }
}

fn unreachable(packets: &[u8]) -> Output {
    Output::Unreachable { neighbor: PEER, packets: packets.iter().map(|n| packet(*n)).collect() }
}

/// Lets the machine run until a time, and returns its outputs with their times since `at(0)`.
fn run(neighbors: &mut Neighbors, until: Instant) -> Vec<(Duration, Output)> {
    let mut all = Vec::new();
    while let Some(next) = neighbors.poll_timeout().filter(|next| *next <= until) {
        neighbors.handle_timeout(next);
        all.extend(outputs(neighbors).into_iter().map(|output| (next.since(at(0)), output)));
    }
    all
}

fn state(neighbors: &Neighbors, now: Instant) -> Option<State> {
    neighbors.iter(now).find(|found| found.address == PEER).map(|found| found.state)
}

/// A table with [`PEER`] in this state at `at(0)`, its link-layer address being [`MAC`].
fn in_state(state: State) -> Neighbors {
    let mut neighbors = neighbors();
    let go = |neighbors: &mut Neighbors, before: Duration| {
        let start = at(0) - before;
        neighbors.handle_solicitation(PEER, MAC, start).expect("room");
        neighbors.send(PEER, packet(0), start).expect("room");
        run(neighbors, at(0));
    };
    match state {
        State::Incomplete => neighbors.send(PEER, packet(0), at(0)).expect("room"),
        State::Reachable => {
            go(&mut neighbors, millis(0));
            neighbors.confirm(PEER, at(0));
        }
        State::Stale => neighbors.handle_solicitation(PEER, MAC, at(0)).expect("room"),
        State::Delay => go(&mut neighbors, millis(0)),
        State::Probe => go(&mut neighbors, millis(5_000)),
        State::Unreachable => go(&mut neighbors, millis(8_000)),
    }
    outputs(&mut neighbors);
    assert_eq!(tests::state(&neighbors, at(0)), Some(state));
    neighbors
}

//= rfc4861#7.2.2-10 rfc4861#7.2.2-12 rfc4861#7.3.3-1 (test)
#[test]
fn resolution_solicits_three_times_and_then_gives_the_packets_back() {
    // RFC 4861 s7.2.2.
    let mut neighbors = neighbors();
    neighbors.send(PEER, packet(1), at(0)).expect("room");
    neighbors.send(PEER, packet(2), at(0)).expect("room");
    assert_eq!(outputs(&mut neighbors), [solicit(None)], "one solicitation for both");
    assert_eq!(neighbors.is_reachable(PEER, at(0)), Some(false));
    let expected = [
        (millis(1_000), solicit(None)),
        (millis(2_000), solicit(None)),
        (millis(3_000), unreachable(&[1, 2])),
    ];
    assert_eq!(run(&mut neighbors, at(100)), expected);
    assert_eq!(neighbors.is_reachable(PEER, at(100)), None, "removed");
    assert_eq!(neighbors.poll_timeout(), None);
    assert_eq!(neighbors.drops().of(Drop::NeighborUnreachable), 2);
    neighbors.send(PEER, packet(3), at(100)).expect("room");
    assert_eq!(outputs(&mut neighbors), [solicit(None)], "begins anew");
}

/// A stranger has set the longest Reachable Time, and then says that the neighbor is at another station.
#[test]
fn an_answer_that_nobody_has_asked_for_holds_for_seconds_and_another_one_for_the_reachable_time() {
    let solicited = advertisement(PEER, "SO");
    for (before, mac, longest) in [
        (State::Reachable, OTHER_MAC, 30),
        (State::Stale, OTHER_MAC, 30),
        (State::Probe, MAC, 5400),
    ] {
        let mut neighbors = in_state(before);
        neighbors.set_times(Duration::from_secs(3600), Duration::ZERO);
        neighbors.handle_advertisement(&solicited, Some(mac), at(0)).expect("an entry");
        assert_eq!(state(&neighbors, at(longest / 3)), Some(State::Reachable), "{before:?}");
        assert_eq!(state(&neighbors, at(longest)), Some(State::Stale), "{before:?}");
    }
}

/// Acknowledgements of segments that left before the change are still on their way.
#[test]
fn an_upper_layer_confirms_no_link_layer_address_that_has_just_changed() {
    let mut neighbors = in_state(State::Reachable);
    neighbors
        .handle_advertisement(&advertisement(PEER, "O"), Some(OTHER_MAC), at(0))
        .expect("taken");
    neighbors.confirm(PEER, at(0));
    assert_eq!(state(&neighbors, at(0)), Some(State::Stale));
    neighbors.send(PEER, packet(1), at(0)).expect("an entry");
    run(&mut neighbors, at(5));
    assert_eq!(state(&neighbors, at(5)), Some(State::Probe));
    neighbors.handle_advertisement(&advertisement(PEER, "SO"), Some(MAC), at(5)).expect("taken");
    assert_eq!(state(&neighbors, at(5)), Some(State::Reachable));
    neighbors.confirm(PEER, at(20));
    assert_eq!(state(&neighbors, at(34)), Some(State::Reachable), "confirmed");
}

/// RFC 4861 s6.3.6: a host does not go back to a router that does not answer, because its entry is gone.
#[test]
fn a_router_that_does_not_tell_its_address_stays_known_as_unreachable() {
    let mut neighbors = neighbors();
    neighbors.keep_router(PEER, true, at(0));
    neighbors.send(PEER, packet(1), at(0)).expect("room");
    assert_eq!(neighbors.state(PEER, at(0)), Some(State::Incomplete));
    run(&mut neighbors, at(4));
    assert_eq!(neighbors.iter(at(4)).count(), 0, "the entry is gone");
    assert_eq!(neighbors.state(PEER, at(4)), Some(State::Unreachable));
    neighbors.probe(PEER, at(62));
    assert_eq!(outputs(&mut neighbors), [], "once a minute");
    neighbors.probe(PEER, at(63));
    let question = Output::Solicit { target: PEER, source_hint: None, to: None };
    assert_eq!(outputs(&mut neighbors), [question]);
    assert_eq!(neighbors.state(PEER, at(63)), Some(State::Unreachable), "until it answers");
    neighbors.handle_advertisement(&advertisement(PEER, "RSO"), Some(MAC), at(63)).expect("taken");
    assert_eq!(neighbors.state(PEER, at(63)), Some(State::Reachable));

    // A message of the router, another link, and a router that is none any more end it too.
    for end in 0..3 {
        let mut neighbors = tests::neighbors();
        neighbors.keep_router(PEER, true, at(0));
        neighbors.send(PEER, packet(1), at(0)).expect("room");
        run(&mut neighbors, at(4));
        match end {
            0 => neighbors.handle_router(PEER, Some(MAC), at(4)).expect("room"),
            1 => neighbors.clear(),
            _ => neighbors.keep_router(PEER, false, at(4)),
        }
        assert_ne!(neighbors.state(PEER, at(4)), Some(State::Unreachable), "{end}");
    }
}

//= rfc4861#7.2.2-5 rfc4861#7.2.2-6 rfc4861#7.2.2-7 rfc4861#7.2.2-8 rfc4861#7.2.2-9 (test)
#[test]
fn the_fragments_of_a_large_datagram_wait_and_the_oldest_goes_first() {
    let mut neighbors = neighbors();
    let last = u8::try_from(MAX_QUEUE_OCTETS / 1280 + 2).expect("59");
    for n in 0..last {
        neighbors.send(PEER, packet(n), at(0)).expect("room");
    }
    outputs(&mut neighbors);
    neighbors.handle_advertisement(&advertisement(PEER, "S"), Some(MAC), at(1)).expect("taken");
    let kept: Vec<_> = (2..last).map(|n| sent(MAC, n)).collect();
    assert_eq!(outputs(&mut neighbors), kept);
    assert_eq!(neighbors.drops().of(Drop::NeighborQueue), 2);
    assert_eq!(state(&neighbors, at(1)), Some(State::Reachable));
}

#[test]
fn neighbors_that_do_not_answer_share_the_room_of_the_queues() {
    let mut neighbors = neighbors();
    for n in 0..MAX_INCOMPLETE {
        for octet in 0..60 {
            neighbors.send(peer(n), packet(octet), at(0)).expect("room");
        }
    }
    let waiting = 60 * MAX_INCOMPLETE as u64 - neighbors.drops().of(Drop::NeighborQueue);
    let least = (MAX_QUEUE * MAX_INCOMPLETE) as u64;
    // The first ones found the room of those that came later.
    assert!((least..2 * least).contains(&waiting), "{waiting}");
}

//= rfc8504#5.4-4 rfc8504#5.4-6 (test)
//= rfc4861#7.3.3-2 (test)
#[test]
fn a_neighbor_that_does_not_answer_is_probed_and_then_asked_for_ever_more_rarely() {
    // RFC 4861 s7.3.3, RFC 7048 s3.
    let mut neighbors = in_state(State::Stale);
    neighbors.send(PEER, packet(1), at(0)).expect("room");
    assert_eq!(outputs(&mut neighbors), [sent(MAC, 1)]);
    let probes = run(&mut neighbors, at(8));
    let expected = [
        (millis(5_000), solicit(Some(MAC))),
        (millis(6_000), solicit(Some(MAC))),
        (millis(7_000), solicit(Some(MAC))),
        (millis(8_000), unreachable(&[])),
        (millis(8_000), solicit(None)),
    ];
    assert_eq!(probes, expected);
    assert_eq!(neighbors.is_reachable(PEER, at(8)), Some(false));
    let mut last = at(8);
    for exponent in 1..7 {
        neighbors.send(PEER, packet(2), last).expect("room");
        assert_eq!(outputs(&mut neighbors).last(), Some(&sent(MAC, 2)), "goes to the old address");
        let next = neighbors.poll_timeout().expect("in use");
        let base = Duration::from_secs(3_u64.pow(exponent).min(60));
        assert!(next.since(last) >= base / 2 && next.since(last) <= base * 3 / 2, "{exponent}");
        assert_eq!(run(&mut neighbors, next).len(), 1);
        last = next;
    }
}

#[test]
fn without_packets_an_unreachable_neighbor_is_left_alone() {
    // RFC 7048 s3.
    let mut neighbors = in_state(State::Unreachable);
    assert_eq!(run(&mut neighbors, at(1_000)), []);
    assert_eq!(neighbors.poll_timeout(), None);
    neighbors.send(PEER, packet(9), at(1_000)).expect("room");
    neighbors.handle_timeout(at(1_000));
    assert_eq!(outputs(&mut neighbors), [sent(MAC, 9), solicit(None)]);
}

#[test]
fn senders_learn_that_nobody_tells_a_new_link_layer_address() {
    let mut neighbors = in_state(State::Unreachable);
    let mut told = 0;
    for n in 0..600 {
        neighbors.send(PEER, packet(1), at(n)).expect("room");
        let seen = outputs(&mut neighbors);
        told += seen.iter().filter(|output| **output == unreachable(&[1])).count();
        run(&mut neighbors, at(n));
    }
    // Three solicitations in at most 1.5 * (3 + 9 + 27) s, then one error for each backoff of 30 to 90 s.
    assert!((6..=20).contains(&told), "{told}");
}

//= rfc4191#3.5-3 (test)
#[test]
fn a_router_that_is_gone_is_asked_at_most_once_a_minute_whether_it_is_back() {
    // RFC 4191 s3.5.
    let mut neighbors = in_state(State::Unreachable);
    let mut asked = Vec::new();
    for n in 0..200 {
        neighbors.probe(PEER, at(n));
        asked.extend(outputs(&mut neighbors).iter().map(|output| (n, output == &solicit(None))));
    }
    assert_eq!(asked, [(60, true), (120, true), (180, true)]);
    let mut neighbors = in_state(State::Stale);
    neighbors.probe(PEER, at(100));
    assert_eq!(outputs(&mut neighbors), [], "reachable as far as the host knows");
}

//= rfc4861#6.3.4-8 rfc4861#6.3.4-9 (test)
#[test]
fn reachability_ends_after_a_random_time() {
    // RFC 4861 s6.3.2.
    let mut neighbors = in_state(State::Reachable);
    let lasts = |neighbors: &mut Neighbors, from: u64| {
        neighbors.confirm(PEER, at(from));
        (0..200).find(|n| state(neighbors, at(from + n)) == Some(State::Stale)).expect("ends")
    };
    let first = lasts(&mut neighbors, 0);
    assert!((15..=46).contains(&first), "{first}");
    assert_eq!(lasts(&mut neighbors, 3_600), first, "the time is the same for an hour");
    let times: Vec<u64> = (1..9).map(|n| lasts(&mut neighbors, n * 10_000)).collect();
    assert!(times.iter().any(|time| *time != times[0]), "{times:?} are chosen anew");
    neighbors.set_times(Duration::from_secs(100), Duration::ZERO);
    let longer = lasts(&mut neighbors, 100_000);
    assert!((50..=151).contains(&longer), "{longer}");
    neighbors.set_times(Duration::ZERO, Duration::ZERO);
    assert_eq!(lasts(&mut neighbors, 100_200), longer, "zero leaves it");
}

//= rfc4861#7.2.2-11 (test)
#[test]
fn routers_set_the_time_between_solicitations_within_bounds() {
    let gap = |retrans| {
        let mut neighbors = neighbors();
        neighbors.set_times(Duration::ZERO, retrans);
        neighbors.send(PEER, packet(0), at(0)).expect("room");
        neighbors.poll_timeout().expect("retransmission").since(at(0))
    };
    assert_eq!(gap(Duration::ZERO), RETRANS_TIMER);
    assert_eq!(gap(millis(2_500)), millis(2_500));
    assert_eq!(gap(millis(1)), millis(10));
    assert_eq!(gap(Duration::from_secs(86_400)), MAX_RETRANS_TIMER);
}

#[test]
fn groups_need_no_entry() {
    let mut neighbors = neighbors();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    neighbors.send(group, packet(1), at(0)).expect("sent");
    assert_eq!(outputs(&mut neighbors), [sent(Mac::of_group(group), 1)]);
    assert_eq!(neighbors.iter(at(0)).count(), 0);
}

//= rfc4861#7.2.3-7 rfc4861#7.2.5-1 (test)
#[test]
fn what_no_neighbor_sends_is_refused() {
    let mut neighbors = in_state(State::Stale);
    let unspecified = Ipv6Addr::UNSPECIFIED;
    assert_eq!(neighbors.handle_solicitation(unspecified, MAC, at(0)), Err(Drop::BadSource));
    assert_eq!(neighbors.handle_router(unspecified, None, at(0)), Err(Drop::BadSource));
    let group = Mac::BROADCAST;
    assert_eq!(neighbors.handle_solicitation(PEER, group, at(0)), Err(Drop::Malformed));
    assert_eq!(neighbors.handle_redirect(PEER, Some(group), true, at(0)), Err(Drop::Malformed));
    let flags = advertisement(PEER, "SO");
    assert_eq!(neighbors.handle_advertisement(&flags, Some(group), at(0)), Err(Drop::Malformed));
    // RFC 4861 s7.2.5: without an entry, the message is discarded.
    let unknown = advertisement(peer(1), "SO");
    let result = neighbors.handle_advertisement(&unknown, Some(MAC), at(0));
    assert_eq!(result, Err(Drop::UnknownNeighbor));
    let all: Vec<_> = neighbors.iter(at(0)).map(|found| (found.address, found.mac)).collect();
    assert_eq!(all, [(PEER, Some(MAC))]);
}

#[test]
fn packets_go_with_an_entry_that_is_removed() {
    let mut neighbors = in_state(State::Incomplete);
    neighbors.remove(PEER);
    assert_eq!(neighbors.drops().of(Drop::NeighborUnreachable), 1);
    let mut neighbors = in_state(State::Incomplete);
    neighbors.clear();
    assert_eq!(neighbors.drops().of(Drop::NeighborUnreachable), 1);
    assert_eq!((neighbors.poll_timeout(), neighbors.iter(at(0)).count()), (None, 0));
}
