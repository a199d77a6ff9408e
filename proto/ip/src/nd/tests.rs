use super::*;
use alloc::vec;
use moorline_types::Prefix;

const ROUTER_ADDRESS: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const HOST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn header(source: Ipv6Addr, destination: Ipv6Addr) -> Header {
    Header::new(source, destination, 58, 255, 0)
}

fn emitted(message: &Message<'_>, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut out = vec![];
    message.emit(source, destination, &mut out);
    out
}

/// Reads octets as a message with these addresses.
fn parse(
    octets: &[u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
) -> Result<Option<Message<'_>>, Malformed> {
    let icmp = Icmp::parse(source, destination, octets).expect("checksum");
    Message::parse(&header(source, destination), &icmp)
}

fn round_trip(message: &Message<'_>, source: Ipv6Addr, destination: Ipv6Addr) -> usize {
    let octets = emitted(message, source, destination);
    assert_eq!(parse(&octets, source, destination), Ok(Some(message.clone())));
    octets.len()
}

fn advertisement() -> Message<'static> {
    let body = Body::RouterAdvertisement(RouterAdvertisement {
        hop_limit: 64,
        managed: false,
        other: true,
        preference: RouterPreference::High,
        lifetime: Duration::from_secs(1800),
        reachable_time: Duration::from_millis(30_000),
        retrans_timer: Duration::ZERO,
    });
    let prefix = PrefixInformation {
        prefix: Prefix::new(HOST, 64),
        on_link: true,
        autonomous: true,
        valid: FOREVER,
        preferred: Duration::from_secs(600),
    };
    let route = |length| {
        NdOption::Route(RouteInformation {
            prefix: Prefix::new(HOST, length),
            preference: RouterPreference::Low,
            lifetime: Duration::from_secs(60),
        })
    };
    let dns = NdOption::RecursiveDns(Duration::from_secs(300), vec![HOST, ROUTER_ADDRESS]);
    let options = vec![
        NdOption::SourceLinkLayer(MAC),
        NdOption::Mtu(1400),
        NdOption::Prefix(prefix),
        route(0),
        route(48),
        route(128),
        dns,
        NdOption::DnsSearchList(Duration::from_secs(300), b"\x03net\0\0\0\0"),
    ];
    Message { body, options }
}

//= rfc8106#5.2-6 rfc8106#5.2-7 (test)
//= rfc4861#9-2 (test)
#[test]
fn all_messages_round_trip() {
    let group = "ff02::1".parse().expect("address");
    let len = round_trip(&advertisement(), ROUTER_ADDRESS, group);
    assert_eq!(len, 16 + 8 + 8 + 32 + 8 + 16 + 24 + 40 + 16);
    let solicitation = Message {
        body: Body::NeighborSolicitation { target: HOST },
        options: vec![NdOption::SourceLinkLayer(MAC), NdOption::Nonce(b"\x01\x02\x03\x04\x05\x06")],
    };
    assert_eq!(round_trip(&solicitation, ROUTER_ADDRESS, HOST), 24 + 8 + 8);
    let answer = NeighborAdvertisement {
        target: HOST,
        is_router: true,
        is_solicited: true,
        overrides: true,
    };
    let answer = Message {
        body: Body::NeighborAdvertisement(answer),
        options: vec![NdOption::TargetLinkLayer(MAC)],
    };
    assert_eq!(round_trip(&answer, HOST, ROUTER_ADDRESS), 32);
    let router = Message { body: Body::RouterSolicitation, options: vec![] };
    assert_eq!(round_trip(&router, Ipv6Addr::UNSPECIFIED, group), 8);
    let packet = header(HOST, HOST).octets();
    let redirect = Message {
        body: Body::Redirect { target: ROUTER_ADDRESS, destination: HOST },
        options: vec![NdOption::TargetLinkLayer(MAC), NdOption::RedirectedHeader(&packet)],
    };
    assert_eq!(round_trip(&redirect, ROUTER_ADDRESS, HOST), 40 + 8 + 48);
}

//= rfc4861#4.3-1 (test)
#[test]
fn the_octets_of_a_solicitation_are_those_of_the_rfc() {
    let solicitation = Message {
        body: Body::NeighborSolicitation { target: HOST },
        options: vec![NdOption::SourceLinkLayer(MAC)],
    };
    let octets = emitted(&solicitation, ROUTER_ADDRESS, HOST);
    assert_eq!(octets[..2], [135, 0]);
    assert_eq!(octets[4..8], [0; 4]);
    assert_eq!(octets[8..24], HOST.octets());
    assert_eq!(octets[24..], [1, 1, 2, 0, 0, 0, 0, 1]);
}

