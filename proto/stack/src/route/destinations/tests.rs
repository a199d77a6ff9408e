use alloc::vec::Vec;

use rand_core::SeedableRng as _;

use super::*;

const WIRE: u32 = 3;
const LINK_MTU: u32 = 1500;
const US: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

fn destinations() -> Destinations {
    with(Limits::default())
}

fn with(limits: Limits) -> Destinations {
    Destinations::new(limits, ChaCha20Rng::from_seed([3; 32]))
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1000 + seconds)
}

/// Host number `n` of a site.
fn host(site: u16, n: usize) -> Ipv6Addr {
    let site = Ipv6Addr::new(0x2001, 0xdb8, site, 0, 0, 0, 0, 0).to_bits();
    Ipv6Addr::from_bits(site + u128::try_from(n).expect("small"))
}

fn too_big(all: &mut Destinations, to: Ipv6Addr, mtu: u32, now: Instant) -> Option<u32> {
    all.handle_packet_too_big(WIRE, to, mtu, LINK_MTU, now).expect("taken")
}

fn pmtu(all: &Destinations, to: Ipv6Addr, now: Instant) -> u32 {
    all.pmtu(WIRE, to, LINK_MTU, now)
}

//= rfc8201#4-2 rfc8201#4-3 rfc8201#4-4 rfc8201#4-12 rfc8201#5.2-1 rfc8201#5.2-2 rfc8201#6-1 (test)
//= rfc8201#6-2 rfc8201#6-3 (test)
//= rfc8200#5-5 (test)
#[test]
fn the_path_mtu_only_falls_and_never_below_1280() {
    // RFC 8201 s4.
    let (mut all, to) = (destinations(), host(1, 1));
    assert_eq!(pmtu(&all, to, at(0)), LINK_MTU);
    assert_eq!(too_big(&mut all, to, 1500, at(0)), None);
    assert_eq!(too_big(&mut all, to, 9000, at(0)), None);
    assert_eq!(all.paths(at(0)).count(), 0, "nothing to remember");
    assert_eq!(too_big(&mut all, to, 1400, at(0)), Some(1400));
    assert_eq!(too_big(&mut all, to, 1450, at(0)), None);
    assert_eq!(pmtu(&all, to, at(0)), 1400);
    for mtu in [0, 68, 1279] {
        let result = all.handle_packet_too_big(WIRE, to, mtu, LINK_MTU, at(0));
        assert_eq!(result, Err(Drop::PacketTooBig));
    }
    assert_eq!(too_big(&mut all, to, 1280, at(0)), Some(1280));
    assert_eq!(pmtu(&all, to, at(0)), 1280);
    assert_eq!(pmtu(&all, host(1, 2), at(0)), LINK_MTU, "of this destination only");
    assert_eq!(all.pmtu(WIRE + 1, to, LINK_MTU, at(0)), LINK_MTU, "and of this wire");
}

#[test]
fn a_link_with_a_lower_mtu_bounds_the_path() {
    let (mut all, to) = (destinations(), host(1, 1));
    too_big(&mut all, to, 1400, at(0));
    assert_eq!(all.pmtu(WIRE, to, 1300, at(0)), 1300);
}

//= rfc8201#4-8 rfc8201#4-9 rfc8201#4-11 rfc8201#5.3-1 rfc8201#5.3-2 (test)
#[test]
fn after_ten_minutes_the_host_tries_larger_packets() {
    // RFC 8201 s4, s5.3.
    let (mut all, to) = (destinations(), host(1, 1));
    too_big(&mut all, to, 1400, at(0));
    let shown = PathMtu { wire: WIRE, destination: to, mtu: 1400, until: at(600) };
    assert_eq!(all.paths(at(599)).collect::<Vec<_>>(), [shown]);
    assert_eq!([599, 600].map(|n| pmtu(&all, to, at(n))), [1400, LINK_MTU]);
    assert_eq!(all.paths(at(600)).count(), 0);
    assert_eq!(too_big(&mut all, to, 1400, at(600)), Some(1400), "and learns again");
    too_big(&mut all, to, 1300, at(900));
    assert_eq!([1499, 1500].map(|n| pmtu(&all, to, at(n))), [1300, LINK_MTU], "since the decrease");
}

//= rfc8201#4-10 (test)
#[test]
fn larger_packets_wait_five_minutes_after_each_message() {
    // RFC 8201 s4: "must not be done less than 5 minutes after a Packet Too Big message has been received".
    let (mut all, to) = (destinations(), host(1, 1));
    too_big(&mut all, to, 1400, at(0));
    assert_eq!(too_big(&mut all, to, 1400, at(100)), None);
    assert_eq!(all.paths(at(100)).next().map(|path| path.until), Some(at(600)));
    assert_eq!(too_big(&mut all, to, 1400, at(550)), None);
    assert_eq!([849, 850].map(|n| pmtu(&all, to, at(n))), [1400, LINK_MTU]);
}

