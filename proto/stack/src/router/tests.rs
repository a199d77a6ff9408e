use super::solicitation::{IRT, MAX_RTR_SOLICITATION_DELAY, MRT};
use super::*;
use crate::Drop;
use alloc::vec;
use moorline_ip::nd::{
    Body, FOREVER, Message, NdOption, PrefixInformation, RouteInformation, RouterAdvertisement,
};
use proptest::prelude::*;
use rand_core::SeedableRng as _;

const SECOND: Duration = Duration::from_secs(1);
const LINK_MTU: u32 = 1500;
const R1: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const R2: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);

fn start() -> Instant {
    Instant::ZERO + 1000 * SECOND
}

fn seeded(seed: u64) -> Routers {
    Routers::new(LINK_MTU, 64, ChaCha20Rng::seed_from_u64(seed))
}

fn header(lifetime: u64) -> RouterAdvertisement {
    RouterAdvertisement {
        hop_limit: 0,
        managed: false,
        other: false,
        preference: RouterPreference::Medium,
        lifetime: Duration::from_secs(lifetime),
        reachable_time: Duration::ZERO,
        retrans_timer: Duration::ZERO,
    }
}

fn with<'a>(header: RouterAdvertisement, options: &[NdOption<'a>]) -> Message<'a> {
    Message { body: Body::RouterAdvertisement(header), options: options.to_vec() }
}

fn advertise(routers: &mut Routers, source: Ipv6Addr, lifetime: u64, options: &[NdOption<'_>]) {
    let message = with(header(lifetime), options);
    routers.handle_advertisement(source, &message, start()).expect("valid");
}

fn net(n: u16) -> Prefix {
    Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 0), 64)
}

fn host(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 9)
}

fn prefix(prefix: Prefix, on_link: bool, valid: u64) -> NdOption<'static> {
    let valid = Duration::from_secs(valid);
    NdOption::Prefix(PrefixInformation {
        prefix,
        on_link,
        autonomous: true,
        valid,
        preferred: valid,
    })
}

fn route(prefix: Prefix, preference: RouterPreference, lifetime: u64) -> NdOption<'static> {
    let lifetime = Duration::from_secs(lifetime);
    NdOption::Route(RouteInformation { prefix, preference, lifetime })
}

fn outputs(routers: &mut Routers) -> Vec<Output> {
    core::iter::from_fn(|| routers.poll_output()).collect()
}

/// Times of the solicitations up to then.
fn solicitations(routers: &mut Routers, until: Instant) -> Vec<Instant> {
    let mut times = vec![];
    while let Some(at) = routers.poll_timeout().filter(|at| *at <= until) {
        routers.handle_timeout(at);
        assert!(routers.poll_timeout().is_none_or(|next| next > at), "a timer that is due stays");
        times.extend(outputs(routers).contains(&Output::Solicit).then_some(at));
    }
    times
}

fn next_hops(routers: &Routers, destination: Ipv6Addr) -> Vec<Ipv6Addr> {
    routers.candidates(destination, FAR).map(|candidate| candidate.router).collect()
}

// RFC 4861 s6.3.7, RFC 7559 s2, RFC 3315 s14.
//= rfc8504#5.4-8 (test)
//= rfc7559#2-1 rfc7559#2-2 (test)
//= rfc4861#6.3.7-1 rfc4861#6.3.7-3 (test)
#[test]
fn solicitations_go_on_with_intervals_that_double_up_to_an_hour() {
    let mut firsts = vec![];
    for seed in 0..50 {
        let mut routers = seeded(seed);
        assert_eq!(routers.poll_timeout(), None);
        routers.handle_link(true, start());
        let times = solicitations(&mut routers, start() + 100_000 * SECOND);
        firsts.push(times[0]);
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        let tenth = |time: Duration| time - time / 10..=time + time / 10;
        assert!(tenth(IRT).contains(&gaps[0]), "{gaps:?}");
        assert!(gaps.len() > 25);
        for pair in gaps.windows(2) {
            let doubled = pair[0] * 2 - pair[0] / 10..=pair[0] * 2 + pair[0] / 10;
            let is_last = *doubled.end() > MRT && tenth(MRT).contains(&pair[1]);
            assert!(doubled.contains(&pair[1]) || is_last, "{pair:?}");
        }
        assert!(gaps[gaps.len() - 1] != gaps[gaps.len() - 2], "no jitter");
    }
    let last = start() + MAX_RTR_SOLICITATION_DELAY;
    assert!(firsts.iter().all(|at| *at <= last));
    assert!(firsts.iter().max() > Some(&(start() + SECOND / 2)));
    assert!(firsts.iter().min() < Some(&(start() + SECOND / 2)));
}

