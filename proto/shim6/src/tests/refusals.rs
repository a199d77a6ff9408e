//! What is refused, and the Error messages that say so (RFC 5533 s5.14, s5.15, s7.2, s10.4).

use moorline_wire::{
    ErrorCode, I2bis, Keepalive, LocatorPreference, LocatorPreferences, OptionType,
};

use super::duo::{Duo, Flight};
use super::*;

/// The only answer, an Error: its code, and what of the message it points at.
fn complaint(duo: &mut Duo, about: &Message) -> (ErrorCode, Vec<u8>) {
    let Some(Flight { message: Message::Error(error), .. }) = duo.under_way.pop_front() else {
        panic!("no Error")
    };
    assert!(duo.under_way.is_empty());
    let octets = about.octets();
    assert!(Message::Error(error.clone()).octets().len() <= octets.len(), "no longer");
    assert!(octets.starts_with(&error.packet[..8]));
    (error.code, octets[usize::from(error.pointer)..][..2].to_vec())
}

fn turn_of(pair: UlidPair) -> LocatorPair {
    turned(pair.as_locators())
}

//= rfc5533#5.15-6 rfc5533#5.15-7 rfc5533#12.3-1 (test)
#[test]
fn an_unknown_critical_option_is_answered_by_an_error_and_nothing_else_happens() {
    let unknown = Opt::Unknown {
        kind: OptionType::new(0x1234),
        critical: true,
        contents: alloc::vec![1, 2, 3, 4],
    };
    let options = || Options::from(alloc::vec![unknown.clone()]);
    let receiver_tag = |duo: &Duo| duo.context(0).local_tag;
    let mut duo = Duo::established();
    let known = duo.of_side(0).clone();
    let tag = receiver_tag(&duo);
    let (initiator_tag, initiator_nonce) = (ContextTag::from_bits(9), 9);
    for message in [
        Message::I1(I1 { initiator_tag, initiator_nonce, options: options() }),
        Message::R1(R1 { initiator_nonce, responder_nonce: 1, options: options() }),
        Message::I2(I2 { initiator_tag, initiator_nonce, responder_nonce: 1, options: options() }),
        Message::R2(R2 { responder_tag: initiator_tag, initiator_nonce, options: options() }),
        Message::UpdateRequest(UpdateRequest {
            receiver_tag: tag,
            request_nonce: 1,
            options: options(),
        }),
        Message::UpdateAck(UpdateAck { receiver_tag: tag, request_nonce: 1, options: options() }),
        Message::Keepalive(Keepalive { receiver_tag: tag, options: options() }),
    ] {
        let flight = Flight { from: 1, pair: turn_of(ulids()), message };
        assert_eq!(duo.hand(&flight), Err(DropReason::UnknownCriticalOption));
        let type_with_critical_bit = (0x1234u16 << 1 | 1).to_be_bytes().to_vec();
        let expected = (ErrorCode::CRITICAL_OPTION, type_with_critical_bit);
        assert_eq!(complaint(&mut duo, &flight.message), expected);
    }
    assert_eq!(*duo.of_side(0), known);
    assert_eq!(duo.machines[0].contexts().count(), 1);
}

#[test]
fn an_unknown_option_that_is_not_critical_is_passed_over() {
    let unknown =
        Opt::Unknown { kind: OptionType::new(0x1234), critical: false, contents: Vec::new() };
    let mut duo = Duo::new();
    let options = Options::from(alloc::vec![unknown]);
    let i1 = I1 { initiator_tag: ContextTag::from_bits(9), initiator_nonce: 1, options };
    let flight = Flight { from: 1, pair: turn_of(ulids()), message: Message::I1(i1) };
    duo.hand(&flight).expect("taken");
    assert_eq!(duo.kinds(), [MessageType::R1]);
}

/// An Update Request of side 1 with the list of its set, every method as told.
fn update(
    duo: &Duo,
    method: VerificationMethod,
    preferences: Option<LocatorPreferences>,
) -> Message {
    let entries = locators(2).into_iter().map(|locator| LocatorEntry { locator, method });
    let list = LocatorList { generation: 7, entries: entries.collect() };
    let pds = hba_set(2, [1, 2]).pds().to_vec();
    let mut options = alloc::vec![Opt::LocatorList(list), Opt::Pds(pds)];
    options.extend(preferences.map(Opt::LocatorPreferences));
    Message::UpdateRequest(UpdateRequest {
        receiver_tag: duo.context(0).local_tag,
        request_nonce: 1,
        options: Options::from(options),
    })
}

//= rfc5533#7.2-4 rfc5533#7.2-5 (test)
#[test]
fn an_unknown_verification_method_is_pointed_at_and_the_message_ignored() {
    let mut duo = Duo::established();
    let known = duo.of_side(0).clone();
    let method = VerificationMethod::new(77);
    let message = update(&duo, method, None);
    let flight = Flight { from: 1, pair: turn_of(ulids()), message };
    assert_eq!(duo.hand(&flight), Err(DropReason::Unsupported));
    let (code, at) = complaint(&mut duo, &flight.message);
    assert_eq!((code, at[0]), (ErrorCode::VERIFICATION_METHOD, 77));
    assert_eq!(*duo.of_side(0), known);
}

