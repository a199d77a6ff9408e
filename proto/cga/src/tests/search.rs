use super::{A, B, ENOUGH_FOR_SEC_1, a_set, encode, encode_multi_prefix};
use crate::{
    GenerateError, HbaKey, Sec, generate_hba, hash::hash2_zero_bits, search::Hash2Search,
    verify_cga, verify_hba,
};
use std::vec;

//= rfc5535#7.1 rfc5535#7.2 (test)
#[test]
fn sec_1_set_verifies_as_hba_crosswise_and_as_cga_with_its_own_parameters() {
    let set = a_set(&[A, B], Sec::ONE);
    for member in set.members() {
        assert_eq!(Sec::of_interface_id(member.address().interface_id()), Sec::ONE);
        assert_eq!(verify_cga(member.address(), member.pds()), Ok(()));
        for other in set.members() {
            assert_eq!(verify_hba(member.address(), other.pds()), Ok(()));
        }
    }
}

#[test]
fn a_search_in_pieces_finds_what_one_search_finds() {
    let key = HbaKey::extended_modifier([1; 48]);
    let whole = generate_hba(&[A, B], Sec::ONE, &key, [9; 16], ENOUGH_FOR_SEC_1).unwrap();
    let mut start = [9; 16];
    let pieces = loop {
        match generate_hba(&[A, B], Sec::ONE, &key, start, 1000) {
            Ok(set) => break set,
            Err(GenerateError::Exhausted { next_modifier }) => start = next_modifier,
            Err(other) => panic!("{other}"),
        }
    };
    assert_ne!(start, [9; 16]);
    assert_eq!(pieces, whole);
}

#[test]
fn modifier_wraps_around() {
    let key = HbaKey::extended_modifier([1; 48]);
    let result = generate_hba(&[A], Sec::TWO, &key, [0xff; 16], 2);
    let next_modifier = 1u128.to_be_bytes();
    assert_eq!(result, Err(GenerateError::Exhausted { next_modifier }));
}

/// Compares with padding made by hand, at each length around the ends of blocks.
//= rfc3972#4-8 (test)
#[test]
fn search_and_verification_agree_on_hash2_at_every_length() {
    let multi_prefix = encode_multi_prefix(&[A]);
    let spki = HbaKey::extended_modifier([3; 48]);
    for length in 0..140u8 {
        let unknown = [&[0xff, 0xfd, 0, length][..], &vec![0x77; length.into()]].concat();
        let extensions = [&multi_prefix[..], &unknown].concat();
        let tail = [spki.spki(), &extensions].concat();
        let found = Hash2Search::new(&tail, Sec::ONE).first_fit(0, ENOUGH_FOR_SEC_1);
        let modifier = u128::from(found.unwrap()).to_be_bytes();
        let pds = encode(modifier, B, spki.spki(), &extensions);
        assert!(hash2_zero_bits(&pds) >= 16, "{length}");
    }
}

//= rfc5535#6-1 rfc5535#6-2 rfc5535#6-3 rfc5535#6-4 (test)
#[test]
fn extended_modifier_is_an_rsa_key_of_384_bits() {
    use der::{Decode, Reader, SliceReader, asn1::UintRef};
    let key = HbaKey::extended_modifier([0x00; 48]);
    assert!(!key.is_public_key());
    let spki = spki::SubjectPublicKeyInfoRef::from_der(key.spki()).unwrap();
    assert_eq!(spki.algorithm.oid, "1.2.840.113549.1.1.1".parse().unwrap());
    assert!(spki.algorithm.parameters.unwrap().is_null());
    let rsa = spki.subject_public_key.as_bytes().unwrap();
    let (modulus, exponent) = SliceReader::new(rsa)
        .unwrap()
        .sequence::<_, _, der::Error>(|reader| {
            Ok((reader.decode::<UintRef<'_>>()?, reader.decode::<u32>()?))
        })
        .unwrap();
    assert_eq!(modulus.as_bytes().len(), 48);
    assert_eq!(modulus.as_bytes()[0], 0x80);
    assert_eq!(exponent, 65537);
}
