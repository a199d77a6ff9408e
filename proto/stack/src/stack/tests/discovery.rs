//! Messages of Neighbor Discovery between the whole host and a router that is made of octets.

use moorline_ip::Mac;
use moorline_ip::address::{ALL_NODES, ALL_ROUTERS, solicited_node};
use moorline_ip::nd::{
    Message, NeighborAdvertisement, PrefixInformation, RouterAdvertisement, RouterPreference,
};
use moorline_types::Prefix;

use super::link::{HOST_MAC, ROUTER_MAC};
use super::*;

const OTHER_ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

fn far() -> Ipv6Addr {
    address("2001:db8:ffff::9")
}

fn link_local() -> Ipv6Addr {
    address("fe80::ff:fe00:2")
}

fn give(link: &mut Link, (source, destination): (Ipv6Addr, Ipv6Addr), message: &Message<'_>) {
    let mut octets = vec![];
    message.emit(source, destination, &mut octets);
    link.frames.clear();
    link.give(source, destination, ICMPV6, &octets);
}

/// The solicitation for `target` from `source`, to the group of the target or to the target itself.
fn solicit(link: &mut Link, source: Ipv6Addr, target: Ipv6Addr, to_group: bool) {
    let is_probe = source.is_unspecified();
    let options = if is_probe { vec![] } else { vec![NdOption::SourceLinkLayer(ROUTER_MAC)] };
    let destination = if to_group { solicited_node(target) } else { target };
    let message = Message { body: Body::NeighborSolicitation { target }, options };
    give(link, (source, destination), &message);
}

/// The stations to which the host sends a packet for a destination.
fn stations(link: &mut Link, destination: Ipv6Addr) -> Vec<Mac> {
    link.frames.clear();
    link.stack.ping(destination, (1, 1), &[], link.now).expect("a route");
    link.run(Duration::from_millis(1));
    link.packets_to(destination).into_iter().map(|(station, ..)| station).collect()
}

fn redirect(link: &mut Link, from: Ipv6Addr, target: Ipv6Addr, mac: Mac) {
    let body = Body::Redirect { target, destination: far() };
    let options = vec![NdOption::TargetLinkLayer(mac)];
    give(link, (from, host()), &Message { body, options });
}

//= rfc4861#4.1-3 rfc4861#4.1-4 rfc4861#6.3.7-2 (test)
#[test]
fn the_first_solicitation_has_an_address_or_no_option() {
    let mut from_nobody = 0;
    for seed in 0..20 {
        let mut link = Link::new(Config::default());
        link.stack = Stack::new(Config::default(), [seed; 32], Instant::ZERO);
        let addressing = crate::address::Config::new(HOST_MAC);
        link.stack.add_wire(WireConfig { mtu: 1500, addressing, ip4: None }, Instant::ZERO);
        link.run(Duration::from_secs(20));
        for (header, message) in link.sent_discovery() {
            if message.body != Body::RouterSolicitation {
                continue;
            }
            let option = vec![NdOption::SourceLinkLayer(HOST_MAC)];
            let is_nobody = header.source.is_unspecified();
            assert_eq!(message.options, if is_nobody { vec![] } else { option });
            assert_eq!(header.destination, ALL_ROUTERS);
            from_nobody += usize::from(is_nobody);
        }
    }
    assert!(from_nobody > 0 && from_nobody <= 20, "{from_nobody}");
}

//= rfc4861#4.3-6 rfc4861#7.2.2-1 rfc4861#7.2.2-2 rfc4861#7.2.2-3 (test)
#[test]
fn solicitations_of_all_kinds_have_the_source_of_the_packet_and_the_option() {
    let mut link = configured();
    let neighbor = address("2001:db8:1::77");
    link.frames.clear();
    link.stack.ping(neighbor, (1, 1), &[], link.now).expect("a route");
    link.advertise_neighbor(neighbor);
    // The neighbor does not confirm anything: unicast solicitations follow.
    link.run(Duration::from_secs(6));
    let asked = Body::NeighborSolicitation { target: neighbor };
    let sent = link.sent_discovery();
    let sent: Vec<_> = sent.iter().filter(|(_, message)| message.body == asked).collect();
    for (header, message) in &sent {
        assert_eq!(header.source, host());
        assert_eq!(message.options, [NdOption::SourceLinkLayer(HOST_MAC)]);
    }
    let destinations: Vec<_> = sent.iter().map(|(header, _)| header.destination).collect();
    assert_eq!(destinations, [solicited_node(neighbor), neighbor, neighbor]);
}

