//! Addresses of the whole host: how they come and go, and which of them are sources (RFC 4862, 6724, 8981).

use moorline_ip::address::solicited_node;
use moorline_ip::nd::Message;

use super::conformance::{dropped, echo_request, from_router, give, message};
use super::link::{HOST_MAC, ROUTER_MAC};
use super::*;
use crate::Drop;
use crate::socket;

//= rfc4862#5.4.2-4 (test)
#[test]
fn a_probe_of_another_node_counts_before_the_first_own_one() {
    let mut link = Link::new(Config::default());
    let target = address("fe80::ff:fe00:2");
    let first = link.stack.poll_timeout().expect("a delay");
    assert!(first > link.now, "the interface has not joined the group yet");
    let mut probe = vec![];
    let message = Message { body: Body::NeighborSolicitation { target }, options: vec![] };
    let (source, group) = (Ipv6Addr::UNSPECIFIED, solicited_node(target));
    message.emit(source, group, &mut probe);
    link.give(source, group, ICMPV6, &probe);
    assert!(link.events().contains(&Event::AddressDuplicate(WireId(0), target)));
}

//= rfc4862#5.5.4-1 rfc4862#5.5.4-3 rfc4862#5.5.4-7 rfc4862#5.5.4-8 (test)
#[test]
fn a_deprecated_address_answers_and_an_invalid_one_does_not() {
    let mut link = configured();
    let state = |link: &Link| {
        let rows = link.stack.netstat(link.now).addresses;
        rows.into_iter().find(|row| row.address == host()).map(|row| row.state)
    };
    let socket = link.stack.udp_bind(Some(host()), None).expect("socket");
    let to = Some((address("2001:db8:1::77"), 9));
    let send = |link: &mut Link| {
        link.frames.clear();
        link.stack.udp_send_to(socket, b"x", to, Default::default(), link.now).is_ok()
    };
    link.run(Duration::from_secs(3600));
    assert_eq!(state(&link), Some(crate::address::State::Deprecated));
    give(&mut link, from_router(ICMPV6, 64), &echo_request(8));
    assert_eq!(message(&mut link).0.source, host());
    assert!(send(&mut link), "the socket goes on");
    link.run(Duration::from_secs(3600));
    assert_eq!(state(&link), None);
    let before = dropped(&link, Drop::NotOurs);
    give(&mut link, from_router(ICMPV6, 64), &echo_request(8));
    assert!(link.packets(ICMPV6).is_empty());
    assert_eq!(dropped(&link, Drop::NotOurs), before + 1);
    assert!(!send(&mut link), "nothing is sent from an address that is gone");
}

// RFC 4191 s3.2.
//= rfc4191#3.2-1 (test)
#[test]
fn without_a_route_a_program_hears_that_the_network_is_unreachable() {
    let mut link = Link::new(Config::default());
    link.run(Duration::from_secs(3));
    let far = address("2001:db8:ffff::9");
    let socket = link.stack.udp_bind(None, None).expect("socket");
    let sent = link.stack.udp_send_to(socket, b"x", Some((far, 9)), Default::default(), link.now);
    assert_eq!(sent, Err(socket::Error::NetworkUnreachable));
    let connected = link.stack.tcp_connect((far, 80), link.now).map(|_| ());
    assert_eq!(connected, Err(socket::Error::NetworkUnreachable));
}

/// Sends a datagram from this source by this wire.
fn send_from(
    stack: &mut Stack,
    to: Ipv6Addr,
    source: Ipv6Addr,
    wire: Option<u32>,
    now: Instant,
) -> Result<(), socket::Error> {
    let socket = stack.udp_bind(None, None).expect("socket");
    let options =
        crate::udp::Options { source: Some(source), wire, ..crate::udp::Options::default() };
    stack.udp_send_to(socket, b"x", Some((to, 9)), options, now)
}

