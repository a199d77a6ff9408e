//! A peer that has lost a context and given its tag to another one (RFC 5533 s7.6, s7.15).

use super::duo::{Duo, Flight};
use super::*;
use crate::consts::MAX_WITH_PEER_TAG;

/// ULIDs with the peer's second locator.
fn second_ulids() -> UlidPair {
    UlidPair::new(ulids().local, locators(2)[1].as_ulid())
}

/// The locator list and parameters of a peer with this set, whose ULID is a member of the set.
fn proof(side: u8, ulid: Ulid) -> Vec<Opt> {
    let told = local(side);
    told.announcement_for(ulid).expect("of the set").options()
}

/// A context, and the peer's tag in it. From here on the test writes the messages of side 1.
fn with_old_context() -> (Duo, ContextTag) {
    let mut duo = Duo::established();
    let tag = duo.of_side(0).peer_tag;
    events(&mut duo.machines[0]);
    (duo, tag)
}

fn from_peer(pair: LocatorPair, message: Message) -> Flight {
    Flight { from: 1, pair: turned(pair), message }
}

/// Checks that only the new context is left, and that an event has told of the old one.
fn check_resolved(duo: &mut Duo, tag: ContextTag) {
    let context = duo.context(0);
    assert_eq!(context.key.ulids, second_ulids());
    assert_eq!(context.established().expect("established").peer_tag, tag);
    let told = Event::Confused { context: ContextId(0), ulids: ulids() };
    assert!(events(&mut duo.machines[0]).contains(&told));
}

//= rfc5533#7.6-2 rfc5533#7.14-1 rfc5533#7.15-1 rfc5533#7.15-2 rfc5533#7.15-3 rfc5533#7.15-5 (test)
#[test]
fn an_i2_with_the_tag_of_another_context_ends_that_one() {
    let (mut duo, tag) = with_old_context();
    let pair = second_ulids().as_locators();
    let i1 = I1 { initiator_tag: tag, initiator_nonce: 1, options: Options::default() };
    duo.hand(&from_peer(pair, Message::I1(i1))).expect("I1");
    assert_eq!(duo.machines[0].contexts().count(), 1, "an I1 removes nothing");
    assert_eq!(duo.context(0).key.ulids, ulids());
    let Some(Flight { message: Message::R1(r1), .. }) = duo.under_way.pop_front() else {
        panic!("R1")
    };
    let validator = r1.options.validator().expect("validator").to_vec();
    let mut options = alloc::vec![Opt::Validator(validator)];
    options.extend(proof(2, second_ulids().peer));
    let i2 = I2 {
        initiator_tag: tag,
        initiator_nonce: 2,
        responder_nonce: r1.responder_nonce,
        options: Options::from(options),
    };
    duo.hand(&from_peer(pair, Message::I2(i2))).expect("I2");
    assert!(matches!(duo.under_way[0].message, Message::R2(_)));
    check_resolved(&mut duo, tag);
}

//= rfc5533#7.15-1 rfc5533#7.15-5 rfc5533#7.16-4 (test)
#[test]
fn an_r2_with_the_tag_of_another_context_ends_that_one() {
    let (mut duo, tag) = with_old_context();
    let pair = second_ulids().as_locators();
    duo.machines[0].handle_trigger(second_ulids(), duo.now).expect("I1");
    duo.collect();
    let Some(Flight { message: Message::I1(i1), .. }) = duo.under_way.pop_front() else {
        panic!("I1")
    };
    let r2 = R2 {
        responder_tag: tag,
        initiator_nonce: i1.initiator_nonce,
        options: Options::from(proof(2, second_ulids().peer)),
    };
    duo.hand(&from_peer(pair, Message::R2(r2))).expect("R2, as of crossing I1s");
    check_resolved(&mut duo, tag);
}

