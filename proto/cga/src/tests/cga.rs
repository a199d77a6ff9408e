use super::{A, B, ENOUGH_FOR_SEC_1, encode_multi_prefix};
use crate::{
    Cga, GenerateError, HbaKey, HbaSet, MAX_PDS_OCTETS, PublicKey, Sec, VerifyError, generate_cga,
    generate_hba, verify_cga, verify_hba,
};
use moorline_wire::{CgaExtension, MultiPrefix};
use std::{format, vec};

fn key() -> PublicKey {
    PublicKey::from_spki(HbaKey::extended_modifier([0x5a; 48]).spki()).unwrap()
}

fn unknown(data: &[u8]) -> CgaExtension {
    CgaExtension::Unknown { kind: 0xfffd, data: data.to_vec() }
}

fn a_cga(sec: Sec, extensions: &[CgaExtension]) -> Cga {
    generate_cga(A, sec, &key(), extensions, [7; 16], ENOUGH_FOR_SEC_1).unwrap()
}

//= rfc3972#4-6 rfc3972#4-7 rfc3972#4-8 (test)
#[test]
fn generated_cga_verifies_and_comes_back_from_its_parameters() {
    for sec in [Sec::ZERO, Sec::ONE] {
        let cga = a_cga(sec, &[]);
        assert_eq!(verify_cga(cga.address(), cga.pds()), Ok(()));
        assert_eq!(cga.address().prefix(), A);
        assert_eq!(Sec::of_interface_id(cga.address().interface_id()), sec);
        assert_eq!((cga.sec(), cga.collision_count()), (sec, 0));
        assert_eq!(Cga::from_pds(cga.pds(), sec), Ok(cga));
    }
}

//= rfc3972#3-7 rfc3972#5-8 rfc3972#5-9 (test)
#[test]
fn extensions_are_hashed_and_otherwise_ignored() {
    let plain = a_cga(Sec::ZERO, &[]);
    let extended = a_cga(Sec::ZERO, &[unknown(b"hello"), unknown(b"")]);
    assert_eq!(verify_cga(extended.address(), extended.pds()), Ok(()));
    assert_ne!(extended.address(), plain.address());
    let other = a_cga(Sec::ZERO, &[unknown(b"hellp"), unknown(b"")]);
    assert_eq!(verify_cga(extended.address(), other.pds()), Err(VerifyError::Hash1));
}

/// A CGA with a Multi-Prefix extension is an HBA too.
#[test]
fn cga_with_multi_prefix_extension_is_an_hba_too() {
    let set = CgaExtension::MultiPrefix(MultiPrefix::new(true, vec![A, B]));
    let cga = a_cga(Sec::ONE, &[set]);
    assert_eq!(verify_hba(cga.address(), cga.pds()), Ok(()));
    let set = generate_hba(&[A, B], Sec::ONE, &HbaKey::of(&key()), [7; 16], ENOUGH_FOR_SEC_1);
    assert_eq!(set.unwrap().pds_of(cga.address()), Some(cga.pds()));
    assert_eq!(HbaSet::from_pds(cga.pds(), Sec::ONE).unwrap().locators()[0], cga.address());
}

//= rfc3972#3-1 rfc3972#4-1 (test)
#[test]
fn third_collision_of_a_cga_is_the_last() {
    let first = a_cga(Sec::ONE, &[]);
    let second = first.after_collision().unwrap();
    let third = second.after_collision().unwrap();
    assert_eq!(third.after_collision(), Err(GenerateError::Collisions));
    assert_eq!((second.collision_count(), third.collision_count()), (1, 2));
    for cga in [&first, &second, &third] {
        assert_eq!(verify_cga(cga.address(), cga.pds()), Ok(()));
    }
    assert_eq!(verify_cga(first.address(), second.pds()), Err(VerifyError::Hash1));
}

//= rfc3972#4-9 rfc3972#4-10 (test)
#[test]
fn another_prefix_takes_no_search_and_starts_without_collisions() {
    let here = a_cga(Sec::ONE, &[unknown(b"x")]).after_collision().unwrap();
    let there = here.under_prefix(B);
    assert_eq!(there.address().prefix(), B);
    assert_eq!(there.collision_count(), 0);
    assert_eq!(there.pds()[..16], here.pds()[..16]);
    assert_eq!(there.sec(), Sec::ONE);
    assert_eq!(verify_cga(there.address(), there.pds()), Ok(()));
    assert_eq!(there.under_prefix(A), a_cga(Sec::ONE, &[unknown(b"x")]));
}

