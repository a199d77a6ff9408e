//! ILNP beneath the stack: sessions, their addresses, and connections that outlive an ISP by them.

use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_datapath::ilnp::USED_INTERVAL;
use moorline_ilnp::{Cause, Event as SessionEvent};
use moorline_ip::ip6::{DESTINATION_OPTIONS, Ip6, TCP};
use moorline_protected::News;
use moorline_protected::world::{IspPlan, Layout, Plan};
use moorline_stack::address::State;
use moorline_stack::stack::Event;
use moorline_stack::udp;
use moorline_types::{Ilv, IlvPair};

use crate::lab::{Lab, config, with_ilnp};
use crate::survival::{plan, recover};

/// Whether the transfer has a session between its addresses on both hosts, and no context.
fn has_session(lab: &Lab) -> bool {
    let (local, peer) = lab.transfer_pair();
    (0..2).all(|host| {
        let ends = if host == 0 { (local, peer) } else { (peer, local) };
        let is_it = |pair: IlvPair| (pair.local.address(), pair.remote.address()) == ends;
        let is_there = lab.sessions(host).iter().any(|session| is_it(session.pair));
        is_there && lab.contexts(host).contexts().count() == 0
    })
}

#[test]
fn a_connection_survives_the_isp_that_carries_it_by_its_session() {
    for seed in 0..24 {
        let mut lab = Lab::new(&plan(seed), &with_ilnp(), seed);
        recover(&mut lab, 200_000 + seed * 20_000);
        assert!(has_session(&lab), "seed {seed}: {}", lab.describe());
        lab.check_owners();
    }
}

/// A retransmission of TCP says that nothing comes any more, and three questions get no answer. Their pauses are 500 ms and
/// twice as long each time, because the round-trip time is not known.
#[test]
fn a_session_leaves_an_isp_that_drops_everything_within_seconds() {
    for seed in 0..8 {
        let mut lab = Lab::new(&plan(seed), &with_ilnp(), seed);
        lab.run_until_ready();
        lab.begin_transfer(1_000_000);
        lab.run_until_received(200_000 + seed * 20_000);
        let cut_at = lab.world.now();
        lab.world.set_alive(0, false);
        lab.run_until_complete(Duration::from_secs(60));
        let moved_at = (0..2).filter_map(|host| lab.moved_at(host)).min().expect("a move");
        assert!(moved_at.since(cut_at) < LONGEST_SILENCE, "seed {seed}: {moved_at:?} {cut_at:?}");
    }
}

#[test]
fn a_connection_survives_one_isp_after_the_other_by_its_session() {
    let mut lab = Lab::new(&Plan::default(), &with_ilnp(), 3);
    lab.outlive_one_isp_after_the_other();
    assert!(has_session(&lab), "{}", lab.describe());
    lab.check_owners();
}

#[test]
fn equal_seeds_give_equal_frames_with_sessions() {
    let run = |seed| {
        let mut lab = Lab::new(&Plan::default(), &with_ilnp(), seed);
        let frames = lab.record();
        recover(&mut lab, 400_000);
        frames.take()
    };
    let (first, second) = (run(5), run(5));
    assert!(first.len() > 1000 && first == second);
}

/// A link that is lost takes its locators with it: the session moves without a question. The acknowledgment of the first segment goes to the lost
/// locator, as the correspondent has still to prove the other one (decision 192). TCP repeats the segment after 200 ms.
#[test]
fn a_lost_link_moves_the_session_at_once() {
    let plan = Plan { layout: Layout::LinkPerIsp, ..Plan::default() };
    let mut lab = Lab::new(&plan, &with_ilnp(), 4);
    lab.run_until_ready();
    lab.begin_transfer(1_500_000);
    lab.run_until_received(400_000);
    let lost_at = lab.world.now();
    lab.lose_link(0, 0);
    assert_eq!(lab.moved_at(0), None);
    lab.run_until_complete(Duration::from_secs(60));
    let moved_at = lab.moved_at(0).expect("a move");
    assert!(moved_at.since(lost_at) < Duration::from_millis(1), "{moved_at:?} {lost_at:?}");
    let pause = lab.transfer().pause();
    assert!(pause.to.since(lost_at) < Duration::from_millis(300), "{pause:?} {lost_at:?}");
}

