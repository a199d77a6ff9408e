//! A host that has lost all addresses that its peer knows.

use super::duo::{Duo, Flight};
use super::*;

/// Tells a machine of side 0 that it has exactly these locators of its set.
fn have(machine: &mut Machine, generation: u32, there: &[Locator], now: Instant) {
    let sets = alloc::vec![hba_set(1, [1, 2])];
    let addresses = LocalAddresses {
        present: there.to_vec(),
        sets,
        cgas: Vec::new(),
        ..LocalAddresses::default()
    };
    machine.set_addresses(&LocalProof::new(generation, addresses, &[], [0; 32]), there, now);
}

/// A machine of side 0 that has the first locator of its set.
fn at_first() -> Machine {
    let mut machine = Machine::new(Config::default(), [1; 32], NOW);
    have(&mut machine, 1, &locators(1)[..1], NOW);
    machine
}

/// A context in which side 1 knows only the first locator of side 0.
fn with_one_locator() -> Duo {
    let mut duo = Duo::of([at_first(), machine(2)]);
    duo.trigger(0);
    duo.settle();
    assert_eq!(duo.of_side(1).peer.locators[..], locators(1)[..1]);
    duo
}

/// The Update Request with these locators, sent from the second locator.
fn from_there(duo: &mut Duo, told: &[Locator]) -> Flight {
    let now = duo.now;
    have(&mut duo.machines[0], 2, told, now);
    duo.collect();
    let request = duo.under_way.pop_front().expect("an Update Request");
    assert!(matches!(request.message, Message::UpdateRequest(_)), "{request:?}");
    Flight { pair: LocatorPair::new(locators(1)[1], locators(2)[0]), ..request }
}

#[test]
fn an_update_from_a_locator_that_it_proves_is_taken_over_and_answered_there() {
    let mut duo = with_one_locator();
    let request = from_there(&mut duo, &locators(1));
    assert_eq!(duo.hand(&request), Ok(()));
    duo.collect();
    let ack = duo.under_way.pop_front().expect("an acknowledgement");
    assert!(matches!(ack.message, Message::UpdateAck(_)), "{ack:?}");
    assert_eq!(ack.pair, LocatorPair::new(locators(2)[0], locators(1)[1]));
    assert!(duo.of_side(1).peer.locators.contains(&locators(1)[1]));
    assert_eq!(duo.hand(&ack), Ok(()), "it comes where the peer was told that we are");
    assert!(duo.of_side(0).local_locators.contains(&locators(1)[1]));
}

#[test]
fn a_host_that_has_lost_all_that_the_peer_knows_proves_itself_before_the_peer_forgets_them() {
    let mut duo = with_one_locator();
    let request = from_there(&mut duo, &locators(1)[1..]);
    assert_eq!(duo.hand(&request), Err(DropReason::Disbelieved), "anybody can say so");
    assert_eq!(duo.of_side(1).peer.locators[..], locators(1)[..1]);
    duo.settle();
    assert_eq!(duo.of_side(1).peer.locators, [locators(1)[1], locators(1)[0]]);
    assert!(duo.of_side(1).peer.has_lost_ulid);
    assert_eq!(duo.of_side(0).update_tries(), 0);
    duo.check_established();
}

//= rfc5533#10.4-2 rfc5533#10.4-3 (test)
#[test]
fn an_update_that_does_not_prove_where_it_comes_from_is_referred_to_r1bis() {
    let mut duo = with_one_locator();
    let request = from_there(&mut duo, &locators(1));
    let stranger = locators(3)[0];
    let elsewhere = LocatorPair { local: stranger, ..request.pair };
    let strange = Flight { pair: elsewhere, ..request.clone() };
    assert_eq!(duo.hand(&strange), Err(DropReason::WrongLocators), "not in its own list");
    let lie = with_list(&strange, |list| list.entries[0].locator = stranger);
    assert_eq!(duo.hand(&lie), Err(DropReason::Unverified), "in a list that it cannot prove");
    assert_eq!(duo.of_side(1).peer.locators[..], locators(1)[..1]);
    duo.collect();
    let kinds: Vec<_> = duo.under_way.iter().map(|flight| flight.message.kind()).collect();
    assert_eq!(kinds, [MessageType::R1BIS; 2]);
}

