use alloc::vec::Vec;
use std::collections::BTreeMap;

use moorline_ip::extension::Fragment;
use moorline_ip::icmp::{Icmp, MAX_QUOTE, PORT_UNREACHABLE, REASSEMBLY};
use moorline_ip::ip6::{DESTINATION_OPTIONS, FRAGMENT, TCP, UDP, packet};
use rand_core::SeedableRng as _;

use super::*;

const START: Instant = Instant::from_nanos(1);
const UNREACHABLE: Cause = Cause::Unreachable(PORT_UNREACHABLE);

fn address(text: &str) -> Ipv6Addr {
    text.parse().expect("address")
}

fn peer() -> Ipv6Addr {
    address("2001:db8:1::1")
}

fn us() -> Ipv6Addr {
    address("2001:db8::2")
}

fn errors(seed: u64) -> Errors {
    Errors::new(Limits::default(), ChaCha20Rng::seed_from_u64(seed), START)
}

fn reported(cause: Cause, packet: &[u8]) -> Result<Report<'_>, Drop> {
    errors(1).report(cause, packet, false, START)
}

fn udp(source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    packet(UDP, source, destination, &[0x12, 0x34, 0, 53, 0, 8, 0, 0])
}

// RFC 4443 s2.2, s2.4 (c).
//= rfc4443#2.2-1 rfc4443#2.2-2 (test)
#[test]
fn an_error_goes_to_the_source_and_quotes_the_packet() {
    let mut octets = packet(UDP, peer(), us(), &[7; 2000]);
    // Padding of the link.
    octets.extend([0; 6]);
    let report = reported(UNREACHABLE, &octets).expect("an error");
    assert_eq!((report.destination, report.source), (peer(), Some(us())));
    let mut message = Vec::new();
    report.emit(us(), &mut message);
    let read = Icmp::parse(us(), peer(), &message).expect("message");
    let error = icmp::Error::parse(&read).expect("body").expect("error");
    assert_eq!((error.cause, error.quote), (UNREACHABLE, &octets[..MAX_QUOTE]));
    let short = udp(peer(), us());
    let padded = [&short[..], &[0; 6]].concat();
    assert_eq!(reported(UNREACHABLE, &padded).expect("an error").error.quote, short);
    assert_eq!(reported(UNREACHABLE, &short[..39]), Err(Drop::Truncated));
    assert!(reported(UNREACHABLE, &short[..44]).is_ok(), "a packet that is cut");
}

// RFC 4443 s2.4 (e.1), (e.2).
//= rfc4443#2.4-5 (test)
#[test]
fn errors_and_redirects_draw_no_error() {
    for kind in 0..=255 {
        let plain = packet(ICMPV6, peer(), us(), &[kind; 8]);
        let options = [ICMPV6, 0, 1, 4, 0, 0, 0, 0];
        let behind =
            packet(DESTINATION_OPTIONS, peer(), us(), &[&options[..], &[kind; 8]].concat());
        let fields = Fragment { next_header: ICMPV6, offset: 0, has_more: true, identification: 1 };
        let first = packet(FRAGMENT, peer(), us(), &[&fields.octets()[..], &[kind; 8]].concat());
        let is_allowed = kind >= 128 && kind != 137;
        for octets in [plain, behind, first] {
            assert_eq!(reported(UNREACHABLE, &octets).is_ok(), is_allowed, "type {kind}");
        }
    }
    let chain = [DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0].repeat(10);
    let deep = packet(DESTINATION_OPTIONS, peer(), us(), &chain);
    assert_eq!(reported(UNREACHABLE, &deep), Err(Drop::NoAnswer));
}

// RFC 4443 s2.4 (e.3) to (e.5).
//= rfc4443#2.4-5 (test)
#[test]
fn multicast_packets_draw_two_errors_only() {
    let causes = |kind| {
        let options = [UDP, 0, kind, 0, 1, 2, 0, 0];
        let unknown = Cause::ParameterProblem(UNKNOWN_OPTION, 42);
        let group = packet(DESTINATION_OPTIONS, peer(), address("ff02::1"), &options);
        let to_us = packet(DESTINATION_OPTIONS, peer(), us(), &options);
        [
            errors(1).report(unknown, &group, false, START).map(|it| it.source),
            errors(1).report(unknown, &to_us, true, START).map(|it| it.source),
        ]
    };
    assert_eq!(causes(0x9e), [Ok(None), Ok(Some(us()))]);
    assert_eq!(causes(0xde), [Err(Drop::NoAnswer); 2]);
    assert_eq!(causes(0x1e), [Err(Drop::NoAnswer); 2]);
    for (cause, is_allowed) in [
        (Cause::PacketTooBig(1280), true),
        (UNREACHABLE, false),
        (Cause::TimeExceeded(REASSEMBLY), false),
        (Cause::ParameterProblem(0, 40), false),
        (Cause::ParameterProblem(1, 6), false),
        (Cause::ParameterProblem(UNKNOWN_OPTION, 5000), false),
    ] {
        let group = udp(peer(), address("ff02::1"));
        let to_group = errors(1).report(cause, &group, true, START).is_ok();
        let to_us = errors(1).report(cause, &udp(peer(), us()), true, START).is_ok();
        assert_eq!((to_group, to_us), (is_allowed, is_allowed), "{cause:?}");
    }
}