// RFC 6724 s4.
//= rfc6724#4-8 (test)
#[test]
fn a_source_that_the_host_does_not_have_is_an_error() {
    let mut link = configured();
    let other =
        WireConfig { mtu: 1500, addressing: crate::address::Config::new(ROUTER_MAC), ip4: None };
    let other = link.stack.add_wire(other, link.now);
    link.run(Duration::from_secs(3));
    let now = link.now;
    let foreign = address("2001:db8:1::77");
    let far = address("2001:db8:ffff::9");
    let result = send_from(&mut link.stack, far, foreign, None, now);
    assert_eq!(result, Err(socket::Error::AddrNotAvailable));
    assert_eq!(link.stack.udp_bind(Some(foreign), None), Err(socket::Error::AddrNotAvailable));
    // An address of another link is no source for link-local destinations and groups.
    for to in [address("fe80::77"), address("ff02::77")] {
        let result = send_from(&mut link.stack, to, host(), Some(other.0), now);
        assert_eq!(result, Err(socket::Error::NetworkUnreachable), "{to}");
        assert_eq!(send_from(&mut link.stack, to, host(), Some(0), now), Ok(()), "{to}");
    }
}

// RFC 6724 s4.
//= rfc6724#4-9 (test)
#[test]
fn a_source_that_a_program_states_is_used() {
    let mut link = configured();
    let far = address("2001:db8:ffff::9");
    // The host would choose the other one.
    for source in [address("fe80::ff:fe00:2"), host()] {
        link.frames.clear();
        let now = link.now;
        send_from(&mut link.stack, far, source, None, now).expect("sent");
        let (header, _) = link.packets(UDP).pop().expect("a datagram");
        assert_eq!(header.source, source);
    }
}

// RFC 6724 s8.
//= rfc6724#8-2 (test)
#[test]
fn the_order_of_destinations_follows_the_addresses_at_once() {
    let mut link = Link::new(Config::default());
    link.run(Duration::from_secs(3));
    let [far, neighbor] = [address("2001:db8:ffff::9"), address("fe80::77")];
    let mut found = [far, neighbor];
    link.stack.order_destinations(&mut found, link.now);
    assert_eq!(found, [neighbor, far], "the host has a link-local address only");
    link.advertise(Duration::from_secs(1800));
    link.run(Duration::from_secs(3));
    // A private label: without a global source, far would stay behind.
    let ula = address("fd00::9");
    let mut found = [ula, far];
    link.stack.order_destinations(&mut found, link.now);
    assert_eq!(found, [far, ula]);
}

// RFC 8981 s3.6.
//= rfc8981#3.6-5 rfc8981#3.6-6 rfc8981#3.6-7 (test)
#[test]
fn another_link_brings_other_addresses() {
    let mut link = Link::new(Config::default());
    link.stack = Stack::new(Config::default(), [7; 32], Instant::ZERO);
    let addressing = crate::address::Config {
        mode: crate::address::Mode::Temporary,
        ..crate::address::Config::new(HOST_MAC)
    };
    link.stack.add_wire(WireConfig { mtu: 1500, addressing, ip4: None }, Instant::ZERO);
    link.run(Duration::from_secs(3));
    link.advertise(Duration::from_secs(1800));
    link.run(Duration::from_secs(3));
    let global = |link: &Link| -> Vec<_> {
        let rows = link.stack.netstat(link.now).addresses;
        let global = rows.iter().filter(|row| !row.address.is_unicast_link_local());
        global.map(|row| (row.address, row.is_temporary)).collect()
    };
    let before = global(&link);
    assert_eq!(before.iter().filter(|(_, is_temporary)| *is_temporary).count(), 1);
    link.stack.handle_new_link(WireId(0), link.now);
    assert_eq!(global(&link), []);
    let netstat = link.stack.netstat(link.now);
    assert!(netstat.routes.is_empty() && netstat.prefixes.is_empty());
    assert!(netstat.neighbors.is_empty());
    link.frames.clear();
    link.run(Duration::from_secs(3));
    assert!(link.solicitations() > 0);
    // The same prefix again: the temporary address is another one.
    link.advertise(Duration::from_secs(1800));
    link.run(Duration::from_secs(3));
    let after = global(&link);
    assert_eq!(after.iter().filter(|(_, is_temporary)| *is_temporary).count(), 1);
    assert!(after.iter().all(|row| !row.1 || !before.contains(row)), "{before:?} {after:?}");
}