//= rfc8201#5.3-3 rfc8201#5.3-4 rfc8201#5.6-1 (test)
#[test]
fn the_age_can_be_configured_and_has_a_least_value() {
    let lasts = |pmtu_age| {
        let mut all = with(Limits { pmtu_age, ..Limits::default() });
        too_big(&mut all, host(1, 1), 1400, at(0));
        all.paths(at(0)).next().map(|path| path.until.since(at(0))).expect("in force")
    };
    assert_eq!(lasts(Duration::from_secs(3600)), Duration::from_secs(3600));
    assert_eq!(lasts(Duration::ZERO), MIN_PMTU_AGE);
    assert!(lasts(Duration::MAX) > Duration::from_secs(500 * 365 * 86_400));
}

#[test]
fn a_site_with_many_destinations_pushes_out_its_own() {
    let mut all = destinations();
    for n in 0..100 {
        too_big(&mut all, host(1, n), 1400, at(0));
    }
    for n in 0..10_000 {
        too_big(&mut all, host(2, n), 1300, at(1));
    }
    assert_eq!(all.paths(at(1)).count(), MAX_PATHS);
    assert!((0..100).all(|n| pmtu(&all, host(1, n), at(1)) == 1400));
    let gone = u64::try_from(10_100 - MAX_PATHS).expect("small");
    assert_eq!(all.drops().of(Drop::DestinationLimit), gone);
}

#[test]
fn many_destinations_can_be_configured() {
    let mut all = with(Limits { paths: 10_000, ..Limits::default() });
    for n in 0..12_000 {
        too_big(&mut all, host(u16::try_from(n).expect("small"), 1), 1400, at(0));
    }
    assert_eq!(all.paths(at(0)).count(), 10_000);
    assert_eq!(all.drops().of(Drop::DestinationLimit), 2_000);
}

#[test]
fn a_redirect_to_a_router_is_for_its_source_and_one_to_the_destination_for_all() {
    // RFC 4861 s8.3, RFC 8028 s3.4.
    let (mut all, to) = (destinations(), host(1, 1));
    let other = host(9, 9);
    let hop = |address| Some(NextHop { wire: WIRE, address });
    assert_eq!(all.next_hop(US, to), None);
    all.redirect(US, to, WIRE, ROUTER, at(0)).expect("taken");
    assert_eq!([US, other].map(|from| all.next_hop(from, to)), [hop(ROUTER), None]);
    all.redirect(US, to, WIRE, to, at(1)).expect("taken");
    assert_eq!([US, other].map(|from| all.next_hop(from, to)), [hop(to), hop(to)]);
    let shown: Vec<_> = all.redirects().collect();
    assert_eq!(shown, [(to, None, NextHop { wire: WIRE, address: to })], "the last one holds");
    all.redirect(US, to, WIRE, ROUTER, at(2)).expect("taken");
    assert_eq!([US, other].map(|from| all.next_hop(from, to)), [hop(ROUTER), None]);
    for on_link in [ROUTER, Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)] {
        assert_eq!(all.redirect(US, on_link, WIRE, ROUTER, at(0)), Err(Drop::Redirect));
    }
}

//= rfc4861#6.3.5-1 rfc4861#7.2.5-9 rfc4861#7.3.3-6 (test)
#[test]
fn redirects_to_a_router_go_with_it() {
    let mut all = destinations();
    let routers = [ROUTER, host(0xfe, 1), ROUTER];
    for (n, (router, wire)) in routers.into_iter().zip([WIRE, WIRE, WIRE + 1]).enumerate() {
        all.redirect(US, host(1, n), wire, router, at(0)).expect("taken");
    }
    let left = |all: &Destinations| [0, 1, 2].map(|n| all.next_hop(US, host(1, n)).is_some());
    all.forget_router(WIRE, ROUTER);
    assert_eq!(
        left(&all),
        [false, true, true],
        "the same address on another wire is another router"
    );
    too_big(&mut all, host(1, 1), 1400, at(0));
    all.forget_wire(WIRE);
    assert_eq!(left(&all), [false, false, true]);
    assert_eq!(pmtu(&all, host(1, 1), at(0)), LINK_MTU);
}

#[test]
fn redirects_are_bounded() {
    let mut all = destinations();
    all.redirect(US, host(1, 0), WIRE, ROUTER, at(0)).expect("taken");
    for n in 0..1_000 {
        all.redirect(US, host(2, n), WIRE, ROUTER, at(1)).expect("taken");
    }
    assert_eq!(all.redirects().count(), MAX_REDIRECTS);
    assert!(all.next_hop(US, host(1, 0)).is_some(), "of another site");
    assert!(all.next_hop(US, host(2, 999)).is_some(), "the last");
    assert_eq!(
        all.drops().of(Drop::DestinationLimit),
        1_001 - u64::try_from(MAX_REDIRECTS).unwrap()
    );
}
