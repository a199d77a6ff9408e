//! A host beside a router that is made of octets.

mod addresses;
mod conformance;
mod connection;
mod discovery;
mod gather;
mod groups;
mod ip4;
mod link;
mod messages;
mod path_mtu;
mod routers;

use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use link::{HOST_MAC, Link, ROUTER, address};
use moorline_ip::extension::Fragment;
use moorline_ip::icmp::{Cause, Echo, Error, Kind};
use moorline_ip::ip6::{FRAGMENT, ICMPV6, UDP};
use moorline_ip::nd::{Body, NdOption};
use moorline_ip::{Header, icmp, udp};

use super::*;
use crate::socket::{Error as SocketError, Owner};
use crate::tcp::Flow;

/// The host's address in the prefix of the router (EUI-64).
fn host() -> Ipv6Addr {
    address("2001:db8:1:0:0:ff:fe00:2")
}

/// A host that has taken an advertisement.
fn configured() -> Link {
    let mut link = Link::new(Config::default());
    link.run(Duration::from_secs(3));
    link.advertise(Duration::from_secs(1800));
    link.run(Duration::from_secs(3));
    link
}

//= rfc8504#5.4-1 rfc8504#5.4-7 (test)
//= rfc4861#4.3-4 rfc4861#7.2.1-1 (test)
#[test]
fn a_host_asks_whether_its_address_is_taken_and_for_routers() {
    let mut link = Link::new(Config::default());
    link.run(Duration::from_secs(10));
    let link_local = address("fe80::0:ff:fe00:2");
    let sent = link.sent_discovery();
    let probe = sent.iter().position(|(header, message)| {
        header.source.is_unspecified()
            && message.body == Body::NeighborSolicitation { target: link_local }
    });
    let solicitation = sent.iter().position(|(header, message)| {
        header.source == link_local && message.body == Body::RouterSolicitation
    });
    assert!(probe.is_some() && probe < solicitation, "{sent:?}");
    assert!(link.reports().iter().any(|groups| groups.contains(&address("ff02::1:ff00:2"))));
    let events = link.events();
    assert!(events.contains(&Event::AddressReady(WireId(0), link_local)), "{events:?}");
}

//= rfc8504#5.1-3 rfc8504#5.4-7 (test)
#[test]
fn a_host_makes_an_address_of_an_advertised_prefix_and_answers_at_it() {
    let mut link = configured();
    assert!(link.events().contains(&Event::AddressReady(WireId(0), host())));
    link.frames.clear();
    link.ping(ROUTER, host(), 64);
    // The host knows the router from its advertisement, so no solicitation is needed.
    let reply = link.packets(ICMPV6).pop().expect("a reply");
    let message =
        icmp::Icmp::parse(reply.0.source, reply.0.destination, &reply.1).expect("message");
    assert_eq!((reply.0.source, reply.0.destination), (host(), ROUTER));
    assert_eq!((message.kind, message.body.len()), (Kind::ECHO_REPLY, 4 + 64));
}

//= rfc4862#5.4.5-1 rfc4862#5.4.5-2 (test)
#[test]
fn another_node_at_the_address_keeps_the_host_from_it() {
    let mut link = Link::new(Config::default());
    link.advertise_neighbor(address("fe80::0:ff:fe00:2"));
    link.run(Duration::from_secs(3));
    let duplicate = Event::AddressDuplicate(WireId(0), address("fe80::0:ff:fe00:2"));
    assert!(link.events().contains(&duplicate));
}

//= rfc8504#5.1-1 (test)
//= rfc4443#4.1-2 rfc4443#4.2-2 rfc4443#4.2-7 (test)
#[test]
fn a_ping_to_another_network_goes_to_the_router() {
    let mut link = configured();
    let far = address("2001:db8:ffff::9");
    link.frames.clear();
    link.stack.ping(far, (7, 1), &[0; 8], link.now).expect("a route");
    link.run(Duration::from_millis(1));
    let (header, message) = link.packets(ICMPV6).pop().expect("a request");
    assert_eq!((header.source, header.destination, header.hop_limit), (host(), far, 64));
    let message = icmp::Icmp::parse(header.source, header.destination, &message).expect("message");
    let echo = Echo::parse(message.body).expect("echo");
    let mut reply = vec![];
    echo.emit(Kind::ECHO_REPLY, far, host(), &mut reply);
    link.give(far, host(), ICMPV6, &reply);
    let answer = EchoReply { from: far, identifier: 7, sequence: 1, size: 8, hop_limit: 64 };
    assert!(link.events().contains(&Event::EchoReply(answer)));
    // The same reply again answers nothing.
    link.give(far, host(), ICMPV6, &reply);
    assert!(link.events().is_empty());
}