//= rfc4862#5.4.1-1 (test)
//= rfc4861#6.1.2-1 rfc4861#7.1.1-1 rfc4861#7.1.2-1 (test)
#[test]
fn a_message_that_a_router_has_forwarded_is_refused() {
    let octets = emitted(&advertisement(), ROUTER_ADDRESS, HOST);
    let icmp = Icmp::parse(ROUTER_ADDRESS, HOST, &octets).expect("checksum");
    let header = Header { hop_limit: 254, ..header(ROUTER_ADDRESS, HOST) };
    assert_eq!(Message::parse(&header, &icmp), Err(Malformed::HopLimit));
    let icmp = Icmp { code: 1, ..icmp };
    let header = Header { hop_limit: 255, ..header };
    assert_eq!(Message::parse(&header, &icmp), Err(Malformed::Code));
}

//= rfc4862#5.4.1-1 (test)
//= rfc4861#4.2-1 rfc4861#4.3-3 rfc4861#4.4-6 rfc4861#4.5-1 rfc4861#4.5-4 rfc4861#4.5-5 (test)
//= rfc4861#6.1.2-1 rfc4861#7.1.1-1 rfc4861#7.1.2-1 rfc4861#8.1-1 (test)
#[test]
fn messages_with_addresses_that_they_must_not_have_are_refused() {
    let group = "ff02::1:ff00:2".parse().expect("address");
    let multicast = "ff02::9".parse().expect("address");
    let solicit =
        |target, options| Message { body: Body::NeighborSolicitation { target }, options };
    let with_mac = || vec![NdOption::SourceLinkLayer(MAC)];
    let advertise = |target, is_solicited| Message {
        body: Body::NeighborAdvertisement(NeighborAdvertisement {
            target,
            is_router: false,
            is_solicited,
            overrides: false,
        }),
        options: vec![],
    };
    let redirect = |target, destination| Message {
        body: Body::Redirect { target, destination },
        options: vec![],
    };
    let unspecified = Ipv6Addr::UNSPECIFIED;
    let refused = [
        (Message { body: Body::RouterSolicitation, options: with_mac() }, unspecified, multicast),
        (advertisement(), HOST, multicast),
        (solicit(multicast, vec![]), ROUTER_ADDRESS, HOST),
        (solicit(HOST, vec![]), unspecified, HOST),
        (solicit(HOST, with_mac()), unspecified, group),
        (advertise(multicast, false), ROUTER_ADDRESS, HOST),
        (advertise(HOST, true), ROUTER_ADDRESS, multicast),
        (redirect(ROUTER_ADDRESS, HOST), HOST, HOST),
        (redirect(ROUTER_ADDRESS, multicast), ROUTER_ADDRESS, HOST),
        (redirect("2001:db8::9".parse().expect("address"), HOST), ROUTER_ADDRESS, HOST),
    ];
    for (message, source, destination) in refused {
        let octets = emitted(&message, source, destination);
        assert_eq!(parse(&octets, source, destination), Err(Malformed::Address), "{message:?}");
    }
    assert!(
        parse(&emitted(&solicit(HOST, vec![]), unspecified, group), unspecified, group).is_ok()
    );
}