//= rfc7559#2.1-1 rfc7559#2.1-2 (test)
//= rfc4861#6.3.7-6 (test)
#[test]
fn an_advertisement_with_a_lifetime_ends_solicitation_and_no_other_does() {
    for (lifetime, option, goes_on) in [
        (1800, None, false),
        (0, None, true),
        (0, Some(route(Prefix::ALL, RouterPreference::Low, 100)), true),
        (1800, Some(route(Prefix::ALL, RouterPreference::Low, 0)), true),
    ] {
        let mut routers = seeded(1);
        routers.handle_link(true, start());
        assert_eq!(solicitations(&mut routers, start() + SECOND).len(), 1);
        advertise(&mut routers, R1, lifetime, option.as_slice());
        let more = solicitations(&mut routers, start() + 100 * SECOND);
        assert_eq!(!more.is_empty(), goes_on, "{lifetime} {option:?}");
    }
}

// RFC 4861 s6.3.7: one solicitation goes out nonetheless.
//= rfc4861#6.3.7-7 (test)
#[test]
fn an_advertisement_before_the_first_solicitation_leaves_one() {
    let mut routers = seeded(1);
    routers.handle_link(true, start());
    advertise(&mut routers, R1, 9000, &[]);
    assert_eq!(solicitations(&mut routers, start() + 8000 * SECOND).len(), 1);
}

//= rfc4861#6.3.7-4 (test)
#[test]
fn the_link_and_the_caller_start_solicitation_anew() {
    let mut routers = seeded(1);
    routers.solicit(start());
    assert_eq!((outputs(&mut routers), routers.poll_timeout()), (vec![], None));
    routers.handle_link(true, start());
    solicitations(&mut routers, start() + 5 * SECOND);
    routers.handle_link(false, start() + 5 * SECOND);
    assert_eq!(routers.poll_timeout(), None);
    routers.handle_link(true, start() + 6 * SECOND);
    assert_eq!(solicitations(&mut routers, start() + 7 * SECOND).len(), 1);
    advertise(&mut routers, R1, 1800, &[]);
    outputs(&mut routers);
    routers.solicit(start() + 8 * SECOND);
    assert_eq!(outputs(&mut routers), [Output::Solicit]);
    routers.handle_link(false, start() + 8 * SECOND);
    assert_eq!(next_hops(&routers, FAR), [R1]);
}

// RFC 4861 s6.3.4, s6.3.5.
//= rfc8504#5.4-2 (test)
#[test]
fn a_default_router_stays_for_its_lifetime() {
    let mut routers = seeded(1);
    advertise(&mut routers, R1, 1800, &[]);
    assert_eq!(outputs(&mut routers), [Output::RouterFound(R1), Output::RoutesChanged]);
    let message = with(header(100), &[]);
    routers.handle_advertisement(R1, &message, start() + 1799 * SECOND).expect("valid");
    assert_eq!(outputs(&mut routers), []);
    assert_eq!(routers.poll_timeout(), Some(start() + 1899 * SECOND));
    routers.handle_timeout(start() + 1898 * SECOND);
    assert_eq!(next_hops(&routers, FAR), [R1]);
    routers.handle_timeout(start() + 1899 * SECOND);
    assert_eq!(outputs(&mut routers), [Output::RouterLost(R1), Output::RoutesChanged]);
    assert_eq!((next_hops(&routers, FAR), routers.routers().count()), (vec![], 0));
}