#[test]
fn cga_search_in_pieces_finds_what_one_search_finds() {
    let whole = a_cga(Sec::ONE, &[]);
    let mut start = [7; 16];
    let pieces = loop {
        match generate_cga(A, Sec::ONE, &key(), &[], start, 1000) {
            Ok(cga) => break cga,
            Err(GenerateError::Exhausted { next_modifier }) => start = next_modifier,
            Err(other) => panic!("{other}"),
        }
    };
    assert_ne!(start, [7; 16]);
    assert_eq!(pieces, whole);
}

/// RFC 4982: another hash function would have another Sec, so SHA-1 verifies no address with such a Sec.
//= rfc3972#5-5 (test)
#[test]
fn sec_that_is_not_for_sha_1_is_refused_everywhere() {
    let set = super::a_set(&[A, B], Sec::ONE);
    let cga = a_cga(Sec::ONE, &[]);
    for sec in (3..=7).map(|sec| Sec::new(sec).unwrap()) {
        let error = GenerateError::HashFunction { sec };
        assert_eq!(generate_cga(A, sec, &key(), &[], [7; 16], 1), Err(error));
        assert_eq!(generate_hba(&[A], sec, &HbaKey::of(&key()), [7; 16], 1), Err(error));
        let error = VerifyError::HashFunction { sec };
        assert_eq!(HbaSet::from_pds(set.pds(), sec), Err(error));
        assert_eq!(Cga::from_pds(cga.pds(), sec), Err(error));
        let mut octets = cga.address().octets();
        octets[8] = octets[8] & 0x1f | sec.value() << 5;
        assert_eq!(verify_cga(octets.into(), cga.pds()), Err(error));
        assert_eq!(
            format!("{error}"),
            format!(
                "Sec {sec} stands for no hash function known here: only 0, 1 and 2 do, for SHA-1"
            )
        );
    }
    assert!([Sec::ZERO, Sec::ONE, Sec::TWO].into_iter().all(Sec::is_sha1));
}

#[test]
fn extensions_that_no_verifier_takes_are_refused() {
    let generate = |extensions: &[_]| generate_cga(A, Sec::ZERO, &key(), extensions, [7; 16], 1);
    let refused = |error| Err(GenerateError::Extensions(error));
    let set = CgaExtension::MultiPrefix(MultiPrefix::new(true, vec![A]));
    assert_eq!(generate(&[set.clone(), set]), refused(VerifyError::DuplicateMultiPrefix));
    let empty = CgaExtension::MultiPrefix(MultiPrefix::new(true, vec![]));
    assert_eq!(generate(&[empty]), refused(VerifyError::MultiPrefixLength));
    assert_eq!(generate(&vec![unknown(b""); 17]), refused(VerifyError::TooMany));
    // An unknown extension with the type of a Multi-Prefix extension must be a valid one.
    let lie = CgaExtension::Unknown { kind: MultiPrefix::EXTENSION_TYPE, data: vec![0; 5] };
    assert_eq!(generate(&[lie]), refused(VerifyError::MultiPrefixLength));
    assert_eq!(generate(&[unknown(&[0; MAX_PDS_OCTETS])]), Err(GenerateError::TooLong));
}

#[test]
fn stored_cga_is_checked() {
    let cga = a_cga(Sec::ZERO, &[]);
    assert_eq!(Cga::from_pds(cga.pds(), Sec::ONE), Err(VerifyError::Hash2));
    assert_eq!(Cga::from_pds(&cga.pds()[..40], Sec::ZERO), Err(VerifyError::PublicKey));
    let mut pds = cga.pds().to_vec();
    pds[24] = 3;
    assert_eq!(Cga::from_pds(&pds, Sec::ZERO), Err(VerifyError::CollisionCount));
    let two = [cga.pds(), &encode_multi_prefix(&[A]), &encode_multi_prefix(&[A])].concat();
    assert_eq!(Cga::from_pds(&two, Sec::ZERO), Err(VerifyError::DuplicateMultiPrefix));
}
