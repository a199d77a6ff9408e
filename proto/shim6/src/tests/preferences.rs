//! Information besides locators: preferences and Send Timeout (RFC 5533 s10, RFC 5534 s5.3).

use moorline_wire::{ErrorCode, LocatorPreference, LocatorPreferences};

use super::duo::{Duo, Flight};
use super::*;
use crate::{PREFERENCES_RETRIES_MAX, UPDATE_BURST, UPDATE_INTERVAL};

const BROKEN: LocatorPreference =
    LocatorPreference { flags: LocatorPreference::BROKEN, priority: None, weight: None };

/// An Update Request of side 0 with these options.
fn request(duo: &Duo, options: Vec<Opt>) -> Flight {
    let request = UpdateRequest {
        receiver_tag: duo.context(1).local_tag,
        request_nonce: 77,
        options: Options::from(options),
    };
    let pair = ulids().as_locators();
    Flight { from: 0, pair, message: Message::UpdateRequest(request) }
}

#[test]
fn preferences_are_told_to_established_peers_and_in_the_handshake() {
    let mut duo = Duo::established();
    duo.log.clear();
    let second = locators(1)[1];
    duo.machines[0].set_preferences(&[(second, BROKEN)], NOW);
    duo.settle();
    assert_eq!(duo.kinds(), [MessageType::UPDATE_REQUEST, MessageType::UPDATE_ACK]);
    let peer = &duo.of_side(1).peer;
    assert!(peer.preference_of(second).is_broken());
    assert!(!peer.preference_of(locators(1)[0]).is_broken());
    duo.machines[0].set_preferences(&[(second, BROKEN)], NOW);
    duo.settle();
    assert_eq!(duo.log.len(), 2, "told already");
    duo.lose(1);
    duo.trigger(1);
    duo.settle();
    assert!(duo.of_side(1).peer.preference_of(second).is_broken(), "by R2");
    duo.machines[0].set_preferences(&[], NOW);
    duo.settle();
    assert!(!duo.of_side(1).peer.preference_of(second).is_broken(), "taken back");
}

#[test]
fn a_peer_that_knows_no_preferences_gets_the_list_without() {
    let mut duo = Duo::established();
    duo.machines[0].set_preferences(&[(locators(1)[1], BROKEN)], NOW);
    duo.collect();
    let mut with_preferences = Vec::new();
    for _ in 0..=PREFERENCES_RETRIES_MAX + 2 {
        let Some(Flight { message: Message::UpdateRequest(request), .. }) =
            duo.under_way.pop_front()
        else {
            panic!("an Update Request")
        };
        assert!(request.options.locator_list().is_some());
        with_preferences.push(request.options.locator_preferences().is_some());
        duo.wake();
    }
    assert_eq!(with_preferences, [true, true, false, false]);
}

/// Settles the Update Requests of side 0, and says for each whether it has preferences.
fn told_again(duo: &mut Duo) -> Vec<bool> {
    duo.log.clear();
    duo.settle();
    let requests = duo.log.iter().filter_map(|flight| {
        let Message::UpdateRequest(request) = &flight.message else { return None };
        Some(request.options.locator_preferences().is_some())
    });
    requests.collect()
}

#[test]
fn preferences_that_no_acknowledged_message_had_are_told_when_there_is_occasion() {
    let second = locators(1)[1];
    // An Update Request whose first two transmissions are lost.
    let mut duo = Duo::established();
    duo.machines[0].set_preferences(&[(second, BROKEN)], NOW);
    for _ in 0..=PREFERENCES_RETRIES_MAX {
        duo.collect();
        duo.under_way.clear();
        duo.wake();
    }
    duo.settle();
    assert_eq!(duo.machines[0].poll_timeout(), None, "acknowledged");
    assert!(!duo.of_side(1).peer.preference_of(second).is_broken());
    assert!(told_again(&mut duo).is_empty());
    let (id, now) = (duo.context(0).id, duo.now);
    duo.machines[0].update_if_outdated(id, now);
    assert_eq!(told_again(&mut duo), [true]);
    assert!(duo.of_side(1).peer.preference_of(second).is_broken());
    duo.machines[0].update_if_outdated(id, now);
    assert!(told_again(&mut duo).is_empty());

    // An I2 whose first two transmissions are lost.
    let mut duo = Duo::new();
    duo.machines[0].set_preferences(&[(second, BROKEN)], NOW);
    duo.trigger(0);
    duo.step().expect("I1");
    duo.step().expect("R1");
    for _ in 0..=PREFERENCES_RETRIES_MAX {
        duo.under_way.clear();
        duo.wake();
    }
    assert_eq!(told_again(&mut duo), [true]);
    duo.check_established();
    assert!(duo.of_side(1).peer.preference_of(second).is_broken());
}

