//! Hash-based addresses: over the prefixes of all ISPs, and after a collision.

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{Kind, Note};
use moorline_contexts::{EventKind, Failure};
use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::ip6::{IP6_LEN, Ip6};
use moorline_ip::{Mac, PacketBuf};
use moorline_protected::News;
use moorline_protected::world::{Layout, Plan};
use moorline_stack::stack::{Event, WireId};
use moorline_wire::PROTOCOL;

use crate::lab::{Lab, config};

/// Kind and collision count of an address of a host.
fn proof(lab: &Lab, host: usize, address: Ipv6Addr) -> Option<(Kind, u8)> {
    let addressing = lab.world.host(host).protocols().addressing()?;
    let member = addressing.planner.member(address)?;
    Some((member.kind, member.collision_count))
}

#[test]
fn all_global_addresses_are_of_one_set() {
    for layout in [Layout::OneLink, Layout::LinkPerIsp] {
        let mut lab = Lab::new(&Plan { layout, ..Plan::default() }, &config(), 0);
        lab.run_until_ready();
        lab.run_for(Duration::from_secs(60));
        for host in 0..2 {
            let addresses = lab.world.addresses(host);
            assert_eq!(addresses.len(), 2, "the stack makes none itself: {addresses:?}");
            for address in addresses {
                assert_eq!(proof(&lab, host, address), Some((Kind::Hba, 0)));
            }
        }
    }
}

/// RFC 5535 s6.1 and RFC 3972 s4: a duplicate raises the collision count, and with it all addresses of the set.
#[test]
fn a_duplicate_raises_the_collision_count_and_the_connection_still_survives() {
    for claims in 1..=2 {
        let mut lab = Lab::new(&Plan { claims, ..Plan::default() }, &config(), 2);
        lab.run_until_ready();
        lab.run_for(Duration::from_secs(10));
        let count = u8::try_from(claims).expect("few");
        let current: Vec<_> = lab
            .world
            .addresses(0)
            .into_iter()
            .filter(|address| proof(&lab, 0, *address) == Some((Kind::Hba, count)))
            .collect();
        assert_eq!(current.len(), 2, "{}", lab.describe());
        let duplicates =
            lab.events[0].iter().filter(|event| matches!(event, Event::AddressDuplicate(..)));
        assert_eq!(duplicates.count(), usize::from(count));
        let is_told = |(_, news): &(_, News)| matches!(news, News::Address(Note::Duplicate { .. }));
        assert!(lab.news[0].iter().any(is_told));
        lab.begin_transfer(1_000_000);
        lab.run_until_received(300_000);
        lab.world.set_alive(0, false);
        lab.run_until_complete(Duration::from_secs(60));
    }
}

/// RFC 4862 s5.4.5 and RFC 3972 s4: after three collisions a host gives the prefix up.
#[test]
fn three_duplicates_end_the_address_of_the_prefix() {
    let mut lab = Lab::new(&Plan { claims: 3, ..Plan::default() }, &config(), 2);
    lab.run_for(Duration::from_secs(60));
    let isps: Vec<_> =
        lab.world.addresses(0).into_iter().filter_map(|one| lab.world.isp_of(one)).collect();
    assert!(!isps.contains(&0), "{}", lab.describe());
    let addressing = lab.world.host(0).protocols().addressing().expect("a planner");
    assert!(addressing.planner.warnings().iter().any(|text| text.contains("three addresses")));
}

/// A peer without Shim6 answers an I1 with a Parameter Problem (RFC 5533 s7.20): there is no context, and no second try at once.
#[test]
fn a_peer_that_does_not_know_shim6_is_left_alone() {
    let mut lab = Lab::new(&Plan::default(), &config(), 7);
    let frames = lab.record();
    lab.run_until_ready();
    lab.begin_transfer(1_000_000);
    let is_i1 = |frame: &[u8]| {
        let ip6 = Ip6::read(frame.get(ethernet::LEN..).unwrap_or_default());
        ip6.is_some_and(|ip6| ip6.next_header == PROTOCOL && ip6.source.segments()[3] == 0xa)
    };
    let until = lab.world.now() + Duration::from_secs(5);
    while !frames.borrow().iter().any(|(_, frame)| is_i1(frame)) {
        assert!(lab.step(until));
    }
    let i1 = frames.borrow().iter().find(|(_, frame)| is_i1(frame)).expect("an I1").1.clone();
    let now = lab.world.now();
    lab.world.host_mut(0).handle_frame(WireId(0), refusal(&i1), now);
    lab.world.settle();
    lab.world.set_alive(0, false);
    lab.run_for(Duration::from_secs(1));
    let is_refused = |(_, news): &(_, News)| {
        let News::Context(event) = news else { return false };
        matches!(event.kind, EventKind::Failed { failure: Failure::NoSupport })
    };
    assert!(lab.news[0].iter().any(is_refused), "{:?}", lab.news[0]);
}

/// A Parameter Problem of the destination of a packet: "unrecognized Next Header type encountered".
fn refusal(frame: &[u8]) -> PacketBuf {
    let link = Ethernet::parse(frame).expect("a frame");
    let packet = &frame[ethernet::LEN..];
    let ip6 = Ip6::read(packet).expect("a packet");
    let mut message = vec![4, 1, 0, 0];
    message.extend(6_u32.to_be_bytes());
    message.extend(packet);
    let (from, to) = (ip6.destination, ip6.source);
    let sum = moorline_wire::upper_layer_checksum(from, to, moorline_ip::ip6::ICMPV6, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let octets = moorline_ip::ip6::packet(moorline_ip::ip6::ICMPV6, from, to, &message);
    assert!(octets.len() > IP6_LEN);
    let mut frame = PacketBuf::copy_of(&octets);
    let (destination, source): (Mac, Mac) = (link.source, link.destination);
    frame.prepend(&Ethernet { destination, source, ether_type: ethernet::IPV6 }.octets());
    frame
}
