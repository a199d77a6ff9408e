//! R1bis and I2bis: one end has lost the context (RFC 5533 s7.5, s7.17 to s7.20).

use super::duo::{Duo, Flight};
use super::*;
use crate::consts::EARLY_USE;
use crate::{ANSWER_BURST, I2_RETRIES_MAX};

/// A pair other than the ULIDs, as side 0 sees it.
fn other_pair() -> LocatorPair {
    LocatorPair::new(locators(1)[1], locators(2)[1])
}

/// Side 1 has lost the context and answers payload of side 0; the R1bis is under way.
fn until_r1bis(pair: LocatorPair) -> Duo {
    let mut duo = Duo::established();
    duo.log.clear();
    duo.lose(1);
    assert_eq!(duo.stray_payload(0, pair), DropReason::UnknownTag);
    assert_eq!(duo.kinds(), [MessageType::R1BIS]);
    assert_eq!(duo.machines[1].contexts().count(), 0, "no state");
    duo
}

//= rfc5533#12.2-1 rfc5533#7.17 rfc5533#7.18 rfc5533#7.20 rfc5533#7.20-8 (test)
#[test]
fn payload_without_a_context_brings_it_back() {
    //= rfc5533#7.5 (test)
    for pair in [ulids().as_locators(), other_pair()] {
        let mut duo = until_r1bis(pair);
        duo.settle();
        assert_eq!(duo.kinds(), [MessageType::R1BIS, MessageType::I2BIS, MessageType::R2]);
        duo.check_established();
        assert_eq!(duo.refused, []);
        assert!(duo.log.iter().all(|f| f.pair == pair || f.pair == turned(pair)), "one way");
        assert!(events(&mut duo.machines[0]).contains(&Event::Renewed { context: ContextId(0) }));
        let made = events(&mut duo.machines[1]);
        assert!(matches!(made[..], [Event::Established { role: Role::Responder, .. }]), "{made:?}");
    }
}

//= rfc5533#5.9-4 rfc5533#7.18-2 rfc5533#5.15.6-1 rfc5533#5.15.6-2 (test)
#[test]
fn an_i2bis_names_the_ulids_only_where_the_addresses_do_not() {
    let named = Opt::UlidPair { sender: ulids().local, receiver: ulids().peer };
    for (pair, expected) in [(ulids().as_locators(), None), (other_pair(), Some(named))] {
        let mut duo = until_r1bis(pair);
        duo.step();
        let Message::I2bis(i2bis) = &duo.under_way[0].message else {
            panic!("{:?}", duo.under_way)
        };
        let names = |o: &&Opt| matches!(o, Opt::UlidPair { .. } | Opt::ForkedInstance(_));
        assert!(i2bis.options.iter().filter(names).eq(&expected));
    }
}

//= rfc5533#7.17 (test)
#[test]
fn control_messages_without_a_context_bring_it_back_too() {
    let mut duo = Duo::established();
    duo.log.clear();
    duo.lose(1);
    let present = alloc::vec![locators(1)[0]];
    let sets = alloc::vec![hba_set(1, [1, 2])];
    let fewer = LocalAddresses { present, sets, cgas: Vec::new(), ..LocalAddresses::default() };
    duo.machines[0].set_local(&LocalProof::new(2, fewer, &[], [0; 32]), duo.now);
    // The I2bis already has the new list.
    duo.settle();
    let expected =
        [MessageType::UPDATE_REQUEST, MessageType::R1BIS, MessageType::I2BIS, MessageType::R2];
    assert_eq!(duo.kinds()[..4], expected);
    // The list goes out once more, because nothing has acknowledged it before.
    assert_eq!(duo.kinds()[4..], [MessageType::UPDATE_REQUEST, MessageType::UPDATE_ACK]);
    assert_eq!(duo.of_side(1).peer.locators, [locators(1)[0]]);
}