//= rfc4191#2.2-2 (test)
//= rfc4861#4.2-4 rfc4861#7.2.5-9 rfc4861#7.3.3-6 (test)
#[test]
fn a_router_goes_with_a_lifetime_of_zero_or_when_it_becomes_a_host() {
    let mut routers = seeded(1);
    let specific = route(net(7), RouterPreference::High, 100);
    for is_host in [false, true] {
        advertise(&mut routers, R1, 1800, &[specific.clone(), prefix(net(1), false, 100)]);
        advertise(&mut routers, R2, 1800, &[]);
        outputs(&mut routers);
        if is_host {
            routers.remove_router(R1);
            assert_eq!(outputs(&mut routers), [Output::RouterLost(R1), Output::RoutesChanged]);
            assert!(!routers.advertises(R1, host(1)));
        } else {
            advertise(&mut routers, R1, 0, &[]);
            assert_eq!(outputs(&mut routers), [Output::RoutesChanged]);
            assert_eq!(next_hops(&routers, host(7)), [R1, R2]);
        }
        assert_eq!(next_hops(&routers, FAR), [R2]);
    }
    routers.remove_router(R1);
    assert_eq!(outputs(&mut routers), []);
    // Found again and lost before a poll, and the other way round: no news.
    advertise(&mut routers, R1, 1800, &[]);
    advertise(&mut routers, R1, 0, &[]);
    advertise(&mut routers, R2, 0, &[]);
    advertise(&mut routers, R2, 1800, &[]);
    assert_eq!(outputs(&mut routers), [Output::RoutesChanged]);
}

#[test]
fn messages_that_are_no_advertisement_of_a_router_change_nothing() {
    let mut routers = seeded(1);
    let message = with(header(1800), &[]);
    assert_eq!(routers.handle_advertisement(FAR, &message, start()), Err(Drop::BadSource));
    let message = Message { body: Body::RouterSolicitation, options: vec![] };
    assert_eq!(routers.handle_advertisement(R1, &message, start()), Err(Drop::Malformed));
    assert_eq!((outputs(&mut routers), routers.poll_timeout()), (vec![], None));
}

// RFC 4191 s2.2, s2.3, s3.1, and its example in s3.6.
//= rfc8504#5.9-1 (test)
//= rfc4191#2.3-3 (test)
#[test]
fn routes_have_preferences_and_the_longest_prefix_is_first() {
    let mut routers = seeded(1);
    let [w, x, y, z] = [11, 12, 13, 14].map(|n| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, n));
    let wide = Prefix::new(net(0).address(), 32);
    let other = Prefix::new(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);
    advertise(&mut routers, w, 1800, &[]);
    advertise(&mut routers, x, 0, &[route(other, RouterPreference::Medium, 100)]);
    advertise(&mut routers, y, 0, &[route(wide, RouterPreference::High, 100)]);
    advertise(&mut routers, z, 0, &[route(wide, RouterPreference::Low, 100)]);
    let found: Vec<_> = routers
        .candidates("2001:db8::1".parse().expect("address"), FAR)
        .map(|one| (one.router, one.prefix, one.preference))
        .collect();
    let expected = [
        (y, wide, RouterPreference::High),
        (z, wide, RouterPreference::Low),
        (w, Prefix::ALL, RouterPreference::Medium),
    ];
    assert_eq!(found, expected);
    // Zero removes; Reserved is ignored, and counted.
    advertise(&mut routers, y, 0, &[route(wide, RouterPreference::Reserved, 0)]);
    assert_eq!(routers.routes().count(), 4);
    assert_eq!(routers.drops().of(Drop::AdvertisementValue), 1);
    advertise(&mut routers, y, 0, &[route(wide, RouterPreference::High, 0)]);
    assert_eq!(routers.routers().collect::<Vec<_>>(), [w, x, z]);
    routers.handle_timeout(start() + 100 * SECOND);
    assert_eq!(routers.routers().collect::<Vec<_>>(), [w]);
}

