//! Every error, every cap, and the parsing faults of LinShim6 0.9.1 (design s5).

mod common;

use common::{DST, SRC, captures, decode};
use moorline_types::{ContextTag, DropReason, Locator};
use moorline_wire::consts::{
    MAX_LOCATORS, MAX_MESSAGE_LEN, MAX_OPTIONS, MAX_PDS_LEN, MAX_PROBE_REPORTS,
};
use moorline_wire::{
    ErrorCode, ErrorMessage, I1, I2, Keepalive, LocatorEntry, LocatorList, LocatorPreference,
    LocatorPreferences, Message, MessageType, Opt, OptionType, Options, Packet, Probe, ProbeReport,
    ProbeState, VerificationMethod, fill_checksum,
};
use std::net::Ipv6Addr;

const TAG: ContextTag = ContextTag::from_bits(1);

#[test]
fn every_truncation_of_every_capture_is_truncated() {
    for c in captures() {
        for len in 0..c.octets.len() {
            let result = Packet::parse(&c.octets[..len], c.src, c.dst).map(|p| p.kind());
            assert_eq!(result, Err(DropReason::Truncated), "{} at {len}", c.label);
        }
    }
}

#[test]
fn octets_behind_the_message_are_no_part_of_it() {
    for c in captures() {
        let mut octets = c.octets.clone();
        octets.extend([0xff; 9]);
        let packet = Packet::parse(&octets, c.src, c.dst).expect(&c.label);
        assert_eq!(packet.octets(), c.octets);
    }
}

//= rfc5533#12.3 (test)
#[test]
fn every_single_bit_error_is_noticed() {
    let mut caught = 0;
    for c in captures() {
        for bit in 0..c.octets.len() * 8 {
            let mut octets = c.octets.clone();
            octets[bit / 8] ^= 0x80 >> (bit % 8);
            assert!(Packet::parse(&octets, c.src, c.dst).is_err(), "{} bit {bit}", c.label);
            let result = Packet::parse(&octets, c.src, c.dst).map(|p| p.kind());
            caught += usize::from(result == Err(DropReason::BadChecksum));
        }
    }
    assert!(caught > 10_000);
}

//= rfc5533#5.3 (test)
#[test]
fn payload_header_and_hip_are_no_control_messages() {
    let mut octets = captures()[0].octets.clone();
    octets[2] |= 0x80;
    assert_eq!(decode(&octets), Err(DropReason::BadFormat));
    octets[2] &= 0x7f;
    octets[3] |= 1;
    assert_eq!(decode(&octets), Err(DropReason::BadFormat));
}

//= rfc5533#12.3 (test)
#[test]
fn multicast_and_unspecified_addresses_are_refused() {
    let octets = captures()[0].octets.clone();
    let multicast: Ipv6Addr = "ff02::1".parse().expect("an address");
    for (src, dst) in [
        (multicast, DST),
        (SRC, multicast),
        (Ipv6Addr::UNSPECIFIED, DST),
        (SRC, Ipv6Addr::UNSPECIFIED),
    ] {
        let result = Packet::parse(&octets, src, dst).map(|p| p.kind());
        assert_eq!(result, Err(DropReason::BadAddress));
    }
}

#[test]
fn message_longer_than_the_minimum_mtu_is_refused() {
    let mut octets = vec![0; MAX_MESSAGE_LEN + 8];
    octets[..4].copy_from_slice(&[59, 155, 66, 0]);
    assert_eq!(decode(&octets), Err(DropReason::BadLength));
    octets.truncate(MAX_MESSAGE_LEN);
    octets[1] = 154;
    assert_ne!(decode(&octets), Err(DropReason::BadLength));
}

//= rfc5533#7.9-1 rfc5533#7.11-1 rfc5533#7.13-1 rfc5533#7.16-1 rfc5533#7.18-1 rfc5533#7.20-1 (test)
//= rfc5533#10.4-1 rfc5533#10.5-1 (test)
#[test]
fn message_shorter_than_its_fixed_fields_is_refused() {
    for kind in MessageType::KNOWN {
        let fixed = match *kind {
            MessageType::I2 => 24,
            MessageType::I2BIS => 32,
            _ => 16,
        };
        for units in 1..fixed / 8 {
            let mut octets = vec![0; units * 8];
            octets[..3].copy_from_slice(&[59, u8::try_from(units - 1).unwrap(), kind.value()]);
            assert_eq!(decode(&octets), Err(DropReason::BadLength), "{kind} {units}");
        }
        let mut octets = vec![0; fixed];
        octets[..3].copy_from_slice(&[59, u8::try_from(fixed / 8 - 1).unwrap(), kind.value()]);
        assert_ne!(decode(&octets), Err(DropReason::BadLength), "{kind}");
    }
}

