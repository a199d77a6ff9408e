//! A host beside routers of two providers.

use super::link::{Link, ROUTER, ROUTER_MAC, address};
use super::*;
use moorline_ip::Mac;
use moorline_ip::address::ALL_NODES;
use moorline_ip::ip6::TCP;
use moorline_ip::nd::{Message, RouterAdvertisement, RouterPreference};

const OTHER_ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const SECOND: Duration = Duration::from_secs(1);

/// A host with a prefix of each router.
fn multihomed() -> Link {
    let mut link = Link::new(Config::default());
    link.run(3 * SECOND);
    link.advertise(1800 * SECOND);
    link.advertise_as((OTHER_ROUTER, OTHER_MAC), "2001:db8:2::", 1800 * SECOND);
    link.run(3 * SECOND);
    link.frames.clear();
    link
}

/// RFC 4861 s6.3.6, RFC 8028 s3.2, RFC 6724 s5 rule 5.5.
//= rfc4191#3.5-1 (test)
//= rfc4861#6.3.5-1 (test)
#[test]
fn a_router_that_is_dead_gives_way_to_a_live_one_and_its_prefix() {
    let mut link = multihomed();
    let far = address("2001:db8:ffff::9");
    let other_host = address("2001:db8:2:0:0:ff:fe00:2");
    let socket = link.stack.udp_bind(Some(host()), None).expect("socket");
    let send = |link: &mut Link| {
        let options = crate::udp::Options::default();
        link.frames.clear();
        link.stack.udp_send_to(socket, b"x", Some((far, 9)), options, link.now).expect("sent");
        link.stack.tcp_connect((far, 80), link.now).expect("connection");
        link.run(Duration::ZERO);
        link.packets_to(far)
    };
    let before = send(&mut link);
    assert_eq!(before, [(ROUTER_MAC, host(), UDP), (ROUTER_MAC, host(), TCP)]);

    link.run_beside((OTHER_ROUTER, OTHER_MAC), 10 * SECOND);
    let existing = (OTHER_MAC, host(), UDP);
    let new = (OTHER_MAC, other_host, TCP);
    assert_eq!(send(&mut link), [existing, new]);

    // The host asks for the dead router once a minute, because it would prefer it for the old source.
    link.run_beside((OTHER_ROUTER, OTHER_MAC), 60 * SECOND);
    send(&mut link);
    link.run_beside((ROUTER, ROUTER_MAC), SECOND);
    assert_eq!(send(&mut link)[0], (ROUTER_MAC, host(), UDP), "the router is back");
}

/// RFC 4861 s6.3.6. The link was down, so the host knows no link-layer address.
#[test]
fn a_router_that_is_dead_when_the_link_comes_back_gives_way_too() {
    let mut link = multihomed();
    let far = address("2001:db8:ffff::9");
    link.stack.handle_link(WireId(0), false, link.now);
    link.stack.handle_link(WireId(0), true, link.now);
    link.run_beside((OTHER_ROUTER, OTHER_MAC), 3 * SECOND);
    link.stack.tcp_connect((far, 80), link.now).expect("connection");
    link.run_beside((OTHER_ROUTER, OTHER_MAC), 5 * SECOND);
    link.frames.clear();
    for port in 81..85 {
        link.stack.tcp_connect((far, port), link.now).expect("connection");
    }
    link.run(Duration::ZERO);
    let other_host = address("2001:db8:2:0:0:ff:fe00:2");
    let sent = link.packets_to(far);
    let new = sent.iter().filter(|one| **one == (OTHER_MAC, other_host, TCP)).count();
    assert!(new >= 4, "{sent:?}");
    assert!(sent.iter().all(|(station, ..)| *station == OTHER_MAC), "{sent:?}");
}

