use std::sync::Arc;
use std::time::Duration;

use moorline_contexts::Profile;
use moorline_types::{ContextTag, Path, Ulid};
use moorline_wire::{I1, I2, Message, Opt, Options, Probe, ProbeReport, ProbeState, R1};

use super::*;
use crate::log::instant;
use crate::packet::UDP;
use crate::plan::Plan;

fn locator(text: &str) -> Locator {
    Locator(text.parse().expect("an address"))
}

/// Rules for host A with `a1` and `a2`, and host B with `b1` and `b2`.
fn rules() -> (Rules, [LocatorPair; 2]) {
    let of_host =
        |letter: char| [1, 2].map(|isp| locator(&format!("2001:db8:{letter}{isp}::1"))).to_vec();
    let [a, b] = ['a', 'b'].map(of_host);
    let pairs = [0, 1].map(|isp| LocatorPair::new(a[isp], b[isp]));
    let ulids = UlidPair::new(a[0].as_ulid(), b[0].as_ulid());
    let mut plan = Plan::pair(Duration::from_secs(2));
    plan.hosts.iter_mut().for_each(|host| host.profile = Profile::RFC);
    let mut rules = Rules::new(ControlPace::of(&plan));
    for (host, of_host) in [&a, &b].into_iter().enumerate() {
        of_host.iter().for_each(|&address| rules.on_address(host, address));
    }
    rules.on_traffic(0, ulids);
    // The packets of host B are counted, and it has no context that its traffic asked for.
    rules.on_traffic(1, ulids);
    (rules, pairs)
}

