//! Packets of real LinShim6 peers are parsed and emitted, with their checksums.

mod common;

use common::{Capture, captures};
use moorline_wire::{CgaParameters, Message, MessageType, OptionType, Packet, VerificationMethod};

//= rfc5533#5.15-1 rfc5533#5.15-2 rfc5533#5.15-3 (test)
#[test]
fn every_packet_is_emitted_again_octet_by_octet() {
    for c in captures() {
        let packet = Packet::parse(&c.octets, c.src, c.dst).expect(&c.label);
        let message = packet.message().expect(&c.label);
        assert!(message.fits(), "{}", c.label);
        assert_eq!(message.octets(), c.octets, "{}", c.label);
    }
}

#[test]
fn type_and_options_are_those_of_the_capture() {
    for c in captures() {
        let packet = Packet::parse(&c.octets, c.src, c.dst).expect(&c.label);
        assert_eq!(packet.kind(), kind_of(&c.kind), "{}", c.label);
        let options: Vec<_> = packet
            .options()
            .map(|raw| raw.map(|raw| (raw.kind.value(), raw.critical, raw.contents.to_vec())))
            .collect::<Result<_, _>>()
            .expect(&c.label);
        assert_eq!(options, c.options, "{}", c.label);
        assert_eq!(packet.unknown_critical(), None);
        for (kind, _, contents) in &c.options {
            let found = packet.raw_option(OptionType::new(*kind));
            assert_eq!(found, Some(contents.as_slice()), "{}", c.label);
        }
    }
}

#[test]
fn captures_hold_the_eight_types_they_should() {
    let captures = captures();
    for kind in ["I1", "R1", "I2", "R2", "UR", "UA", "KA", "Probe"] {
        assert!(captures.iter().any(|c| c.kind == kind), "no {kind}");
    }
    assert_eq!(captures.len(), 34);
}

#[test]
fn fields_of_an_exchange_refer_to_each_other() {
    let all = captures();
    for group in ["cga-140", "hba-140", "plain-140"] {
        let first: Vec<Message> =
            all.iter().filter(|c| c.label.starts_with(group)).take(4).map(message).collect();
        let [Message::I1(i1), Message::R1(r1), Message::I2(i2), Message::R2(r2)] = first.as_slice()
        else {
            panic!("{group} does not start with an exchange");
        };
        assert_eq!(r1.initiator_nonce, i1.initiator_nonce);
        assert_eq!((i2.initiator_tag, i2.initiator_nonce), (i1.initiator_tag, i1.initiator_nonce));
        assert_eq!(i2.responder_nonce, r1.responder_nonce);
        assert_eq!(i2.options.validator(), r1.options.validator());
        assert!(r1.options.validator().is_some_and(|validator| validator.len() == 20));
        assert_eq!(r2.initiator_nonce, i2.initiator_nonce);
    }
}

#[test]
fn fields_of_the_cga_exchange() {
    let all = captures();
    let Message::I1(i1) = message(&all[0]) else { panic!("I1") };
    assert_eq!(i1.initiator_tag.bits(), 0x20bd_47f6_092d);
    assert_eq!(i1.initiator_nonce, 0x16c1_8998);
    let Message::R1(r1) = message(&all[1]) else { panic!("R1") };
    assert_eq!(r1.responder_nonce, 0x5892_4004);
    let Message::R2(r2) = message(&all[3]) else { panic!("R2") };
    assert_eq!(r2.responder_tag.bits(), 0x5570_252b_0cc4);
    let list = r2.options.locator_list().expect("a list");
    assert_eq!(list.generation, 1);
    let entries: Vec<_> = list.entries.iter().map(|e| (e.locator.to_string(), e.method)).collect();
    assert_eq!(
        entries,
        [
            ("2001:db8:1:0:3488:1b29:2431:9064".to_owned(), VerificationMethod::CGA),
            ("2001:db8:2:0:2c4d:9c9:7b08:3ceb".to_owned(), VerificationMethod::CGA),
        ]
    );
    assert_eq!(r2.options.cga_signature().map(<[u8]>::len), Some(128));
    let Message::UpdateRequest(update) = message(&all[8]) else { panic!("Update Request") };
    assert_eq!(update.request_nonce, 0x3f97_52c2);
    assert_eq!(update.receiver_tag, r2.responder_tag);
    assert_eq!(update.options.keepalive_timeout(), Some(12));
    let Message::UpdateAck(ack) = message(&all[9]) else { panic!("Update Acknowledgement") };
    assert_eq!((ack.receiver_tag, ack.request_nonce), (i1.initiator_tag, update.request_nonce));
}

#[test]
fn probes_report_the_pair_they_took() {
    for c in captures().iter().filter(|c| c.kind == "Probe") {
        let Message::Probe(probe) = message(c) else { panic!("{}", c.label) };
        let counts = (probe.received.len(), probe.sent.len(), probe.state as u8);
        assert_eq!(Some(counts), c.probe, "{}", c.label);
        assert_eq!((probe.sent[0].src.0, probe.sent[0].dst.0), (c.src, c.dst), "{}", c.label);
        // The probe of the peer came in the other direction.
        assert!(probe.received.iter().all(|r| (r.src.0, r.dst.0) == (c.dst, c.src)));
    }
}

#[test]
fn cga_parameters_are_taken_apart_and_put_together() {
    for c in captures() {
        let Some(pds) = message(&c).options().and_then(|o| o.pds().map(<[u8]>::to_vec)) else {
            continue;
        };
        let parameters = CgaParameters::parse(&pds).expect(&c.label);
        assert_eq!(parameters.emit(), pds, "{}", c.label);
        let prefixes = parameters.multi_prefix().map(|m| m.prefixes.len());
        let hba = c.label.starts_with("hba");
        assert_eq!(prefixes, hba.then_some(2), "{}", c.label);
    }
}

/// The checksum does not cover the protocol number: a LinShim6 capture with its protocol number 61 and one with 140
/// have the same octets. Messages for any pair of addresses have the same octets, too.
#[test]
fn checksum_covers_neither_addresses_nor_protocol() {
    for c in captures() {
        assert_eq!(moorline_wire::checksum(&c.octets), 0, "{}", c.label);
        let other_pair = Packet::parse(&c.octets, common::SRC, common::DST).expect(&c.label);
        assert_eq!(other_pair.message().expect(&c.label), message(&c));
    }
}

fn message(c: &Capture) -> Message {
    Packet::parse(&c.octets, c.src, c.dst).and_then(|p| p.message()).expect(&c.label)
}

fn kind_of(text: &str) -> MessageType {
    match text {
        "I1" => MessageType::I1,
        "R1" => MessageType::R1,
        "I2" => MessageType::I2,
        "R2" => MessageType::R2,
        "UR" => MessageType::UPDATE_REQUEST,
        "UA" => MessageType::UPDATE_ACK,
        "KA" => MessageType::KEEPALIVE,
        "Probe" => MessageType::PROBE,
        other => panic!("{other}"),
    }
}