// RFC 4443 s2.4 (e.6).
//= rfc4443#2.4-5 (test)
#[test]
fn sources_that_are_not_one_node_get_nothing() {
    for source in ["::", "ff02::1"] {
        let source = address(source);
        assert_eq!(reported(UNREACHABLE, &udp(source, us())), Err(Drop::BadSource));
        assert_eq!(errors(1).allow_echo(source, us(), START), Err(Drop::BadSource));
    }
}

//= rfc4443#4.2-4 (test)
#[test]
fn echo_requests_to_a_group_are_not_answered_unless_a_setting_says_so() {
    let group = address("ff02::1");
    assert_eq!(errors(1).allow_echo(peer(), us(), START), Ok(()));
    assert_eq!(errors(1).allow_echo(peer(), group, START), Err(Drop::NoAnswer));
    let limits = Limits { answers_multicast_echo: true, ..Limits::default() };
    let mut errors = Errors::new(limits, ChaCha20Rng::seed_from_u64(1), START);
    assert_eq!(errors.allow_echo(peer(), group, START), Ok(()));
}

/// Number of errors that go to the prefixes `to`, one each, at once.
fn count(errors: &mut Errors, to: impl Iterator<Item = u64>, now: Instant) -> u32 {
    let sources = to.map(|prefix| Ipv6Addr::from_bits(u128::from(prefix) << 64 | 1));
    let is_sent = |source| errors.report(UNREACHABLE, &udp(source, us()), false, now).is_ok();
    sources.map(is_sent).map(u32::from).sum()
}

const PREFIXES: u64 = 0x2001_0db8_0000_0000;

//= rfc4443#2.4-7 rfc4443#3.1-5 (test)
#[test]
fn a_burst_of_zero_turns_errors_off() {
    let mut limits = Limits::default();
    limits.errors.burst = 0;
    let mut errors = Errors::new(limits, ChaCha20Rng::seed_from_u64(1), START);
    let result = errors.report(UNREACHABLE, &udp(peer(), us()), false, START).map(|_| ());
    assert_eq!(result, Err(Drop::ErrorRate));
    assert_eq!(errors.allow_echo(peer(), us(), START), Ok(()));
}

// RFC 4443 s2.4 (f).
//= rfc4443#2.4-6 (test)
#[test]
fn errors_have_a_burst_and_a_mean_rate() {
    let mut errors = errors(1);
    let burst = count(&mut errors, PREFIXES..PREFIXES + 1000, START);
    assert!((10..=100).contains(&burst), "{burst} at once");
    // 20,000 packets a second come in for 5 s.
    let mut sent = 0;
    for step in 1..=100_000 {
        let now = START + Duration::from_micros(50) * step;
        sent += count(&mut errors, core::iter::once(PREFIXES + u64::from(step)), now);
    }
    assert!((4_700..=5_100).contains(&sent), "{sent} in 5 s");
}

#[test]
fn a_prefix_has_its_own_rate_and_leaves_the_others_theirs() {
    let mut errors = errors(1);
    let burst = count(&mut errors, core::iter::repeat_n(PREFIXES, 1000), START);
    assert!((13..=37).contains(&burst), "{burst} at once");
    let mut sent = 0;
    let mut others = 0;
    for step in 1..=50_000 {
        let now = START + Duration::from_micros(100) * step;
        sent += count(&mut errors, core::iter::once(PREFIXES), now);
        if step % 100 == 0 {
            others += count(&mut errors, core::iter::once(PREFIXES + u64::from(step)), now);
        }
    }
    assert!((450..=560).contains(&sent), "{sent} in 5 s");
    assert!(others >= 495, "{others} of 500");
}

#[test]
fn echo_replies_have_rates_of_their_own() {
    let mut errors = errors(1);
    count(&mut errors, PREFIXES..PREFIXES + 1000, START);
    let answered = (0..1000).filter(|_| errors.allow_echo(peer(), us(), START).is_ok()).count();
    assert!((100..=300).contains(&answered), "{answered} at once");
    // `ping` once a second, and ten times a second.
    for step in 1..100 {
        let now = START + Duration::from_millis(1000 + 100 * step);
        assert_eq!(errors.allow_echo(peer(), us(), now), Ok(()));
    }
}

/// Somebody off the path sends `probes` packets with the source address of a resolver, and then packets from many
/// prefixes of his own. Returns the number of the errors that he gets.
fn round(seed: u64, probes: usize) -> u32 {
    let mut errors = errors(seed);
    count(&mut errors, core::iter::repeat_n(PREFIXES, probes), START);
    count(&mut errors, PREFIXES + 1..PREFIXES + 100, START)
}