fn broken(rules: &mut Rules) -> Vec<Rule> {
    std::mem::take(&mut rules.violations).into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn packets_go_from_own_addresses_to_proven_ones() {
    let (mut rules, [pair, _]) = rules();
    let now = instant(Duration::ZERO);
    rules.on_wire(0, pair, None, true, now);
    assert_eq!(broken(&mut rules), []);
    rules.on_wire(1, pair, None, true, now);
    assert_eq!(broken(&mut rules), [Rule::OwnSource, Rule::VerifiedLocator]);
    rules.on_wire(0, pair, None, false, now);
    assert_eq!(broken(&mut rules), [Rule::OwnSource], "the address has gone");
    let elsewhere = LocatorPair::new(pair.local, locator("2001:db8:bad::1"));
    rules.on_wire(0, elsewhere, Some(elsewhere), true, now);
    assert_eq!(broken(&mut rules), [], "a socket chose it");
    rules.on_wire(0, elsewhere, Some(elsewhere), false, now);
    assert_eq!(broken(&mut rules), [], "and goes on with it, as without us");
    rules.on_wire(0, elsewhere, None, true, now);
    assert_eq!(broken(&mut rules), [Rule::VerifiedLocator]);
}

//= rfc5533#7.2-3 (test)
#[test]
fn moved_payload_needs_a_report_of_a_probe_that_was_sent() {
    let (mut rules, [ulids, other]) = rules();
    let now = instant(Duration::ZERO);
    let packet = |pair: LocatorPair| {
        let ulids = UlidPair::new(Ulid(pair.local.0), Ulid(pair.peer.0));
        packet::ip6(ulids.as_locators(), UDP, &[])
    };
    let report = |nonce| ProbeReport { src: other.local, dst: other.peer, nonce, data: 0 };
    let probe = |sent: Vec<ProbeReport>, received: Vec<ProbeReport>| {
        let state = ProbeState::Exploring;
        let receiver_tag = ContextTag::from_bits(7);
        let options = Options::default();
        Message::Probe(Probe { receiver_tag, state, sent, received, options }).octets()
    };
    rules.on_control_sent(0, &probe(vec![report(5)], vec![]), other, now);
    rules.on_moved(0, &packet(other), &packet(ulids), now);
    assert_eq!(broken(&mut rules), [Rule::ProbedPair], "sent only");
    rules.on_control_received(0, &probe(vec![report(1)], vec![report(6)]), other, now);
    rules.on_moved(0, &packet(other), &packet(ulids), now);
    assert_eq!(broken(&mut rules), [Rule::ProbedPair], "another nonce");
    rules.on_control_received(0, &probe(vec![report(2)], vec![report(5)]), other, now);
    rules.on_moved(0, &packet(other), &packet(ulids), now);
    assert_eq!(broken(&mut rules), []);
    rules.on_moved(0, &packet(ulids), &packet(ulids), now);
    assert!(broken(&mut rules).contains(&Rule::Untouched), "a header on the ULID pair");
}

//= rfc5534#5.2-5 (test)
#[test]
fn probes_have_the_form_that_an_rfc_peer_takes() {
    let (mut rules, [pair, _]) = rules();
    let now = instant(Duration::ZERO);
    let report = |data| ProbeReport { src: pair.local, dst: pair.peer, nonce: 5, data };
    let mut sends = |state, data, received: Vec<ProbeReport>, options: &[Opt]| {
        let (receiver_tag, sent) = (ContextTag::from_bits(7), vec![report(data)]);
        let options = Options::from(options.to_vec());
        let probe = Message::Probe(Probe { receiver_tag, state, sent, received, options });
        rules.on_control_sent(0, &probe.octets(), pair, now);
        broken(&mut rules).contains(&Rule::ProbeForm)
    };
    let check = 0x4d6f_6f72;
    assert!(sends(ProbeState::InboundOk, 0, vec![], &[]));
    assert!(sends(ProbeState::Operational, check, vec![], &[]));
    assert!(sends(ProbeState::Operational, 0, vec![], &[Opt::Check]));
    assert!(!sends(ProbeState::InboundOk, 0, vec![report(1)], &[]));
    assert!(!sends(ProbeState::Operational, check, vec![], &[Opt::Check]));
    assert!(!sends(ProbeState::Operational, 0, vec![report(check)], &[]), "the answer");
}

#[test]
fn a_context_of_a_responder_needs_an_i2_with_its_validator() {
    let (mut rules, [pair, _]) = rules();
    let now = instant(Duration::ZERO);
    let options = |octet| Options::from(vec![Opt::Validator(vec![octet; 16])]);
    let r1 = R1 { initiator_nonce: 1, responder_nonce: 2, options: options(9) };
    rules.on_control_sent(1, &Message::R1(r1).octets(), pair.reversed(), now);
    let i2 = |octet| {
        let initiator_tag = ContextTag::from_bits(7);
        let (initiator_nonce, responder_nonce) = (3, 2);
        let options = options(octet);
        Message::I2(I2 { initiator_tag, initiator_nonce, responder_nonce, options }).octets()
    };
    rules.on_new_context(1, &i2(9), pair.reversed(), now);
    assert_eq!(broken(&mut rules), []);
    rules.on_new_context(1, &i2(8), pair.reversed(), now);
    assert_eq!(broken(&mut rules), [Rule::ValidI2]);
    let i1 = I1 {
        initiator_tag: ContextTag::from_bits(7),
        initiator_nonce: 3,
        options: Options::default(),
    };
    rules.on_new_context(1, &Message::I1(i1).octets(), pair.reversed(), now);
    assert_eq!(broken(&mut rules), [Rule::ValidI2]);
}

#[test]
fn drops_need_a_reason() {
    let (mut rules, _) = rules();
    let now = instant(Duration::ZERO);
    rules.on_drops(0, [(DropReason::Replayed, 3)].into_iter(), false, now);
    rules.on_drops(0, [(DropReason::NotOurs, 3)].into_iter(), true, now);
    assert_eq!(broken(&mut rules), []);
    rules.on_drops(0, [(DropReason::NotOurs, 1)].into_iter(), false, now);
    assert_eq!(broken(&mut rules), [Rule::HonestDrops]);
}

#[test]
fn control_packets_beyond_answers_are_bounded_over_any_time() {
    let (mut rules, [pair, _]) = rules();
    let keepalive = Message::Keepalive(moorline_wire::Keepalive {
        receiver_tag: ContextTag::from_bits(7),
        options: Options::default(),
    });
    let octets = keepalive.octets();
    let send = |rules: &mut Rules, count: u64, millis: u64| {
        for n in 0..count {
            rules.on_control_sent(0, &octets, pair, instant(Duration::from_millis(n * millis)));
        }
        broken(rules)
    };
    // 2 probes, 2 packets for a Send Timeout of 2 s, half a retransmission a second.
    assert_eq!(send(&mut rules, 100, 223), []);
    assert!(!send(&mut rules, 100, 180).is_empty(), "a little faster is too fast in the end");
    (0..3).for_each(|_| rules.on_control_received(0, &[], pair, instant(Duration::ZERO)));
    assert_eq!(send(&mut rules, 3, 0), [], "answers are free");
    assert_eq!(send(&mut rules, 2, 0).len(), 2);
}

#[test]
fn tags_are_told_apart_for_each_peer() {
    let (mut rules, [pair, other]) = rules();
    let now = instant(Duration::ZERO);
    let entry = |id: u32, pair: LocatorPair, tags: [u64; 2]| {
        let ulids = UlidPair::new(pair.local.as_ulid(), pair.peer.as_ulid());
        let [local_tag, peer_tag] = tags.map(ContextTag::from_bits);
        Update::Upsert(ContextEntry {
            id: ContextId(id),
            ulids,
            local_tag,
            peer_tag,
            current: Path::of(ulids, pair),
            peer_locators: (&[pair.peer]).into(),
            timers: None,
            watch: 0,
            idle: Duration::ZERO,
            suspects: false,
            congestion: false,
            paths: Arc::default(),
            spread: false,
        })
    };
    let mut update = |update: Update| {
        rules.on_update(0, &update, now);
        broken(&mut rules).contains(&Rule::UniqueTags)
    };
    assert!(!update(entry(0, pair, [1, 2])));
    assert!(!update(entry(0, pair, [1, 2])), "the same context again");
    assert!(!update(entry(1, other, [3, 4])));
    assert!(update(entry(1, other, [1, 4])), "what it receives");
    assert!(update(entry(1, other, [3, 2])), "what it sends");
    assert!(!update(Update::Remove { context: ContextId(0) }));
    assert!(!update(entry(1, other, [1, 2])), "the other one is gone");
}

#[test]
fn a_context_asked_for_after_a_lost_session_has_the_identifiers_of_other_traffic_and_no_peer() {
    let (rules, [pair, other]) = rules();
    let context = |pair: LocatorPair| ContextView {
        id: ContextId(0),
        ulids: UlidPair::new(pair.local.as_ulid(), pair.peer.as_ulid()),
        forked_instance: 0,
        state: "i1-sent",
        established: None,
    };
    let is_of_lost = |host, pair| rules.is_of_lost_session(host, &context(pair));
    assert!(is_of_lost(0, LocatorPair::new(pair.local, other.peer)), "the peer has moved");
    assert!(!is_of_lost(0, pair), "the traffic itself");
    assert!(!is_of_lost(2, LocatorPair::new(pair.local, other.peer)), "another host");
    let stranger = locator("2001:db8:b2::2");
    assert!(!is_of_lost(0, LocatorPair::new(pair.local, stranger)), "another identifier");
}
