//! Path MTU and next hop of packets that have moved, and the word of the move for TCP.

use std::time::Duration;

use moorline_ip::ip6::{IP6_LEN, Ip6};
use moorline_protected::world::{IspPlan, Layout, Plan};
use moorline_stack::stack::Event;
use moorline_wire::PROTOCOL;

use crate::lab::{Frames, Lab, config, with_ilnp};

/// Runs a transfer from the first address to the second one, and lets ISP 0 die.
fn moved(plan: &Plan, total: u64) -> Lab {
    let mut lab = Lab::new(plan, &config(), 9);
    lab.run_until_ready();
    lab.begin_transfer(total);
    lab.run_until_received(400_000);
    lab.world.set_alive(0, false);
    lab
}

/// The second ISP takes smaller packets than the first one.
fn narrow(layout: Layout) -> Plan {
    let isps = vec![IspPlan::default(), IspPlan { mtu: 1400, ..IspPlan::default() }];
    Plan { isps, layout, ..Plan::default() }
}

/// RFC 5533 s8: a Packet Too Big about locators is one about ULIDs, less the 8 octets of the payload header.
#[test]
fn a_packet_too_big_for_locators_lowers_the_mtu_of_the_ulids() {
    for layout in [Layout::OneLink, Layout::LinkPerIsp] {
        let mut lab = moved(&narrow(layout), 1_500_000);
        let frames = lab.record();
        lab.run_until_complete(Duration::from_secs(60));
        let (_, peer) = lab.transfer_pair();
        assert!(lab.events[0].contains(&Event::PathMtu(peer, 1392)), "{layout:?}");
        let moved =
            frames.borrow().iter().filter_map(|(_, frame)| payload(frame)).collect::<Vec<_>>();
        assert!(moved.contains(&1500), "the first packets fill the link");
        let fitting = moved.iter().filter(|len| **len == 1400).count();
        assert!(fitting > 500, "all others fill the path: {fitting} of {}", moved.len());

        // A large datagram between the same ULIDs goes in fragments that fit, too.
        let frames = lab.send_large();
        let lens: Vec<_> = frames.borrow().iter().filter_map(|(_, frame)| payload(frame)).collect();
        assert!(lens.len() == 3 && lens.iter().all(|len| *len <= 1400), "{lens:?}");
    }
}

/// Octets of the packet in a frame of host 0, if it has a payload header.
fn payload(frame: &[u8]) -> Option<usize> {
    let packet = frame.get(14..)?;
    let ip6 = Ip6::read(packet).filter(|ip6| ip6.next_header == PROTOCOL)?;
    let is_payload = packet.get(IP6_LEN + 2).is_some_and(|octet| octet & 0x80 != 0);
    let is_ours = ip6.source.segments()[3] == 0xa;
    (is_payload && is_ours).then_some(packet.len())
}

/// The planes follow the MTU of the link that routers advertise: Shim6 for each packet of a context, ILNP for datagrams, which have a nonce.
#[test]
fn packets_that_have_moved_follow_the_mtu_of_their_link() {
    for config in [config(), with_ilnp()] {
        let plan = Plan { layout: Layout::LinkPerIsp, ..Plan::default() };
        let mut lab = Lab::new(&plan, &config, 9);
        lab.world.set_link_mtu(1, 0, 1300);
        lab.run_until_ready();
        lab.begin_transfer(1_500_000);
        lab.run_until_received(400_000);
        lab.world.set_alive(0, false);
        lab.run_until_received(600_000);
        assert!(lab.moved_at(0).is_some());
        lab.world.set_link_mtu(1, 0, 1500);
        let frames = lab.record();
        lab.run_until_complete(Duration::from_secs(60));
        let longest = |frames: &Frames| frames.borrow().iter().map(|(_, one)| one.len()).max();
        assert!(longest(&frames) > Some(14 + 1400), "{:?}", longest(&frames));
        let fragments = lab.send_large();
        assert!(longest(&fragments) > Some(14 + 1400), "{:?}", longest(&fragments));
    }
}

/// TCP does not wait for its timer, which has backed off.
#[test]
fn tcp_sends_on_the_new_pair_within_a_millisecond_of_the_move() {
    let mut lab = moved(&Plan::default(), 1_500_000);
    let frames = lab.record();
    lab.run_until_complete(Duration::from_secs(60));
    let moved_at = lab.moved_at(0).expect("a move");
    let frames = frames.borrow();
    let first = frames.iter().find(|(_, frame)| payload(frame).is_some_and(|len| len > 1000));
    let (at, _) = first.expect("a moved segment");
    assert!(
        *at >= moved_at && at.since(moved_at) < Duration::from_millis(1),
        "{at:?} {moved_at:?}"
    );
}

/// A host whose own link to an ISP is lost goes on by the other link, and knows it at once.
#[test]
fn a_lost_link_moves_the_connection_at_once() {
    let plan = Plan { layout: Layout::LinkPerIsp, ..Plan::default() };
    let mut lab = Lab::new(&plan, &config(), 4);
    lab.run_until_ready();
    lab.begin_transfer(1_500_000);
    lab.run_until_received(400_000);
    let lost_at = lab.world.now();
    lab.lose_link(0, 0);
    lab.run_until_complete(Duration::from_secs(60));
    let pause = lab.transfer().pause();
    assert!(pause.to.since(lost_at) < Duration::from_millis(200), "{pause:?} {lost_at:?}");
    // The other pair has to answer first: a round trip.
    let moved_at = lab.moved_at(0).expect("a move");
    assert!(moved_at.since(lost_at) < Duration::from_millis(50), "{moved_at:?} {lost_at:?}");
}
