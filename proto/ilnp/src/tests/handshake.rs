//! The beginning of a session, and the result of a question without an answer.

use super::*;

//= rfc6744#6-9 (test)
#[test]
fn the_handshake_makes_a_session_at_both_ends_with_crossed_nonces() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    duo.play();
    let [ours, theirs] = [0, 1].map(|host| duo.session(host));
    assert_eq!((ours.state, theirs.state), (State::Established, State::Established));
    let [a, b] = [0, 1].map(|host| duo.entry(host));
    assert_eq!(Some(a.send_nonce), b.receive_nonce);
    assert_eq!(Some(b.send_nonce), a.receive_nonce);
    assert_eq!(a.pair, b.pair.reversed());
    assert!(a.settled && b.settled);
}

#[test]
fn a_responder_keeps_nothing_before_the_confirm() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let propose = duo.take(0);
    for _ in 0..100 {
        duo.give(1, &propose);
    }
    assert_eq!(duo.machines[1].session_count(), 0);
    assert_eq!(duo.machines[1].poll_timeout(), None);
    assert_eq!(duo.machines[1].poll_update(), None);
}

#[test]
fn a_confirm_needs_a_validator_of_ours_for_this_pair_and_of_late() {
    let (mut duo, confirm) = Duo::at_confirm();
    let types = AdmissionTypes::default();
    let Ok(Admission::Confirm(good)) =
        Admission::parse(&confirm[40..], types, duo.ilv(0).address(), duo.ilv(1).address())
    else {
        panic!("a Confirm")
    };
    let mut forged = Vec::new();
    for at in 0..16 {
        let mut bad = good;
        bad.accept.validator[at] ^= 1;
        forged.push((bad, DropReason::BadValidator));
    }
    let mut nonce = good;
    nonce.accept.responder_nonce = Nonce::Short([0; 4]);
    forged.push((nonce, DropReason::BadValidator));
    let mut port = good;
    port.accept.flow.responder_port ^= 1;
    forged.push((port, DropReason::BadValidator));
    let mut number = good;
    number.accept.number = number.accept.number.wrapping_add(1);
    forged.push((number, DropReason::StaleNonce));
    let pair = IlvPair::new(duo.ilv(0), duo.ilv(1));
    for (message, reason) in forged {
        let before = duo.drops(1, reason);
        duo.give(1, &[control(pair, &Admission::Confirm(message))]);
        assert_eq!(duo.drops(1, reason), before + 1);
    }
    // The same Confirm from another locator.
    let elsewhere = IlvPair::new(duo.ilv(0).at(L64(0x2001_0db8_0009_0000)), duo.ilv(1));
    duo.give(1, &[control(elsewhere, &Admission::Confirm(good))]);
    assert_eq!(duo.machines[1].session_count(), 0);
    duo.now = NOW + Duration::from_secs(61);
    duo.give(1, core::slice::from_ref(&confirm));
    assert_eq!(duo.machines[1].session_count(), 0, "too old");
    duo.now = NOW + Duration::from_secs(1);
    let (mut duo, confirm) = Duo::at_confirm();
    duo.give(1, &[confirm]);
    assert_eq!(duo.machines[1].session_count(), 1);
}

#[test]
fn answers_are_limited_and_no_longer_than_questions() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let propose = duo.take(0);
    let mut answers = 0;
    for _ in 0..2 * ANSWER_BURST {
        duo.give(1, &propose);
        for answer in duo.take(1) {
            answers += 1;
            assert!(answer.len() <= propose[0].len());
        }
    }
    assert_eq!(answers, ANSWER_BURST);
    assert_eq!(duo.drops(1, DropReason::RateLimited), ANSWER_BURST.into());
}

#[test]
fn a_flood_of_proposals_from_one_prefix_keeps_nobody_else_from_being_answered() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let honest = duo.take(0);
    for n in 0..4 * ANSWER_BURST {
        let source =
            Ilv::new(L64(0x2001_0db8_0066_0000), Nid(0x0a00_0000_0100_0000 + u64::from(n)));
        duo.give(1, &[control(IlvPair::new(source, ilv(1)), &proposal())]);
    }
    assert!(duo.drops(1, DropReason::RateLimited) > 0);
    duo.take(1);
    duo.give(1, &honest);
    assert_eq!(duo.take(1).len(), 1);
}