//= rfc4191#2.2-5 (test)
#[test]
fn the_reserved_preference_of_a_router_is_medium() {
    let mut routers = seeded(1);
    for (preference, expected) in [
        (RouterPreference::Low, RouterPreference::Low),
        (RouterPreference::Reserved, RouterPreference::Medium),
        (RouterPreference::High, RouterPreference::High),
    ] {
        let message = with(RouterAdvertisement { preference, ..header(1800) }, &[]);
        outputs(&mut routers);
        routers.handle_advertisement(R1, &message, start()).expect("valid");
        assert!(outputs(&mut routers).contains(&Output::RoutesChanged));
        assert_eq!(routers.routes().map(|one| one.preference).collect::<Vec<_>>(), [expected]);
    }
}

// RFC 4191 s3.1, the example with router X.
#[test]
fn a_route_option_for_all_destinations_overrides_the_header() {
    let mut routers = seeded(1);
    let options = [route(Prefix::ALL, RouterPreference::Low, 200)];
    advertise(&mut routers, R1, 100, &options);
    outputs(&mut routers);
    advertise(&mut routers, R1, 100, &options);
    assert_eq!(outputs(&mut routers), []);
    let until = Some(start() + 200 * SECOND);
    let preference = RouterPreference::Low;
    let expected = Route { prefix: Prefix::ALL, router: R1, preference, until };
    assert_eq!(routers.routes().collect::<Vec<_>>(), [expected]);
    advertise(&mut routers, R1, 100, &[route(Prefix::ALL, RouterPreference::Reserved, 200)]);
    let route = routers.routes().next().expect("route");
    assert_eq!(route.preference, RouterPreference::Medium);
    assert_eq!(route.until, Some(start() + 100 * SECOND));
}

// RFC 4861 s6.3.4.
//= rfc8504#5.4-3 (test)
//= rfc4861#4.6.2-1 rfc4861#4.6.2-2 rfc4861#6.3.4-1 rfc4861#6.3.4-17 (test)
#[test]
fn a_prefix_with_the_l_flag_is_on_link_for_its_lifetime() {
    let mut routers = seeded(1);
    assert!(routers.is_on_link(R2) && !routers.is_on_link(host(1)));
    advertise(&mut routers, R1, 1800, &[prefix(net(1), true, 100)]);
    assert!(routers.is_on_link(host(1)) && !routers.is_on_link(host(2)));
    outputs(&mut routers);
    // Without the L flag an option says nothing.
    for valid in [500, 0] {
        advertise(&mut routers, R1, 1800, &[prefix(net(1), false, valid)]);
        advertise(&mut routers, R2, 1800, &[prefix(net(2), false, valid)]);
    }
    let expected = [(net(1), Some(start() + 100 * SECOND))];
    assert_eq!(routers.prefixes().collect::<Vec<_>>(), expected);
    // The prefix is of any router; zero removes it.
    advertise(&mut routers, R2, 0, &[prefix(net(1), true, 0), prefix(net(3), true, 0)]);
    assert!(!routers.is_on_link(host(1)));
    assert!(outputs(&mut routers).contains(&Output::RoutesChanged));
    advertise(&mut routers, R1, 1800, &[prefix(net(1), true, 10)]);
    outputs(&mut routers);
    routers.handle_timeout(start() + 10 * SECOND);
    assert!(!routers.is_on_link(host(1)));
    assert_eq!(outputs(&mut routers), [Output::RoutesChanged]);
}

//= rfc4861#4.6.2-10 rfc4861#5.1-1 (test)
#[test]
fn link_local_and_multicast_prefixes_are_ignored() {
    let mut routers = seeded(1);
    let bad = ["fe80::", "fe80:1::", "ff02::"].map(|text| text.parse().expect("prefix"));
    for address in bad {
        for valid in [0, 100] {
            advertise(&mut routers, R1, 1800, &[prefix(Prefix::new(address, 64), true, valid)]);
        }
    }
    assert_eq!((routers.prefixes().count(), routers.is_on_link(R2)), (0, true));
    assert_eq!(routers.drops().of(Drop::AdvertisementValue), 6);
}