/// Traffic of a peer that knows no ILNP has a context, after the proposals have gone unanswered.
#[test]
fn a_peer_without_ilnp_gets_a_context() {
    let isp = IspPlan { rate: 500_000, ..IspPlan::default() };
    let plan = Plan { isps: vec![isp; 2], ..Plan::default() };
    for configs in [[with_ilnp(), config()], [config(), with_ilnp()]] {
        let mut lab = Lab::with_configs(&plan, configs.each_ref(), 6);
        lab.run_until_ready();
        lab.begin_transfer(4_000_000);
        lab.run_while(Duration::from_secs(8), |lab| !lab.is_protected());
        assert!(
            (0..2).all(|host| lab.sessions(host).is_empty() && lab.established(host).len() == 1)
        );
        lab.world.set_alive(0, false);
        lab.run_until_complete(Duration::from_secs(120));
        assert!(lab.moved_at(0).is_some(), "{}", lab.describe());
        lab.check_owners();
    }
}

/// The sockets have room for a nonce, and what routers say about packets with a nonce counts for the sockets.
#[test]
fn a_packet_too_big_for_locators_lowers_the_mtu_of_the_sockets() {
    let isps = vec![IspPlan::default(), IspPlan { mtu: 1400, ..IspPlan::default() }];
    for layout in [Layout::OneLink, Layout::LinkPerIsp] {
        let plan = Plan { isps: isps.clone(), layout, ..Plan::default() };
        let mut lab = Lab::new(&plan, &with_ilnp(), 9);
        lab.run_until_ready();
        lab.begin_transfer(1_500_000);
        lab.run_until_received(400_000);
        lab.world.set_alive(0, false);
        let frames = lab.record();
        lab.run_until_complete(Duration::from_secs(120));
        let (_, peer) = lab.transfer_pair();
        let is_told = |event: &Event| matches!(event, Event::PathMtu(to, _) if *to == peer);
        assert!(lab.events[0].iter().any(is_told), "{layout:?}");
        let segments: Vec<_> =
            frames.borrow().iter().filter_map(|(_, frame)| moved(frame)).collect();
        let fitting = segments.iter().filter(|packet| (1380..=1400).contains(&packet.len)).count();
        assert!(fitting > 500, "{layout:?}: {fitting} of {}", segments.len());

        // A large datagram between the same addresses goes in fragments that fit with their nonces.
        let frames = lab.send_large();
        let fragments: Vec<_> =
            frames.borrow().iter().filter_map(|(_, frame)| moved(frame)).collect();
        let large = fragments.iter().filter(|packet| packet.len > 1000).collect::<Vec<_>>();
        assert_eq!(large.len(), 3, "{fragments:?}");
        let fits =
            |packet: &&Moved| packet.len <= 1400 && packet.next_header == DESTINATION_OPTIONS;
        assert!(large.iter().all(fits), "{fragments:?}");
    }
}

/// A packet of host 0 by ISP 1.
#[derive(Debug)]
struct Moved {
    len: usize,
    next_header: u8,
}

fn moved(frame: &[u8]) -> Option<Moved> {
    let packet = frame.get(14..)?;
    let ip6 = Ip6::read(packet)?;
    let (isp, host) = (ip6.source.segments()[2], ip6.source.segments()[3]);
    let next_header = ip6.next_header;
    let is_payload = [TCP, DESTINATION_OPTIONS].contains(&next_header);
    ((isp, host) == (2, 0xa) && is_payload).then_some(Moved { len: packet.len(), next_header })
}