//= rfc5533#10.4-2 rfc5533#10.4-3 rfc5533#10.5-2 rfc5533#10.5-3 (test)
#[test]
fn messages_64_to_127_from_strange_locators_are_referred_to_r1bis() {
    //= rfc5533#10.4-1 rfc5533#10.4-2 (test)
    let mut duo = Duo::established();
    let receiver_tag = duo.context(1).local_tag;
    let strange = LocatorPair::new(locators(3)[0], locators(2)[0]);
    let long = Options::from(alloc::vec![Opt::Validator(alloc::vec![0; 16])]);
    // A message that is shorter than the R1bis draws nothing.
    for (options, expected) in [(long, &[MessageType::R1BIS][..]), (Options::default(), &[])] {
        let request = UpdateRequest { receiver_tag, request_nonce: 1, options: options.clone() };
        let ack = UpdateAck { receiver_tag, request_nonce: 1, options };
        for message in [Message::UpdateRequest(request), Message::UpdateAck(ack)] {
            duo.log.clear();
            duo.under_way.clear();
            let flight = Flight { from: 0, pair: strange, message };
            assert_eq!(duo.hand(&flight), Err(DropReason::WrongLocators));
            assert_eq!(duo.kinds(), expected);
            assert!(duo.under_way.iter().all(|r1bis| r1bis.pair == turned(strange)));
        }
    }
}

#[test]
fn payload_goes_on_while_an_i2bis_waits_for_its_answer() {
    let mut duo = until_r1bis(other_pair());
    let before = duo.of_side(0).clone();
    duo.step();
    assert_eq!(duo.context(0).state().as_str(), "i2bis-sent");
    assert_eq!(
        *duo.of_side(0),
        crate::Established { takes: crate::context::Takes::Unknown, ..before }
    );
}

#[test]
fn an_r1bis_must_match_tag_and_locators() {
    let mut duo = until_r1bis(other_pair());
    let Flight { from, pair, message } = duo.under_way.pop_front().expect("R1bis");
    let Message::R1bis(real) = message else { panic!("{message:?}") };
    let mut other_tag = real.clone();
    other_tag.packet_tag = ContextTag::from_bits(5);
    let wrong = Flight { from, pair, message: Message::R1bis(other_tag) };
    assert_eq!(duo.hand(&wrong), Err(DropReason::UnknownTag));
    let strange = LocatorPair::new(locators(3)[0], pair.peer);
    let wrong = Flight { from, pair: strange, message: Message::R1bis(real.clone()) };
    assert_eq!(duo.hand(&wrong), Err(DropReason::UnknownTag));
    let mut bare = real.clone();
    bare.options = Options::default();
    let wrong = Flight { from, pair, message: Message::R1bis(bare) };
    assert_eq!(duo.hand(&wrong), Err(DropReason::MissingOption));
    assert_eq!(duo.context(0).state().as_str(), "established");
    let again = Flight { from, pair, message: Message::R1bis(real) };
    duo.hand(&again).expect("the real one");
    assert_eq!(duo.hand(&again), Err(DropReason::Replayed), "repeated");
}

//= rfc5533#7.20-2 (test)
#[test]
fn an_i2bis_needs_the_validator_of_its_r1bis() {
    //= rfc5533#7.20 (test)
    let mut duo = until_r1bis(other_pair());
    duo.step();
    let Flight { from, pair, message } = duo.under_way.pop_front().expect("I2bis");
    let Message::I2bis(real) = message else { panic!("{message:?}") };
    let try_with = |duo: &mut Duo, pair, change: &dyn Fn(&mut moorline_wire::I2bis)| {
        let mut changed = real.clone();
        change(&mut changed);
        duo.hand(&Flight { from, pair, message: Message::I2bis(changed) })
    };
    let bad = Err(DropReason::BadValidator);
    assert_eq!(try_with(&mut duo, pair, &|m| m.packet_tag = ContextTag::from_bits(5)), bad);
    assert_eq!(try_with(&mut duo, ulids().as_locators(), &|_| ()), bad);
    let stale = Err(DropReason::StaleNonce);
    assert_eq!(try_with(&mut duo, pair, &|m| m.responder_nonce ^= 0x10), stale);
    let missing = Err(DropReason::MissingOption);
    assert_eq!(try_with(&mut duo, pair, &|m| m.options = Options::default()), missing);
    assert_eq!(duo.machines[1].contexts().count(), 0);
    try_with(&mut duo, pair, &|_| ()).expect("the real one");
    duo.pass(Duration::from_secs(61));
    assert_eq!(try_with(&mut duo, pair, &|_| ()), stale, "too old");
}