//= rfc8504#5.1-2 rfc8504#5.7.1-1 rfc8504#5.7.1-3 (test)
//= rfc8201#4-5 rfc8201#4-6 rfc8201#4-7 rfc8201#5.2-5 (test)
//= rfc8200#4.5-1 rfc8200#4.5-5 rfc8200#5-7 (test)
#[test]
fn a_large_ping_goes_in_fragments_and_a_smaller_path_makes_smaller_ones() {
    let mut link = configured();
    let far = address("2001:db8:ffff::9");
    link.frames.clear();
    link.stack.ping(far, (7, 1), &[1; 2000], link.now).expect("a route");
    let fragments = link.packets(FRAGMENT);
    assert_eq!(fragments.len(), 2);
    let first = &fragments[0];
    assert_eq!(usize::from(first.0.payload_len) + 40, 1496, "multiples of eight octets");
    let mut quote = Vec::from(first.0.octets());
    quote.extend(&first.1);
    let mut error = vec![];
    Error { cause: Cause::PacketTooBig(1280), quote: &quote }.emit(ROUTER, host(), &mut error);
    link.give(ROUTER, host(), ICMPV6, &error);
    assert!(link.events().contains(&Event::PathMtu(far, 1280)));
    link.frames.clear();
    link.stack.ping(far, (7, 2), &[1; 2000], link.now).expect("a route");
    let lens: Vec<_> =
        link.packets(FRAGMENT).iter().map(|(header, _)| header.packet_len()).collect();
    assert_eq!(lens.len(), 2);
    assert!(lens.iter().all(|len| *len <= 1280), "{lens:?}");
}

//= rfc8504#5.1-5 (test)
//= rfc8200#5-8 (test)
#[test]
fn fragments_that_come_in_are_one_packet() {
    let mut link = configured();
    let mut request = vec![];
    Echo { identifier: 1, sequence: 1, data: &[5; 1500] }.emit(
        Kind::ECHO_REQUEST,
        ROUTER,
        host(),
        &mut request,
    );
    link.frames.clear();
    let (first, last) = request.split_at(1000);
    for (offset, has_more, data) in [(1000, false, last), (0, true, first)] {
        let header = Fragment { next_header: ICMPV6, offset, has_more, identification: 9 };
        let mut payload = Vec::from(header.octets());
        payload.extend(data);
        link.give(ROUTER, host(), FRAGMENT, &payload);
    }
    let reply: usize = link.packets(FRAGMENT).iter().map(|(_, payload)| payload.len() - 8).sum();
    assert_eq!(reply, request.len());
}

//= rfc4443#3.1-4 (test)
#[test]
fn a_datagram_to_a_closed_port_draws_an_error_and_one_to_a_socket_is_received() {
    let mut link = configured();
    link.frames.clear();
    link.datagram(ROUTER, host(), (1000, 2000), b"hello");
    let (header, error) = link.packets(ICMPV6).pop().expect("an error");
    let message = icmp::Icmp::parse(header.source, header.destination, &error).expect("message");
    assert_eq!((message.kind, message.code), (Kind::UNREACHABLE, icmp::PORT_UNREACHABLE));
    let socket = link.stack.udp_bind(None, Some(2000)).expect("socket");
    link.datagram(ROUTER, host(), (1000, 2000), b"hello");
    assert!(link.events().contains(&Event::Udp(socket)));
    let received = link.stack.udp_recv(socket).expect("datagram");
    assert_eq!((received.source, received.source_port), (ROUTER, 1000));
    assert_eq!(*received.payload, *b"hello");
    link.frames.clear();
    let to = Some((received.source, received.source_port));
    link.stack
        .udp_send_to(socket, b"back", to, crate::udp::Options::default(), link.now)
        .expect("sent");
    let (header, datagram) = link.packets(UDP).pop().expect("a datagram");
    let datagram =
        udp::Datagram::parse(header.source, header.destination, &datagram).expect("valid");
    assert_eq!((datagram.source_port, datagram.payload), (2000, &b"back"[..]));
}

//= rfc4861#7.2.1-1 (test)
#[test]
fn a_datagram_to_all_nodes_is_for_the_sockets_of_all_addresses() {
    let mut link = configured();
    let socket = link.stack.udp_bind(None, Some(5353)).expect("socket");
    link.datagram(ROUTER, address("ff02::1"), (5353, 5353), b"all");
    assert_eq!(*link.stack.udp_recv(socket).expect("datagram").payload, *b"all");
}

