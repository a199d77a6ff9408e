//! What names a context: tags, the ULID-pair option, the Forked Instance Identifier.

use alloc::collections::BTreeSet;

use super::duo::{Duo, Flight};
use super::*;

/// ULID pair and Forked Instance Identifier that a message names.
fn names(message: &Message) -> (Option<(Ulid, Ulid)>, Option<u32>) {
    let options = message.options().expect("options");
    (options.ulid_pair(), options.forked_instance())
}

//= rfc5533#5.4-3 rfc5533#5.6-6 rfc5533#5.15.6-1 rfc5533#5.15.6-2 rfc5533#7.7-1 rfc5533#7.7-2 (test)
//= rfc5533#7.11-3 rfc5533#7.11-4 (test)
#[test]
fn i1_and_i2_name_the_ulids_where_the_addresses_do_not() {
    let other = LocatorPair::new(locators(1)[1], locators(2)[0]);
    let option = Some((ulids().local, ulids().peer));
    for (usable, pair, named) in
        [(locators(1), ulids().as_locators(), None), (locators(1)[1..].to_vec(), other, option)]
    {
        let mut duo = Duo::new();
        duo.machines[0].set_usable(&usable);
        duo.trigger(0);
        duo.settle();
        assert_eq!(duo.refused, []);
        let kinds = [MessageType::I1, MessageType::R1, MessageType::I2, MessageType::R2];
        assert_eq!(duo.kinds(), kinds);
        for flight in [&duo.log[0], &duo.log[2]] {
            assert_eq!(flight.pair, pair);
            assert_eq!(names(&flight.message), (named, None));
        }
        duo.check_established();
        assert_eq!(duo.context(1).key.ulids, duo.ulids_of(1));
    }
}

//= rfc5533#5.4-4 rfc5533#5.6-7 rfc5533#7.7-3 rfc5533#7.11-5 rfc5533#4.2 (test)
#[test]
fn a_fork_is_named_in_i1_and_i2_and_is_another_context() {
    let mut duo = Duo::established();
    duo.log.clear();
    let fork = duo.machines[0].fork(ulids(), duo.now).expect("a fork");
    duo.settle();
    let key = duo.machines[0].context(fork).expect("made").key;
    assert_ne!(key.forked_instance, 0);
    for flight in [&duo.log[0], &duo.log[2]] {
        assert_eq!(names(&flight.message), (None, Some(key.forked_instance)));
    }
    let tags: BTreeSet<_> = duo.machines[1].contexts().map(|context| context.local_tag).collect();
    assert_eq!(tags.len(), 2);
    let keys: Vec<_> = duo.machines[1].contexts().map(|context| context.key).collect();
    assert_eq!(keys.iter().map(|key| key.ulids).collect::<Vec<_>>(), [duo.ulids_of(1); 2]);
    assert_eq!(keys[1].forked_instance, key.forked_instance);
    assert_eq!(duo.refused, []);
}

//= rfc5533#7.18-3 (test)
#[test]
fn an_i2bis_names_the_fork_that_was_lost() {
    let mut duo = Duo::established();
    let fork = duo.machines[0].fork(ulids(), duo.now).expect("a fork");
    duo.settle();
    let context = duo.machines[0].context(fork).expect("made").clone();
    let tag = context.established().expect("established").peer_tag;
    duo.lose(1);
    duo.log.clear();
    let pair = turned(ulids().as_locators());
    let lost = duo.machines[1].handle_payload(tag, pair, duo.now);
    assert_eq!(lost, Err(DropReason::UnknownTag));
    duo.settle();
    assert_eq!(duo.kinds(), [MessageType::R1BIS, MessageType::I2BIS, MessageType::R2]);
    assert_eq!(names(&duo.log[1].message), (None, Some(context.key.forked_instance)));
    assert_eq!(duo.context(1).key.forked_instance, context.key.forked_instance);
}

//= rfc5533#7.1-1 rfc5533#7.1-2 rfc5533#7.1-3 (test)
#[test]
fn tags_are_all_different_and_every_bit_of_them_is_random() {
    let mut machine = machine(1);
    let peer = |n: u16| Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, n).into();
    for n in 1..=1000 {
        machine.handle_trigger(UlidPair::new(ulids().local, peer(n)), NOW).expect("room");
    }
    let tags: BTreeSet<_> = machine.contexts().map(|context| context.local_tag.bits()).collect();
    assert_eq!(tags.len(), 1000);
    for bit in 0..ContextTag::BITS {
        let set = tags.iter().filter(|tag| *tag >> bit & 1 == 1).count();
        assert!((400..=600).contains(&set), "bit {bit}: {set} of 1000");
    }
    // And not in the order in which they were given.
    let given: Vec<_> = machine.contexts().map(|context| context.local_tag.bits()).collect();
    let rising = given.windows(2).filter(|two| two[0] < two[1]).count();
    assert!((400..=600).contains(&rising), "{rising}");
}

//= rfc5533#7.20-4 (test)
#[test]
fn a_context_that_comes_back_has_a_tag_of_its_own_again() {
    let mut duo = Duo::established();
    let old = duo.context(1).local_tag;
    duo.lose(1);
    assert_eq!(duo.stray_payload(0, ulids().as_locators()), DropReason::UnknownTag);
    duo.settle();
    duo.check_established();
    assert_ne!(duo.context(1).local_tag, old);
}

//= rfc5533#7.11-2 (test)
#[test]
fn an_r1_that_comes_after_the_i2_is_dropped() {
    let options = Options::from(alloc::vec![Opt::Validator(alloc::vec![7; 16])]);
    let pair = turned(ulids().as_locators());
    let r1 = |nonce| {
        let r1 = R1 { initiator_nonce: nonce, responder_nonce: 1, options: options.clone() };
        Flight { from: 1, pair, message: Message::R1(r1) }
    };
    let mut duo = Duo::new();
    duo.trigger(0);
    while duo.context(0).state.name() != "i2-sent" {
        duo.step().expect("on the way");
    }
    let Message::I2(i2) = &duo.under_way[0].message else { panic!("{:?}", duo.under_way) };
    let late = r1(i2.initiator_nonce);
    assert_eq!(duo.hand(&late), Err(DropReason::UnexpectedState));
    duo.settle();
    duo.check_established();
    assert_eq!(duo.hand(&late), Err(DropReason::BadNonce));

    duo.lose(1);
    assert_eq!(duo.stray_payload(0, ulids().as_locators()), DropReason::UnknownTag);
    duo.step();
    assert_eq!(duo.context(0).state.name(), "i2bis-sent");
    let Message::I2bis(i2bis) = &duo.under_way[0].message else { panic!("{:?}", duo.under_way) };
    let late = r1(i2bis.initiator_nonce);
    assert_eq!(duo.hand(&late), Err(DropReason::UnexpectedState));
    duo.settle();
    duo.check_established();
}

//= rfc5533#7.20-6 (test)
#[test]
fn an_i2bis_is_answered_by_a_side_that_has_sent_an_i1_meanwhile() {
    let mut duo = Duo::established();
    duo.lose(1);
    assert_eq!(duo.stray_payload(0, ulids().as_locators()), DropReason::UnknownTag);
    duo.step();
    let i2bis = duo.under_way.pop_front().expect("I2bis");
    duo.trigger(1);
    duo.under_way.clear();
    assert_eq!(duo.context(1).state.name(), "i1-sent");
    duo.log.clear();
    duo.hand(&i2bis).expect("taken");
    assert_eq!(duo.kinds(), [MessageType::R2]);
    duo.settle();
    duo.check_established();
}
