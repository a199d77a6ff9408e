//! Tags, and late messages.

use alloc::collections::BTreeSet;

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore, SeedableRng};

use super::duo::{Duo, Flight};
use super::*;

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
    // The tags are not in the order in which they were given.
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
    while duo.context(0).state().as_str() != "i2-sent" {
        duo.step().expect("on the way");
    }
    let Message::I2(i2) = &duo.under_way[0].message else { panic!("{:?}", duo.under_way) };
    let late = r1(i2.initiator_nonce);
    assert_eq!(duo.hand(&late), Err(DropReason::Unasked));
    duo.settle();
    duo.check_established();
    assert_eq!(duo.hand(&late), Err(DropReason::Unasked));

    duo.lose(1);
    assert_eq!(duo.stray_payload(0, ulids().as_locators()), DropReason::UnknownTag);
    duo.step();
    assert_eq!(duo.context(0).state().as_str(), "i2bis-sent");
    let Message::I2bis(i2bis) = &duo.under_way[0].message else { panic!("{:?}", duo.under_way) };
    let late = r1(i2bis.initiator_nonce);
    assert_eq!(duo.hand(&late), Err(DropReason::Unasked));
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
    assert_eq!(duo.context(1).state().as_str(), "i1-sent");
    duo.log.clear();
    duo.hand(&i2bis).expect("taken");
    assert_eq!(duo.kinds(), [MessageType::R2]);
    duo.settle();
    duo.check_established();
}

/// Both sides ask at once. One side answers, loses its state and asks again. The answer arrives after that.
#[test]
fn an_r2_of_a_life_that_is_over_has_the_peer_asked_again() {
    for is_from_i1 in [false, true] {
        let mut duo = Duo::new();
        if is_from_i1 {
            // Side 0 answers the I1 with R2, because it has sent an I1 itself, which is lost.
            duo.trigger(0);
            duo.under_way.clear();
        }
        duo.trigger(1);
        let late = loop {
            duo.step().expect("on the way");
            if duo.under_way[0].message.kind() == MessageType::R2 {
                break duo.under_way.pop_front().expect("R2");
            }
        };
        duo.lose(0);
        duo.trigger(0);
        duo.step().expect("I1");
        assert_eq!(duo.hand(&late), Err(DropReason::StaleNonce));
        duo.settle();
        duo.check_established();
    }
}

/// A forged I1 costs both sides one more round, once.
#[test]
fn an_i1_that_somebody_made_up_keeps_no_context_from_being_made() {
    let mut duo = Duo::new();
    duo.trigger(0);
    let i1 = |tag| {
        let initiator_tag = ContextTag::from_bits(tag);
        let i1 = I1 { initiator_tag, initiator_nonce: 1, options: Options::default() };
        Flight { from: 1, pair: turned(ulids().as_locators()), message: Message::I1(i1) }
    };
    let mut made_up = 0;
    while duo.context(0).state().as_str() != "established" {
        made_up += 1;
        duo.hand(&i1(made_up)).ok();
        duo.step().expect("not for ever");
    }
    duo.settle();
    duo.check_established();
    assert_eq!(duo.refused.iter().filter(|reason| **reason == DropReason::StaleNonce).count(), 1);
}

/// I1s and packets with unknown tags in the name of both hosts use up the answers of both. The handshake needs no timer.
#[test]
fn messages_in_the_name_of_both_hosts_delay_no_handshake() {
    for seed in 0..100 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut duo = Duo::new();
        let begins = [(); 2].map(|()| 20 + rng.next_u32() % 4);
        for step in 0.. {
            assert!(step < 100, "seed {seed}: no context after {} ms", (step - 20) * 10);
            duo.pass(Duration::from_millis(10));
            let under_way = duo.under_way.len();
            for (side, _) in begins.iter().enumerate().filter(|(_, begin)| **begin == step) {
                duo.trigger(side);
            }
            for _ in 0..10 {
                for from in 0..2 {
                    forge(&mut duo, from, &mut rng);
                }
            }
            for _ in 0..under_way {
                duo.step();
            }
            let is_established = |side: usize| {
                let mut contexts = duo.machines[side].contexts();
                contexts.any(|context| context.state() == State::Established)
            };
            if is_established(0) && is_established(1) {
                break;
            }
        }
        duo.settle();
        duo.check_established();
    }
}

/// Somebody sends an I1, or a packet with a tag, in the name of a host.
fn forge(duo: &mut Duo, from: usize, rng: &mut ChaCha20Rng) {
    let pair = duo.ulids_of(from).as_locators();
    let tag = ContextTag::from_bits(rng.next_u64() & ContextTag::MASK);
    if rng.next_u32().is_multiple_of(2) {
        let i1 =
            I1 { initiator_tag: tag, initiator_nonce: rng.next_u32(), options: Options::default() };
        duo.hand(&Flight { from, pair, message: Message::I1(i1) }).ok();
    } else {
        duo.machines[1 - from].handle_payload(payload(tag, turned(pair)), duo.now).ok();
        duo.collect();
    }
}