#[test]
fn an_i2bis_from_where_the_peer_has_no_locator_is_refused() {
    let mut duo = until_r1bis(other_pair());
    duo.step();
    let Flight { from, pair, message } = duo.under_way.pop_front().expect("I2bis");
    let Message::I2bis(mut i2bis) = message else { panic!("{message:?}") };
    let without = |option: &&Opt| !matches!(option, Opt::LocatorList(_) | Opt::Pds(_));
    let options: Vec<_> = i2bis.options.iter().filter(without).cloned().collect();
    i2bis.options = Options::from(options);
    let bare = Flight { from, pair, message: Message::I2bis(i2bis) };
    assert_eq!(duo.hand(&bare), Err(DropReason::WrongLocators));
    assert_eq!(duo.machines[1].contexts().count(), 0);
}

/// The validator of the first I2bis is from a past life of the peer.
#[test]
fn an_i2bis_that_brings_no_r2_takes_the_validator_of_a_later_r1bis() {
    let mut duo = until_r1bis(other_pair());
    duo.lose(1);
    duo.settle();
    assert_eq!(duo.refused, [DropReason::StaleNonce]);
    duo.pass(EARLY_USE / 2);
    duo.stray_payload(0, other_pair());
    duo.settle();
    assert_eq!(duo.refused[1..], [DropReason::Replayed], "the R2 may be on its way");
    duo.pass(EARLY_USE / 2);
    duo.stray_payload(0, other_pair());
    duo.step();
    duo.under_way.clear();
    duo.pass(EARLY_USE);
    duo.stray_payload(0, other_pair());
    duo.settle();
    assert_eq!(duo.refused[2..], [DropReason::Replayed], "once in each retransmission timeout");
    duo.wake();
    duo.settle();
    duo.check_established();
}

/// The round trip is longer than [`EARLY_USE`]: the peer sends another R1bis before it has the I2bis.
#[test]
fn an_r2_for_the_first_i2bis_counts_after_an_r1bis_by_another_pair() {
    let mut duo = until_r1bis(other_pair());
    duo.step();
    let first = duo.under_way.pop_front().expect("an I2bis");
    assert_eq!(first.message.kind(), MessageType::I2BIS);
    duo.pass(EARLY_USE);
    duo.stray_payload(0, ulids().as_locators());
    duo.step();
    assert_eq!(duo.under_way[0].pair, ulids().as_locators(), "an I2bis by the other pair");
    duo.under_way.clear();
    duo.hand(&first).expect("the peer takes the first");
    duo.collect();
    assert_eq!(duo.under_way[0].pair, turned(other_pair()), "its R2 by the pair of before");
    duo.settle();
    assert_eq!(duo.refused, []);
    duo.check_established();
}

/// The pair of the first R1bis fails. A message from before the loss, or from a peer that has made the context again,
/// hastens the I2bis.
#[test]
fn an_i2bis_that_use_has_hastened_leaves_by_the_pair_of_a_later_r1bis() {
    let mut duo = until_r1bis(other_pair());
    duo.step();
    for _ in 0..2 {
        let tag = duo.context(0).local_tag;
        let lost = duo.machines[0].handle_payload(payload(tag, other_pair()), duo.now);
        assert_eq!(lost, Err(DropReason::NotEstablished));
        duo.collect();
    }
    assert_eq!(duo.kinds()[1..], [MessageType::I2BIS; 2]);
    duo.under_way.clear();
    duo.pass(EARLY_USE);
    duo.stray_payload(0, ulids().as_locators());
    duo.settle();
    assert_eq!(duo.kinds()[3..], [MessageType::R1BIS, MessageType::I2BIS, MessageType::R2]);
    duo.check_established();
}

