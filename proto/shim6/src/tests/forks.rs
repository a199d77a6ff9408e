//! Several contexts between two ULIDs, and contexts by locators other than the ULIDs.

use super::duo::{Duo, Flight};
use super::*;
use crate::Key;

/// The options of a message that name its context.
fn names(message: &Message) -> impl Iterator<Item = &Opt> {
    let is_name = |o: &&Opt| matches!(o, Opt::UlidPair { .. } | Opt::ForkedInstance(_));
    message.options().into_iter().flat_map(Options::iter).filter(is_name)
}

fn other_pair() -> LocatorPair {
    LocatorPair::new(locators(1)[1], locators(2)[0])
}

/// Side 0 can send from its second locator alone.
fn with_broken_ulid() -> Duo {
    let mut duo = Duo::new();
    duo.machines[0].set_addresses(&local(1), &[locators(1)[1]], NOW);
    duo.trigger(0);
    duo
}

#[test]
fn a_fork_is_a_context_of_its_own() {
    //= rfc5533#5.4-4 rfc5533#5.6-7 rfc5533#7.7-3 rfc5533#7.11-5 (test)
    let mut duo = Duo::established();
    duo.log.clear();
    let ulids = duo.ulids;
    let id = duo.machines[0].fork(ulids, duo.now).expect("room");
    duo.settle();
    let fork = duo.machines[0].context(id).expect("there").clone();
    assert_ne!(fork.key.forked_instance, 0);
    assert_eq!(fork.key.ulids, ulids);
    for flight in &duo.log {
        let expected = Some(Opt::ForkedInstance(fork.key.forked_instance))
            .filter(|_| matches!(flight.message, Message::I1(_) | Message::I2(_)));
        assert!(names(&flight.message).eq(&expected), "{flight:?}");
    }
    assert_eq!(duo.refused, []);
    for machine in &duo.machines {
        assert_eq!(machine.contexts().count(), 2);
    }
    let theirs = duo.machines[1].contexts().find(|c| c.key.forked_instance != 0).expect("fork");
    assert_eq!(theirs.key.forked_instance, fork.key.forked_instance);
    assert_eq!(theirs.local_tag, fork.established().expect("established").peer_tag);
    let first = duo.machines[1].contexts().find(|c| c.key == Key::of(c.key.ulids)).expect("first");
    assert_ne!(first.local_tag, theirs.local_tag);
}

#[test]
fn a_fork_that_fails_holds_nothing_against_the_peer() {
    let mut duo = Duo::new();
    let ulids = duo.ulids;
    duo.machines[0].fork(ulids, duo.now).expect("room");
    while duo.machines[0].contexts().next().is_some() {
        duo.under_way.clear();
        duo.collect();
        duo.wake();
    }
    assert_eq!(duo.machines[0].negatives().count(), 0);
}

#[test]
fn a_lost_fork_comes_back_as_the_same_fork() {
    //= rfc5533#7.18-3 (test)
    let mut duo = Duo::new();
    let ulids = duo.ulids;
    duo.machines[0].fork(ulids, duo.now).expect("room");
    duo.settle();
    let key = duo.context(0).key;
    duo.lose(1);
    duo.stray_payload(0, ulids.as_locators());
    duo.settle();
    duo.check_established();
    assert_eq!(duo.context(1).key.forked_instance, key.forked_instance);
}

#[test]
fn where_the_ulid_cannot_be_sent_from_an_option_names_it() {
    //= rfc5533#5.4-3 rfc5533#5.6-6 rfc5533#5.15.6-1 rfc5533#5.15.6-2 (test)
    //= rfc5533#7.7-1 rfc5533#7.7-2 rfc5533#7.11-3 rfc5533#7.11-4 (test)
    let mut duo = with_broken_ulid();
    duo.settle();
    duo.check_established();
    assert_eq!(duo.refused, []);
    for flight in &duo.log {
        assert!(flight.pair == other_pair() || flight.pair == turned(other_pair()), "{flight:?}");
        let expected = Some(Opt::UlidPair { sender: ulids().local, receiver: ulids().peer })
            .filter(|_| matches!(flight.message, Message::I1(_) | Message::I2(_)));
        assert!(names(&flight.message).eq(&expected), "{flight:?}");
    }
    let [here, there] = [0, 1].map(|side: usize| events(&mut duo.machines[side]));
    let by = |pair| move |event: &Event| matches!(event, Event::Established { locators, .. } if *locators == pair);
    assert!(here.iter().any(by(other_pair())) && there.iter().any(by(turned(other_pair()))));
}

