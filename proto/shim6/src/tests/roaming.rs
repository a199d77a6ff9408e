//! A host that has lost all addresses that its peer knows.

use super::duo::{Duo, Flight};
use super::*;

/// Takes the first locator of side 0 away and gives it the second one of its set.
fn moved(duo: &mut Duo) -> Vec<Locator> {
    let set = hba_set(1, [1, 2]);
    let there = alloc::vec![set.locators()[1]];
    let addresses =
        LocalAddresses { present: there.clone(), sets: alloc::vec![set], cgas: Vec::new() };
    let proof = LocalProof::new(2, addresses, &[], [0; 32]);
    let now = duo.now;
    duo.machines[0].set_addresses(&proof, &there, now);
    there
}

/// A context of which side 1 knows the first locator of side 0 and no other.
fn with_one_locator() -> Duo {
    let mut duo = Duo::new();
    let set = hba_set(1, [1, 2]);
    let first = alloc::vec![set.locators()[0]];
    let addresses = LocalAddresses { present: first, sets: alloc::vec![set], cgas: Vec::new() };
    let now = duo.now;
    let proof = LocalProof::new(1, addresses, &[], [0; 32]);
    let mut fresh = Machine::new(Config::default(), [1; 32], now);
    fresh.set_addresses(&proof, &[locators(1)[0]], now);
    duo.machines[0] = fresh;
    duo.trigger(0);
    duo.settle();
    assert_eq!(duo.of_side(1).peer.locators[..], locators(1)[..1]);
    duo
}

/// The Update Request that tells of the second locator, as it comes from there.
fn from_there(duo: &mut Duo) -> Flight {
    moved(duo);
    duo.collect();
    let request = duo.under_way.pop_front().expect("an Update Request");
    assert!(matches!(request.message, Message::UpdateRequest(_)), "{request:?}");
    Flight { pair: LocatorPair::new(locators(1)[1], locators(2)[0]), ..request }
}

#[test]
fn an_update_from_a_locator_that_it_proves_is_taken_over_and_answered_there() {
    let mut duo = with_one_locator();
    let request = from_there(&mut duo);
    assert_eq!(duo.hand(&request), Ok(()));
    duo.collect();
    let ack = duo.under_way.pop_front().expect("an acknowledgement");
    assert!(matches!(ack.message, Message::UpdateAck(_)), "{ack:?}");
    assert_eq!(ack.pair, LocatorPair::new(locators(2)[0], locators(1)[1]));
    assert!(duo.of_side(1).peer.locators.contains(&locators(1)[1]));
    assert_eq!(duo.hand(&ack), Ok(()), "it comes where the peer was told that we are");
    assert!(duo.of_side(0).local_locators.contains(&locators(1)[1]));
}

//= rfc5533#10.4-2 rfc5533#10.4-3 (test)
#[test]
fn an_update_that_does_not_prove_where_it_comes_from_is_referred_to_r1bis() {
    let mut duo = with_one_locator();
    let request = from_there(&mut duo);
    let stranger = locators(3)[0];
    let elsewhere = LocatorPair { local: stranger, ..request.pair };
    let strange = Flight { pair: elsewhere, ..request.clone() };
    assert_eq!(duo.hand(&strange), Err(DropReason::WrongLocators), "not in its own list");
    let Message::UpdateRequest(told) = &request.message else { panic!("{request:?}") };
    let mut list = told.options.locator_list().expect("a list").clone();
    list.entries[0].locator = stranger;
    let options: Vec<_> = told
        .options
        .iter()
        .map(|option| {
            let is_list = matches!(option, Opt::LocatorList(_));
            if is_list { Opt::LocatorList(list.clone()) } else { option.clone() }
        })
        .collect();
    let lie = UpdateRequest { options: options.into(), ..told.clone() };
    let lie = Flight { message: Message::UpdateRequest(lie), ..strange };
    assert_eq!(duo.hand(&lie), Err(DropReason::Unverified), "in a list that it cannot prove");
    assert_eq!(duo.of_side(1).peer.locators[..], locators(1)[..1]);
    duo.collect();
    let kinds: Vec<_> = duo.under_way.iter().map(|flight| flight.message.kind()).collect();
    assert_eq!(kinds, [MessageType::R1BIS; 2]);
}

/// The request with other entries in its list.
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
    let request = from_there(&mut duo);
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
    let request = from_there(&mut duo);
    assert_eq!(duo.hand(&request), Ok(()));
    duo.collect();
    let ack = duo.under_way.pop_front().expect("an acknowledgement");
    // A longer list takes its place, with another nonce.
    let set = hba_set(1, [1, 2]);
    let both = set.locators().to_vec();
    let addresses =
        LocalAddresses { present: both.clone(), sets: alloc::vec![set], cgas: Vec::new() };
    let now = duo.now;
    duo.machines[0].set_addresses(&LocalProof::new(3, addresses, &[], [0; 32]), &both, now);
    let before = duo.of_side(0).local_locators.clone();
    assert_eq!(duo.hand(&ack), Err(DropReason::BadNonce));
    assert_eq!(duo.of_side(0).local_locators, before);
}

#[test]
fn what_comes_where_the_peer_was_told_that_we_are_stands_for_a_lost_acknowledgement() {
    let mut duo = with_one_locator();
    let request = from_there(&mut duo);
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
    assert!(duo.machines[0].addressed(&packet, back, now).is_ok());
    assert!(duo.of_side(0).local_locators.contains(&locators(1)[1]), "it knows");
    assert!(duo.of_side(0).update_tries() > 0, "and is told until it says so");
}

#[test]
fn while_the_peer_knows_no_locator_that_is_left_it_is_told_as_often_as_it_would_be_probed() {
    let mut duo = with_one_locator();
    from_there(&mut duo);
    let mut last = duo.now;
    let mut waits = Vec::new();
    for _ in 0..12 {
        duo.under_way.clear();
        duo.wake();
        waits.push(duo.now.since(last).as_millis());
        last = duo.now;
    }
    let expected = [500, 500, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000];
    assert_eq!(waits, expected);
    moved_back(&mut duo);
    duo.collect();
    assert_eq!(duo.under_way.len(), 1, "at once when there is an address again");
}

/// The only address goes and comes back.
fn moved_back(duo: &mut Duo) {
    let now = duo.now;
    let there = [locators(1)[1]];
    duo.machines[0].set_lost(&there);
    let proof = duo.machines[0].local.clone().expect("a proof");
    duo.under_way.clear();
    duo.machines[0].set_addresses(&proof, &there, now);
}
