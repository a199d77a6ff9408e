//! Refusals in every message that may have the option: unknown critical options, foreign parameters.

use moorline_wire::{ErrorCode, I2bis, Keepalive, OptionType};

use super::duo::{Duo, Flight};
use super::*;

/// The only answer, which is an Error: its code, and the part of the message at its pointer.
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

/// The message with the parameters of side 3 in place of those of its sender.
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
            let of =
                |side: usize| duo.machines[side].contexts().map(|c| c.state().as_str()).collect();
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
//= rfc5533#7.20-5 (test)
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

/// The message with a locator of side 3 in place of the second entry of its list.
fn with_foreign_locator(message: &Message) -> Message {
    let mut message = message.clone();
    if let Message::I2(I2 { options, .. }) | Message::I2bis(I2bis { options, .. }) = &mut message {
        let mut changed: Vec<_> = options.iter().cloned().collect();
        list(&mut changed)[1].locator = locators(3)[1];
        *options = Options::from(changed);
    }
    message
}

/// An I2 or I2bis of side 0 under way, to a side 1 without a context.
fn until(kind: MessageType) -> (Duo, Flight) {
    let mut duo = if kind == MessageType::I2 { Duo::new() } else { Duo::established() };
    if kind == MessageType::I2 {
        duo.trigger(0);
    } else {
        duo.lose(1);
        assert_eq!(duo.stray_payload(0, ulids().as_locators()), DropReason::UnknownTag);
    }
    while duo.under_way[0].message.kind() != kind {
        duo.step();
    }
    let message = duo.under_way.pop_front().expect("it is there");
    (duo, message)
}

//= rfc5533#7.13-4 rfc5533#7.13-6 rfc5533#7.13-8 (test)
//= rfc5533#7.20-5 rfc5533#7.20-7 rfc5533#7.20-9 (test)
#[test]
fn locators_that_are_not_proved_are_taken_in_no_state() {
    for kind in [MessageType::I2, MessageType::I2BIS] {
        for state in ["idle", "i1-sent", "established"] {
            let (mut duo, real) = until(kind);
            match state {
                "i1-sent" => duo.trigger(1),
                "established" => duo.hand(&real).expect("the real one"),
                _ => {}
            }
            duo.under_way.clear();
            let name = |duo: &Duo| duo.machines[1].contexts().map(|c| c.state().as_str()).next();
            assert_eq!(name(&duo).unwrap_or("idle"), state);
            let lie = Flight { message: with_foreign_locator(&real.message), ..real.clone() };
            assert_eq!(duo.hand(&lie), Err(DropReason::Unverified), "{kind} in {state}");
            assert_eq!(name(&duo).unwrap_or("idle"), state);
            let sent: Vec<_> = duo.under_way.drain(..).map(|sent| sent.message.kind()).collect();
            assert_eq!(sent, [MessageType::ERROR], "no R2");
            duo.hand(&real).expect("and the real one is taken");
            assert_eq!(duo.of_side(1).peer.locators, locators(1));
        }
    }
}