#[test]
fn unknown_type_is_seen_but_not_decoded() {
    for kind in [0, 7, 60, 63, 69, 124, 127] {
        let mut octets = vec![59, 0, kind, 0, 0, 0, 0, 0];
        fill_checksum(&mut octets);
        let packet = Packet::parse(&octets, SRC, DST).expect("lengths and checksum are right");
        assert_eq!(packet.kind(), MessageType::new(kind));
        assert!(packet.options().next().is_none() && packet.receiver_tag().is_none());
        assert_eq!(packet.message(), Err(DropReason::UnknownType));
    }
}

#[test]
fn option_longer_than_the_message_is_truncated() {
    for len in [5_u16, 12, 0x7fff, 0xffff] {
        let [high, low] = len.to_be_bytes();
        assert_eq!(i2_with(&[0, 2, high, low, 0, 0, 0, 0]), Err(DropReason::Truncated), "{len}");
    }
    assert!(i2_with(&[0, 2, 0, 4, 0, 0, 0, 0]).is_ok());
}

#[test]
fn more_options_than_the_cap_are_refused() {
    let options = |count: usize| [0x7f, 0xf0, 0, 0, 0, 0, 0, 0].repeat(count);
    assert!(i2_with(&options(MAX_OPTIONS)).is_ok());
    assert_eq!(i2_with(&options(MAX_OPTIONS + 1)), Err(DropReason::TooMany));
}

/// LinShim6 0.9.1 exits on more than 32 locator pairs.
#[test]
fn more_locators_than_the_cap_are_refused() {
    let list = |count: u8| {
        let mut contents = vec![0, 0, 0, 1, count];
        contents.extend(vec![1; usize::from(count)]);
        contents.resize((contents.len() + 4).next_multiple_of(8) - 4, 0);
        contents.extend(vec![0x20; usize::from(count) * 16]);
        i2_with(&tlv(2, &contents))
    };
    for count in 0..=32 {
        let entries = list(count).map(|m| m.options().and_then(|o| o.locator_list().cloned()));
        let read = entries.ok().flatten().map(|list| list.entries.len());
        assert_eq!(read, Some(usize::from(count)));
    }
    assert_eq!(list(33), Err(DropReason::TooMany));
    assert_eq!(i2_with(&tlv(2, &[0, 0, 0, 1, 255, 1, 1, 1])), Err(DropReason::TooMany));
}

//= rfc5533#5.15.2 (test)
#[test]
fn locator_list_of_another_length_than_its_count_is_refused() {
    let list = |contents: &[u8]| i2_with(&tlv(2, contents));
    let mut good = vec![0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 0, 0];
    good.extend([0x20; 16]);
    assert!(list(&good).is_ok());
    assert_eq!(list(&good[..27]), Err(DropReason::BadLength));
    assert_eq!(list(&good[..12]), Err(DropReason::BadLength));
    assert_eq!(list(&good[..11]), Err(DropReason::Truncated));
    assert_eq!(list(&good[..5]), Err(DropReason::Truncated));
    assert_eq!(list(&good[..4]), Err(DropReason::Truncated));
    assert_eq!(list(&[]), Err(DropReason::Truncated));
    good.push(0);
    assert_eq!(list(&good), Err(DropReason::BadLength));
    good.truncate(28);
    good[4] = 2;
    assert_eq!(list(&good), Err(DropReason::BadLength));
}

#[test]
fn unknown_verification_method_is_kept_and_located() {
    let mut contents = vec![0, 0, 0, 1, 2, 1, 201, 0, 0, 0, 0, 0];
    contents.extend([0x20; 32]);
    let octets = i2_octets(&[tlv(1, &[9; 4]), tlv(2, &contents)].concat());
    let packet = Packet::parse(&octets, SRC, DST).expect("parses");
    let Ok(Message::I2(i2)) = packet.message() else { panic!("I2") };
    let methods: Vec<_> =
        i2.options.locator_list().expect("a list").entries.iter().map(|e| e.method).collect();
    assert_eq!(methods, [VerificationMethod::HBA, VerificationMethod::new(201)]);
    assert!(!methods[1].is_known());
    let at = packet.verification_method_offset(1).expect("within the list");
    assert_eq!(octets[usize::from(at)], 201);
    assert_eq!(packet.verification_method_offset(2), None);
}