//= rfc5533#10.4 (test)
#[test]
fn preferences_for_another_list_are_pointed_at_and_the_request_ignored() {
    let some = [LocatorPreference { flags: 1, priority: Some(2), weight: Some(3) }; 3];
    for (generation, count, code, at) in
        [(6, 2, ErrorCode::GENERATION, [0, 0]), (7, 3, ErrorCode::LOCATOR_COUNT, [0, 5 + 3 * 3])]
    {
        let mut duo = Duo::established();
        let known = duo.of_side(0).clone();
        let preferences = LocatorPreferences::new(generation, &some[..count]);
        let message = update(&duo, VerificationMethod::HBA, Some(preferences));
        let flight = Flight { from: 1, pair: turn_of(ulids()), message };
        assert_eq!(duo.hand(&flight), Err(DropReason::BadFormat));
        assert_eq!(complaint(&mut duo, &flight.message), (code, at.to_vec()));
        assert_eq!(*duo.of_side(0), known);
    }
}

/// The message with the parameters of side 3 instead of those of its sender.
fn with_foreign_parameters(message: &Message) -> Message {
    let foreign = Opt::Pds(hba_set(3, [1, 2]).pds().to_vec());
    let change = |options: &Options| {
        let keep = |option: &&Opt| !matches!(option, Opt::Pds(_) | Opt::LocatorList(_));
        let kept = options.iter().filter(keep).cloned();
        kept.chain([foreign.clone()]).collect::<Vec<_>>().into()
    };
    let mut message = message.clone();
    if let Message::I2(I2 { options, .. })
    | Message::I2bis(I2bis { options, .. })
    | Message::R2(R2 { options, .. })
    | Message::UpdateRequest(UpdateRequest { options, .. }) = &mut message
    {
        *options = change(options);
    }
    message
}

//= rfc5533#7.13-3 rfc5533#7.16-2 (test)
#[test]
fn i2_and_r2_with_the_parameters_of_somebody_else_are_dropped() {
    for kind in [MessageType::I2, MessageType::R2] {
        let mut duo = Duo::new();
        duo.trigger(0);
        while duo.under_way[0].message.kind() != kind {
            duo.step();
        }
        let real = duo.under_way.pop_front().expect("I2 or R2");
        let states = |duo: &Duo| {
            let of = |side: usize| duo.machines[side].contexts().map(|c| c.state.name()).collect();
            [of(0), of(1)].map(|names: Vec<_>| names)
        };
        let before = states(&duo);
        let wrong = Flight { message: with_foreign_parameters(&real.message), ..real.clone() };
        assert_eq!(duo.hand(&wrong), Err(DropReason::Unverified));
        assert_eq!(states(&duo), before);
        assert!(duo.under_way.is_empty(), "silently");
        duo.hand(&real).expect("the real one");
    }
}

//= rfc5533#7.20-3 (test)
#[test]
fn an_i2bis_with_the_parameters_of_somebody_else_is_dropped() {
    let mut duo = Duo::established();
    duo.lose(1);
    assert_eq!(duo.stray_payload(0, ulids().as_locators()), DropReason::UnknownTag);
    duo.step();
    let real = duo.under_way.pop_front().expect("I2bis");
    let wrong = Flight { message: with_foreign_parameters(&real.message), ..real.clone() };
    assert_eq!(duo.hand(&wrong), Err(DropReason::Unverified));
    assert_eq!(duo.machines[1].contexts().count(), 0);
    assert!(duo.under_way.is_empty(), "silently");
    duo.hand(&real).expect("the real one");
}

//= rfc5533#10.4-4 (test)
#[test]
fn an_update_with_the_parameters_of_somebody_else_is_dropped() {
    let mut duo = Duo::established();
    let known = duo.of_side(0).clone();
    // With the list that is known already, with a new one, and with none.
    let mut same = update(&duo, VerificationMethod::HBA, None);
    let Message::UpdateRequest(request) = &mut same else { panic!("a request") };
    let mut options: Vec<_> = request.options.iter().cloned().collect();
    for option in &mut options {
        if let Opt::LocatorList(list) = option {
            list.generation = known.peer.generation.expect("a list");
        } else if let Opt::Pds(pds) = option {
            *pds = hba_set(3, [1, 2]).pds().to_vec();
        }
    }
    request.options = Options::from(options);
    let without_list = with_foreign_parameters(&update(&duo, VerificationMethod::HBA, None));
    for message in [same, without_list] {
        let flight = Flight { from: 1, pair: turn_of(ulids()), message };
        assert_eq!(duo.hand(&flight), Err(DropReason::Unverified));
        assert_eq!(*duo.of_side(0), known);
        assert!(duo.under_way.is_empty(), "silently");
    }
}
