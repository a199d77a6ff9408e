//! Amplification: what an attacker can make this host send to an address of another host. An answer to a source that
//! has proved nothing is no longer than the question, except for the octets of the validator. The one longer answer,
//! R2, is for the first I1 of a handshake. R1bis and Error are in `recovery` and `complaints`.

use super::duo::{Duo, Flight};
use super::*;

/// Option header, validator of 16 octets, padding.
const VALIDATOR_OPTION: usize = (4_usize + 16).next_multiple_of(8);

fn i1_of(n: u32) -> Flight {
    let initiator_tag = ContextTag::from_bits(u64::from(n));
    let i1 = I1 { initiator_tag, initiator_nonce: n, options: Options::default() };
    Flight { from: 1, pair: turned(ulids().as_locators()), message: Message::I1(i1) }
}

#[test]
fn an_r1_is_as_long_as_its_i1_but_for_the_validator() {
    let mut duo = Duo::new();
    let i1 = i1_of(1);
    duo.hand(&i1).expect("answered");
    let r1 = &duo.under_way[0].message;
    assert_eq!(r1.kind(), MessageType::R1);
    assert_eq!(r1.octets().len(), i1.message.octets().len() + VALIDATOR_OPTION);
}

/// A host that asks for the source of its I1 learns of a translator on the path. The answer is as long as the question.
#[test]
fn an_r1_tells_the_source_of_an_i1_that_asks_for_it() {
    let mut duo = Duo::new();
    let mut i1 = i1_of(1);
    let told = Opt::Source(i1.pair.peer);
    if let Message::I1(message) = &mut i1.message {
        message.options = [told].into_iter().collect();
    }
    let seen_from = i1.pair.local;
    duo.hand(&i1).expect("answered");
    let r1 = &duo.under_way[0].message;
    let Message::R1(message) = r1 else { panic!("{r1:?}") };
    assert_eq!(message.options.source(), Some(seen_from));
    assert_eq!(r1.octets().len(), i1.message.octets().len() + VALIDATOR_OPTION);
}

/// R2 with locators and parameters answers the first I1 that crosses ours, even a forged one.
#[test]
fn a_flood_of_i1s_that_cross_ours_draws_one_r2() {
    let mut duo = Duo::new();
    duo.trigger(0);
    duo.log.clear();
    for n in 0..100 {
        duo.hand(&i1_of(n)).expect("answered");
    }
    let mut expected = alloc::vec![MessageType::R1; 100];
    expected[0] = MessageType::R2;
    assert_eq!(duo.kinds(), expected);
}

/// A host in I2BIS-SENT asks a peer that may have lost the context, and whoever knows the ULIDs can forge that peer's I1.
#[test]
fn a_flood_of_i1s_in_i2bis_sent_draws_one_r2() {
    let mut duo = Duo::established();
    let packet_tag = duo.of_side(0).peer_tag;
    let options = Options::from(alloc::vec![Opt::Validator(alloc::vec![0; 16])]);
    let r1bis = Message::R1bis(moorline_wire::R1bis { packet_tag, responder_nonce: 0, options });
    let pair = turned(ulids().as_locators());
    duo.hand(&Flight { from: 1, pair, message: r1bis }).expect("looks like one");
    assert_eq!(duo.context(0).state().as_str(), "i2bis-sent");
    duo.under_way.clear();
    duo.log.clear();
    for n in 0..100 {
        duo.hand(&i1_of(n)).expect("answered");
    }
    let mut expected = alloc::vec![MessageType::R1; 100];
    expected[0] = MessageType::R2;
    assert_eq!(duo.kinds(), expected);
}

/// The peer whose R2 was lost asks again, and proves by I2 that it is there.
#[test]
fn a_second_i1_that_crosses_ours_makes_the_context_by_four_messages() {
    let mut duo = Duo::new();
    duo.trigger(0);
    duo.trigger(1);
    let crossing = duo.under_way.clone();
    duo.under_way.clear();
    duo.hand(&crossing[1]).expect("answered");
    assert_eq!(duo.kinds().last(), Some(&MessageType::R2));
    duo.under_way.clear();
    duo.hand(&crossing[1]).expect("answered");
    assert_eq!(duo.kinds().last(), Some(&MessageType::R1));
    duo.settle();
    duo.check_established();
}

#[test]
fn answers_to_made_up_sources_everywhere_have_a_limit_together() {
    let mut machine = machine(1);
    let mut answers = 0;
    for n in 0..10_000_u32 {
        let source = Locator(Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(n) << 64));
        answers += u32::from(machine.take_answer(source, NOW).is_ok());
    }
    assert_eq!(answers, crate::ALL_ANSWERS_BURST);
}

/// The ULID proves itself, as it is the source. Nothing proves another source.
//= rfc5533#7.9 (test)
#[test]
fn an_i1_that_crosses_ours_from_another_source_than_the_ulid_draws_r1() {
    let mut duo = Duo::new();
    duo.trigger(0);
    duo.log.clear();
    let mut i1 = i1_of(1);
    let elsewhere = Locator("2001:db8:bad::1".parse().expect("an address"));
    i1.pair = LocatorPair::new(elsewhere, i1.pair.peer);
    let UlidPair { local, peer } = ulids();
    if let Message::I1(message) = &mut i1.message {
        message.options = [Opt::UlidPair { sender: peer, receiver: local }].into_iter().collect();
    }
    duo.hand(&i1).expect("answered");
    assert_eq!(duo.kinds(), [MessageType::R1]);
}
