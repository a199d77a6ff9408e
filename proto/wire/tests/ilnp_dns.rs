//! RDATA of RFC 6742: examples of the RFC as octets written by hand, limits, and round trips.

use moorline_types::{DropReason, L64, Nid};
use moorline_wire::ilnp::{DomainName, L32Record, L64Record, LpRecord, NidRecord};
use proptest::collection::vec;
use proptest::prelude::*;

/// `host1.example.com. IN NID 10 0014:4fff:ff20:ee64` and its neighbours.
//= rfc6742#2.1.2-1 rfc6742#2.1.2-2 rfc6742#2.1.2-3 (test)
#[test]
fn identifiers_as_in_the_rfc() {
    for (preference, nid, octets, text) in [
        (10, 0x0014_4fff_ff20_ee64, "000a 00144fffff20ee64", "10 0014:4fff:ff20:ee64"),
        (20, 0x0015_5fff_ff21_ee65, "0014 00155fffff21ee65", "20 0015:5fff:ff21:ee65"),
        (65535, 0, "ffff 0000000000000000", "65535 0000:0000:0000:0000"),
    ] {
        let record = NidRecord { preference, nid: Nid(nid) };
        assert_eq!(record.emit().to_vec(), of_hex(octets));
        assert_eq!(NidRecord::parse(&of_hex(octets)), Ok(record));
        assert_eq!(record.to_string(), text);
    }
}

/// `host1.example.com. IN L64 10 2001:0DB8:1140:1000` and its neighbours, in lower case.
//= rfc6742#2.3.2-1 rfc6742#2.3.2-2 rfc6742#2.3.2-3 (test)
#[test]
fn locators_as_in_the_rfc() {
    for (preference, l64, octets, text) in [
        (10, 0x2001_0db8_1140_1000, "000a 20010db811401000", "10 2001:0db8:1140:1000"),
        (20, 0x2001_0db8_2140_2000, "0014 20010db821402000", "20 2001:0db8:2140:2000"),
        (0, 0xfd00_0000_0000_0001, "0000 fd00000000000001", "0 fd00:0000:0000:0001"),
    ] {
        let record = L64Record { preference, l64: L64(l64) };
        assert_eq!(record.emit().to_vec(), of_hex(octets));
        assert_eq!(L64Record::parse(&of_hex(octets)), Ok(record));
        assert_eq!(record.to_string(), text);
    }
}

/// `host1.example.com. IN L32 10 10.1.02.0`
//= rfc6742#2.2.2-1 rfc6742#2.2.2-2 (test)
#[test]
fn locators_of_ilnpv4_as_in_the_rfc() {
    let record = L32Record { preference: 10, l32: [10, 1, 2, 0].into() };
    assert_eq!(record.emit().to_vec(), of_hex("000a 0a010200"));
    assert_eq!(L32Record::parse(&record.emit()), Ok(record));
    assert_eq!(record.to_string(), "10 10.1.2.0");
}

/// `host1.example.com. IN LP 10 l64-subnet1.example.com.`
//= rfc6742#2.4.2-1 rfc6742#2.4.2-2 (test)
//= rfc6742#2.4.1.2-2 (test)
#[test]
fn pointers_as_in_the_rfc() {
    let octets = of_hex("000a 0b 6c36342d7375626e657431 07 6578616d706c65 03 636f6d 00");
    let record = LpRecord::parse(&octets).expect("parses");
    assert_eq!(record.preference, 10);
    assert_eq!(record.to_string(), "10 l64-subnet1.example.com.");
    assert_eq!(record.emit(), octets);
}