// RFC 8028 s3.1, s3.2.
//= rfc8504#5.10-1 (test)
#[test]
fn a_router_is_known_by_the_prefixes_that_it_advertises() {
    let mut routers = seeded(1);
    advertise(&mut routers, R1, 1800, &[prefix(net(1), true, 100)]);
    advertise(&mut routers, R2, 1800, &[prefix(net(2), false, 100)]);
    let sources = |routers: &Routers, source| -> Vec<_> {
        routers.candidates(FAR, source).map(|one| one.advertises_source).collect()
    };
    assert_eq!(sources(&routers, host(1)), [true, false]);
    assert_eq!(sources(&routers, host(2)), [false, true]);
    assert_eq!(sources(&routers, host(3)), [false, false]);
    advertise(&mut routers, R2, 1800, &[prefix(net(2), false, 0)]);
    assert_eq!(sources(&routers, host(2)), [false, false]);
    routers.handle_timeout(start() + 100 * SECOND);
    assert_eq!(sources(&routers, host(1)), [false, false]);
}

// RFC 4861 s6.3.4: unspecified values change nothing.
//= rfc4862#5.6-1 (test)
//= rfc4861#6.3.4-1 rfc4861#6.3.4-2 rfc4861#6.3.4-6 rfc4861#6.3.4-7 rfc4861#6.3.4-10 (test)
//= rfc4861#9-7 (test)
#[test]
fn parameters_are_those_of_the_last_advertisement_that_has_them() {
    let mut routers = seeded(1);
    let defaults = *routers.parameters();
    assert_eq!((routers.hop_limit(), routers.mtu()), (64, LINK_MTU));
    assert_eq!(defaults.retrans_timer, SECOND);
    let message = with(
        RouterAdvertisement {
            hop_limit: 17,
            reachable_time: 5 * SECOND,
            retrans_timer: 2 * SECOND,
            ..header(0)
        },
        &[NdOption::Mtu(1280)],
    );
    routers.handle_advertisement(R1, &message, start()).expect("valid");
    assert_eq!(outputs(&mut routers), [Output::ParametersChanged]);
    advertise(&mut routers, R2, 1800, &[]);
    assert!(!outputs(&mut routers).contains(&Output::ParametersChanged));
    let parameters = *routers.parameters();
    assert_eq!((parameters.hop_limit, parameters.mtu), (17, 1280));
    assert_eq!(parameters.base_reachable_time, 5 * SECOND);
    assert_eq!(parameters.retrans_timer, 2 * SECOND);
    routers.forget();
    assert_eq!(*routers.parameters(), defaults);
}

//= rfc4861#6.3.4-16 (test)
#[test]
fn values_that_are_out_of_range_are_ignored_and_counted() {
    let mut routers = seeded(1);
    let defaults = *routers.parameters();
    for mtu in [0, 1279, 1501, u32::MAX] {
        advertise(&mut routers, R1, 1800, &[NdOption::Mtu(mtu)]);
    }
    assert_eq!(routers.drops().of(Drop::AdvertisementValue), 4);
    let millis = Duration::from_millis;
    let cases = [(0, 9), (0, 60_001), (3_600_001, 0), (0, u64::from(u32::MAX))];
    for (count, (reachable, retrans)) in cases.into_iter().enumerate() {
        let bad = RouterAdvertisement {
            reachable_time: millis(reachable),
            retrans_timer: millis(retrans),
            ..header(1800)
        };
        routers.handle_advertisement(R1, &with(bad, &[]), start()).expect("valid");
        assert_eq!(routers.drops().of(Drop::AdvertisementValue), 5 + count as u64);
    }
    assert_eq!(*routers.parameters(), defaults);
    let half =
        RouterAdvertisement { reachable_time: FOREVER, retrans_timer: 3 * SECOND, ..header(0) };
    routers.handle_advertisement(R1, &with(half, &[]), start()).expect("valid");
    assert_eq!(routers.parameters().retrans_timer, 3 * SECOND);
    for mtu in [1280, 1500] {
        advertise(&mut routers, R1, 1800, &[NdOption::Mtu(mtu)]);
        assert_eq!(routers.mtu(), mtu);
    }
}