//= rfc4861#4.1-5 rfc4861#4.2-9 rfc4861#4.3-7 rfc4861#4.4-10 rfc4861#4.6-1 rfc4861#9-1 (test)
//= rfc4861#9-3 rfc4861#9-11 (test)
#[test]
fn options_that_are_unknown_or_too_short_are_left_out_and_an_empty_one_ends_the_message() {
    let mut octets = vec![133, 0, 0, 0, 0, 0, 0, 0];
    octets.extend([200, 1, 0, 0, 0, 0, 0, 0]);
    octets.extend([3, 1, 64, 0, 0, 0, 0, 0]);
    octets.extend([1, 1, 2, 0, 0, 0, 0, 1]);
    let read = |octets: &mut Vec<u8>| {
        fill_icmp_checksum(octets, HOST, ROUTER_ADDRESS);
        parse(octets, HOST, ROUTER_ADDRESS).map(|message| message.expect("of ND").options.len())
    };
    assert_eq!(read(&mut octets), Ok(1));
    octets.extend([200, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read(&mut octets), Err(Malformed::Option));
    octets[33] = 2;
    octets[32] = 200;
    assert_eq!(read(&mut octets), Err(Malformed::Truncated));
    octets.truncate(33);
    assert_eq!(read(&mut octets), Err(Malformed::Truncated));
}

#[test]
fn a_route_needs_the_octets_of_its_prefix() {
    for (units, length, is_read) in [
        (1, 0, true),
        (1, 1, false),
        (2, 64, true),
        (2, 65, false),
        (3, 128, true),
        (3, 129, false),
        (4, 64, false),
    ] {
        let mut octets = vec![133, 0, 0, 0, 0, 0, 0, 0, 24, units, length, 0, 0, 0, 0, 60];
        octets.resize(8 + 8 * usize::from(units), 0xff);
        fill_icmp_checksum(&mut octets, HOST, ROUTER_ADDRESS);
        let message = parse(&octets, HOST, ROUTER_ADDRESS).expect("valid").expect("of ND");
        assert_eq!(!message.options.is_empty(), is_read, "{units} {length}");
    }
}

//= rfc4191#2.2-4 rfc4191#2.3-2 rfc4191#2.3-4 (test)
//= rfc4861#4.1-1 rfc4861#4.1-2 rfc4861#4.2-3 rfc4861#4.3-2 rfc4861#4.4-4 rfc4861#4.4-5 (test)
//= rfc4861#4.5-3 rfc4861#4.6.2-4 rfc4861#4.6.2-7 rfc4861#4.6.2-8 rfc4861#4.6.3-2 (test)
//= rfc4861#4.6.4-2 rfc4861#6.1.2-2 rfc4861#7.1.1-2 rfc4861#7.1.2-2 rfc4861#8.1-2 (test)
#[test]
fn reserved_fields_are_sent_as_zero_and_ignored() {
    let link_layer = || vec![NdOption::TargetLinkLayer(MAC)];
    let neighbor = NeighborAdvertisement {
        target: HOST,
        is_router: false,
        is_solicited: true,
        overrides: false,
    };
    let packet = header(HOST, HOST).octets();
    let redirected = vec![NdOption::RedirectedHeader(&packet)];
    let redirect = Body::Redirect { target: ROUTER_ADDRESS, destination: HOST };
    // Bits that are reserved: those of each message, then those of its options.
    let cases: [(Message<'_>, &[(usize, u8)]); 6] = [
        (Message { body: Body::RouterSolicitation, options: vec![] }, &[(4, 0xff), (7, 0xff)]),
        (advertisement(), &[(5, 0x07), (26, 0xff), (27, 0xff), (35, 0x3f), (44, 0xff), (67, 0xe7)]),
        (
            Message { body: Body::NeighborSolicitation { target: HOST }, options: vec![] },
            &[(4, 0xff), (7, 0xff)],
        ),
        (
            Message { body: Body::NeighborAdvertisement(neighbor), options: link_layer() },
            &[(4, 0x1f), (5, 0xff), (7, 0xff)],
        ),
        (Message { body: redirect, options: link_layer() }, &[(4, 0xff), (7, 0xff)]),
        (Message { body: redirect, options: redirected }, &[(42, 0xff), (47, 0xff)]),
    ];
    for (message, reserved) in cases {
        let mut octets = emitted(&message, ROUTER_ADDRESS, HOST);
        for (at, bits) in reserved {
            assert_eq!(octets[*at] & bits, 0, "{message:?} at {at}");
            octets[*at] |= bits;
        }
        octets[2..4].fill(0);
        fill_icmp_checksum(&mut octets, ROUTER_ADDRESS, HOST);
        assert_eq!(parse(&octets, ROUTER_ADDRESS, HOST), Ok(Some(message)));
    }
    // The bits of a prefix behind its length.
    let mut octets = emitted(&advertisement(), ROUTER_ADDRESS, HOST);
    octets[56..64].fill(0xff);
    octets[2..4].fill(0);
    fill_icmp_checksum(&mut octets, ROUTER_ADDRESS, HOST);
    assert_eq!(parse(&octets, ROUTER_ADDRESS, HOST), Ok(Some(advertisement())));
}