//= rfc5533#7.19-2 (test)
#[test]
fn i2bis_falls_back_to_i1_on_the_pair_that_works() {
    //= rfc5533#7.19 (test)
    let mut duo = until_r1bis(other_pair());
    duo.step();
    events(&mut duo.machines[0]);
    for _ in 0..I2_RETRIES_MAX {
        duo.under_way.clear();
        duo.wake();
        assert_eq!(duo.under_way[0].message.kind(), MessageType::I2BIS);
    }
    duo.under_way.clear();
    duo.log.clear();
    duo.wake();
    assert_eq!(events(&mut duo.machines[0]), [Event::Lapsed { context: ContextId(0) }]);
    assert_eq!(duo.context(0).state().as_str(), "i1-sent");
    duo.settle();
    let expected = [MessageType::I1, MessageType::R1, MessageType::I2, MessageType::R2];
    assert_eq!(duo.kinds(), expected);
    assert!(duo.log.iter().step_by(2).all(|flight| flight.pair == other_pair()));
    duo.check_established();
}

#[test]
fn a_made_up_r1bis_costs_a_round_trip_and_nothing_else() {
    let mut duo = Duo::established();
    let packet_tag = duo.of_side(0).peer_tag;
    let options = Options::from(alloc::vec![Opt::Validator(alloc::vec![0; 16])]);
    let forged = Message::R1bis(moorline_wire::R1bis { packet_tag, responder_nonce: 0, options });
    let pair = turned(ulids().as_locators());
    duo.hand(&Flight { from: 1, pair, message: forged }).expect("looks like one");
    for _ in 0..=I2_RETRIES_MAX {
        duo.settle();
        duo.wake();
    }
    duo.settle();
    assert!(
        duo.refused.iter().all(|reason| *reason == DropReason::StaleNonce),
        "{:?}",
        duo.refused
    );
    duo.check_established();
}

#[test]
fn r1bis_are_limited_by_source_prefix() {
    let mut b = machine(2);
    let from = |n: u16| {
        let peer = Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 1).into();
        LocatorPair::new(locators(2)[0], peer)
    };
    for n in 0..ANSWER_BURST {
        let tag = ContextTag::from_bits(u64::from(n));
        assert_eq!(b.handle_payload(payload(tag, from(9)), NOW), Err(DropReason::UnknownTag));
    }
    let tag = ContextTag::from_bits(7);
    assert_eq!(b.handle_payload(payload(tag, from(9)), NOW), Err(DropReason::RateLimited));
    assert_eq!(b.handle_payload(payload(tag, from(8)), NOW), Err(DropReason::UnknownTag));
    assert_eq!(sent(&mut b).len(), ANSWER_BURST as usize + 1);
}

#[test]
fn an_r1bis_is_no_longer_than_what_it_answers() {
    let duo = until_r1bis(other_pair());
    assert_eq!(duo.under_way[0].message.octets().len(), R1BIS_LEN);
    let (mut b, tag) = (machine(2), ContextTag::from_bits(7));
    for len in 8..2 * R1BIS_LEN {
        let used = Used { len, ..payload(tag, turned(ulids().as_locators())) };
        assert_eq!(b.handle_payload(used, NOW), Err(DropReason::UnknownTag));
        let longest = sent(&mut b).iter().map(|one| one.message.octets().len()).max();
        assert_eq!(longest, (len >= R1BIS_LEN).then_some(R1BIS_LEN), "{len}");
    }
}

#[test]
fn payload_hastens_an_i2_or_i2bis_once_between_two_of_its_timers() {
    let (mut a, _, _) = until_r2();
    let tag = a.contexts().next().expect("a").local_tag;
    let locators = ulids().as_locators();
    let storm = |a: &mut Machine, now| {
        for _ in 0..100 {
            assert_eq!(
                a.handle_payload(payload(tag, locators), now),
                Err(DropReason::NotEstablished)
            );
        }
        sent(a).len()
    };
    assert_eq!(storm(&mut a, NOW), 1);
    let wake = a.poll_timeout().expect("armed");
    a.handle_timeout(wake);
    assert_eq!(sent(&mut a).len(), 1, "by its timer");
    assert_eq!(storm(&mut a, wake), 1);

    let mut duo = until_r1bis(other_pair());
    duo.step();
    let tag = duo.context(0).local_tag;
    duo.log.clear();
    for _ in 0..100 {
        let lost = duo.machines[0].handle_payload(payload(tag, other_pair()), duo.now);
        assert_eq!(lost, Err(DropReason::NotEstablished));
    }
    duo.collect();
    assert_eq!(duo.kinds(), [MessageType::I2BIS]);
}