#[test]
fn a_flood_of_proposals_from_prefixes_made_up_everywhere_takes_only_so_much_of_our_time() {
    let mut duo = Duo::new();
    for n in 0..3 * ALL_ANSWERS_BURST {
        let source = Ilv::new(L64(0x2001_0db8_0000_0000 + (u64::from(n) << 8)), ilv(0).nid);
        duo.give(1, &[control(IlvPair::new(source, ilv(1)), &proposal())]);
    }
    assert_eq!(duo.take(1).len(), ALL_ANSWERS_BURST as usize);
    duo.now = duo.now + ALL_ANSWERS_INTERVAL;
    duo.traffic(Socket::Connected);
    let honest = duo.take(0);
    duo.give(1, &honest);
    assert_eq!(duo.take(1).len(), 1);
}

pub(super) fn proposal() -> Admission {
    let flow = Flow {
        protocol: 17,
        initiator_port: 40_000,
        responder_port: 7,
        transaction: 1,
        flags: AdmissionFlags::CONNECTED,
    };
    Admission::Propose(flow)
}

#[test]
fn without_a_socket_there_or_a_connected_one_anywhere_there_is_no_session() {
    for (here, there) in
        [(Socket::Connected, Socket::None), (Socket::Unconnected, Socket::Connected)]
    {
        let mut duo = Duo::new();
        duo.sockets[1] = there;
        duo.traffic(here);
        duo.play();
        assert_eq!([0, 1].map(|host| duo.machines[host].session_count()), [0, 0]);
        // The host does not ask for a session again at once.
        duo.traffic(here);
        assert!(duo.take(0).is_empty());
    }
}

//= rfc6740#8-2 (test)
#[test]
fn a_silent_correspondent_is_asked_three_times_and_remembered() {
    let mut duo = Duo::new();
    duo.traffic(Socket::Connected);
    let sent = duo.alone(0, Duration::from_secs(60));
    assert_eq!(sent, PROPOSAL_TRIES as usize);
    assert!(
        duo.has_event(0, |event| matches!(event, Event::Classic { cause: Classic::Silent, .. }))
    );
    duo.traffic(Socket::Connected);
    assert!(duo.take(0).is_empty());
    duo.now = duo.now + Duration::from_secs(600);
    duo.traffic(Socket::Connected);
    assert_eq!(duo.take(0).len(), 1);
}

//= rfc6742#2.1 rfc6744#6-7 (test)
#[test]
fn one_that_is_said_to_speak_ilnp_is_asked_at_once_and_soon_again() {
    let mut duo = Duo::new();
    let asks_now = |duo: &mut Duo| {
        duo.traffic(Socket::Connected);
        let asked = !duo.take(0).is_empty();
        duo.alone(0, Duration::from_secs(5));
        asked
    };
    assert!(asks_now(&mut duo));
    assert!(!asks_now(&mut duo), "it was silent");
    let (nid, minute) = (duo.ilv(1).nid, Duration::from_secs(60));
    duo.machines[0].handle_hint(nid, &[], duo.now + minute, duo.now);
    assert!(asks_now(&mut duo));
    assert!(!asks_now(&mut duo), "not all the time");
    duo.now = duo.now + Duration::from_secs(10);
    assert!(asks_now(&mut duo));
    // The hint has expired.
    duo.now = duo.now + minute;
    assert!(asks_now(&mut duo));
    duo.now = duo.now + minute;
    assert!(!asks_now(&mut duo));
    assert_eq!(duo.machines[0].session_count(), 0, "a hint makes no session");
}

#[test]
fn a_confirm_that_gets_lost_is_repeated_until_something_comes_back() {
    let (mut duo, _lost) = Duo::at_confirm();
    // Repetitions after 50 ms, then after twice that, and so on, for 3 s.
    let sent = duo.alone(0, Duration::from_secs(60));
    assert_eq!(sent, 5);
    assert_eq!(duo.machines[0].session_count(), 0, "given up");
    let (mut duo, _lost) = Duo::at_confirm();
    duo.fire(0);
    duo.play();
    assert_eq!(duo.session(0).state, State::Established);
}
