//! Octets of the messages and options that the captures do not contain, written by hand from the RFCs.

mod common;

use common::{DST, SRC};
use moorline_types::{ContextTag, Locator, Ulid};
use moorline_wire::{
    ErrorCode, ErrorMessage, I1, I2bis, Keepalive, LocatorEntry, LocatorList, LocatorPreference,
    LocatorPreferences, Message, Opt, OptionType, Options, Packet, Probe, ProbeReport, ProbeState,
    R1bis, UpdateRequest, VerificationMethod,
};

const A: &str = "20010db800010000000000000000000a";
const B: &str = "20010db800010000000000000000000b";
const C: &str = "20010db800020000000000000000000a";

const TAG: ContextTag = ContextTag::from_bits(0x1122_3344_5566);

#[test]
fn r1bis() {
    let message = Message::R1bis(R1bis {
        packet_tag: TAG,
        responder_nonce: 0xdead_beef,
        options: options([Opt::Validator(vec![1, 2, 3, 4, 5, 6, 7, 8])]),
    });
    both_ways(
        &message,
        "3b03 0500 7874 112233445566 deadbeef
         0002 0008 0102030405060708 00000000",
    );
}

//= rfc5534#5.3-5 (test)
#[test]
fn i2bis_with_ulid_pair_instance_and_timeouts() {
    let message = Message::I2bis(I2bis {
        initiator_tag: TAG,
        initiator_nonce: 0x0102_0304,
        responder_nonce: 0x0506_0708,
        packet_tag: ContextTag::from_bits(0x6655_4433_2211),
        options: options([
            Opt::Validator(vec![1, 2, 3, 4, 5, 6, 7, 8]),
            ulid_pair(),
            Opt::ForkedInstance(42),
            Opt::KeepaliveTimeout(15),
            Opt::SendTimeoutMillis(250),
        ]),
    });
    let golden = format!(
        "3b0d 0600 40a7 112233445566 01020304 05060708 000000000000 665544332211
         0002 0008 0102030405060708 00000000
         000c 0024 00000000 {A} {B}
         000e 0004 0000002a
         0014 0004 0000000f
         9a98 0004 000000fa"
    );
    both_ways(&message, &golden);
    let Message::I2bis(i2bis) = &message else { unreachable!("built as one") };
    assert_eq!(i2bis.options.validator(), Some(&[1, 2, 3, 4, 5, 6, 7, 8][..]));
    assert_eq!(i2bis.options.keepalive_timeout(), Some(15));
    assert_eq!(i2bis.options.send_timeout_millis(), Some(250));
}

#[test]
fn i1_with_ulid_pair_and_instance() {
    let message = Message::I1(I1 {
        initiator_tag: TAG,
        initiator_nonce: 0x0102_0304,
        options: options([ulid_pair(), Opt::ForkedInstance(42)]),
    });
    let golden = format!(
        "3b07 0100 ca30 112233445566 01020304
         000c 0024 00000000 {A} {B} 000e 0004 0000002a"
    );
    both_ways(&message, &golden);
}

#[test]
fn error_with_the_start_of_the_packet() {
    let message = Message::Error(ErrorMessage {
        code: ErrorCode::VERIFICATION_METHOD,
        pointer: 40,
        packet: hex::decode("3b017f00123411223344556601020304").expect("hex"),
    });
    both_ways(&message, "3b02 4404 16c9 0028 3b017f00123411223344556601020304");
}

//= rfc5533#5.15-1 rfc5533#5.15-2 rfc5533#5.15-3 (test)
#[test]
fn update_request_with_three_octet_preferences() {
    let entry = |locator: &str, method| LocatorEntry { locator: locator_of(locator), method };
    let message = update([
        Opt::LocatorList(LocatorList {
            generation: 7,
            entries: vec![entry(A, VerificationMethod::HBA), entry(C, VerificationMethod::CGA)],
        }),
        Opt::LocatorPreferences(LocatorPreferences::new(
            7,
            &[
                LocatorPreference { flags: 1, priority: Some(10), weight: Some(20) },
                LocatorPreference { flags: 2, priority: None, weight: None },
            ],
        )),
    ]);
    let golden = format!(
        "3b09 4000 7835 112233445566 01020304
         0004 002c 00000007 02 0102 0000000000 {A} {C}
         0006 000b 00000007 03 010a14 020000 00"
    );
    both_ways(&message, &golden);
}

