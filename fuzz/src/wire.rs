use moorline_wire::consts::{
    MAX_CGA_EXTENSIONS, MAX_LOCATORS, MAX_MESSAGE_LEN, MAX_OPTIONS, MAX_PREFIXES,
    PAYLOAD_HEADER_LEN,
};
use moorline_wire::{
    CgaParameters, Message, Opt, OptionType, Options, Packet, PayloadHeader, fill_checksum,
};
use std::net::Ipv6Addr;

/// A control message, parsed in place. Offsets lie within the message, and the number of options is limited.
///
/// The target parses the octets unchanged, then with the right checksum, because a fuzzer cannot guess it.
pub(crate) fn wire_packet(octets: &[u8]) -> bool {
    read_in_place(octets);
    let octets = with_checksum(octets);
    read_in_place(&octets)
}

/// A control message. If it decodes, it is emitted so that it decodes to the same message.
pub(crate) fn wire_message_roundtrip(octets: &[u8]) -> bool {
    let octets = with_checksum(octets);
    let Some(message) = decode(&octets) else { return false };
    assert!(message.fits(), "what came in fits");
    let emitted = message.octets();
    assert!(emitted.len() <= MAX_MESSAGE_LEN, "{} octets", emitted.len());
    assert_eq!(decode(&emitted).as_ref(), Some(&message));
    if let Some(options) = message.options() {
        check_options(options);
    }
    true
}

/// CGA Parameters. The hash covers the received octets, so the parameters must be emitted with equal octets.
pub(crate) fn wire_cga_parameters(octets: &[u8]) -> bool {
    let Ok(parameters) = CgaParameters::parse(octets) else { return false };
    assert_eq!(parameters.emit(), octets);
    assert!(parameters.extensions.len() <= MAX_CGA_EXTENSIONS);
    assert!(parameters.multi_prefix().is_none_or(|m| m.prefixes.len() <= MAX_PREFIXES));
    true
}

/// A payload header. The header is emitted with equal octets, and never parses as a control message.
pub(crate) fn payload_header(octets: &[u8]) -> bool {
    let Ok(header) = PayloadHeader::parse(octets) else { return false };
    assert_eq!(header.emit().as_slice(), &octets[..PAYLOAD_HEADER_LEN]);
    assert!(PayloadHeader::is_payload(octets));
    assert!(Packet::parse(&with_checksum(octets), SRC, DST).is_err());
    true
}

fn read_in_place(octets: &[u8]) -> bool {
    let Ok(packet) = Packet::parse(octets, SRC, DST) else { return false };
    let len = packet.octets().len();
    assert!(len <= octets.len().min(MAX_MESSAGE_LEN));
    assert!(packet.options().filter(Result::is_ok).count() <= MAX_OPTIONS);
    let within = |offset: Option<u16>| assert!(offset.is_none_or(|at| usize::from(at) < len));
    within(packet.unknown_critical());
    within(packet.verification_method_offset(0));
    let decoded = packet.message();
    for kind in OptionType::KNOWN {
        let raw = packet.raw_option(*kind);
        assert!(raw.is_none_or(|contents| contents.len() < len));
    }
    // The parser in place and the decoder must agree, because the validator is checked on the former.
    if let Some(options) = decoded.as_ref().ok().and_then(Message::options) {
        assert_eq!(packet.raw_option(OptionType::RESPONDER_VALIDATOR), options.validator());
        assert_eq!(packet.raw_option(OptionType::CGA_PARAMETERS), options.pds());
        assert_eq!(packet.unknown_critical().is_some(), options.iter().any(Opt::is_critical));
    }
    decoded.is_ok()
}

fn check_options(options: &Options) {
    assert!(options.iter().len() <= MAX_OPTIONS);
    assert!(options.locator_list().is_none_or(|list| list.entries.len() <= MAX_LOCATORS));
    assert!(options.locator_preferences().is_none_or(|p| p.iter().len() <= MAX_LOCATORS));
    if let Some(pds) = options.pds() {
        wire_cga_parameters(pds);
    }
}

fn decode(octets: &[u8]) -> Option<Message> {
    Packet::parse(octets, SRC, DST).ok()?.message().ok()
}

/// Cuts the octets to the length in the header, if there are that many, and sets the checksum.
fn with_checksum(octets: &[u8]) -> Vec<u8> {
    let len = octets.get(1).map_or(0, |units| (usize::from(*units) + 1) * 8);
    let mut octets = octets.get(..len).unwrap_or(octets).to_vec();
    fill_checksum(&mut octets);
    octets
}

const SRC: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0xa);
const DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0xb);