//= rfc8201#4-2 (test)
#[test]
fn an_error_about_a_datagram_is_told_and_one_with_an_mtu_below_the_least_is_not() {
    let mut link = configured();
    let socket = link.stack.udp_bind(None, Some(2000)).expect("socket");
    let to = Some((ROUTER, 9));
    link.frames.clear();
    let options = crate::udp::Options { source: Some(host()), ..crate::udp::Options::default() };
    link.stack.udp_send_to(socket, b"x", to, options, link.now).expect("sent");
    let (header, datagram) = link.packets(UDP).pop().expect("a datagram");
    let mut quote = Vec::from(header.octets());
    quote.extend(datagram);
    link.events();
    for cause in [Cause::Unreachable(icmp::PORT_UNREACHABLE), Cause::PacketTooBig(1279)] {
        let mut error = vec![];
        Error { cause, quote: &quote }.emit(ROUTER, host(), &mut error);
        link.give(ROUTER, host(), ICMPV6, &error);
    }
    let told = link.events();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(matches!(told[0], Event::UdpError { quote, .. } if quote.source_port == 2000));
}

#[test]
fn a_host_talks_to_itself_without_a_frame() {
    let mut link = configured();
    let listener = link.stack.tcp_listen(None, 80, 8).expect("listener");
    link.frames.clear();
    let client = link.stack.tcp_connect((host(), 80), link.now).expect("connection");
    let server = link.stack.tcp_accept(listener).expect("listener").expect("connection");
    let (mut unsent, mut received) = (2_000_000, 0);
    let mut octets = vec![0; 65_536];
    for _ in 0..10_000 {
        let len = octets.len().min(unsent);
        unsent -= link.stack.tcp_send(client, &octets[..len], link.now).unwrap_or(0);
        received += link.stack.tcp_recv(server, &mut octets, link.now).unwrap_or(0);
        link.run(Duration::from_micros(10));
        if received == 2_000_000 {
            break;
        }
    }
    assert_eq!(received, 2_000_000);
    assert!(link.packets(moorline_ip::ip6::TCP).is_empty());
}

#[test]
fn packets_stop_between_the_upper_layers_and_the_wires_if_the_settings_say_so() {
    let mut link = Link::new(Config { intercepts: true, ..Config::default() });
    link.run(Duration::from_secs(3));
    link.advertise(Duration::from_secs(1800));
    link.run(Duration::from_secs(3));
    link.frames.clear();
    link.ping(ROUTER, host(), 8);
    assert!(link.packets(ICMPV6).is_empty());
    let (arrival, request) = link.stack.poll_inbound().expect("the request");
    link.stack.handle_inbound(arrival, request, link.now);
    assert!(link.packets(ICMPV6).is_empty());
    let reply = link.stack.poll_outbound().expect("the reply");
    link.stack.handle_outbound(reply, link.now);
    let (header, _) = link.packets(ICMPV6).pop().expect("a packet");
    assert_eq!((header.source, header.destination), (host(), ROUTER));
}

#[test]
fn nothing_goes_to_the_unspecified_address() {
    let mut link = configured();
    link.frames.clear();
    assert!(link.stack.ping(Ipv6Addr::UNSPECIFIED, (1, 1), &[], link.now).is_err());
    assert!(link.packets(ICMPV6).is_empty());
}

//= rfc8504#5.4-9 (test)
//= rfc4861#4.3-5 (test)
#[test]
fn an_unknown_neighbor_is_solicited_and_its_packets_wait() {
    let mut link = configured();
    let neighbor = address("2001:db8:1::77");
    link.frames.clear();
    link.stack.ping(neighbor, (1, 1), &[], link.now).expect("a route");
    let (header, message) = link.sent_discovery().pop().expect("a solicitation");
    assert_eq!(message.body, Body::NeighborSolicitation { target: neighbor });
    assert_eq!(header.source, host(), "the source of the packet that waits");
    assert_eq!(message.options, [NdOption::SourceLinkLayer(HOST_MAC)]);
    assert!(link.packets(ICMPV6).iter().all(|(_, message)| message[0] != Kind::ECHO_REQUEST.0));
    link.advertise_neighbor(neighbor);
    assert!(link.packets(ICMPV6).iter().any(|(_, message)| message[0] == Kind::ECHO_REQUEST.0));
    // Nobody answers for the next one: the host tells its own sender.
    let silent = address("2001:db8:1::78");
    link.stack.ping(silent, (1, 2), &[], link.now).expect("a route");
    link.run(Duration::from_secs(5));
    let cause = Cause::Unreachable(icmp::ADDRESS_UNREACHABLE);
    assert!(link.events().iter().any(|event| matches!(
        event,
        Event::EchoError { destination, cause: told, .. } if *destination == silent && *told == cause
    )));
}

