use moorline_wire::fill_icmp_checksum;
use moorline_wire::ilnp::{
    Admission, AdmissionTypes, L32Record, L64Record, LocatorUpdate, LpRecord, NidRecord,
    NonceHeader, OlderLocatorUpdate, OptionsHeader,
};
use std::net::Ipv6Addr;

/// A Destination Options header. The header ends within the packet. With its nonce overwritten, it is the same header
/// without a nonce. A header with only options that we send is emitted with equal octets.
pub(crate) fn ilnp_options(octets: &[u8]) -> bool {
    let Ok(header) = OptionsHeader::parse(octets) else { return false };
    assert!(header.len <= octets.len());
    let mut voided = octets.to_vec();
    header.void_nonce(&mut voided);
    assert_eq!(voided[header.len..], octets[header.len..]);
    let without = OptionsHeader::parse(&voided).expect("an option is left");
    let rest = (without.next_header, without.sequence, without.has_others);
    assert_eq!(
        rest,
        (header.next_header, header.sequence, header.has_others || header.nonce.is_some())
    );
    assert_eq!(without.nonce, None);
    let Some(nonce) = header.nonce else { return true };
    let ours = NonceHeader { next_header: header.next_header, nonce, sequence: header.sequence };
    let again = OptionsHeader::parse(&ours.emit()).expect("emitted");
    assert_eq!((again.nonce, again.sequence), (header.nonce, header.sequence));
    assert_eq!(again.len, ours.wire_len());
    true
}

/// A Locator Update, or a message of the admission handshake. The message is emitted with equal octets, except reserved
/// ones. The target sets the checksum first, because a fuzzer cannot guess it.
pub(crate) fn ilnp_control(octets: &[u8]) -> bool {
    let _ = LocatorUpdate::parse(octets, SRC, DST);
    older_update(octets);
    let types = AdmissionTypes::default();
    let _ = Admission::parse(octets, types, SRC, DST);
    let mut octets = octets.to_vec();
    fill_icmp_checksum(&mut octets, SRC, DST);
    if let Ok(update) = LocatorUpdate::parse(&octets, SRC, DST) {
        assert!(!update.locators.is_empty());
        let emitted = update.emit(SRC, DST);
        assert_eq!(emitted.len(), octets.len());
        assert_eq!(LocatorUpdate::parse(&emitted, SRC, DST).as_ref(), Ok(&update));
        let answer = update.acknowledgement();
        assert_eq!(LocatorUpdate::parse(&answer.emit(DST, SRC), DST, SRC), Ok(answer));
        assert!(Admission::parse(&octets, types, SRC, DST).is_err());
        return true;
    }
    let Ok(message) = Admission::parse(&octets, types, SRC, DST) else { return false };
    let emitted = message.emit(types, SRC, DST);
    assert_eq!(emitted.len(), octets.len());
    assert_eq!(Admission::parse(&emitted, types, SRC, DST), Ok(message));
    true
}

/// A Locator Update in the older form. The message is emitted with equal octets, except reserved ones, and does not
/// parse as a message of RFC 6743.
fn older_update(octets: &[u8]) {
    let _ = OlderLocatorUpdate::parse(octets, SRC, DST);
    let mut octets = octets.to_vec();
    let [src, dst] =
        [SRC, DST].map(|all| Ipv6Addr::from_bits(all.to_bits() & u128::from(u64::MAX)));
    fill_icmp_checksum(&mut octets, src, dst);
    let Ok(older) = OlderLocatorUpdate::parse(&octets, SRC, DST) else { return };
    assert!(OlderLocatorUpdate::is_it(&octets));
    assert!(LocatorUpdate::parse(&octets, SRC, DST).is_err());
    let emitted = older.emit(SRC, DST);
    assert_eq!(emitted.len(), octets.len());
    assert_eq!(OlderLocatorUpdate::parse(&emitted, SRC, DST), Ok(older));
    let answer = older.acknowledgement();
    assert_eq!(OlderLocatorUpdate::parse(&answer.emit(DST, SRC), DST, SRC), Ok(answer));
}

/// RDATA of a record of RFC 6742. The first octet selects the type. A record that parses is emitted with equal octets,
/// and its text is unambiguous in a zone file.
pub(crate) fn dns_rdata(octets: &[u8]) -> bool {
    let Some((kind, rdata)) = octets.split_first() else { return false };
    let read = match kind % 4 {
        0 => NidRecord::parse(rdata).map(|record| (record.emit().to_vec(), record.to_string())),
        1 => L32Record::parse(rdata).map(|record| (record.emit().to_vec(), record.to_string())),
        2 => L64Record::parse(rdata).map(|record| (record.emit().to_vec(), record.to_string())),
        _ => LpRecord::parse(rdata).map(|record| {
            assert!(record.name.is_same(&record.name));
            (record.emit(), record.to_string())
        }),
    };
    let Ok((emitted, text)) = read else { return false };
    assert_eq!(emitted, rdata);
    let (_, value) = text.split_once(' ').expect("preference and value");
    let mut octets = value.bytes();
    while let Some(octet) = octets.next() {
        assert!(octet.is_ascii_graphic(), "{text}");
        let is_plain = octet.is_ascii_alphanumeric() || b".:-_*".contains(&octet);
        assert!(is_plain || octet == b'\\' && octets.next().is_some(), "{text}");
    }
    true
}

const SRC: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0xa);
const DST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0xb);
