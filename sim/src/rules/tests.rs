use moorline_types::{ContextTag, Ulid};
use moorline_wire::{I1, I2, Opt, Options, ProbeReport, ProbeState, R1};

use super::*;
use crate::log::instant;
use crate::packet::UDP;

fn locator(text: &str) -> Locator {
    Locator(text.parse().expect("an address"))
}

/// Host A with `a1` and `a2`, host B with `b1` and `b2`.
fn rules() -> (Rules, [LocatorPair; 2]) {
    let of_host =
        |letter: char| [1, 2].map(|isp| locator(&format!("2001:db8:{letter}{isp}::1"))).to_vec();
    let [a, b] = ['a', 'b'].map(of_host);
    let pairs = [0, 1].map(|isp| LocatorPair::new(a[isp], b[isp]));
    let ulids = UlidPair::new(a[0].as_ulid(), b[0].as_ulid());
    (Rules::new(&[a, b], [(0, ulids)]), pairs)
}

fn broken(rules: &mut Rules) -> Vec<Rule> {
    std::mem::take(&mut rules.violations).into_iter().map(|violation| violation.rule).collect()
}

const fn turned(pair: LocatorPair) -> LocatorPair {
    LocatorPair::new(pair.peer, pair.local)
}

#[test]
fn packets_go_from_own_addresses_to_proven_ones() {
    let (mut rules, [pair, _]) = rules();
    let now = instant(std::time::Duration::ZERO);
    rules.on_wire(0, pair, None, now);
    assert_eq!(broken(&mut rules), []);
    rules.on_wire(1, pair, None, now);
    assert_eq!(broken(&mut rules), [Rule::OwnSource, Rule::ProvenDestination]);
    let elsewhere = LocatorPair::new(pair.local, locator("2001:db8:bad::1"));
    rules.on_wire(0, elsewhere, Some(elsewhere.peer), now);
    assert_eq!(broken(&mut rules), [], "a socket chose it");
    rules.on_wire(0, elsewhere, None, now);
    assert_eq!(broken(&mut rules), [Rule::ProvenDestination]);
}

//= rfc5533#7.2-3 (test)
#[test]
fn moved_payload_needs_a_report_of_a_probe_that_was_sent() {
    let (mut rules, [ulids, other]) = rules();
    let now = instant(std::time::Duration::ZERO);
    let packet = |pair: LocatorPair| {
        let ulids = UlidPair::new(Ulid(pair.local.0), Ulid(pair.peer.0));
        Header::of(UDP, ulids).packet(&[])
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
    rules.on_control_received(0, &probe(vec![report(1)], vec![report(6)]), other);
    rules.on_moved(0, &packet(other), &packet(ulids), now);
    assert_eq!(broken(&mut rules), [Rule::ProbedPair], "another nonce");
    rules.on_control_received(0, &probe(vec![report(2)], vec![report(5)]), other);
    rules.on_moved(0, &packet(other), &packet(ulids), now);
    assert_eq!(broken(&mut rules), []);
    rules.on_moved(0, &packet(ulids), &packet(ulids), now);
    assert!(broken(&mut rules).contains(&Rule::Untouched), "a header on the ULID pair");
}

#[test]
fn a_context_of_a_responder_needs_an_i2_with_its_validator() {
    let (mut rules, [pair, _]) = rules();
    let now = instant(std::time::Duration::ZERO);
    let options = |octet| Options::from(vec![Opt::Validator(vec![octet; 16])]);
    let r1 = R1 { initiator_nonce: 1, responder_nonce: 2, options: options(9) };
    rules.on_control_sent(1, &Message::R1(r1).octets(), turned(pair), now);
    let i2 = |octet| {
        let initiator_tag = ContextTag::from_bits(7);
        let (initiator_nonce, responder_nonce) = (3, 2);
        let options = options(octet);
        Message::I2(I2 { initiator_tag, initiator_nonce, responder_nonce, options }).octets()
    };
    rules.on_new_context(1, &i2(9), turned(pair), now);
    assert_eq!(broken(&mut rules), []);
    rules.on_new_context(1, &i2(8), turned(pair), now);
    assert_eq!(broken(&mut rules), [Rule::ValidI2]);
    let i1 = I1 {
        initiator_tag: ContextTag::from_bits(7),
        initiator_nonce: 3,
        options: Options::default(),
    };
    rules.on_new_context(1, &Message::I1(i1).octets(), turned(pair), now);
    assert_eq!(broken(&mut rules), [Rule::ValidI2]);
}

#[test]
fn drops_need_a_reason() {
    let (mut rules, _) = rules();
    let now = instant(std::time::Duration::ZERO);
    rules.on_drops(0, &[(DropReason::Replayed, 3)], now);
    assert_eq!(broken(&mut rules), []);
    rules.on_drops(0, &[(DropReason::BadChecksum, 1)], now);
    assert_eq!(broken(&mut rules), [Rule::HonestDrops]);
}