/// One of ten ports is open or not. Without randomness, the number of errors would show it each time. The test
/// compares how often the numbers occur, in groups of five.
#[test]
fn a_shared_rate_does_not_tell_who_has_used_it() {
    const ROUNDS: u32 = 1500;
    let mut counts: BTreeMap<u32, [u32; 2]> = BTreeMap::new();
    for seed in 0..ROUNDS {
        for (index, probes) in [9, 10].into_iter().enumerate() {
            let seed = u64::from(2 * seed) + u64::from(index == 1);
            counts.entry(round(seed, probes) / 5).or_default()[index] += 1;
        }
    }
    let distance: u32 = counts.values().map(|[open, closed]| open.abs_diff(*closed)).sum();
    let share = distance * 100 / (2 * ROUNDS);
    assert!(share < 8, "a guess is better than chance by {share} / 2 %: {counts:?}");
}

/// Two prefixes that share an allowance do so for some seconds only.
#[test]
fn the_prefixes_that_share_an_allowance_change() {
    let shares = |errors: &mut Errors, now| {
        // Prefixes whose allowance is used up after another one has used up its own.
        count(errors, core::iter::repeat_n(PREFIXES, 500), now);
        (1..2000)
            .filter(|n| {
                let mut errors = errors.clone();
                count(&mut errors, core::iter::repeat_n(PREFIXES + n, 30), now) == 0
            })
            .collect::<Vec<u64>>()
    };
    let limits = Limits {
        errors: Rate { interval: Duration::from_micros(1), burst: 100_000 },
        ..Limits::default()
    };
    let mut errors = Errors::new(limits, ChaCha20Rng::seed_from_u64(1), START);
    let first = shares(&mut errors, START);
    let soon = shares(&mut errors, START + Duration::from_millis(900));
    let later = shares(&mut errors, START + Duration::from_secs(10));
    assert!(!first.is_empty() && first == soon, "{first:?} and {soon:?}");
    assert!(first.iter().all(|prefix| !later.contains(prefix)), "{first:?} and {later:?}");
}

#[test]
fn a_quote_shows_the_flow() {
    let tcp =
        packet(TCP, us(), peer(), &[0x12, 0x34, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0x50, 0, 0, 0]);
    let quote = Quote::parse(&tcp).expect("quote");
    assert_eq!((quote.source, quote.destination, quote.protocol), (us(), peer(), TCP));
    assert_eq!((quote.ports(), quote.tcp_sequence()), (Some((0x1234, 80)), Some(0x0102_0304)));
    assert_eq!((quote.echo(), quote.payload_len), (None, 16));
    assert_eq!(quote.first_octets(), Some([0x12, 0x34, 0, 80, 1, 2, 3, 4]));
    let cut = Quote::parse(&tcp[..46]).expect("quote");
    assert_eq!((cut.ports(), cut.tcp_sequence()), (Some((0x1234, 80)), None));
    assert_eq!(Quote::parse(&tcp[..42]).expect("quote").ports(), None);

    let echo = packet(ICMPV6, us(), peer(), &[128, 0, 9, 9, 0, 7, 0, 3]);
    let quote = Quote::parse(&echo).expect("quote");
    assert_eq!((quote.echo(), quote.ports()), (Some((Kind::ECHO_REQUEST, 7, 3)), None));
    let other = packet(ICMPV6, us(), peer(), &[135, 0, 9, 9, 0, 7, 0, 3]);
    assert_eq!(Quote::parse(&other).expect("quote").echo(), None);
}

// RFC 4443 s2.4 (d).
#[test]
fn a_quote_that_does_not_show_its_upper_layer_is_none() {
    let options = [UDP, 1, 1, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x34, 0, 53];
    let behind = packet(DESTINATION_OPTIONS, us(), peer(), &options);
    assert_eq!(Quote::parse(&behind).expect("quote").ports(), Some((0x1234, 53)));
    for len in 0..56 {
        assert_eq!(Quote::parse(&behind[..len]), None, "{len} octets");
    }
    let chain = [DESTINATION_OPTIONS, 0, 1, 4, 0, 0, 0, 0].repeat(10);
    assert_eq!(Quote::parse(&packet(DESTINATION_OPTIONS, us(), peer(), &chain)), None);
}

#[test]
fn quotes_of_fragments_show_what_they_have() {
    let fragment = |offset| {
        let fields = Fragment { next_header: UDP, offset, has_more: true, identification: 1 };
        packet(FRAGMENT, us(), peer(), &[&fields.octets()[..], &[0x12, 0x34, 0, 53]].concat())
    };
    assert_eq!(Quote::parse(&fragment(0)).expect("quote").ports(), Some((0x1234, 53)));
    let later = fragment(8);
    let later = Quote::parse(&later).expect("quote");
    assert_eq!((later.protocol, later.ports(), later.first_octets()), (UDP, None, None));
    // Objects of RFC 4884 behind the packet are no part of it.
    let extended = [&udp(us(), peer())[..], &[9; 20]].concat();
    assert_eq!(Quote::parse(&extended).expect("quote").upper.len(), 8);
}
