//! Peers that follow RFC 5533 and RFC 5534 alone.

use moorline_reap::{CHECK, Profile, Report as ProbeReport, State};
use moorline_wire::{ErrorCode, Message, Options, Packet, Probe};

use super::*;

/// Side 0 sends checks. Side 1 knows no checks.
fn with_rfc_peer() -> Pair {
    let mut ours = Config { profile: Profile::default(), ..Config::default() };
    ours.shim6.send_timeout = Duration::from_secs(2);
    let rfc = Config { profile: Profile::RFC, ..ours.clone() };
    let mut pair = Pair::with_configs([local_state(0), local_state(1)], [ours, rfc]);
    pair.trigger(0);
    pair
}

/// Delivers the messages of `from`, and returns them.
fn pass(pair: &mut Pair, from: usize) -> Vec<Message> {
    let mut sent = Vec::new();
    while let Some(Transmit { locators, octets }) = pair.hosts[from].poll_transmit() {
        let packet = Packet::parse(&octets, locators.local.0, locators.peer.0).expect("ours");
        sent.push(packet.message().expect("ours"));
        let seen = LocatorPair::new(locators.peer, locators.local);
        pair.hosts[1 - from].handle_control(&octets, seen, pair.now);
    }
    sent
}

/// Payload comes in at side 0, which begins a round of checks. Returns the checks.
fn checks(pair: &mut Pair) -> Vec<Message> {
    let entry = &pair.entries[0][0];
    let report = Report::Received { context: entry.id, at: pair.now };
    pair.hosts[0].handle_report(report, pair.now);
    pass(pair, 0)
}

#[test]
fn a_check_asks_a_peer_that_knows_none_to_leave_it_alone() {
    let mut pair = with_rfc_peer();
    let sent = checks(&mut pair);
    assert!(!sent.is_empty());
    for message in &sent {
        let Message::Probe(probe) = message else { panic!("{message:?}") };
        assert!(probe.options.iter().any(|option| *option == moorline_wire::Opt::Check));
    }
    let refused = |pair: &Pair| pair.hosts[1].drops().of(DropReason::UnknownCriticalOption);
    assert_eq!(refused(&pair), u64::try_from(sent.len()).expect("few"));
    let answers = pass(&mut pair, 1);
    assert_eq!(answers.len(), sent.len(), "{answers:?}");
    let asked = sent.iter().map(Message::octets);
    for (answer, asked) in answers.iter().zip(asked) {
        let Message::Error(error) = answer else { panic!("{answer:?}") };
        assert_eq!((error.code, error.pointer), (ErrorCode::CRITICAL_OPTION, 56));
        assert!(answer.octets().len() <= asked.len(), "no answer is larger than its question");
    }
    // Without the refusal, side 0 would check the standby path three times.
    pair.drain(0);
    let before = pair.probes;
    pair.run(Duration::from_secs(30));
    assert_eq!(pair.probes, before);
}

/// A check does not end the exploration of a peer that explores.
#[test]
fn a_check_changes_no_state_of_a_peer_that_explores() {
    let mut pair = with_rfc_peer();
    let [ours, theirs] = [0, 1].map(|side| pair.locators[side].clone());
    for own in &ours {
        pair.dead.extend(theirs.iter().flat_map(|peer| [(*own, *peer), (*peer, *own)]));
    }
    pair.send_expired(1);
    let state = |pair: &Pair| {
        pair.hosts[1].contexts().next().expect("one").established.map(|known| known.reap)
    };
    let exploring = state(&pair);
    assert_eq!(exploring, Some(State::Exploring));
    assert!(!checks(&mut pair).is_empty());
    assert_eq!(state(&pair), exploring);
}

/// An attacker who knows the tag, and not the nonce, cannot make a check refused.
#[test]
fn an_error_about_a_check_that_was_not_sent_changes_nothing() {
    let mut pair = with_rfc_peer();
    pair.hosts[1] = {
        let mut ours = Config { profile: Profile::default(), ..Config::default() };
        ours.shim6.send_timeout = Duration::from_secs(2);
        Contexts::new(ours, [2; 32], pair.now)
    };
    checks(&mut pair);
    let locators = pair.ulids(0).as_locators();
    let own = ProbeReport { src: locators.local, dst: locators.peer, nonce: 1, data: CHECK };
    let check = Message::Probe(Probe {
        receiver_tag: pair.entries[0][0].peer_tag,
        state: State::Operational,
        sent: Vec::from([own]),
        received: Vec::new(),
        options: Options::from_iter([moorline_wire::Opt::Check]),
    });
    let error = Message::Error(moorline_wire::ErrorMessage {
        code: ErrorCode::CRITICAL_OPTION,
        pointer: 56,
        packet: check.octets(),
    });
    let emitted = crate::control::emit(LocatorPair::new(locators.peer, locators.local), &error);
    pair.hosts[0].handle_control(&emitted.octets, locators, pair.now);
    assert_eq!(pair.hosts[0].drops().of(DropReason::BadNonce), 1);
    pair.run(Duration::from_secs(2));
    assert!(pair.probes > 0, "the round goes on");
}