/// The pair of the handshake fails. One end is ESTABLISHED, and the other waits for an R2 to its I1 or I2.
#[test]
fn a_peer_that_uses_the_context_while_its_r2_is_late_is_referred_to_r1bis() {
    for waits_for_i2 in [false, true] {
        let mut duo = Duo::new();
        duo.trigger(1);
        if waits_for_i2 {
            (0..3).for_each(|_| assert!(duo.step().is_some(), "I1, R1, I2"));
        } else {
            duo.under_way.clear();
            duo.trigger(0);
            (0..2).for_each(|_| assert!(duo.step().is_some(), "I1, R2"));
        }
        assert_eq!(duo.stray_payload(0, other_pair()), DropReason::NotEstablished);
        duo.under_way.clear();
        duo.pass(EARLY_USE);
        duo.log.clear();
        assert_eq!(duo.stray_payload(0, other_pair()), DropReason::NotEstablished);
        duo.settle();
        assert_eq!(duo.kinds(), [MessageType::R1BIS, MessageType::I2BIS, MessageType::R2]);
        assert!(duo.log.iter().all(|f| [f.pair, turned(f.pair)].contains(&other_pair())));
        duo.check_established();
    }
}

/// Side 0 tells a list of this generation with these locators. The Update Request is under way.
fn tell_list(duo: &mut Duo, generation: u32, present: &[Locator]) {
    let sets = alloc::vec![hba_set(1, [1, 2])];
    let addresses = LocalAddresses {
        present: present.to_vec(),
        sets,
        cgas: Vec::new(),
        ..LocalAddresses::default()
    };
    let now = duo.now;
    duo.machines[0].set_local(&LocalProof::new(generation, addresses, &[], [0; 32]), now);
    duo.collect();
}

#[test]
fn parameters_that_were_forgotten_are_had_anew_by_r1bis() {
    let mut duo = Duo::established();
    let ulid = duo.ulids.local;
    duo.machines[1].parameters.forget(ulid).expect("they were told");
    tell_list(&mut duo, 2, &locators(1)[..1]);
    // A peer that has sent its parameters in the handshake need not repeat them.
    let mut flight = duo.under_way.pop_front().expect("an Update Request");
    let Message::UpdateRequest(request) = &mut flight.message else { panic!("{flight:?}") };
    let without = |option: &&Opt| !matches!(option, Opt::Pds(_));
    let options: Vec<_> = request.options.iter().filter(without).cloned().collect();
    request.options = Options::from(options);
    duo.log.clear();
    assert_eq!(duo.hand(&flight), Err(DropReason::MissingOption));
    assert_eq!(duo.kinds(), [MessageType::R1BIS]);
    duo.settle();
    assert_eq!(duo.kinds()[1..3], [MessageType::I2BIS, MessageType::R2]);
    duo.check_established();
    assert_eq!(duo.of_side(1).peer.generation, Some(2));
    assert_eq!(duo.hand(&flight), Ok(()), "and an update without them is taken again");
}

/// An Update Request of an attacker who knows the tag of side 1 and the parameters of side 0. Its list needs no
/// signature.
fn forged_list(duo: &Duo, generation: u32, entries: Vec<LocatorEntry>) -> Flight {
    let list = LocatorList { generation, entries };
    let pds = hba_set(1, [1, 2]).pds().to_vec();
    let request = UpdateRequest {
        receiver_tag: duo.context(1).local_tag,
        request_nonce: 77,
        options: Options::from(alloc::vec![Opt::LocatorList(list), Opt::Pds(pds)]),
    };
    let pair = ulids().as_locators();
    Flight { from: 0, pair, message: Message::UpdateRequest(request) }
}