fn servers(lifetime: Duration, ns: &[u16]) -> NdOption<'static> {
    NdOption::RecursiveDns(lifetime, ns.iter().map(|n| host(*n)).collect())
}

fn known(routers: &Routers, now: Instant) -> Vec<Ipv6Addr> {
    routers.dns_servers(now).collect()
}

// RFC 8106 s5.3.1, s6.1, s6.2.
//= rfc8504#8.3-1 (test)
//= rfc8106#1.2-1 rfc8106#1.2-2 rfc8106#5.1-1 rfc8106#5.1-3 rfc8106#5.3.1-1 rfc8106#6.1-1 (test)
#[test]
fn dns_servers_are_in_the_order_of_their_option_and_newer_options_are_first() {
    let mut routers = seeded(1);
    advertise(&mut routers, R1, 0, &[servers(100 * SECOND, &[1, 2])]);
    assert_eq!(outputs(&mut routers), [Output::DnsChanged]);
    advertise(&mut routers, R2, 0, &[servers(FOREVER, &[3, 2, 4])]);
    assert_eq!(known(&routers, start()), [3, 4, 1, 2].map(host));
    assert_eq!(routers.poll_timeout(), Some(start() + 100 * SECOND));
    assert_eq!(known(&routers, start() + 100 * SECOND), [3, 4, 2].map(host));
    outputs(&mut routers);
    routers.handle_timeout(start() + 100 * SECOND);
    assert_eq!(outputs(&mut routers), [Output::DnsChanged]);
    assert_eq!(routers.poll_timeout(), None);
    advertise(&mut routers, R1, 0, &[servers(Duration::ZERO, &[4, 9])]);
    assert_eq!(known(&routers, start()), [3, 2].map(host));
    advertise(&mut routers, R1, 0, &[servers(FOREVER, &[2])]);
    outputs(&mut routers);
    advertise(&mut routers, R1, 0, &[servers(FOREVER, &[2])]);
    assert_eq!(outputs(&mut routers), []);
}

//= rfc8106#5.3.1-2 (test)
#[test]
fn an_option_with_a_server_that_is_no_unicast_address_is_discarded() {
    let mut routers = seeded(1);
    let group = "ff02::1".parse().expect("group");
    for bad in [group, Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST] {
        advertise(&mut routers, R1, 0, &[NdOption::RecursiveDns(FOREVER, vec![host(1), bad])]);
    }
    assert!(known(&routers, start()).is_empty());
    assert_eq!(routers.drops().of(Drop::AdvertisementValue), 3);
}

//= rfc8504#8.3-1 (test)
//= rfc8106#5.2-1 rfc8106#5.2-4 rfc8106#5.2-5 rfc8106#5.3.1-2 (test)
#[test]
fn search_domains_are_names_of_hosts() {
    let mut routers = seeded(1);
    let good = b"\x07Example\x03com\0\x04a-_1\0\0\0\0";
    advertise(&mut routers, R1, 0, &[NdOption::DnsSearchList(100 * SECOND, good)]);
    let names: Vec<_> = routers.search_domains(start()).map(String::from).collect();
    assert_eq!(names, ["example.com", "a-_1"]);
    let long = [&b"\x3f"[..], &[b'a'; 63]].concat().repeat(4);
    let long = [&long[..], b"\0"].concat();
    // Without an end, compressed, longer than the option, too long, and with characters that are no good.
    let bad: [&[u8]; 7] =
        [b"\x03com", b"\xc0\x02", b"\x09com\0", &long, b"\x03c m\0", b"\x03c.m\0", b"\x03c\nm\0"];
    for names in bad {
        advertise(&mut routers, R1, 0, &[NdOption::DnsSearchList(FOREVER, names)]);
    }
    assert_eq!(routers.drops().of(Drop::AdvertisementValue), 7);
    assert_eq!(routers.search_domains(start()).count(), 2);
    outputs(&mut routers);
    routers.handle_timeout(start() + 100 * SECOND);
    assert_eq!(routers.search_domains(start()).count(), 0);
    assert_eq!(outputs(&mut routers), [Output::DnsChanged]);
}