#[test]
fn who_has_no_preferences_tells_nothing_again() {
    let mut duo = Duo::established();
    duo.machines[0].set_send_timeout(Duration::from_secs(20), NOW);
    for _ in 0..=PREFERENCES_RETRIES_MAX {
        duo.collect();
        duo.under_way.clear();
        duo.wake();
    }
    duo.settle();
    let (id, now) = (duo.context(0).id, duo.now);
    duo.machines[0].update_if_outdated(id, now);
    assert!(told_again(&mut duo).is_empty());
}

#[test]
fn newer_information_takes_the_place_of_what_is_under_way() {
    //= rfc5533#10.3 (test)
    let proof = |generation: u32, present: &[Locator]| {
        let (present, sets) = (present.to_vec(), alloc::vec![hba_set(1, [1, 2])]);
        let addresses =
            LocalAddresses { present, sets, cgas: Vec::new(), ..LocalAddresses::default() };
        LocalProof::new(generation, addresses, &[], [0; 32])
    };
    let mut first = Machine::new(Config::default(), [1; 32], NOW);
    first.set_local(&proof(1, &locators(1)[..1]), NOW);
    let mut duo = Duo::of([first, machine(2)]);
    duo.trigger(0);
    duo.settle();
    duo.machines[0].set_local(&proof(2, &locators(1)), NOW);
    duo.collect();
    let first = duo.under_way.pop_front().expect("list");
    duo.machines[0].set_preferences(&[(locators(1)[0], BROKEN)], NOW);
    duo.collect();
    let second = duo.under_way.pop_front().expect("list and preferences");
    let (Message::UpdateRequest(old), Message::UpdateRequest(new)) =
        (&first.message, &second.message)
    else {
        panic!("{first:?} {second:?}")
    };
    assert_ne!(old.request_nonce, new.request_nonce);
    assert_eq!(new.options.locator_list(), old.options.locator_list());
    assert!(new.options.locator_preferences().is_some());
    duo.hand(&first).expect("taken");
    let ack = duo.under_way.pop_front().expect("acknowledged");
    assert_eq!(duo.hand(&ack), Err(DropReason::BadNonce), "it was abandoned");
    assert!(duo.machines[0].poll_timeout().is_some(), "the newer one is still outstanding");
    duo.hand(&second).expect("taken");
    duo.settle();
    assert_eq!(duo.machines[0].poll_timeout(), None);
    assert!(duo.of_side(1).peer.preference_of(locators(1)[0]).is_broken());
}

#[test]
fn an_update_keeps_its_nonce_and_backs_off_to_two_minutes() {
    //= rfc5533#10.2 (test)
    let mut duo = Duo::established();
    duo.machines[0].set_preferences(&[(locators(1)[1], BROKEN)], NOW);
    duo.collect();
    let mut nonces = alloc::collections::BTreeSet::new();
    let mut last = duo.now;
    let mut waits = Vec::new();
    for _ in 0..12 {
        let Some(Flight { message: Message::UpdateRequest(request), .. }) =
            duo.under_way.pop_front()
        else {
            panic!("an Update Request")
        };
        nonces.insert(request.request_nonce);
        duo.wake();
        waits.push(duo.now.since(last));
        last = duo.now;
    }
    assert_eq!(nonces.len(), 1);
    for (doubled, wait) in waits.iter().enumerate() {
        let nominal = Duration::from_secs(4 << doubled).min(crate::MAX_UPDATE_TIMEOUT);
        assert!(*wait >= nominal / 2 && *wait <= nominal * 3 / 2, "{waits:?}");
    }
    let longest: alloc::collections::BTreeSet<_> = waits.iter().skip(5).collect();
    assert_eq!(longest.len(), 7, "no two alike, at the end neither: {waits:?}");
}

#[test]
fn preferences_for_another_list_are_complained_of() {
    //= rfc5533#10.4 (test)
    let mut duo = Duo::established();
    let known = duo.of_side(1).peer.clone();
    let generation = known.generation.expect("a list");
    for (preferences, code) in [
        (LocatorPreferences::new(generation ^ 1, &[BROKEN; 2]), ErrorCode::GENERATION),
        (LocatorPreferences::new(generation, &[BROKEN; 3]), ErrorCode::LOCATOR_COUNT),
    ] {
        let flight = request(&duo, alloc::vec![Opt::LocatorPreferences(preferences)]);
        assert_eq!(duo.hand(&flight), Err(DropReason::BadFormat));
        let Some(Flight { message: Message::Error(error), .. }) = duo.under_way.pop_front() else {
            panic!("an Error")
        };
        let octets = flight.message.octets();
        let at = usize::from(error.pointer);
        let pointed = if code == ErrorCode::GENERATION { 20 } else { 18 };
        assert_eq!((error.code, at), (code, pointed));
        assert!(octets.len() > at && duo.under_way.is_empty(), "not acknowledged");
        assert_eq!(duo.of_side(1).peer, known);
    }
    let right = LocatorPreferences::new(generation, &[LocatorPreference::default(), BROKEN]);
    let flight = request(&duo, alloc::vec![Opt::LocatorPreferences(right)]);
    duo.hand(&flight).expect("taken");
    assert!(duo.of_side(1).peer.preference_of(locators(1)[1]).is_broken());
}