/// RFC 4861 s6.3.4 leaves it to the host which routers it keeps; RFC 6583 s7.1 has the order: what is in use, then what exists.
#[test]
fn a_router_that_comes_after_a_flood_of_made_up_ones_is_taken() {
    let mut link = Link::new(Config::default());
    link.run(3 * SECOND);
    let flood = |link: &mut Link, numbers: core::ops::Range<u16>| {
        for n in numbers {
            let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 9, n);
            let mac = Mac([2, 0, 9, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]]);
            link.advertise_as((router, mac), &std::format!("2001:db8:{n:x}::"), 1800 * SECOND);
        }
    };
    flood(&mut link, 0x100..0x300);
    let netstat = link.stack.netstat(link.now);
    assert_eq!((netstat.routes.len(), netstat.prefixes.len()), (16, 32));
    link.frames.clear();
    link.advertise(1800 * SECOND);
    link.run_beside((ROUTER, ROUTER_MAC), SECOND);
    // The host has asked for an advertisement once it knew that the router exists. The flood goes on.
    flood(&mut link, 0x300..0x310);
    link.advertise(1800 * SECOND);
    flood(&mut link, 0x310..0x600);
    link.run_beside((ROUTER, ROUTER_MAC), 3 * SECOND);
    let netstat = link.stack.netstat(link.now);
    assert!(netstat.routes.iter().any(|row| row.router == ROUTER));
    let own = moorline_types::Prefix::new(address("2001:db8:1::"), 64);
    assert!(netstat.prefixes.iter().any(|row| row.prefix == own));
    assert!(netstat.addresses.iter().any(|row| row.address == host()));
    assert_eq!((netstat.routes.len(), netstat.prefixes.len()), (16, 32));
    assert!(link.stack.all_drops().of(crate::Drop::RouterLimit) > 100);
    // Packets go by way of the router that answers, and have its prefix.
    let far = address("2001:db8:ffff::9");
    link.frames.clear();
    link.stack.tcp_connect((far, 79), link.now).expect("connection");
    link.run(Duration::ZERO);
    let last = link.packets_to(far).pop().expect("a packet");
    assert_eq!(last, (ROUTER_MAC, host(), TCP));
}

#[test]
fn a_flood_of_advertisements_takes_nothing_from_a_router_in_use() {
    let mut link = configured();
    let far = address("2001:db8:ffff::9");
    link.stack.tcp_connect((far, 80), link.now).expect("connection");
    for n in 0..1_000_u16 {
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 9, n);
        let mac = Mac([2, 0, 9, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]]);
        link.advertise_as((router, mac), &std::format!("2001:db8:{:x}::", n + 9), 1800 * SECOND);
    }
    let netstat = link.stack.netstat(link.now);
    assert!(netstat.routes.iter().any(|row| row.router == ROUTER));
    assert!(netstat.addresses.iter().any(|row| row.address == host()));
    let own = moorline_types::Prefix::new(address("2001:db8:1::"), 64);
    assert!(netstat.prefixes.iter().any(|row| row.prefix == own));
}

/// A stranger says a hop limit that cuts the host off, and times that hide a dead router. Where no router is in use, the host believes it.
#[test]
fn a_made_up_router_sets_no_parameters_beside_a_router_in_use() {
    let far = address("2001:db8:ffff::9");
    let said = |hop_limit| {
        let advertisement = RouterAdvertisement {
            hop_limit,
            managed: false,
            other: false,
            preference: RouterPreference::Medium,
            lifetime: 1800 * SECOND,
            reachable_time: 3600 * SECOND,
            retrans_timer: 60 * SECOND,
        };
        let options = vec![NdOption::SourceLinkLayer(OTHER_MAC), NdOption::Mtu(1280)];
        Message { body: Body::RouterAdvertisement(advertisement), options }
    };
    let parameters = |link: &mut Link| {
        link.frames.clear();
        link.stack.ping(far, (1, 1), &[], link.now).expect("a route");
        link.run(Duration::ZERO);
        let wire = link.stack.wires().next().expect("a wire").mtu();
        (link.packets(ICMPV6).pop().map(|(header, _)| header.hop_limit), wire)
    };
    let mut link = configured();
    assert_eq!(parameters(&mut link), (Some(64), 1500));
    link.discover(OTHER_ROUTER, ALL_NODES, &said(1));
    assert_eq!(parameters(&mut link), (Some(64), 1500));
    link.discover(ROUTER, ALL_NODES, &said(32));
    assert_eq!(parameters(&mut link), (Some(32), 1280), "the router in use");

    let mut link = Link::new(Config::default());
    link.run(3 * SECOND);
    link.discover(OTHER_ROUTER, ALL_NODES, &said(1));
    assert_eq!(link.stack.wires().next().expect("a wire").mtu(), 1280);
}

/// RFC 4191 s3.5.
//= rfc4191#3.5-2 (test)
#[test]
fn a_router_that_is_dead_and_has_no_traffic_is_not_asked() {
    let mut link = multihomed();
    let far = address("2001:db8:ffff::9");
    let asked = Body::NeighborSolicitation { target: ROUTER };
    let solicitations = |link: &mut Link, seconds: u64, has_traffic: bool| {
        let mut count = 0;
        for _ in 0..seconds {
            if has_traffic {
                link.stack.ping(far, (1, 1), &[], link.now).expect("a route");
            }
            link.run(SECOND);
            let sent = link.sent_discovery();
            count += sent.iter().filter(|(_, message)| message.body == asked).count();
            link.frames.clear();
        }
        count
    };
    assert!(solicitations(&mut link, 20, true) > 0, "the router is dead now");
    assert_eq!(solicitations(&mut link, 600, false), 0);
}