/// Entries of an HBA list for these locators of side 0.
fn entries(locators: &[Locator]) -> Vec<LocatorEntry> {
    let method = VerificationMethod::HBA;
    locators.iter().map(|locator| LocatorEntry { locator: *locator, method }).collect()
}

#[test]
fn a_forged_list_takes_no_locators_away() {
    let there = locators(1);
    for told in [&there[..0], &there[..1], &there[1..]] {
        for generation in [2, 1 + (u32::MAX >> 1)] {
            let mut duo = Duo::established();
            let before = duo.of_side(1).peer.clone();
            let forged = forged_list(&duo, generation, entries(told));
            duo.log.clear();
            assert_eq!(duo.hand(&forged), Err(DropReason::Disbelieved), "{told:?}");
            assert_eq!(duo.kinds(), [MessageType::R1BIS], "no acknowledgement");
            assert_eq!(duo.of_side(1).peer, before);
            duo.settle();
            assert_eq!(duo.of_side(1).peer, before, "as the peer says itself");
            duo.check_established();
        }
    }
}

#[test]
fn a_host_that_has_fewer_locators_says_so_once_more_when_asked() {
    let mut duo = Duo::established();
    let [ulid, other] = locators(1)[..] else { panic!("two") };
    tell_list(&mut duo, 2, &[other]);
    duo.log.clear();
    duo.settle();
    assert_eq!(duo.refused, [DropReason::Disbelieved]);
    assert_eq!(duo.kinds()[..3], [MessageType::R1BIS, MessageType::I2BIS, MessageType::R2]);
    assert_eq!(duo.of_side(1).peer.locators, [other, ulid]);
    assert_eq!(duo.of_side(1).peer.generation, Some(2));
    assert_eq!(duo.of_side(0).update_tries(), 0);
    duo.check_established();
}

#[test]
fn a_forged_list_does_not_outlive_the_next_real_one() {
    let known = 1u32;
    for generation in [known + 1, known + (u32::MAX >> 1)] {
        let mut duo = Duo::established();
        assert_eq!(duo.of_side(1).peer.generation, Some(known));
        let forged = forged_list(&duo, generation, entries(&locators(1)));
        duo.hand(&forged).expect("somebody knows the tag, and takes nothing away");
        duo.under_way.clear();
        let [ulid, other] = locators(1)[..] else { panic!("two") };
        tell_list(&mut duo, known + 1, &[other]);
        duo.settle();
        assert_eq!(duo.refused, [DropReason::Replayed], "{generation}");
        assert_eq!(duo.of_side(1).peer.locators, [other, ulid]);
        assert_eq!(duo.of_side(1).peer.generation, Some(known + 1));
        duo.check_established();
    }
}

/// A peer has lost its contexts and asks for a new one. Before its answer is there, the other end asks for the old
/// context by another pair, by which packets of the peer may get lost.
#[test]
fn a_context_begins_by_the_pair_that_has_answered_and_not_by_that_of_an_i2bis() {
    let mut duo = Duo::established();
    duo.lose(1);
    duo.trigger(1);
    while !matches!(duo.kinds().last(), Some(&MessageType::I2)) {
        duo.step().expect("I1, R1");
    }
    duo.under_way.clear();
    let elsewhere = LocatorPair::new(locators(1)[1], locators(2)[0]);
    duo.stray_payload(0, elsewhere);
    events(&mut duo.machines[1]);
    let r1bis = duo.under_way.pop_front().expect("an R1bis");
    duo.hand(&r1bis).expect("the context is used");
    let i2bis = duo.under_way.pop_front().expect("an I2bis");
    assert_eq!((i2bis.message.kind(), i2bis.pair), (MessageType::I2BIS, elsewhere));
    duo.hand(&i2bis).expect("taken");
    let ulids = duo.ulids_of(1).as_locators();
    let begins =
        |event: &Event| matches!(event, Event::Established { locators, .. } if *locators == ulids);
    let told = events(&mut duo.machines[1]);
    assert!(told.iter().any(begins), "{told:?}");
}