/// The answer to an R1bis that names this tag for the peer's second locator.
fn i2bis(duo: &mut Duo, tag: ContextTag) -> moorline_wire::I2bis {
    let unknown = ContextTag::from_bits(5);
    let lost =
        duo.machines[0].handle_payload(payload(unknown, second_ulids().as_locators()), duo.now);
    assert_eq!(lost, Err(DropReason::UnknownTag));
    duo.collect();
    let Some(Flight { message: Message::R1bis(r1bis), .. }) = duo.under_way.pop_front() else {
        panic!("R1bis")
    };
    let validator = r1bis.options.validator().expect("validator").to_vec();
    let mut options = alloc::vec![Opt::Validator(validator)];
    options.extend(proof(2, second_ulids().peer));
    moorline_wire::I2bis {
        initiator_tag: tag,
        initiator_nonce: 2,
        responder_nonce: r1bis.responder_nonce,
        packet_tag: unknown,
        options: Options::from(options),
    }
}

//= rfc5533#7.15-1 rfc5533#7.15-5 (test)
#[test]
fn an_i2bis_with_the_tag_of_another_context_ends_that_one() {
    let (mut duo, tag) = with_old_context();
    let i2bis = i2bis(&mut duo, tag);
    let pair = second_ulids().as_locators();
    duo.hand(&from_peer(pair, Message::I2bis(i2bis))).expect("I2bis");
    check_resolved(&mut duo, tag);
}

/// No validator of an R1bis covers the ULIDs.
#[test]
fn an_i2bis_that_comes_again_with_other_ulids_ends_no_context() {
    let (mut duo, tag) = with_old_context();
    let mut i2bis = i2bis(&mut duo, tag);
    let pair = second_ulids().as_locators();
    duo.hand(&from_peer(pair, Message::I2bis(i2bis.clone()))).expect("I2bis");
    let UlidPair { local, peer } = ulids();
    let named = Opt::UlidPair { sender: peer, receiver: local };
    i2bis.options = i2bis.options.iter().cloned().chain([named]).collect();
    let again = duo.hand(&from_peer(pair, Message::I2bis(i2bis)));
    assert_eq!(again, Err(DropReason::StaleNonce));
    check_resolved(&mut duo, tag);
}

#[test]
fn two_peers_may_have_given_the_same_tag() {
    let (mut duo, tag) = with_old_context();
    let stranger = UlidPair::new(ulids().local, locators(3)[0].as_ulid());
    duo.machines[0].handle_trigger(stranger, duo.now).expect("I1");
    duo.collect();
    let Some(Flight { message: Message::I1(i1), .. }) = duo.under_way.pop_front() else {
        panic!("I1")
    };
    let r2 = R2 {
        responder_tag: tag,
        initiator_nonce: i1.initiator_nonce,
        options: Options::from(proof(3, stranger.peer)),
    };
    duo.hand(&from_peer(stranger.as_locators(), Message::R2(r2))).expect("R2");
    let tags = duo.machines[0].contexts().filter_map(Context::established).map(|e| e.peer_tag);
    assert_eq!(tags.collect::<Vec<_>>(), [tag; 2]);
}

/// The addresses have nothing in common, so no peer has lost a context.
#[test]
fn one_tag_is_not_for_any_number_of_contexts() {
    let (mut duo, tag) = with_old_context();
    let mut has_room = |n: u16| {
        let peer = Locator(Ipv6Addr::new(0x2001, 0xdb8, 0x77, n, 0, 0, 0, 1));
        let pair = LocatorPair::new(ulids().local.as_locator(), peer);
        let i1 = I1 { initiator_tag: tag, initiator_nonce: 1, options: Options::default() };
        duo.hand(&from_peer(pair, Message::I1(i1))).expect("I1");
        let Some(Flight { message: Message::R1(r1), .. }) = duo.under_way.pop_back() else {
            panic!("R1")
        };
        let validator = r1.options.validator().expect("validator").to_vec();
        let i2 = I2 {
            initiator_tag: tag,
            initiator_nonce: 2,
            responder_nonce: r1.responder_nonce,
            options: Options::from(alloc::vec![Opt::Validator(validator)]),
        };
        duo.hand(&from_peer(pair, Message::I2(i2)))
    };
    for n in 1..MAX_WITH_PEER_TAG {
        has_room(u16::try_from(n).expect("small")).expect("a context");
    }
    assert_eq!(has_room(99), Err(DropReason::TableFull));
}
