//! Error messages (RFC 5533 s5.14), sent and received.

use moorline_wire::{ErrorCode, ErrorMessage, OptionType, fill_checksum};

use super::duo::{Duo, Flight};
use super::*;
use crate::{ANSWER_BURST, I2_TIMEOUT, LAPSE_HOLDDOWN_TIME};

fn unknown() -> Opt {
    Opt::Unknown { kind: OptionType::new(99), critical: true, contents: alloc::vec![1, 2, 3] }
}

/// The first Error under way.
fn error(duo: &mut Duo) -> (LocatorPair, ErrorMessage) {
    match duo.under_way.pop_front() {
        Some(Flight { pair, message: Message::Error(error), .. }) => (pair, error),
        other => panic!("no Error: {other:?}"),
    }
}

#[test]
fn an_unknown_critical_option_is_complained_of_and_ends_the_message() {
    //= rfc5533#5.15-6 rfc5533#5.15-7 rfc5533#12.3-1 (test)
    let mut duo = Duo::new();
    let options = Options::from(alloc::vec![Opt::ForkedInstance(1), unknown()]);
    let i1 = I1 { initiator_tag: ContextTag::from_bits(1), initiator_nonce: 1, options };
    let message = Message::I1(i1);
    let octets = message.octets();
    let pair = ulids().as_locators();
    let flight = Flight { from: 0, pair, message };
    assert_eq!(duo.hand(&flight), Err(DropReason::UnknownCriticalOption));
    let (back, error) = error(&mut duo);
    assert_eq!((back, error.code), (turned(pair), ErrorCode::CRITICAL_OPTION));
    assert_eq!(error.pointer, 16 + 8, "the option type behind the other option");
    assert!(octets.starts_with(&error.packet));
    assert!(Message::Error(error).octets().len() <= octets.len(), "no amplifier");
    assert!(duo.under_way.is_empty(), "no R1");
}