/// The request with a changed list.
fn with_list(request: &Flight, change: impl FnOnce(&mut LocatorList)) -> Flight {
    let Message::UpdateRequest(told) = &request.message else { panic!("{request:?}") };
    let mut list = told.options.locator_list().expect("a list").clone();
    change(&mut list);
    let options = told.options.iter().map(|option| {
        let is_list = matches!(option, Opt::LocatorList(_));
        if is_list { Opt::LocatorList(list.clone()) } else { option.clone() }
    });
    let options: Vec<_> = options.collect();
    let message = Message::UpdateRequest(UpdateRequest { options: options.into(), ..told.clone() });
    Flight { message, ..request.clone() }
}

//= rfc5533#10.4-3 (test)
#[test]
fn an_update_from_a_strange_source_draws_r1bis_and_nothing_besides() {
    let mut duo = with_one_locator();
    let request = from_there(&mut duo, &locators(1));
    let unknown = with_list(&request, |list| {
        list.entries[0].method = VerificationMethod::new(200);
    });
    assert!(duo.hand(&unknown).is_err(), "a method that nobody knows");
    duo.collect();
    let kinds: Vec<_> = duo.under_way.iter().map(|flight| flight.message.kind()).collect();
    assert_eq!(kinds, [MessageType::R1BIS]);
}

#[test]
fn an_acknowledgement_of_an_update_before_the_last_one_says_nothing_of_the_last() {
    let mut duo = with_one_locator();
    let request = from_there(&mut duo, &locators(1));
    assert_eq!(duo.hand(&request), Ok(()));
    duo.collect();
    let ack = duo.under_way.pop_front().expect("an acknowledgement");
    // Another list with another nonce replaces the first.
    let now = duo.now;
    have(&mut duo.machines[0], 3, &locators(1)[1..], now);
    let before = duo.of_side(0).local_locators.clone();
    assert_eq!(duo.hand(&ack), Err(DropReason::BadNonce));
    assert_eq!(duo.of_side(0).local_locators, before);
}

#[test]
fn what_comes_where_the_peer_was_told_that_we_are_stands_for_a_lost_acknowledgement() {
    let mut duo = with_one_locator();
    let request = from_there(&mut duo, &locators(1));
    assert_eq!(duo.hand(&request), Ok(()));
    duo.collect();
    duo.under_way.clear();
    let before = duo.of_side(0).local_locators.clone();
    assert!(!before.contains(&locators(1)[1]), "not acknowledged");
    let ours = duo.of_side(1).peer_tag;
    let back = LocatorPair::new(locators(1)[1], locators(2)[0]);
    let probe = Message::Keepalive(moorline_wire::Keepalive {
        receiver_tag: ours,
        options: Options::default(),
    });
    let octets = probe.octets();
    let packet = Packet::parse(&octets, back.peer.0, back.local.0).expect("a message");
    let now = duo.now;
    assert!(duo.machines[0].addressed(&came(&packet, back, now)).is_ok());
    assert!(duo.of_side(0).local_locators.contains(&locators(1)[1]), "it knows");
    assert!(duo.of_side(0).update_tries() > 0, "and is told until it says so");
}

/// Wakes the machines `count` times while all their messages are lost. Gives the time before each.
fn waits(duo: &mut Duo, count: usize) -> Vec<Duration> {
    let mut wait = || {
        let last = duo.now;
        duo.wake();
        duo.under_way.clear();
        duo.now.since(last)
    };
    (0..count).map(|_| wait()).collect()
}

//= rfc5533#10.2 (test)
#[test]
fn while_the_peer_knows_no_locator_that_is_left_it_is_told_as_often_as_it_would_be_probed() {
    let mut duo = with_one_locator();
    from_there(&mut duo, &locators(1)[1..]);
    let waits = waits(&mut duo, 12);
    let nominal = [500, 500, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000];
    let nominal = nominal.map(Duration::from_millis);
    for (wait, nominal) in waits.iter().zip(nominal) {
        assert!((nominal / 2..=nominal * 3 / 2).contains(wait), "{wait:?} for {nominal:?}");
    }
    assert!(waits.iter().zip(nominal).all(|(wait, nominal)| *wait != nominal), "at random");
    let now = duo.now;
    duo.machines[0].set_lost(&locators(1)[1..], now);
    duo.collect();
    duo.under_way.clear();
    have(&mut duo.machines[0], 2, &locators(1)[1..], now);
    duo.collect();
    assert_eq!(duo.under_way.len(), 1, "at once when there is an address again");
}