#[test]
fn preferences_must_be_whole_elements() {
    let preferences = |contents: &[u8]| i2_with(&tlv(3, contents));
    assert!(preferences(&[0, 0, 0, 1, 1]).is_ok());
    assert!(preferences(&[0, 0, 0, 1, 2, 1, 2, 3, 4]).is_ok());
    assert_eq!(preferences(&[0, 0, 0, 1, 2, 1, 2, 3]), Err(DropReason::BadLength));
    assert_eq!(preferences(&[0, 0, 0, 1, 0, 1]), Err(DropReason::BadFormat));
    assert_eq!(preferences(&[0, 0, 0, 1]), Err(DropReason::Truncated));
    let many = |count: usize| [vec![0, 0, 0, 1, 1], vec![0; count]].concat();
    assert!(preferences(&many(MAX_LOCATORS)).is_ok());
    assert_eq!(preferences(&many(MAX_LOCATORS + 1)), Err(DropReason::TooMany));
}

//= rfc5533#5.15.3-1 (test)
#[test]
fn octets_of_long_preferences_beyond_the_third_survive() {
    let octets = i2_octets(&tlv(3, &[0, 0, 0, 1, 5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
    let message = decode(&octets).expect("parses");
    assert_eq!(message.octets(), octets);
    let options = message.options().expect("I2 has options");
    let read: Vec<_> = options.locator_preferences().expect("there").iter().collect();
    let preference = |flags, p, w| LocatorPreference { flags, priority: Some(p), weight: Some(w) };
    assert_eq!(read, [preference(1, 2, 3), preference(6, 7, 8)]);
}

//= rfc5534#5.3-6 (test)
#[test]
fn options_of_fixed_length_must_have_it() {
    for (kind, len) in [(6, 36), (7, 4), (10, 4), (0x4d4c, 4)] {
        for wrong in [0, len - 1, len + 1, len + 8] {
            assert_eq!(i2_with(&tlv(kind, &vec![0; wrong])), Err(DropReason::BadLength), "{kind}");
        }
        assert!(i2_with(&tlv(kind, &vec![0; len])).is_ok(), "{kind}");
    }
}

#[test]
fn parameters_above_the_cap_are_refused() {
    assert!(i2_with(&tlv(4, &vec![0; MAX_PDS_LEN])).is_ok());
    assert_eq!(i2_with(&tlv(4, &vec![0; MAX_PDS_LEN + 1])), Err(DropReason::TooMany));
}

//= rfc5533#5.15-4 (test)
#[test]
fn padding_and_reserved_bits_are_not_checked() {
    let octets = i2_octets(&[tlv(6, &[0x20; 36]), tlv(1, &[7; 3])].concat());
    let expected = decode(&octets).expect("parses");
    let mut noisy = octets.clone();
    noisy[0] = 6;
    noisy[3] = 0xfe;
    noisy[6] |= 0x80;
    noisy[20..24].fill(0xff);
    noisy[28..32].fill(0xff);
    *noisy.last_mut().expect("not empty") = 0xff;
    assert_eq!(decode(&noisy).as_ref(), Ok(&expected));
    assert_eq!(expected.octets()[28..32], [0; 4], "zero on transmit");
}

#[test]
fn option_not_listed_for_the_type_is_not_looked_into() {
    // A broken Locator List in a message that does not list this option.
    let mut octets = vec![59, 2, 66, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    octets.extend([0, 4, 0, 1, 0xff, 0, 0, 0]);
    let Ok(Message::Keepalive(keepalive)) = decode(&octets) else { panic!("Keepalive") };
    let kept =
        Opt::Unknown { kind: OptionType::LOCATOR_LIST, critical: false, contents: vec![0xff] };
    assert!(keepalive.options.iter().eq([&kept]));
    fill_checksum(&mut octets);
    let packet = Packet::parse(&octets, SRC, DST).expect("parses");
    assert_eq!(packet.unknown_critical(), None);
    assert_eq!(packet.raw_option(OptionType::LOCATOR_LIST), None);
    octets[17] |= 1;
    fill_checksum(&mut octets);
    let packet = Packet::parse(&octets, SRC, DST).expect("parses");
    assert_eq!(packet.unknown_critical(), Some(16));
}

//= rfc5533#5.15-5 (test)
#[test]
fn critical_bit_of_a_listed_option_is_no_reason_to_refuse() {
    let mut octets = i2_octets(&tlv(1, &[7; 4]));
    octets[25] |= 1;
    fill_checksum(&mut octets);
    let packet = Packet::parse(&octets, SRC, DST).expect("parses");
    assert_eq!(packet.unknown_critical(), None);
    assert_eq!(packet.raw_option(OptionType::RESPONDER_VALIDATOR), Some(&[7; 4][..]));
}

//= rfc5533#5.15-5 (test)
#[test]
fn pointer_to_an_unknown_critical_option_counts_from_the_header() {
    let unknown = [0x80, 0x03, 0, 0, 0, 0, 0, 0];
    let octets = i2_octets(&[tlv(1, &[7; 20]), unknown.to_vec(), tlv(7, &[0; 4])].concat());
    let packet = Packet::parse(&octets, SRC, DST).expect("parses");
    assert_eq!(packet.unknown_critical(), Some(48));
    let message = packet.message().expect("decodes");
    let options = message.options().expect("I2 has options");
    let critical = options.iter().find(|option| option.is_critical());
    assert_eq!(critical.map(Opt::kind), Some(OptionType::new(0x4001)));
}

#[test]
fn raw_option_and_getter_agree_on_the_first_of_two() {
    let octets = i2_octets(&[tlv(1, &[1; 4]), tlv(1, &[2; 4])].concat());
    let packet = Packet::parse(&octets, SRC, DST).expect("parses");
    assert_eq!(packet.raw_option(OptionType::RESPONDER_VALIDATOR), Some(&[1; 4][..]));
    let message = packet.message().expect("decodes");
    let options = message.options().expect("I2 has options");
    assert_eq!(options.validator(), Some(&[1; 4][..]));
}

#[test]
fn validator_is_readable_before_a_malformed_option() {
    let octets = i2_octets(&[tlv(1, &[1; 4]), vec![0, 4, 0xff, 0xff, 0, 0, 0, 0]].concat());
    let packet = Packet::parse(&octets, SRC, DST).expect("parses");
    assert_eq!(packet.raw_option(OptionType::RESPONDER_VALIDATOR), Some(&[1; 4][..]));
    assert_eq!(packet.message(), Err(DropReason::Truncated));
    assert_eq!(packet.options().count(), 2, "the error ends it");
}

#[test]
fn probe_with_more_reports_than_octets_is_refused() {
    let mut octets = probe(1, 1).octets();
    for counts in [0x21, 0x12, 0xff] {
        octets[12] = counts;
        assert_eq!(decode(&octets), Err(DropReason::BadLength));
    }
}

//= rfc5534#5.2-4 (test)
#[test]
fn probe_without_itself_or_with_a_fourth_state_is_refused() {
    let mut octets = probe(1, 0).octets();
    octets[12] = 0x10;
    assert_eq!(decode(&octets), Err(DropReason::BadFormat));
    octets[12] = 0x01;
    assert!(decode(&octets).is_ok());
    octets[13] = 0xc0;
    assert_eq!(decode(&octets), Err(DropReason::BadFormat));
}

#[test]
fn fifteen_reports_each_way_fit() {
    let message = probe(MAX_PROBE_REPORTS, MAX_PROBE_REPORTS);
    assert!(message.fits());
    assert_eq!(message.octets().len(), 1216);
    assert_eq!(decode(&message.octets()), Ok(message));
}

#[test]
fn reports_above_the_cap_stay_behind() {
    let message = probe(20, 16);
    assert!(!message.fits());
    assert_eq!(decode(&message.octets()), Ok(probe(MAX_PROBE_REPORTS, MAX_PROBE_REPORTS)));
}

//= rfc5533#5.1 (test)
#[test]
fn options_that_do_not_fit_stay_behind_whole() {
    let message = |options| {
        Message::I2(I2 { initiator_tag: TAG, initiator_nonce: 0, responder_nonce: 0, options })
    };
    let first = [Opt::Pds(vec![1; 1000]), Opt::CgaSignature(vec![2; 128])];
    let all: Options = first.iter().cloned().chain([Opt::CgaSignature(vec![3; 512])]).collect();
    assert!(message(Options::from(first.to_vec())).fits());
    assert!(!message(all.clone()).fits());
    assert_eq!(decode(&message(all).octets()), Ok(message(Options::from(first.to_vec()))));
    for alone in [Opt::Pds(vec![0; MAX_PDS_LEN + 1]), Opt::Validator(vec![0; 70_000])] {
        let cut = message(Options::from(vec![alone]));
        assert!(!cut.fits());
        assert_eq!(decode(&cut.octets()), Ok(message(Options::default())));
    }
    let many = message((0..=MAX_OPTIONS).map(|_| Opt::ForkedInstance(1)).collect());
    assert!(!many.fits());
    let left = message((0..MAX_OPTIONS).map(|_| Opt::ForkedInstance(1)).collect());
    assert_eq!(decode(&many.octets()), Ok(left));
}

#[test]
fn locators_above_the_cap_stay_behind() {
    let list = |count: usize| {
        let entry = |at| LocatorEntry {
            locator: Locator::from([u8::try_from(at).unwrap(); 16]),
            method: VerificationMethod::HBA,
        };
        let list = LocatorList { generation: 1, entries: (0..count).map(entry).collect() };
        let options = Options::from(vec![Opt::LocatorList(list)]);
        Message::I2(I2 { initiator_tag: TAG, initiator_nonce: 0, responder_nonce: 0, options })
    };
    assert!(list(MAX_LOCATORS).fits());
    assert!(!list(MAX_LOCATORS + 1).fits());
    assert_eq!(decode(&list(200).octets()), Ok(list(MAX_LOCATORS)));
    let preferences = LocatorPreferences::new(1, &[LocatorPreference::default(); 40]);
    assert_eq!(preferences.iter().len(), MAX_LOCATORS);
}

//= rfc5533#5.14 (test)
#[test]
fn error_message_holds_as_much_of_the_packet_as_fits() {
    let error = |packet| {
        Message::Error(ErrorMessage { code: ErrorCode::CRITICAL_OPTION, pointer: 64, packet })
    };
    let long = error(vec![7; 1280]);
    assert!(!long.fits());
    assert_eq!(long.octets().len(), MAX_MESSAGE_LEN);
    assert_eq!(decode(&long.octets()), Ok(error(vec![7; 1232])));
    // RFC 5533 s5.14: an Error message has at least 16 octets.
    assert_eq!(decode(&error(vec![]).octets()), Ok(error(vec![0; 8])));
    assert_eq!(decode(&error(vec![1; 9]).octets()), Ok(error([&[1; 9][..], &[0; 7]].concat())));
}

#[test]
fn fixed_fields_are_there_for_the_types_that_have_them_only() {
    let i1 =
        Message::I1(I1 { initiator_tag: TAG, initiator_nonce: 5, options: Options::default() });
    let octets = i1.octets();
    let packet = Packet::parse(&octets, SRC, DST).expect("parses");
    assert_eq!((packet.sender_tag(), packet.initiator_nonce()), (Some(TAG), Some(5)));
    assert_eq!((packet.receiver_tag(), packet.packet_tag()), (None, None));
    assert_eq!((packet.responder_nonce(), packet.request_nonce()), (None, None));
    let keepalive =
        Message::Keepalive(Keepalive { receiver_tag: TAG, options: Options::default() }).octets();
    let packet = Packet::parse(&keepalive, SRC, DST).expect("parses");
    assert_eq!((packet.receiver_tag(), packet.sender_tag()), (Some(TAG), None));
    assert_eq!(packet.initiator_nonce(), None);
}

fn probe(sent: usize, received: usize) -> Message {
    let report = |nonce| ProbeReport {
        src: Locator(SRC),
        dst: Locator(DST),
        nonce: u32::try_from(nonce).expect("small"),
        data: 0,
    };
    Message::Probe(Probe {
        receiver_tag: TAG,
        state: ProbeState::Exploring,
        sent: (0..sent).map(report).collect(),
        received: (0..received).map(report).collect(),
        options: Options::default(),
    })
}

fn i2_with(options: &[u8]) -> Result<Message, DropReason> {
    decode(&i2_octets(options))
}

fn i2_octets(options: &[u8]) -> Vec<u8> {
    let mut octets = vec![0; 24];
    octets.extend_from_slice(options);
    let units = u8::try_from(octets.len() / 8 - 1).expect("fits");
    octets[..3].copy_from_slice(&[59, units, 3]);
    fill_checksum(&mut octets);
    octets
}

fn tlv(kind: u16, contents: &[u8]) -> Vec<u8> {
    let len = u16::try_from(contents.len()).expect("16 bits");
    let mut octets = [(kind << 1).to_be_bytes(), len.to_be_bytes()].concat();
    octets.extend_from_slice(contents);
    octets.resize(octets.len().next_multiple_of(8), 0);
    octets
}
