//! Round trips are equal; no input makes the parsers panic or exceeds the caps.

mod common;

use common::{DST, SRC, captures, decode};
use moorline_types::{ContextTag, Locator, Ulid};
use moorline_wire::consts::{MAX_LOCATORS, MAX_MESSAGE_LEN, MAX_OPTIONS, MAX_PROBE_REPORTS};
use moorline_wire::{
    CgaExtension, CgaParameters, ErrorCode, ErrorMessage, I1, I2, I2bis, Keepalive, LocatorEntry,
    LocatorList, LocatorPreference, LocatorPreferences, Message, MessageType, MultiPrefix, Opt,
    OptionType, Options, Packet, PayloadHeader, Probe, ProbeReport, ProbeState, R1, R1bis, R2,
    UpdateAck, UpdateRequest, VerificationMethod, fill_checksum,
};
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn message_comes_back(message in message()) {
        prop_assume!(message.fits());
        let octets = message.octets();
        prop_assert!(octets.len() <= MAX_MESSAGE_LEN && octets.len() % 8 == 0);
        let packet = Packet::parse(&octets, SRC, DST).expect("emitted");
        prop_assert_eq!(packet.message(), Ok(message));
    }

    #[test]
    fn message_that_does_not_fit_is_still_one(message in oversized()) {
        let octets = message.octets();
        prop_assert!(octets.len() <= MAX_MESSAGE_LEN);
        let back = Packet::parse(&octets, SRC, DST).expect("emitted").message().expect("emitted");
        prop_assert_eq!(back == message, message.fits());
        prop_assert_eq!(back.octets(), octets);
    }

    #[test]
    fn getters_find_what_was_put_in(options in vec(listed_option(MessageType::I2), 0..6)) {
        let options = Options::from(options);
        let mut seen = Vec::new();
        for option in &options {
            let first = !seen.contains(&option.kind());
            seen.push(option.kind());
            if first {
                prop_assert!(is_what_the_getter_gives(&options, option));
            }
        }
    }

    #[test]
    fn arbitrary_octets_never_panic(octets in vec(any::<u8>(), 0..300)) {
        exercise(&octets);
        let _ = decode(&octets);
    }

    #[test]
    fn damaged_capture_never_panics_and_what_decodes_is_stable(
        which in any::<prop::sample::Index>(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let captures = captures();
        let mut octets = which.get(&captures).octets.clone();
        for (at, value) in damage {
            *at.get_mut(&mut octets) = value;
        }
        fill_checksum(&mut octets);
        exercise(&octets);
        if let Ok(message) = decode(&octets) {
            prop_assert!(message.fits());
            prop_assert_eq!(decode(&message.octets()), Ok(message));
        }
    }

    #[test]
    fn cga_parameters_come_back(parameters in cga_parameters()) {
        prop_assert_eq!(CgaParameters::parse(&parameters.emit()), Ok(parameters));
    }

    #[test]
    fn cga_octets_that_parse_are_emitted_again(key in 0_usize..60, rest in vec(any::<u8>(), 0..60)) {
        let mut octets = vec![0x55; 25];
        octets.extend([0x30, u8::try_from(key).expect("small")]);
        octets.resize(octets.len() + key, 1);
        octets.extend([0, 0x12, 0]);
        octets.extend(rest);
        if let Ok(parameters) = CgaParameters::parse(&octets) {
            prop_assert_eq!(parameters.emit(), octets);
        }
    }

    #[test]
    fn payload_header_comes_back(next_header in any::<u8>(), tag in tag()) {
        let header = PayloadHeader { next_header, tag };
        prop_assert_eq!(PayloadHeader::parse(&header.emit()), Ok(header));
    }

    #[test]
    fn preferences_come_back(generation in any::<u32>(), all in vec(preference(), 0..MAX_LOCATORS)) {
        let preferences = LocatorPreferences::new(generation, &all);
        prop_assert_eq!(preferences.iter().len(), all.len());
        for (read, given) in preferences.iter().zip(&all) {
            prop_assert_eq!(read.flags, given.flags);
            prop_assert_eq!(read.priority.unwrap_or(0), given.priority.unwrap_or(0));
            prop_assert_eq!(read.weight.unwrap_or(0), given.weight.unwrap_or(0));
        }
    }
}