#[test]
fn update_request_with_flags_only() {
    let flags = |flags| LocatorPreference { flags, ..LocatorPreference::default() };
    let preferences = LocatorPreferences::new(7, &[flags(1), flags(2)]);
    let read: Vec<_> = preferences.iter().map(|p| (p.is_broken(), p.is_transient())).collect();
    assert_eq!(read, [(true, false), (false, true)]);
    both_ways(
        &update([Opt::LocatorPreferences(preferences)]),
        "3b03 4000 e414 112233445566 01020304
         0006 0007 00000007 01 0102 0000000000",
    );
}

//= rfc5534#5.1-1 rfc5534#5.1-5 (test)
#[test]
fn keepalive_with_unknown_critical_option() {
    let message = Message::Keepalive(Keepalive {
        receiver_tag: TAG,
        options: options([Opt::Unknown {
            kind: OptionType::new(0x4001),
            critical: true,
            contents: vec![1, 2, 3, 4, 5],
        }]),
    });
    both_ways(
        &message,
        "3b03 4200 6021 112233445566 00000000
         8003 0005 0102030405 00000000000000",
    );
}

//= rfc5534#5.2-1 (test)
#[test]
fn probe_with_nonce_and_data_of_both_reports() {
    let report = |src, dst, nonce, data| ProbeReport {
        src: locator_of(src),
        dst: locator_of(dst),
        nonce,
        data,
    };
    let message = Message::Probe(Probe {
        receiver_tag: TAG,
        state: ProbeState::InboundOk,
        sent: vec![report(A, B, 1, 2)],
        received: vec![report(B, A, 3, 4)],
        options: Options::default(),
    });
    let golden = format!(
        "3b0b 4300 1f8b 112233445566 1180 0000
         {A} {B} 00000001 00000002
         {B} {A} 00000003 00000004"
    );
    both_ways(&message, &golden);
}

/// The option has the critical bit: 0x4d43 << 1 | 1.
#[test]
fn check_says_that_only_who_knows_checks_may_process_it() {
    let report =
        ProbeReport { src: locator_of(A), dst: locator_of(B), nonce: 1, data: 0x4d6f_6f72 };
    let message = Message::Probe(Probe {
        receiver_tag: TAG,
        state: ProbeState::Operational,
        sent: vec![report],
        received: vec![],
        options: options([Opt::Check]),
    });
    let golden = format!(
        "3b07 4300 3438 112233445566 0100 0000
         {A} {B} 00000001 4d6f6f72 9a87 0000 00000000"
    );
    both_ways(&message, &golden);
}

#[track_caller]
fn both_ways(message: &Message, golden: &str) {
    let compact: String = golden.split_whitespace().collect();
    assert_eq!(hex::encode(message.octets()), compact);
    let octets = hex::decode(compact).expect("hex");
    let packet = Packet::parse(&octets, SRC, DST).expect("parses");
    assert_eq!(packet.message().as_ref(), Ok(message));
    assert_eq!(packet.kind(), message.kind());
}

fn options<const N: usize>(options: [Opt; N]) -> Options {
    options.into_iter().collect()
}

fn update<const N: usize>(all: [Opt; N]) -> Message {
    let options = options(all);
    Message::UpdateRequest(UpdateRequest { receiver_tag: TAG, request_nonce: 0x0102_0304, options })
}

fn ulid_pair() -> Opt {
    Opt::UlidPair { sender: Ulid(SRC), receiver: Ulid(DST) }
}

fn locator_of(octets: &str) -> Locator {
    let octets: [u8; 16] = hex::decode(octets).expect("hex").try_into().expect("16 octets");
    Locator::from(octets)
}
