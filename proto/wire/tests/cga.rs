//! CGA Parameters: parse, emit, and the faults of LinShim6 0.9.1 (design s5).

use moorline_types::DropReason;
use moorline_wire::consts::{MAX_CGA_EXTENSIONS, MAX_PDS_LEN, MAX_PREFIXES};
use moorline_wire::{CgaExtension, CgaParameters, MultiPrefix};

/// CGA Parameters of RFC 3972 s3, written by hand: modifier, prefix, collision count, a key of 5 octets.
const START: &str = "78ee51a273540d02025e917b90eea5b9 20010db800010000 01 3003020101";

//= rfc5535#5-1 (test)
#[test]
fn golden_with_multi_prefix_and_unknown_extension() {
    let golden = octets(&format!(
        "{START} fffd 0003 010203
         0012 0014 80000000 20010db800010000 20010db800020000"
    ));
    let parameters = CgaParameters {
        modifier: octets("78ee51a273540d02025e917b90eea5b9").try_into().expect("16"),
        subnet_prefix: [0x20, 1, 0xd, 0xb8, 0, 1, 0, 0],
        collision_count: 1,
        public_key: octets("3003020101"),
        extensions: vec![
            CgaExtension::Unknown { kind: 0xfffd, data: vec![1, 2, 3] },
            CgaExtension::MultiPrefix(MultiPrefix::new(
                true,
                vec![[0x20, 1, 0xd, 0xb8, 0, 1, 0, 0], [0x20, 1, 0xd, 0xb8, 0, 2, 0, 0]],
            )),
        ],
    };
    assert_eq!(CgaParameters::parse(&golden).as_ref(), Ok(&parameters));
    assert_eq!(parameters.emit(), golden);
    assert!(parameters.multi_prefix().is_some_and(MultiPrefix::has_public_key));
}

#[test]
fn every_truncation_of_the_key_is_truncated() {
    let all = octets(START);
    for len in 0..all.len() {
        assert_eq!(CgaParameters::parse(&all[..len]), Err(DropReason::Truncated), "{len}");
    }
    assert!(CgaParameters::parse(&all).is_ok_and(|p| p.multi_prefix().is_none()));
}

/// LinShim6 0.9.1 crashes on the first of these structures, and reads the second one backwards.
#[test]
fn der_length_beyond_the_structure_is_truncated() {
    for key in ["3084f0000000", "3084ffffffff", "3083ffffff", "3082ffff", "3081ff", "307f"] {
        let structure = [&fixed()[..], &octets(key), &[0; 40]].concat();
        assert_eq!(CgaParameters::parse(&structure), Err(DropReason::Truncated), "{key}");
    }
}

#[test]
fn key_that_is_no_der_sequence_is_refused() {
    for key in ["0403020101", "3080020100", "30ff020100", "3103020101"] {
        let structure = [&fixed()[..], &octets(key)].concat();
        assert_eq!(CgaParameters::parse(&structure), Err(DropReason::BadFormat), "{key}");
    }
}

#[test]
fn der_length_must_be_the_shortest() {
    let with = |header: &str, len: usize| {
        CgaParameters::parse(&[&fixed()[..], &octets(header), &vec![0; len]].concat())
    };
    assert_eq!(with("307f", 127).map(|p| p.public_key.len()), Ok(129));
    assert_eq!(with("3081 7f", 127), Err(DropReason::BadFormat));
    assert_eq!(with("3081 80", 128).map(|p| p.public_key.len()), Ok(131));
    assert_eq!(with("3082 00ff", 255), Err(DropReason::BadFormat));
    assert_eq!(with("3082 0100", 256).map(|p| p.public_key.len()), Ok(260));
}

/// LinShim6 0.9.1 reads beyond the heap block here.
#[test]
fn multi_prefix_shorter_than_its_flags_is_refused() {
    for data in ["", "80", "8000", "800000"] {
        let len = data.len() / 2;
        let structure = octets(&format!("{START} 0012 {len:04x} {data}"));
        assert_eq!(CgaParameters::parse(&structure), Err(DropReason::BadLength), "{len}");
    }
}

#[test]
fn multi_prefix_holds_whole_prefixes_up_to_the_cap() {
    let with = |octets_of_prefixes: usize| {
        let len = 4 + octets_of_prefixes;
        let mut structure = octets(&format!("{START} 0012 {len:04x} 00000000"));
        structure.resize(structure.len() + octets_of_prefixes, 0x20);
        CgaParameters::parse(&structure)
    };
    let prefixes = |p: CgaParameters| p.multi_prefix().map(|m| m.prefixes.len());
    assert_eq!(with(0).map(prefixes), Ok(Some(0)));
    assert_eq!(with(8 * MAX_PREFIXES).map(prefixes), Ok(Some(MAX_PREFIXES)));
    assert_eq!(with(8 * MAX_PREFIXES + 8), Err(DropReason::TooMany));
    assert_eq!(with(7), Err(DropReason::BadLength));
    assert_eq!(with(9), Err(DropReason::BadLength));
}

//= rfc5535#5-1 (test)
#[test]
fn reserved_bits_are_kept_and_the_flag_of_linshim6_is_not_ours() {
    let structure = octets(&format!("{START} 0012 000c 00000080 20010db800010000"));
    let parameters = CgaParameters::parse(&structure).expect("parses");
    assert!(!parameters.multi_prefix().expect("there").has_public_key());
    assert_eq!(parameters.emit(), structure);
}

#[test]
fn extension_beyond_the_structure_is_truncated() {
    for extension in ["ff", "fffd", "fffd00", "fffd0001", "fffd0008aabb", "0012ffff00000000"] {
        let structure = octets(&format!("{START}{extension}"));
        assert_eq!(CgaParameters::parse(&structure), Err(DropReason::Truncated), "{extension}");
    }
}

#[test]
fn caps_on_extensions_and_octets() {
    let with = |count: usize| {
        CgaParameters::parse(&octets(&(START.to_owned() + &"fffd0000".repeat(count))))
    };
    assert!(with(MAX_CGA_EXTENSIONS).is_ok());
    assert_eq!(with(MAX_CGA_EXTENSIONS + 1), Err(DropReason::TooMany));
    let long = |total: usize| {
        let len = total - octets(START).len() - 4;
        let mut structure = octets(&format!("{START} fffd {len:04x}"));
        structure.resize(total, 0);
        CgaParameters::parse(&structure)
    };
    assert!(long(MAX_PDS_LEN).is_ok());
    assert_eq!(long(MAX_PDS_LEN + 1), Err(DropReason::TooMany));
}

#[test]
fn emit_never_contradicts_its_lengths() {
    let start = CgaParameters::parse(&octets(START)).expect("parses");
    let wide = CgaExtension::MultiPrefix(MultiPrefix::new(false, vec![[1; 8]; 40]));
    let parameters = CgaParameters { extensions: vec![wide], ..start };
    let again = CgaParameters::parse(&parameters.emit()).expect("parses");
    assert_eq!(again.multi_prefix().map(|m| m.prefixes.len()), Some(MAX_PREFIXES));
    let mut out = Vec::new();
    CgaExtension::Unknown { kind: 1, data: vec![0; 70_000] }.emit(&mut out);
    assert_eq!((out.len(), &out[..4]), (4 + 65_535, &[0, 1, 0xff, 0xff][..]));
}

fn fixed() -> [u8; 25] {
    octets(START)[..25].try_into().expect("25 octets")
}

fn octets(text: &str) -> Vec<u8> {
    hex::decode(text.split_whitespace().collect::<String>()).expect("hex")
}