fn exercise(octets: &[u8]) {
    let _ = PayloadHeader::parse(octets);
    let _ = CgaParameters::parse(octets);
    let Ok(packet) = Packet::parse(octets, SRC, DST) else { return };
    assert!(packet.options().count() <= MAX_OPTIONS + 1);
    assert!(packet.options().skip_while(Result::is_ok).count() <= 1);
    let _ = (packet.unknown_critical(), packet.verification_method_offset(3));
    for kind in OptionType::KNOWN {
        let _ = packet.raw_option(*kind);
    }
}

fn is_what_the_getter_gives(options: &Options, option: &Opt) -> bool {
    match option {
        Opt::Validator(contents) => options.validator() == Some(contents),
        Opt::LocatorList(list) => options.locator_list() == Some(list),
        Opt::LocatorPreferences(p) => options.locator_preferences() == Some(p),
        Opt::Pds(contents) => options.pds() == Some(contents),
        Opt::CgaSignature(contents) => options.cga_signature() == Some(contents),
        Opt::KeepaliveTimeout(value) => options.keepalive_timeout() == Some(*value),
        Opt::SendTimeoutMillis(value) => options.send_timeout_millis() == Some(*value),
        Opt::Source(locator) => options.source() == Some(*locator),
        // These options have no getter: they are read in place.
        Opt::UlidPair { .. } | Opt::ForkedInstance(_) | Opt::Check => true,
        Opt::Unknown { .. } => false,
    }
}

fn message() -> impl Strategy<Value = Message> {
    prop::sample::select(MessageType::KNOWN).prop_flat_map(|kind| message_of(kind, 60, 4))
}

fn oversized() -> impl Strategy<Value = Message> {
    prop::sample::select(MessageType::KNOWN).prop_flat_map(|kind| message_of(kind, 900, 24))
}

fn message_of(kind: MessageType, contents: usize, count: usize) -> BoxedStrategy<Message> {
    let options = vec(option(kind, contents), 0..count).prop_map(Options::from);
    let nonces = (any::<u32>(), any::<u32>());
    let fields = (tag(), tag(), nonces, options, reports(1), reports(0), state());
    let error = (any::<u8>(), any::<u16>(), vec(any::<[u8; 8]>(), 1..=154));
    (fields, error)
        .prop_map(move |((tag, tag2, (nonce, nonce2), options, sent, received, state), error)| {
            match kind {
                MessageType::I1 => {
                    Message::I1(I1 { initiator_tag: tag, initiator_nonce: nonce, options })
                }
                MessageType::R1 => {
                    Message::R1(R1 { initiator_nonce: nonce, responder_nonce: nonce2, options })
                }
                MessageType::I2 => Message::I2(I2 {
                    initiator_tag: tag,
                    initiator_nonce: nonce,
                    responder_nonce: nonce2,
                    options,
                }),
                MessageType::R2 => {
                    Message::R2(R2 { responder_tag: tag, initiator_nonce: nonce, options })
                }
                MessageType::R1BIS => {
                    Message::R1bis(R1bis { packet_tag: tag, responder_nonce: nonce, options })
                }
                MessageType::I2BIS => Message::I2bis(I2bis {
                    initiator_tag: tag,
                    initiator_nonce: nonce,
                    responder_nonce: nonce2,
                    packet_tag: tag2,
                    options,
                }),
                MessageType::UPDATE_REQUEST => Message::UpdateRequest(UpdateRequest {
                    receiver_tag: tag,
                    request_nonce: nonce,
                    options,
                }),
                MessageType::UPDATE_ACK => Message::UpdateAck(UpdateAck {
                    receiver_tag: tag,
                    request_nonce: nonce,
                    options,
                }),
                MessageType::KEEPALIVE => {
                    Message::Keepalive(Keepalive { receiver_tag: tag, options })
                }
                MessageType::PROBE => {
                    Message::Probe(Probe { receiver_tag: tag, state, sent, received, options })
                }
                _ => Message::Error(ErrorMessage {
                    code: ErrorCode::new(error.0),
                    pointer: error.1,
                    packet: error.2.concat(),
                }),
            }
        })
        .boxed()
}

fn option(kind: MessageType, contents: usize) -> BoxedStrategy<Opt> {
    let known = OptionType::KNOWN.iter().any(|option| kind.lists(*option));
    if known {
        prop_oneof![3 => sized_option(kind, contents), 1 => unknown(kind, contents)].boxed()
    } else {
        unknown(kind, contents).boxed()
    }
}

fn listed_option(kind: MessageType) -> BoxedStrategy<Opt> {
    sized_option(kind, 20)
}