#[test]
fn other_lengths_are_no_records() {
    for len in (0..12).filter(|len| *len != 10) {
        assert_eq!(NidRecord::parse(&[0; 12][..len]), Err(DropReason::BadLength));
        assert_eq!(L64Record::parse(&[0; 12][..len]), Err(DropReason::BadLength));
    }
    for len in (0..12).filter(|len| *len != 6) {
        assert_eq!(L32Record::parse(&[0; 12][..len]), Err(DropReason::BadLength));
    }
    assert_eq!(LpRecord::parse(&[0]), Err(DropReason::BadLength));
    assert_eq!(LpRecord::parse(&[0, 1]), Err(DropReason::Truncated));
}

#[test]
fn names_are_whole_and_not_compressed() {
    let parse = |hex: &str| DomainName::parse(&of_hex(hex)).map(|name| name.to_string());
    assert_eq!(parse("00"), Ok(".".to_owned()));
    assert_eq!(parse("0161 00"), Ok("a.".to_owned()));
    assert_eq!(parse("0161"), Err(DropReason::Truncated));
    assert_eq!(parse("0261 00"), Err(DropReason::Truncated));
    assert_eq!(parse("0161 00 00"), Err(DropReason::BadLength));
    assert_eq!(parse("0161 c00c"), Err(DropReason::BadFormat));
    assert_eq!(parse("40"), Err(DropReason::BadFormat));
    // Octets that would have another meaning in a zone file are escaped.
    assert_eq!(parse("05 612e5c2220 00"), Ok("a\\.\\\\\\\"\\032.".to_owned()));
    assert_eq!(parse("02 0aff 00"), Ok("\\010\\255.".to_owned()));
}

#[test]
fn names_have_at_most_255_octets() {
    let name = |last: usize| {
        let labels = [63, 63, 63, last].map(|len: usize| {
            let mut label = vec![b'a'; len + 1];
            label[0] = u8::try_from(len).expect("a label");
            label
        });
        [labels.concat(), vec![0]].concat()
    };
    assert_eq!(name(61).len(), 255);
    assert!(DomainName::parse(&name(61)).is_ok());
    assert_eq!(DomainName::parse(&name(62)), Err(DropReason::BadLength));
}

#[test]
fn names_are_the_same_in_either_case() {
    let name = |text: &[u8]| DomainName::parse(&[&[3], text, &[0]].concat()).expect("a name");
    assert!(name(b"abc").is_same(&name(b"aBC")));
    assert!(!name(b"abc").is_same(&name(b"abd")));
    assert_ne!(name(b"abc"), name(b"aBC"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fixed_records_come_back(preference: u16, value: u64, l32: [u8; 4]) {
        let nid = NidRecord { preference, nid: Nid(value) };
        prop_assert_eq!(NidRecord::parse(&nid.emit()), Ok(nid));
        let l64 = L64Record { preference, l64: L64(value) };
        prop_assert_eq!(L64Record::parse(&l64.emit()), Ok(l64));
        let l32 = L32Record { preference, l32: l32.into() };
        prop_assert_eq!(L32Record::parse(&l32.emit()), Ok(l32));
    }

    #[test]
    fn pointers_come_back(preference: u16, labels in vec(vec(any::<u8>(), 1..64), 0..4)) {
        let mut rdata = preference.to_be_bytes().to_vec();
        for label in &labels {
            rdata.push(u8::try_from(label.len()).expect("a label"));
            rdata.extend(label);
        }
        rdata.push(0);
        prop_assume!(rdata.len() <= 257);
        let record = LpRecord::parse(&rdata).expect("a pointer");
        prop_assert_eq!(record.emit(), rdata);
        let text = record.to_string();
        prop_assert!(text.bytes().all(|octet| octet.is_ascii_graphic() || octet == b' '), "{}", text);
    }

    #[test]
    fn any_octets_are_a_pointer_or_none(rdata in vec(any::<u8>(), 0..300)) {
        if let Ok(record) = LpRecord::parse(&rdata) {
            prop_assert_eq!(record.emit(), rdata);
        }
    }
}

fn of_hex(text: &str) -> Vec<u8> {
    hex::decode(text.replace(' ', "")).expect("hex")
}