#[test]
fn an_unknown_type_is_complained_of_and_an_error_never_is() {
    //= rfc5533#12.3 (test)
    let mut b = machine(2);
    let pair = LocatorPair::new(locators(2)[0], locators(1)[0]);
    let mut octets = [59, 1, 99, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    fill_checksum(&mut octets);
    let packet = Packet::parse(&octets, pair.peer.0, pair.local.0).expect("well formed");
    assert_eq!(b.check(&came(&packet, pair, NOW)), Err(DropReason::UnknownType));
    let Message::Error(error) = only(&mut b).message else { panic!("an Error") };
    assert_eq!((error.code, error.pointer), (ErrorCode::UNKNOWN_MESSAGE_TYPE, 2));
    let octets = Message::Error(error).octets();
    let packet = Packet::parse(&octets, pair.peer.0, pair.local.0).expect("well formed");
    b.check(&came(&packet, pair, NOW)).expect("a known type");
    assert_eq!(b.handle_message(&came(&packet, pair, NOW)), Err(DropReason::Truncated));
    assert!(sent(&mut b).is_empty());
}

#[test]
fn a_message_that_is_shorter_than_each_error_draws_none() {
    let mut b = machine(2);
    let pair = LocatorPair::new(locators(2)[0], locators(1)[0]);
    let mut octets = [59, 0, 99, 0, 0, 0, 0, 0];
    fill_checksum(&mut octets);
    let packet = Packet::parse(&octets, pair.peer.0, pair.local.0).expect("well formed");
    assert_eq!(b.check(&came(&packet, pair, NOW)), Err(DropReason::UnknownType));
    assert!(sent(&mut b).is_empty());
}

#[test]
fn errors_are_limited_by_source_prefix() {
    let mut duo = Duo::new();
    let options = Options::from(alloc::vec![unknown()]);
    let i1 = I1 { initiator_tag: ContextTag::from_bits(1), initiator_nonce: 1, options };
    let flight = Flight { from: 0, pair: ulids().as_locators(), message: Message::I1(i1) };
    for _ in 0..2 * ANSWER_BURST {
        assert_eq!(duo.hand(&flight), Err(DropReason::UnknownCriticalOption));
    }
    assert_eq!(duo.under_way.len(), ANSWER_BURST as usize);
}

#[test]
fn a_verification_method_we_do_not_know_is_pointed_at() {
    //= rfc5533#7.2-5 (test)
    let mut duo = Duo::new();
    duo.trigger(0);
    duo.step();
    duo.step();
    let Some(Flight { from, pair, message: Message::I2(mut i2) }) = duo.under_way.pop_front()
    else {
        panic!("I2")
    };
    let mut options: Vec<Opt> = i2.options.iter().cloned().collect();
    list(&mut options)[1].method = VerificationMethod::new(7);
    i2.options = Options::from(options);
    let message = Message::I2(i2);
    let octets = message.octets();
    let flight = Flight { from, pair, message };
    assert_eq!(duo.hand(&flight), Err(DropReason::Unsupported));
    let (_, error) = error(&mut duo);
    assert_eq!(error.code, ErrorCode::VERIFICATION_METHOD);
    assert_eq!(octets[usize::from(error.pointer)], 7);
    assert_eq!(duo.machines[1].contexts().count(), 0);
}

/// The Update Request of side 0 with another list.
fn request_with(duo: &mut Duo, change: impl FnOnce(&mut LocatorList)) -> Flight {
    duo.machines[0].set_send_timeout(Duration::from_secs(7), NOW);
    duo.collect();
    let Some(Flight { pair, message: Message::UpdateRequest(mut told), .. }) =
        duo.under_way.pop_front()
    else {
        panic!("an Update Request")
    };
    let mut options: Vec<Opt> = told.options.iter().cloned().collect();
    let list = options
        .iter_mut()
        .find_map(|option| if let Opt::LocatorList(list) = option { Some(list) } else { None });
    change(list.expect("a list"));
    told.options = Options::from(options);
    Flight { from: 0, pair, message: Message::UpdateRequest(told) }
}

//= rfc5533#10.4 (test)
//= rfc5533#7.2-5 (test)
#[test]
fn a_list_in_an_update_that_cannot_be_verified_is_complained_of() {
    let outside = "2001:db8:bad::1".parse::<Ipv6Addr>().expect("an address");
    let mut other = locators(1)[1].octets();
    other[15] ^= 1;
    let other = Locator::from(other);
    type Change = fn(&mut LocatorEntry, Locator, Locator);
    let changes: [(Change, DropReason); 4] = [
        (|entry, outside, _| entry.locator = outside, DropReason::Unverified),
        (|entry, _, other| entry.locator = other, DropReason::Unverified),
        (|entry, _, _| entry.locator = Locator(Ipv6Addr::LOCALHOST), DropReason::BadAddress),
        (|entry, _, _| entry.method = VerificationMethod::CGA, DropReason::MissingOption),
    ];
    // The list names the first locator once or twice, and then the wrong one.
    for ((change, reason), index) in changes.into_iter().flat_map(|one| [(one, 1), (one, 2)]) {
        let mut duo = Duo::established();
        let request = request_with(&mut duo, |list| {
            list.generation += 1;
            let first = list.entries[0];
            (1..index).for_each(|_| list.entries.insert(0, first));
            change(&mut list.entries[index], outside.into(), other);
        });
        let known = duo.of_side(1).peer.clone();
        let octets = request.message.octets();
        let listed = Packet::parse(&octets, request.pair.local.0, request.pair.peer.0);
        let at = listed.expect("well formed").verification_method_offset(index);
        assert_eq!(duo.hand(&request), Err(reason));
        let (_, error) = error(&mut duo);
        assert_eq!((error.code, Some(error.pointer)), (ErrorCode::VERIFICATION_METHOD, at));
        assert!(Message::Error(error).octets().len() <= octets.len(), "no amplifier");
        assert_eq!(duo.of_side(1).peer, known);
        // A source that the context does not have gets an R1bis only (s10.4).
        let pair = LocatorPair::new(locators(3)[0], request.pair.peer);
        duo.under_way.clear();
        assert!(duo.hand(&Flight { pair, ..request }).is_err());
        assert!(duo.under_way.iter().all(|sent| sent.message.kind() == MessageType::R1BIS));
    }
}

//= rfc5533#7.16-3 (test)
#[test]
fn an_r2_with_locators_that_cannot_be_verified_is_complained_of_and_noted() {
    let mut outside = locators(2)[1].octets();
    outside[15] ^= 1;
    for wrong in [Locator::from(outside), Locator(Ipv6Addr::LOCALHOST)] {
        let mut duo = Duo::new();
        duo.trigger(0);
        while duo.under_way[0].message.kind() != MessageType::R2 {
            duo.step();
        }
        let real = duo.under_way.pop_front().expect("R2");
        let Message::R2(mut r2) = real.message.clone() else { panic!("R2") };
        let mut options: Vec<Opt> = r2.options.iter().cloned().collect();
        list(&mut options)[1].locator = wrong;
        r2.options = Options::from(options);
        let lie = Flight { message: Message::R2(r2), ..real.clone() };
        assert!(!duo.context(0).is_unverified());
        duo.hand(&lie).expect_err("dropped");
        let context = duo.context(0);
        assert_eq!((context.state(), context.is_unverified()), (State::I2Sent, true));
        let (_, error) = error(&mut duo);
        let octets = lie.message.octets();
        let listed = Packet::parse(&octets, lie.pair.local.0, lie.pair.peer.0);
        let at = listed.expect("well formed").verification_method_offset(1);
        assert_eq!((error.code, Some(error.pointer)), (ErrorCode::VERIFICATION_METHOD, at));
        assert!(Message::Error(error).octets().len() <= octets.len(), "no amplifier");
        duo.hand(&real).expect("the real one is taken");
        assert!(!duo.context(0).is_unverified());
        assert_eq!(duo.of_side(0).peer.locators, locators(2));
    }
}

/// An Error of side 1 about a message of side 0.
fn about(message: &Message, pair: LocatorPair) -> Flight {
    quoting(message.octets(), pair)
}

fn quoting(packet: Vec<u8>, pair: LocatorPair) -> Flight {
    let error = ErrorMessage { code: ErrorCode::CRITICAL_OPTION, pointer: 0, packet };
    Flight { from: 1, pair: turned(pair), message: Message::Error(error) }
}

/// The message in its packet (RFC 8200 s3).
fn in_packet(message: &Message, pair: LocatorPair) -> Vec<u8> {
    let octets = message.octets();
    let len = u16::try_from(octets.len()).expect("short").to_be_bytes();
    let head = [0x60, 0, 0, 0, len[0], len[1], 140, 64];
    [&head[..], &pair.local.0.octets(), &pair.peer.0.octets(), &octets].concat()
}

#[test]
fn an_error_that_quotes_the_ipv6_header_is_believed_as_well() {
    //= rfc5533#5.14 (test)
    let mut duo = Duo::new();
    duo.trigger(0);
    let Flight { pair, message, .. } = duo.under_way.pop_front().expect("I1");
    let packet = in_packet(&message, pair);
    assert!(duo.hand(&quoting(packet[..40].to_vec(), pair)).is_err(), "nothing is quoted");
    duo.hand(&quoting(packet, pair)).expect("believed");
    let (_, failure, _) = duo.machines[0].negatives().next().expect("remembered");
    assert_eq!(failure, Failure::NoSupport);
}

#[test]
fn an_error_about_our_i1_or_i2_ends_the_establishment() {
    for steps in [0, 2] {
        let mut duo = Duo::new();
        duo.trigger(0);
        (0..steps).for_each(|_| drop(duo.step()));
        let Flight { pair, message, .. } = duo.under_way.pop_front().expect("I1 or I2");
        duo.hand(&about(&message, pair)).expect("believed");
        assert_eq!(duo.machines[0].contexts().count(), 0);
        let (_, failure, _) = duo.machines[0].negatives().next().expect("remembered");
        assert_eq!(failure, Failure::NoSupport);
    }
}

#[test]
fn an_error_about_what_we_have_not_sent_is_ignored() {
    let mut duo = Duo::new();
    duo.trigger(0);
    let Flight { pair, message, .. } = duo.under_way[0].clone();
    let Message::I1(real) = message else { panic!("{message:?}") };
    for change in [
        I1 { initiator_nonce: real.initiator_nonce ^ 1, ..real.clone() },
        I1 { initiator_tag: ContextTag::from_bits(4), ..real.clone() },
    ] {
        let lie = about(&Message::I1(change), pair);
        assert_eq!(duo.hand(&lie), Err(DropReason::Unasked));
    }
    let elsewhere = LocatorPair::new(pair.local, locators(2)[1]);
    assert!(duo.hand(&about(&Message::I1(real), elsewhere)).is_err());
    assert_eq!(duo.machines[0].contexts().count(), 1);
}

#[test]
fn an_error_about_our_update_ends_its_retransmission() {
    let mut duo = Duo::established();
    let preference = moorline_wire::LocatorPreference { flags: 2, ..Default::default() };
    duo.machines[0].set_preferences(&[(locators(1)[0], preference)], NOW);
    duo.collect();
    let Flight { pair, message, .. } = duo.under_way.pop_front().expect("Update Request");
    let Message::UpdateRequest(real) = message else { panic!("{message:?}") };
    let other = UpdateRequest { request_nonce: real.request_nonce ^ 1, ..real.clone() };
    let lie = about(&Message::UpdateRequest(other), pair);
    assert_eq!(duo.hand(&lie), Err(DropReason::BadNonce));
    assert!(duo.machines[0].poll_timeout().is_some());
    duo.hand(&about(&Message::UpdateRequest(real), pair)).expect("believed");
    assert_eq!(duo.machines[0].poll_timeout(), None);
    assert_eq!(duo.context(0).state().as_str(), "established");
}

#[test]
fn an_error_about_our_second_i2bis_starts_over() {
    let mut duo = Duo::established();
    duo.lose(1);
    duo.stray_payload(0, ulids().as_locators());
    duo.step();
    let Flight { pair, message, .. } = duo.under_way.pop_front().expect("I2bis");
    assert_eq!(duo.hand(&about(&message, pair)), Err(DropReason::Disbelieved));
    assert_eq!(duo.context(0).state().as_str(), "i2bis-sent");
    duo.pass(I2_TIMEOUT * 2);
    let Flight { pair, message, .. } = duo.under_way.pop_front().expect("I2bis");
    duo.hand(&about(&message, pair)).expect("believed");
    assert_eq!(duo.context(0).state().as_str(), "i1-sent");
    duo.settle();
    duo.check_established();
}

/// An attacker on the path forges an R1bis, and an Error about each message that follows.
#[test]
fn errors_about_an_i1_to_a_peer_that_had_the_context_count_for_seconds() {
    let mut duo = Duo::established();
    duo.lose(1);
    duo.stray_payload(0, ulids().as_locators());
    duo.step();
    duo.pass(I2_TIMEOUT * 2);
    while duo.machines[0].contexts().next().is_some() {
        let Flight { pair, message, .. } = duo.under_way.pop_front().expect("I2bis or I1");
        let _ = duo.hand(&about(&message, pair));
        duo.collect();
    }
    let (_, failure, until) = duo.machines[0].negatives().next().expect("remembered");
    assert_eq!(failure, Failure::NoSupport);
    assert!(until.since(duo.now) <= LAPSE_HOLDDOWN_TIME, "{:?}", until.since(duo.now));
}

/// RFC 5533 s10.4.
#[test]
fn parameters_of_another_ulid_in_an_update_are_silently_discarded() {
    let mut duo = Duo::established();
    duo.machines[0].set_send_timeout(Duration::from_secs(7), NOW);
    duo.collect();
    let Some(Flight { pair, message: Message::UpdateRequest(mut told), .. }) =
        duo.under_way.pop_front()
    else {
        panic!("no Update Request");
    };
    let mut options: Vec<Opt> = told.options.iter().cloned().collect();
    for option in &mut options {
        if let Opt::Pds(pds) = option {
            pds[0] ^= 1;
        }
        if let Opt::LocatorList(list) = option {
            list.generation += 1;
        }
    }
    assert!(options.iter().any(|option| matches!(option, Opt::Pds(_))), "{options:?}");
    told.options = Options::from(options);
    assert!(duo.hand(&Flight { from: 0, pair, message: Message::UpdateRequest(told) }).is_err());
    duo.collect();
    assert!(duo.under_way.is_empty(), "{:?}", duo.under_way);
}