#[test]
fn between_the_ulids_no_option_names_them() {
    let mut duo = Duo::established();
    duo.lose(0);
    duo.trigger(0);
    duo.settle();
    assert!(duo.log.iter().all(|flight| names(&flight.message).next().is_none()));
}

#[test]
fn an_i1_is_sent_again_from_where_it_can() {
    let mut duo = Duo::new();
    duo.trigger(0);
    duo.under_way.clear();
    duo.machines[0].set_addresses(&local(1), &[locators(1)[1]], NOW);
    duo.wake();
    assert_eq!(duo.under_way[0].pair, other_pair());
    duo.settle();
    duo.check_established();
}

#[test]
fn ulids_that_are_not_ours_or_no_addresses_are_refused() {
    let mut duo = with_broken_ulid();
    let Flight { from, pair, message } = duo.under_way[0].clone();
    let Message::I1(i1) = message else { panic!("{message:?}") };
    let stranger = locators(3)[0].as_ulid();
    let link_local = Ulid(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
    for (sender, receiver, reason) in [
        (ulids().local, stranger, DropReason::NotOurs),
        (link_local, ulids().peer, DropReason::BadAddress),
    ] {
        let options = Options::from(alloc::vec![Opt::UlidPair { sender, receiver }]);
        let lie = Flight { from, pair, message: Message::I1(I1 { options, ..i1.clone() }) };
        assert_eq!(duo.hand(&lie), Err(reason));
    }
    assert_eq!(duo.machines[1].contexts().count(), 0);
}

#[test]
fn an_i2_for_a_ulid_needs_a_locator_that_the_ulid_proves() {
    //= rfc5533#7.13 (test)
    let mut duo = with_broken_ulid();
    duo.step();
    duo.step();
    let Flight { from, pair, message } = duo.under_way.pop_front().expect("I2");
    let Message::I2(i2) = message else { panic!("{message:?}") };
    let bare = i2.options.iter().filter(|o| !matches!(o, Opt::LocatorList(_) | Opt::Pds(_)));
    let options = Options::from(bare.cloned().collect::<Vec<_>>());
    let bare = Flight { from, pair, message: Message::I2(I2 { options, ..i2.clone() }) };
    assert_eq!(duo.hand(&bare), Err(DropReason::WrongLocators));
    let stranger = Opt::UlidPair { sender: locators(3)[0].as_ulid(), receiver: ulids().peer };
    let named = i2
        .options
        .iter()
        .map(|o| if matches!(o, Opt::UlidPair { .. }) { stranger.clone() } else { o.clone() });
    let options = Options::from(named.collect::<Vec<_>>());
    let lie = Flight { from, pair, message: Message::I2(I2 { options, ..i2 }) };
    assert_eq!(duo.hand(&lie), Err(DropReason::BadValidator), "the validator binds the ULIDs");
    assert_eq!(duo.machines[1].contexts().count(), 0);
}

#[test]
fn an_i1_from_a_strange_locator_gets_no_tag() {
    //= rfc5533#7.9 (test)
    let mut duo = Duo::established();
    let initiator_tag = duo.context(0).local_tag;
    let strange = LocatorPair::new(locators(3)[0], locators(2)[0]);
    for (pair, kind) in [(other_pair(), MessageType::R2), (strange, MessageType::R1)] {
        let names = Opt::UlidPair { sender: ulids().local, receiver: ulids().peer };
        let options = Options::from(alloc::vec![names]);
        let i1 = Message::I1(I1 { initiator_tag, initiator_nonce: 9, options });
        duo.under_way.clear();
        duo.hand(&Flight { from: 0, pair, message: i1 }).expect("answered");
        assert_eq!(duo.under_way[0].message.kind(), kind);
        assert_eq!(duo.under_way[0].pair, turned(pair));
    }
}