// RFC 8106 s5.1.
//= rfc8106#5.1-4 (test)
#[test]
fn a_server_may_be_a_link_local_address() {
    let mut routers = seeded(1);
    advertise(&mut routers, R1, 0, &[NdOption::RecursiveDns(FOREVER, vec![R2])]);
    assert_eq!(known(&routers, start()), [R2]);
}

// RFC 8106 s5.2.
//= rfc8106#5.2-3 (test)
#[test]
fn a_lifetime_of_zero_removes_search_domains() {
    let mut routers = seeded(1);
    let names = b"\x03net\0\x03org\0\0\0\0\0\0\0";
    advertise(&mut routers, R1, 0, &[NdOption::DnsSearchList(FOREVER, names)]);
    assert_eq!(routers.search_domains(start()).collect::<Vec<_>>(), ["net", "org"]);
    advertise(&mut routers, R1, 0, &[NdOption::DnsSearchList(Duration::ZERO, b"\x03net\0")]);
    assert_eq!(routers.search_domains(start()).collect::<Vec<_>>(), ["org"]);
}

// The bounds of each table; host_stack.md s5.6: "refusal counted, existing kept".
//= rfc8106#5.3.1-4 (test)
//= rfc4861#6.3.4-3 rfc4861#6.3.4-4 rfc4861#6.3.4-5 (test)
#[test]
fn a_flood_of_advertisements_removes_nothing() {
    let mut routers = seeded(1);
    let options = [
        prefix(net(0), true, 1800),
        route(net(9000), RouterPreference::High, 1800),
        servers(1800 * SECOND, &[0]),
    ];
    advertise(&mut routers, R1, 1800, &options);
    let (mut refused, mut option_limit) = (0, 0);
    for n in 1..1000_u16 {
        let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, n);
        let more = [
            prefix(net(n), true, 9000),
            route(net(n), RouterPreference::High, 9000),
            servers(9000 * SECOND, &[n]),
        ];
        let message = with(header(9000), &more);
        match routers.handle_advertisement(source, &message, start()) {
            Ok(()) => option_limit += usize::from(n > 7),
            Err(reason) => {
                assert_eq!(reason, Drop::RouterLimit);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 999 - 15);
    assert_eq!(routers.drops().of(Drop::PrefixLimit), option_limit as u64);
    assert_eq!(routers.routers().count(), MAX_ROUTERS);
    // One of the routers floods the other tables.
    for n in 1..1000 {
        let more = [
            prefix(net(n), true, 9000),
            route(net(n), RouterPreference::High, 9000),
            servers(9000 * SECOND, &[n]),
            NdOption::DnsSearchList(FOREVER, &[1, b'a', 0, 1, b'b', 0, 1, b'c', 0]),
        ];
        advertise(&mut routers, FLOODER, 9000, &more);
    }
    assert_eq!(routers.prefixes().count(), MAX_PREFIXES);
    assert_eq!(routers.routes().filter(|one| one.prefix != Prefix::ALL).count(), MAX_ROUTES);
    assert_eq!(known(&routers, start()).len(), MAX_DNS);
    assert!(routers.routers.values().all(|advertised| advertised.len() <= MAX_PREFIXES));
    assert!(routers.is_on_link(host(0)) && known(&routers, start()).contains(&host(0)));
    assert!(next_hops(&routers, FAR).contains(&R1));
    assert_eq!(next_hops(&routers, host(9000))[0], R1);
    assert!(routers.outputs.len() <= MAX_ROUTERS + 4);
}

const FLOODER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, 1);

#[test]
fn a_router_without_a_route_takes_no_room() {
    let mut routers = seeded(1);
    for n in 0..100 {
        let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, n);
        advertise(&mut routers, source, 0, &[prefix(net(1), true, 100)]);
        advertise(&mut routers, source, 0, &[route(net(1), RouterPreference::Reserved, 9)]);
    }
    assert_eq!((routers.routers().count(), routers.prefixes().count()), (0, 1));
    // A route that is refused for want of room is none.
    for n in 0..32 {
        advertise(&mut routers, R1, 0, &[route(net(n), RouterPreference::Low, 100)]);
    }
    outputs(&mut routers);
    advertise(&mut routers, R2, 0, &[route(net(99), RouterPreference::Low, 100)]);
    assert_eq!((routers.routers().count(), outputs(&mut routers)), (1, vec![]));
    assert_eq!(routers.drops().of(Drop::PrefixLimit), 1);
}