/// Datagrams of a connected socket earn a session, and the answers of a socket without a peer come back by it.
#[test]
fn datagrams_of_a_connected_socket_survive_the_isp_by_their_session() {
    let mut lab = Lab::new(&Plan::default(), &with_ilnp(), 11);
    lab.run_until_ready();
    let now = lab.world.now();
    let server = lab.world.host_mut(1).udp_bind(None, Some(7)).expect("a socket");
    let client = lab.world.host_mut(0).udp_bind(None, None).expect("a socket");
    let addresses = lab.world.addresses(1);
    let peer = addresses.into_iter().find(|one| lab.world.isp_of(*one) == Some(0));
    let peer = (peer.expect("an address of ISP 0"), 7);
    lab.world.host_mut(0).udp_connect(client, peer, now).expect("a route");
    let ask = |lab: &mut Lab, count: u32| -> Vec<(u32, Ipv6Addr)> {
        let mut answers = Vec::new();
        for number in 0..count {
            let now = lab.world.now();
            let number = number.to_be_bytes();
            let options = udp::Options::default();
            let sent = lab.world.host_mut(0).udp_send_to(client, &number, None, options, now);
            sent.expect("a route");
            lab.world.settle();
            lab.run_for(Duration::from_millis(50));
            while let Ok(asked) = lab.world.host_mut(1).udp_recv(server) {
                let (now, to) = (lab.world.now(), (asked.source, asked.source_port));
                let options = udp::Options { source: Some(asked.destination), ..options };
                let payload = &asked.payload;
                let sent =
                    lab.world.host_mut(1).udp_send_to(server, payload, Some(to), options, now);
                sent.expect("a route");
                lab.world.settle();
            }
            lab.run_for(Duration::from_millis(50));
            while let Ok(answer) = lab.world.host_mut(0).udp_recv(client) {
                let number = (*answer.payload).try_into().expect("four octets");
                answers.push((u32::from_be_bytes(number), answer.source));
            }
        }
        answers
    };
    let all = |count: u32| (0..count).map(|number| (number, peer.0)).collect::<Vec<_>>();
    assert_eq!(ask(&mut lab, 20), all(20));
    assert!((0..2).all(|host| lab.sessions(host).len() == 1), "{}", lab.describe());
    lab.world.set_alive(0, false);
    // One datagram each 100 ms: the use is reported each 10 s, and the questions take less than 5 s.
    let during = ask(&mut lab, 150);
    assert!(!during.is_empty(), "{}", lab.describe());
    assert_eq!(ask(&mut lab, 20), all(20));
    assert!((0..2).all(|host| lab.contexts(host).contexts().count() == 0));
    assert!(lab.moved_at(0).is_some() && lab.world.isp(0).swallowed > 0);
    lab.check_owners();
}

/// Two hosts after a connection whose packets took a session, which remains.
fn after_a_session(seed: u64) -> Lab {
    let mut lab = Lab::new(&Plan::default(), &with_ilnp(), seed);
    lab.run_until_ready();
    lab.begin_transfer(400_000);
    lab.run_until_complete(Duration::from_secs(60));
    assert!(has_session(&lab), "{}", lab.describe());
    lab
}

/// The restarted host has its addresses and no sessions. It denies the session of its peer, which then begins anew.
#[test]
fn a_peer_that_begins_anew_is_reached_again() {
    let mut lab = after_a_session(12);
    let addresses = lab.world.addresses(1);
    lab.restart(1, &with_ilnp());
    lab.run_until_ready();
    assert_eq!(lab.world.addresses(1), addresses);
    assert!(lab.sessions(0).len() == 1 && lab.sessions(1).is_empty());
    let before = lab.sessions(0)[0].nonces;
    lab.begin_transfer(1_000_000);
    lab.run_until_received(300_000);
    lab.run_while(USED_INTERVAL * 3, |lab| !has_session(lab));
    assert_ne!(lab.sessions(0)[0].nonces, before, "another session");
    lab.world.set_alive(0, false);
    lab.run_until_complete(Duration::from_secs(120));
    lab.check_owners();
}