//= rfc8504#5.4-5 rfc8504#5.4-9 (test)
//= rfc4861#4.4-1 rfc4861#4.4-3 rfc4861#4.4-7 rfc4861#4.4-8 rfc4861#4.4-9 rfc4861#7.2.4-2 (test)
//= rfc4861#7.2.4-4 rfc4861#7.2.4-6 rfc4861#7.2.4-7 rfc4861#7.2.4-8 (test)
#[test]
fn the_answer_to_a_solicitation_is_the_one_of_rfc_4861_s7_2_4() {
    let mut link = configured();
    for (source, to_group, destination) in
        [(ROUTER, true, ROUTER), (ROUTER, false, ROUTER), (Ipv6Addr::UNSPECIFIED, true, ALL_NODES)]
    {
        solicit(&mut link, source, host(), to_group);
        let (header, message) = link.sent_discovery().pop().expect("an answer");
        assert_eq!((header.source, header.destination), (host(), destination));
        let expected = NeighborAdvertisement {
            target: host(),
            is_router: false,
            is_solicited: destination == ROUTER,
            overrides: true,
        };
        assert_eq!(message.body, Body::NeighborAdvertisement(expected));
        assert_eq!(message.options, [NdOption::TargetLinkLayer(HOST_MAC)]);
    }
}

//= rfc4861#7.2.3-7 (test)
#[test]
fn a_probe_of_another_node_leaves_the_neighbor_cache() {
    let mut link = configured();
    let before = link.stack.netstat(link.now).neighbors;
    solicit(&mut link, Ipv6Addr::UNSPECIFIED, host(), true);
    assert_eq!(link.stack.netstat(link.now).neighbors, before);
    solicit(&mut link, address("fe80::77"), host(), true);
    assert_eq!(link.stack.netstat(link.now).neighbors.len(), before.len() + 1);
}

//= rfc4861#6.1.1-1 (test)
#[test]
fn a_solicitation_for_routers_draws_nothing() {
    let mut link = configured();
    let before = link.stack.netstat(link.now);
    let options = vec![NdOption::SourceLinkLayer(OTHER_MAC)];
    let message = Message { body: Body::RouterSolicitation, options };
    give(&mut link, (address("fe80::77"), ALL_NODES), &message);
    link.run(Duration::from_secs(5));
    assert!(link.frames.is_empty());
    let after = link.stack.netstat(link.now);
    assert_eq!((after.neighbors, after.drops), (before.neighbors, before.drops));
}

//= rfc4861#4.6.1-1 rfc4861#4.6.2-11 rfc4861#4.6.3-3 rfc4861#4.6.4-3 rfc4861#7.1.1-3 (test)
//= rfc4861#7.1.2-3 rfc4861#8.1-3 (test)
#[test]
fn options_of_other_messages_are_ignored() {
    let mut link = configured();
    let prefix = NdOption::Prefix(PrefixInformation {
        prefix: Prefix::new(address("2001:db8:9::"), 64),
        on_link: true,
        autonomous: true,
        valid: Duration::from_secs(7200),
        preferred: Duration::from_secs(3600),
    });
    let of_routers = vec![prefix, NdOption::Mtu(1280), NdOption::RedirectedHeader(&[0x60; 48])];
    let before = link.stack.netstat(link.now);
    // The Source Link-Layer Address option of an advertisement, and the other one of a solicitation, count for nothing.
    let advertisement = NeighborAdvertisement {
        target: ROUTER,
        is_router: true,
        is_solicited: false,
        overrides: true,
    };
    let body = Body::NeighborAdvertisement(advertisement);
    let mut options = of_routers.clone();
    options.push(NdOption::SourceLinkLayer(OTHER_MAC));
    give(&mut link, (ROUTER, ALL_NODES), &Message { body, options });
    let body = Body::NeighborSolicitation { target: host() };
    let mut options = of_routers.clone();
    options.push(NdOption::TargetLinkLayer(OTHER_MAC));
    give(&mut link, (ROUTER, host()), &Message { body, options });
    assert_eq!(link.sent_discovery().len(), 1, "the solicitation is answered");
    let body = Body::Redirect { target: OTHER_ROUTER, destination: far() };
    let mut options = of_routers;
    options.push(NdOption::TargetLinkLayer(OTHER_MAC));
    give(&mut link, (ROUTER, host()), &Message { body, options });
    assert_eq!(stations(&mut link, far()), [OTHER_MAC], "the redirect is taken");
    let after = link.stack.netstat(link.now);
    assert_eq!((after.prefixes, after.addresses), (before.prefixes, before.addresses));
    assert_eq!(link.stack.wires[0].routers.mtu(), 1500);
    let mac = |address| {
        let found = after.neighbors.iter().find(|row| row.address == address);
        found.and_then(|row| row.mac)
    };
    assert_eq!((mac(ROUTER), mac(OTHER_ROUTER)), (Some(ROUTER_MAC), Some(OTHER_MAC)));
}