#[test]
fn another_link_leaves_nothing_behind() {
    let mut routers = seeded(1);
    let options = [prefix(net(0), true, 100), servers(FOREVER, &[0])];
    advertise(&mut routers, R1, 1800, &options);
    outputs(&mut routers);
    routers.forget();
    let lost = [
        Output::RouterLost(R1),
        Output::RoutesChanged,
        Output::ParametersChanged,
        Output::DnsChanged,
    ];
    assert_eq!(outputs(&mut routers), lost);
    assert_eq!((routers.poll_timeout(), routers.is_on_link(host(0))), (None, false));
    assert_eq!((known(&routers, start()), next_hops(&routers, FAR)), (vec![], vec![]));
}

#[derive(Clone, Debug)]
struct Step {
    wait: u64,
    router: u16,
    lifetime: u64,
    options: Vec<(u8, u16, bool, u64)>,
}

fn step() -> impl Strategy<Value = Step> {
    let lifetime = || prop_oneof![Just(0), 1..50_u64];
    let option = (0..4_u8, 0..50_u16, any::<bool>(), lifetime());
    (0..20_u64, 0..24_u16, lifetime(), proptest::collection::vec(option, 0..6))
        .prop_map(|(wait, router, lifetime, options)| Step { wait, router, lifetime, options })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // Whatever comes: bounds hold, nothing outlives its time, and found and lost routers agree with the table.
    #[test]
    fn tables_are_bounded_and_nothing_outlives_its_time(steps in proptest::collection::vec(step(), 0..60)) {
        let mut routers = seeded(3);
        let mut now = start();
        let mut present = BTreeSet::new();
        for step in steps {
            now = now + Duration::from_secs(step.wait);
            routers.handle_timeout(now);
            let options: Vec<_> = step.options.iter().map(|(kind, n, flag, lifetime)| match kind {
                0 => prefix(net(*n), *flag, *lifetime),
                1 => route(net(*n), if *flag { RouterPreference::Reserved } else { RouterPreference::Low }, *lifetime),
                2 => route(Prefix::ALL, RouterPreference::High, *lifetime),
                _ => servers(Duration::from_secs(*lifetime), &[*n, *n + 1]),
            }).collect();
            let source = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, step.router);
            let before = routers.routers().count();
            let result = routers.handle_advertisement(source, &with(header(step.lifetime), &options), now);
            prop_assert!(result == Ok(()) || result == Err(Drop::RouterLimit) && before == MAX_ROUTERS);
            for output in outputs(&mut routers) {
                match output {
                    Output::RouterFound(router) => prop_assert!(present.insert(router)),
                    Output::RouterLost(router) => prop_assert!(present.remove(&router)),
                    Output::RoutesChanged | Output::ParametersChanged | Output::DnsChanged | Output::Solicit => {}
                }
            }
            prop_assert!(routers.routers().eq(present.iter().copied()));
            prop_assert!(routers.routes().all(|route| present.contains(&route.router)));
            prop_assert!(routers.routes().all(|route| route.until > Some(now)));
            prop_assert!(routers.prefixes().all(|(_, until)| until > Some(now)));
            prop_assert!(present.len() <= MAX_ROUTERS && routers.prefixes().count() <= MAX_PREFIXES);
            prop_assert!(routers.routes.len() <= MAX_ROUTES + MAX_ROUTERS);
            prop_assert!(routers.dns_servers(now).count() <= MAX_DNS);
            prop_assert!(routers.poll_timeout().is_none_or(|at| at > now));
        }
        routers.handle_timeout(now + 100 * SECOND);
        prop_assert_eq!(routers.poll_timeout(), None);
        prop_assert_eq!(routers.routers().count() + routers.routes().count() + routers.prefixes().count(), 0);
    }
}