/// An Update Request for a second locator has been without acknowledgement for minutes, so it goes out every two
/// minutes. Then the only locator that the peer knows goes.
#[test]
fn an_update_goes_out_at_once_when_the_last_locator_goes_that_the_peer_knows() {
    for keeps_proof in [true, false] {
        let mut duo = with_one_locator();
        let now = duo.now;
        have(&mut duo.machines[0], 2, &locators(1), now);
        assert!(waits(&mut duo, 8).last() > Some(&Duration::from_secs(60)));
        let now = duo.now;
        if keeps_proof {
            let proof = duo.machines[0].local.clone().expect("a proof");
            duo.machines[0].set_addresses(&proof, &locators(1)[1..], now);
        } else {
            duo.machines[0].set_lost(&locators(1)[..1], now);
        }
        duo.collect();
        assert_eq!(duo.kinds().last(), Some(&MessageType::UPDATE_REQUEST));
        duo.machines[0].set_lost(&locators(1)[..1], now);
        duo.collect();
        assert_eq!(duo.under_way.len(), 1, "at once, and once");
        assert!(waits(&mut duo, 3).iter().all(|wait| *wait <= Duration::from_millis(750)));
    }
}

#[test]
fn the_number_of_tries_goes_on_growing() {
    let mut duo = with_one_locator();
    from_there(&mut duo, &locators(1)[1..]);
    waits(&mut duo, 600);
    assert_eq!(duo.of_side(0).update_tries(), 601);
}

/// `count` handshakes of side 0 by its first locator, without answers.
fn handshakes(count: u16) -> Machine {
    let mut machine = at_first();
    for n in 0..count {
        let peer = Ipv6Addr::new(0x2001, 0xdb8, 9, n, 0, 0, 0, 1).into();
        machine.handle_trigger(UlidPair::new(ulids().local, peer), NOW).expect("room");
    }
    sent(&mut machine);
    machine
}

#[test]
fn handshakes_go_on_from_another_locator_at_a_pace() {
    let mut machine = handshakes(300);
    have(&mut machine, 2, &locators(1)[1..], NOW);
    let at_once = sent(&mut machine);
    assert_eq!(at_once.len(), 100);
    let mut all = at_once;
    let mut now = NOW;
    while all.len() < 300 {
        now = machine.poll_timeout().expect("a timer");
        machine.handle_timeout(now);
        let some = sent(&mut machine);
        assert!(some.len() <= 1, "{}", some.len());
        all.extend(some);
    }
    assert_eq!(now, NOW + Duration::from_millis(200));
    assert!(all.iter().all(|i1| way(i1).local == locators(1)[1]));
    let nonces: alloc::collections::BTreeSet<_> = all
        .iter()
        .map(|i1| {
            let Message::I1(i1) = &i1.message else { panic!("{i1:?}") };
            i1.initiator_tag
        })
        .collect();
    assert_eq!(nonces.len(), 300, "each of them once");
}

/// Changes the locator of side 0 every second, and gives the time after which its handshake fails. `r1s`: whether the
/// peer answers I1.
fn fails_after(mut duo: Duo, r1s: bool) -> Duration {
    duo.trigger(0);
    let mut generation = 1;
    while events(&mut duo.machines[0]).iter().all(|event| !matches!(event, Event::Failed { .. })) {
        while let Some(flight) = duo.under_way.pop_front() {
            let is_first = matches!(flight.message, Message::I1(_) | Message::R1(_));
            if r1s && is_first {
                duo.hand(&flight).expect("taken");
            }
        }
        assert!(duo.now.since(NOW) < Duration::from_secs(1800), "it lasts for ever");
        duo.pass(Duration::from_secs(1));
        generation += 1;
        let there = usize::try_from(generation % 2).expect("small");
        let now = duo.now;
        have(&mut duo.machines[0], generation, &locators(1)[there..=there], now);
        duo.collect();
    }
    duo.now.since(NOW)
}

#[test]
fn a_locator_that_comes_and_goes_makes_no_handshake_last_for_ever() {
    let longest = |nominal: u64| Duration::from_secs(nominal * 3 / 2 + 1);
    let duo = || Duo::of([at_first(), machine(2)]);
    assert!(fails_after(duo(), false) <= longest(4 + 8 + 16 + 32 + 64));
    assert!(fails_after(duo(), true) <= longest(5 * (4 + 8 + 16) + 4 + 8 + 16 + 32 + 64));
}