#[test]
fn parameters_in_an_update_must_be_those_of_the_ulid() {
    //= rfc5533#10.4-4 (test)
    let mut duo = Duo::established();
    let stranger = hba_set(3, [1, 2]).pds().to_vec();
    let list = local(1).announcement_for(ulids().local).expect("proved").list().clone();
    for options in [
        alloc::vec![Opt::Pds(stranger.clone())],
        alloc::vec![Opt::LocatorList(list), Opt::Pds(stranger)],
    ] {
        let flight = request(&duo, options);
        assert_eq!(duo.hand(&flight), Err(DropReason::Unverified));
        assert!(duo.under_way.is_empty());
    }
}

#[test]
fn another_send_timeout_is_told_by_an_update() {
    //= rfc5534#5.3-1 rfc5534#5.3-2 (test)
    let mut duo = Duo::established();
    for (timeout, seconds, millis) in [
        (Duration::from_secs(20), 20, None),
        (Duration::from_millis(1500), 2, Some(1500)),
        (Duration::from_secs(15), 15, None),
    ] {
        duo.log.clear();
        duo.machines[0].set_send_timeout(timeout, NOW);
        duo.settle();
        let Message::UpdateRequest(request) = &duo.log[0].message else { panic!("{:?}", duo.log) };
        assert_eq!(request.options.keepalive_timeout(), Some(seconds));
        assert_eq!(request.options.send_timeout_millis(), millis);
        assert_eq!(duo.of_side(1).peer.send_timeout, timeout.into());
        assert_eq!(duo.of_side(1).peer.locators, locators(1), "the locators stay");
    }
}

/// A host with this number of contexts.
fn with_contexts(count: u32) -> Machine {
    let mut a = machine(1);
    for n in 0..count {
        let peer = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, u16::try_from(n).expect("fits"));
        let state = crate::Established::new(
            ContextTag::from_bits(u64::from(n)),
            locators(1).into(),
            crate::PeerSet::of_ulid(peer.into()),
            Role::Responder,
        );
        let key = crate::Key::of(UlidPair::new(ulids().local, peer.into()));
        let local_tag = ContextTag::from_bits(u64::from(n) + 1000);
        a.restore(ContextId(n), key, local_tag, state).expect("room");
    }
    a
}

#[test]
fn a_change_with_many_contexts_is_told_at_a_bounded_pace() {
    let count = UPDATE_BURST + 50;
    let mut a = with_contexts(count);
    a.set_send_timeout(Duration::from_secs(20), NOW);
    assert_eq!(sent(&mut a).len(), UPDATE_BURST as usize);
    a.handle_timeout(NOW + UPDATE_INTERVAL * 10);
    assert_eq!(sent(&mut a).len(), 10);
    a.ask(ContextId(count - 1), NOW);
    assert_eq!(sent(&mut a).len(), 1, "it does not wait for its turn");
    a.handle_timeout(NOW + UPDATE_INTERVAL * 50);
    assert_eq!(sent(&mut a).len(), 39);
}

#[test]
fn a_change_looks_at_one_slice_of_the_contexts_in_a_turn() {
    let mut a = with_contexts(UPDATE_BURST + 50);
    a.slice = 64;
    // The second change begins before the first one has reached all contexts.
    for seconds in [20, 30] {
        a.set_send_timeout(Duration::from_secs(seconds), NOW);
        assert_eq!(sent(&mut a).len(), 64);
    }
    for expected in [22, 14] {
        assert_eq!(a.poll_timeout(), Some(NOW));
        a.handle_timeout(NOW);
        assert_eq!(sent(&mut a).len(), expected, "the last slice, and the rest of the burst");
    }
    a.handle_timeout(NOW + UPDATE_INTERVAL * 50);
    assert_eq!(sent(&mut a).len(), 50);
}

#[test]
fn changes_that_come_faster_than_a_walk_ends_are_told_to_all_peers() {
    let mut a = with_contexts(60);
    a.slice = 20;
    let mut told = alloc::collections::BTreeSet::new();
    for seconds in [20, 30, 40] {
        a.set_send_timeout(Duration::from_secs(seconds), NOW);
        told.extend(sent(&mut a).into_iter().filter_map(|transmit| match transmit.via {
            Via::Current(id) => Some(id),
            Via::Pair(_) | Via::Reply(..) => None,
        }));
    }
    assert_eq!(told.len(), 60);
}