fn sized_option(kind: MessageType, contents: usize) -> BoxedStrategy<Opt> {
    let list = vec((any::<[u8; 16]>(), any::<u8>()), 0..=MAX_LOCATORS.min(contents / 2));
    prop_oneof![
        vec(any::<u8>(), 0..contents).prop_map(Opt::Validator),
        (any::<u32>(), list).prop_map(|(generation, list)| {
            let entries = list.into_iter().map(|(locator, method)| LocatorEntry {
                locator: Locator::from(locator),
                method: VerificationMethod::new(method),
            });
            Opt::LocatorList(LocatorList { generation, entries: entries.collect() })
        }),
        (any::<u32>(), vec(preference(), 0..=MAX_LOCATORS)).prop_map(|(generation, all)| {
            Opt::LocatorPreferences(LocatorPreferences::new(generation, &all))
        }),
        vec(any::<u8>(), 0..contents).prop_map(Opt::Pds),
        vec(any::<u8>(), 0..contents).prop_map(Opt::CgaSignature),
        any::<([u8; 16], [u8; 16])>()
            .prop_map(|(a, b)| Opt::UlidPair { sender: Ulid::from(a), receiver: Ulid::from(b) }),
        any::<u32>().prop_map(Opt::ForkedInstance),
        any::<u16>().prop_map(Opt::KeepaliveTimeout),
        any::<u32>().prop_map(Opt::SendTimeoutMillis),
        any::<[u8; 16]>().prop_map(|octets| Opt::Source(Locator::from(octets))),
        Just(Opt::Check),
    ]
    .prop_filter("listed for the type", move |option| kind.lists(option.kind()))
    .boxed()
}

fn unknown(kind: MessageType, contents: usize) -> impl Strategy<Value = Opt> {
    (any::<u16>(), any::<bool>(), vec(any::<u8>(), 0..contents))
        .prop_map(|(number, critical, contents)| Opt::Unknown {
            kind: OptionType::new(number),
            critical,
            contents,
        })
        .prop_filter("unknown or not listed", move |option| !kind.lists(option.kind()))
}

fn preference() -> impl Strategy<Value = LocatorPreference> {
    any::<(u8, Option<u8>, Option<u8>)>().prop_map(|(flags, priority, weight)| LocatorPreference {
        flags,
        priority,
        weight,
    })
}

fn reports(min: usize) -> impl Strategy<Value = Vec<ProbeReport>> {
    let report = any::<([u8; 16], [u8; 16], u32, u32)>().prop_map(|(src, dst, nonce, data)| {
        ProbeReport { src: Locator::from(src), dst: Locator::from(dst), nonce, data }
    });
    vec(report, min..=MAX_PROBE_REPORTS)
}

fn state() -> impl Strategy<Value = ProbeState> {
    use ProbeState::{Exploring, InboundOk, Operational};
    prop::sample::select(&[Operational, Exploring, InboundOk][..])
}

fn tag() -> impl Strategy<Value = ContextTag> {
    any::<u64>().prop_map(ContextTag::from_bits)
}

fn cga_parameters() -> impl Strategy<Value = CgaParameters> {
    let extension = prop_oneof![
        (any::<u32>(), vec(any::<[u8; 8]>(), 0..6)).prop_map(|(flags, prefixes)| {
            CgaExtension::MultiPrefix(MultiPrefix { flags, prefixes })
        }),
        (any::<u16>(), vec(any::<u8>(), 0..20))
            .prop_filter("another type", |(kind, _)| *kind != MultiPrefix::EXTENSION_TYPE)
            .prop_map(|(kind, data)| CgaExtension::Unknown { kind, data }),
    ];
    let start = any::<([u8; 16], [u8; 8], u8)>();
    (start, vec(any::<u8>(), 0..400), vec(extension, 0..8)).prop_map(
        |((modifier, subnet_prefix, collision_count), key, extensions)| CgaParameters {
            modifier,
            subnet_prefix,
            collision_count,
            public_key: der_sequence(&key),
            extensions,
        },
    )
}

fn der_sequence(contents: &[u8]) -> Vec<u8> {
    let len = u16::try_from(contents.len()).expect("small");
    let [high, low] = len.to_be_bytes();
    let mut octets = match len {
        0..0x80 => vec![0x30, low],
        0x80..0x100 => vec![0x30, 0x81, low],
        _ => vec![0x30, 0x82, high, low],
    };
    octets.extend_from_slice(contents);
    octets
}