#[test]
fn equal_seeds_and_inputs_give_equal_frames() {
    let frames = || {
        let mut link = configured();
        link.ping(ROUTER, host(), 3000);
        link.frames
    };
    assert_eq!(frames(), frames());
}

//= rfc8504#4-1 (test)
#[test]
fn a_frame_for_another_station_or_address_is_nothing_for_the_host() {
    let mut link = configured();
    link.frames.clear();
    link.ping(ROUTER, address("2001:db8:1::1234"), 8);
    link.ping(ROUTER, address("ff02::5"), 8);
    link.ping(address("ff02::1"), host(), 8);
    link.ping(address("::1"), host(), 8);
    assert!(link.frames.is_empty());
    let header = Header::new(ROUTER, host(), ICMPV6, 64, 0);
    assert_eq!(header.packet_len(), 40);
}

/// RFC 6890 s2.2.3: ::ffff:0:0/96 is neither source nor destination on a wire.
#[test]
fn a_packet_with_an_ipv4_mapped_address_is_refused_and_counted() {
    let mut link = configured();
    link.frames.clear();
    let refused = |link: &Link| link.stack.all_drops().of(crate::Drop::BadSource);
    let before = refused(&link);
    link.ping(address("::ffff:192.0.2.1"), host(), 8);
    link.ping(ROUTER, address("::ffff:192.0.2.1"), 8);
    let socket = link.stack.udp_bind(None, Some(2000)).expect("socket");
    link.datagram(address("::ffff:192.0.2.1"), host(), (1000, 2000), b"hello");
    assert!(link.frames.is_empty());
    assert!(link.stack.udp_recv(socket).is_err());
    assert_eq!(refused(&link), before + 3);
    link.ping(ROUTER, host(), 8);
    assert_eq!(link.frames.len(), 1);
}

/// What a layer beneath can know of sockets.
#[test]
fn the_owner_of_a_flow_is_the_socket_that_takes_its_packets() {
    let mut link = configured();
    let (now, peer) = (link.now, address("2001:db8:1::9"));
    let flow = |port| Flow { local: (host(), port), peer: (peer, 5) };
    let stack = &mut link.stack;
    assert_eq!((stack.udp_owner(flow(7)), stack.tcp_owner(flow(7))), (Owner::None, Owner::None));
    let socket = stack.udp_bind(None, Some(7)).expect("a socket");
    stack.tcp_listen(None, 7, 1).expect("a listener");
    assert_eq!(
        (stack.udp_owner(flow(7)), stack.tcp_owner(flow(7))),
        (Owner::Anyone, Owner::Anyone)
    );
    assert!(!stack.has_connection(host(), peer));
    stack.udp_connect(socket, (peer, 5), now).expect("a route");
    assert_eq!(stack.udp_local(socket), Ok((Some(host()), 7)));
    assert_eq!(stack.udp_owner(flow(7)), Owner::Connection);
    let other = Flow { peer: (peer, 6), ..flow(7) };
    assert_eq!(stack.udp_owner(other), Owner::None, "a connected socket is for its peer alone");
    assert!(stack.has_connection(host(), peer) && !stack.has_connection(host(), ROUTER));
    let id = stack.tcp_connect((peer, 5), now).expect("a route");
    let own = stack.tcp_flow(id).expect("a flow");
    assert_eq!(stack.tcp_owner(own), Owner::Connection);
    assert_eq!(stack.udp_connect(socket, (peer, 6), now), Err(SocketError::AlreadyConnected));
}

/// A layer beneath that puts octets into some packets only: its errors may be about a packet with them or without.
#[test]
fn an_error_about_a_packet_of_a_layer_beneath_never_widens_the_path() {
    let mut link = configured();
    let (peer, elsewhere) = (address("2001:db8:2::9"), address("2001:db8:3::9"));
    let carried =
        |least| Some(Carried { source: host(), destination: elsewhere, overhead: 8, least });
    for (least, said, expected) in [
        (8, 1392, 1400),
        (8, 1272, 1280),
        (0, 1392, 1392),
        (0, 1272, 1280),
        (0, 1400, 1400),
        (0, 900, 908),
    ] {
        link.stack.set_carried((host(), peer), carried(least));
        assert_eq!(link.stack.on_wire(host(), peer, said).2, expected, "{least} {said}");
    }
}