/// A host that ends its sessions says so: its peer does not go on with checksums that nobody understands.
#[test]
fn a_host_that_ends_its_sessions_tells_its_peers() {
    let mut lab = after_a_session(13);
    let now = lab.world.now();
    lab.world.host_mut(0).end_sessions(now);
    lab.world.settle();
    lab.run_for(Duration::from_secs(1));
    assert!((0..2).all(|host| lab.sessions(host).is_empty()), "{}", lab.describe());
    let cause = |host: usize| {
        lab.news[host].iter().find_map(|(_, news)| match news {
            News::Session { event: SessionEvent::Forgotten { cause, .. }, .. } => Some(*cause),
            News::Session { .. } | News::Context(_) | News::Address(_) => None,
        })
    };
    assert_eq!((cause(0), cause(1)), (Some(Cause::Ended), Some(Cause::Denied)));
    lab.check_owners();
}

/// A session keeps its identifiers wherever it goes, so each host has an address for each identifier in each prefix. New
/// connections do not use the additional ones.
#[test]
fn each_identifier_of_a_session_has_an_address_at_each_locator() {
    let mut lab = Lab::new(&Plan::default(), &with_ilnp(), 14);
    lab.run_until_ready();
    let own = lab.world.addresses(0);
    lab.begin_transfer(400_000);
    lab.run_until_complete(Duration::from_secs(60));
    let (joined, local) = (joined(&lab), lab.transfer_pair().0);
    let made = state_of(&lab, joined).expect("an address for the session");
    assert_eq!(made, State::Deprecated);
    lab.run_for(Duration::from_secs(3));
    assert_eq!(state_of(&lab, joined), Some(State::Deprecated), "no other node has it");
    assert_eq!(lab.world.addresses(0), own, "addresses for new connections");
    let protocols = lab.world.host(0).protocols();
    assert!(protocols.view().uplink_of(joined).is_none() && protocols.is_session_address(joined));
    assert!(!protocols.is_session_address(local));
}

/// Nobody can make another address for the same identifier.
#[test]
fn an_address_of_a_session_that_another_node_has_is_given_up() {
    let mut lab = Lab::new(&Plan::default(), &with_ilnp(), 15);
    lab.run_until_ready();
    lab.world.claim(1, 0, 1);
    lab.begin_transfer(400_000);
    lab.run_until_complete(Duration::from_secs(60));
    // Routers advertise each 30 s, and each advertisement brings a new view.
    lab.run_for(Duration::from_secs(90));
    let duplicate = |event: &&Event| matches!(event, Event::AddressDuplicate(_, address) if *address == joined(&lab));
    assert_eq!(lab.events[0].iter().filter(duplicate).count(), 1, "{}", lab.describe());
    assert_eq!(state_of(&lab, joined(&lab)), None);
    assert!(has_session(&lab));
    lab.check_owners();
}

/// The identifier of the transfer at host 0, at the locator of ISP 1.
fn joined(lab: &Lab) -> Ipv6Addr {
    let (local, _) = lab.transfer_pair();
    let other = lab.world.addresses(0).into_iter().find(|own| *own != local);
    let other = Ilv::of(other.expect("an address of ISP 1"));
    Ilv::of(local).at(other.l64).address()
}

fn state_of(lab: &Lab, address: Ipv6Addr) -> Option<State> {
    let mut wires = lab.world.host(0).stack().wires();
    wires.find_map(|wire| wire.addresses().find(|own| own.address == address)).map(|own| own.state)
}

/// Longest time from the failure of an ISP to the move of a session with TCP.
const LONGEST_SILENCE: Duration = Duration::from_secs(12);