//= rfc4861#6.1.2-3 rfc4861#9-8 (test)
#[test]
fn options_of_an_advertisement_have_any_order_and_others_are_ignored() {
    let mut link = configured();
    let body = Body::RouterAdvertisement(RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other: false,
        preference: RouterPreference::Medium,
        lifetime: Duration::from_secs(1800),
        reachable_time: Duration::ZERO,
        retrans_timer: Duration::ZERO,
    });
    let mut options = vec![
        NdOption::TargetLinkLayer(HOST_MAC),
        NdOption::Mtu(1400),
        NdOption::RedirectedHeader(&[0x60; 48]),
        NdOption::SourceLinkLayer(OTHER_MAC),
    ];
    for _ in 0..2 {
        options.reverse();
        let message = Message { body, options: options.clone() };
        give(&mut link, (OTHER_ROUTER, ALL_NODES), &message);
        assert_eq!(link.stack.wires[0].routers.mtu(), 1400);
        let neighbors = link.stack.netstat(link.now).neighbors;
        let other = neighbors.iter().find(|row| row.address == OTHER_ROUTER).expect("an entry");
        assert_eq!((other.mac, other.is_router), (Some(OTHER_MAC), true));
        link = configured();
    }
}

//= rfc8504#5.4-10 (test)
//= rfc4861#8.1-1 rfc4861#8.1-4 rfc4861#8.3-1 rfc4861#8.3-2 (test)
#[test]
fn a_redirect_counts_only_if_it_comes_from_the_first_hop() {
    let mut link = configured();
    redirect(&mut link, OTHER_ROUTER, OTHER_ROUTER, OTHER_MAC);
    assert_eq!(stations(&mut link, far()), [ROUTER_MAC]);
    redirect(&mut link, link_local(), OTHER_ROUTER, OTHER_MAC);
    assert_eq!(stations(&mut link, far()), [ROUTER_MAC]);
    // No prefix of the link has the target.
    redirect(&mut link, ROUTER, OTHER_ROUTER, OTHER_MAC);
    assert_eq!(stations(&mut link, far()), [OTHER_MAC]);
    assert_eq!(stations(&mut link, address("2001:db8:fffe::9")), [ROUTER_MAC]);
    // The router is not the first hop any more.
    redirect(&mut link, ROUTER, far(), Mac([2, 0, 0, 0, 0, 7]));
    assert_eq!(stations(&mut link, far()), [OTHER_MAC]);
}

//= rfc4861#8.3-5 (test)
#[test]
fn a_redirect_to_the_destination_makes_it_on_link() {
    let mut link = configured();
    redirect(&mut link, ROUTER, far(), OTHER_MAC);
    assert_eq!(stations(&mut link, far()), [OTHER_MAC]);
    let neighbors = link.stack.netstat(link.now).neighbors;
    let target = neighbors.iter().find(|row| row.address == far()).expect("an entry");
    assert!(!target.is_router);
}

// RFC 7527 s4.1.
//= rfc7527#4.1-1 rfc7527#4.1-3 (test)
#[test]
fn each_probe_has_a_nonce_of_its_own() {
    let mut link = configured();
    let sent = link.sent_discovery();
    let probes = sent.iter().filter(|(header, message)| {
        let is_probe = matches!(message.body, Body::NeighborSolicitation { .. });
        header.source.is_unspecified() && is_probe
    });
    let mut nonces: Vec<_> = probes.map(|(_, message)| message.nonce().expect("a nonce")).collect();
    assert!(nonces.iter().all(|nonce| nonce.len() == 6));
    let count = nonces.len();
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!((count, nonces.len()), (2, 2));
}

// RFC 4429 s3.2.
//= rfc4429#3.2-4 (test)
#[test]
fn an_optimistic_address_does_not_solicit() {
    let mut link = Link::new(Config::default());
    link.stack = Stack::new(Config::default(), [7; 32], Instant::ZERO);
    let addressing = crate::address::Config {
        mode: crate::address::Mode::Eui64,
        optimistic: true,
        ..crate::address::Config::new(HOST_MAC)
    };
    link.stack.add_wire(WireConfig { mtu: 1500, addressing, ip4: None }, Instant::ZERO);
    link.run(Duration::from_secs(3));
    link.advertise(Duration::from_secs(1800));
    link.frames.clear();
    let neighbor = address("2001:db8:1::77");
    link.stack.ping(neighbor, (1, 1), &[], link.now).expect("a route");
    let rows = link.stack.netstat(link.now).addresses;
    let state = rows.iter().find(|row| row.address == host()).map(|row| row.state);
    assert_eq!(state, Some(crate::address::State::Optimistic));
    let asked = Body::NeighborSolicitation { target: neighbor };
    let sent = link.sent_discovery();
    let sources: Vec<_> = sent.iter().filter(|(_, message)| message.body == asked).collect();
    assert_eq!(sources.len(), 1);
    assert_eq!(sources[0].0.source, link_local());
}

// RFC 4191 s3.3.
//= rfc4191#3.3-1 (test)
#[test]
fn a_change_of_routes_ends_redirects() {
    let mut link = configured();
    redirect(&mut link, ROUTER, far(), OTHER_MAC);
    link.advertise(Duration::from_secs(1800));
    assert_eq!(stations(&mut link, far()), [OTHER_MAC], "nothing has changed");
    link.advertise_as((OTHER_ROUTER, OTHER_MAC), "2001:db8:2::", Duration::from_secs(1800));
    assert_eq!(stations(&mut link, far()), [ROUTER_MAC]);
}
