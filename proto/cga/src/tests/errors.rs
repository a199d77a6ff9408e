use super::{A, B, C, a_set, encode, encode_multi_prefix};
use crate::{
    GenerateError, HbaKey, HbaSet, KeyError, MAX_PDS_OCTETS, MAX_PREFIXES, PublicKey, Sec,
    VerifyError, generate_hba,
    hash::{hash1, hash2_zero_bits, interface_id},
    verify_cga, verify_hba,
};
use moorline_types::{DropReason, Locator};
use std::{vec, vec::Vec};

fn key() -> HbaKey {
    HbaKey::extended_modifier([0x5a; 48])
}

fn pds_with(extensions: &[u8]) -> Vec<u8> {
    encode([7; 16], A, key().spki(), extensions)
}

fn with_bits(address: Locator, bits: u8) -> Locator {
    let mut octets = address.octets();
    octets[8] ^= bits;
    Locator::from(octets)
}

#[test]
fn every_prefix_of_a_pds_is_refused() {
    let set = a_set(&[A, B], Sec::ZERO);
    let address = set.locators()[0];
    let key_end = 25 + key().spki().len();
    for end in 0..set.pds().len() {
        let expected = match end {
            0..=25 => VerifyError::Truncated,
            _ if end < key_end => VerifyError::PublicKey,
            _ if end == key_end => VerifyError::NoMultiPrefix,
            _ => VerifyError::Extension,
        };
        assert_eq!(verify_hba(address, &set.pds()[..end]), Err(expected), "{end} octets");
    }
}

#[test]
fn oversized_pds_is_refused_before_it_is_parsed() {
    let address = a_set(&[A], Sec::ZERO).locators()[0];
    let result = verify_hba(address, &vec![0; MAX_PDS_OCTETS + 1]);
    assert_eq!(result, Err(VerifyError::TooLong));
    assert_eq!(verify_hba(address, &[0; MAX_PDS_OCTETS]), Err(VerifyError::PublicKey));
}

/// LinShim6 crashed on the first of these lengths, and read backwards on the second.
#[test]
fn der_lengths_beyond_the_pds_are_refused() {
    let address = a_set(&[A], Sec::ZERO).locators()[0];
    for der in [
        &[0x30, 0x84, 0xf0, 0, 0, 0][..],
        &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        &[0x30, 0x84, 0x7f, 0xff, 0xff, 0xff],
        &[0x30, 0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        &[0x30, 0x83, 0, 0, 0],
        &[0x30, 0x80, 0, 0],
        &[0x30, 0xff],
        &[0x30],
        &[0x30, 0x00],
        &[0x00],
    ] {
        for tail in [&[][..], &key().spki()[2..]] {
            let pds = [&[7; 25][..], der, tail].concat();
            assert_eq!(verify_hba(address, &pds), Err(VerifyError::PublicKey), "{der:02x?}");
        }
    }
}

/// Two encodings of one key would be two addresses of one host.
#[test]
fn der_with_a_longer_length_than_needed_is_refused() {
    let set = a_set(&[A], Sec::ZERO);
    let spki = key();
    let longer = [&[0x30, 0x81], &spki.spki()[1..]].concat();
    let pds = encode([7; 16], A, &longer, &encode_multi_prefix(&[A]));
    assert_eq!(verify_hba(set.locators()[0], &pds), Err(VerifyError::PublicKey));
}

/// LinShim6 read beyond the heap if an extension was shorter than its flags.
#[test]
fn multi_prefix_extension_of_impossible_length_is_refused() {
    let address = a_set(&[A], Sec::ZERO).locators()[0];
    for length in (0..40u8).filter(|length| *length < 12 || length % 8 != 4) {
        let extension = [&[0, 0x12, 0, length][..], &vec![0; length.into()]].concat();
        let result = verify_hba(address, &pds_with(&extension));
        assert_eq!(result, Err(VerifyError::MultiPrefixLength), "{length}");
    }
}

#[test]
fn extension_that_is_cut_off_is_refused() {
    let address = a_set(&[A], Sec::ZERO).locators()[0];
    for extension in [&[0][..], &[0xff, 0xfd, 0], &[0xff, 0xfd, 0, 1], &[0, 0x12, 0xff, 0xff, 0, 0]]
    {
        let result = verify_hba(address, &pds_with(extension));
        assert_eq!(result, Err(VerifyError::Extension), "{extension:02x?}");
    }
}

#[test]
fn two_multi_prefix_extensions_are_refused() {
    let extension = encode_multi_prefix(&[A]);
    let pds = pds_with(&[&extension[..], &extension].concat());
    let address = a_set(&[A], Sec::ZERO).locators()[0];
    assert_eq!(verify_hba(address, &pds), Err(VerifyError::DuplicateMultiPrefix));
}

#[test]
fn address_of_another_prefix_or_another_set_is_refused() {
    let set = a_set(&[A, B], Sec::ZERO);
    let other = a_set(&[A, C], Sec::ZERO);
    assert_eq!(verify_hba(other.locators()[0], set.pds()), Err(VerifyError::Hash1));
    assert_eq!(verify_hba(other.locators()[1], set.pds()), Err(VerifyError::PrefixNotInSet));
    assert_eq!(verify_cga(set.locators()[1], set.pds()), Err(VerifyError::PrefixMismatch));
}

#[test]
fn sec_of_the_address_is_what_hash2_must_fit() {
    let set = a_set(&[A, B], Sec::ONE);
    let address = set.locators()[1];
    let (to_sec_0, to_sec_3, to_sec_5) = (1 << 5, 2 << 5, 4 << 5);
    assert_eq!(verify_hba(with_bits(address, to_sec_0), set.pds()), Ok(()));
    for (bits, sec) in [(to_sec_3, 3), (to_sec_5, 5)] {
        let error = VerifyError::HashFunction { sec: Sec::new(sec).unwrap() };
        assert_eq!(verify_hba(with_bits(address, bits), set.pds()), Err(error));
    }
    // The vectors contain this case too: Sec 2 in an address whose Hash2 fits only Sec 1.
    let address = with_bits(address, to_sec_0);
    assert_eq!(verify_hba(with_bits(address, 2 << 5), set.pds()), Err(VerifyError::Hash2));
}

/// One case has one zero bit less than Sec 1 asks for, the other has none.
//= rfc3972#3-8 (test)
#[test]
fn hash2_is_held_against_sec_to_the_bit() {
    let extension = encode_multi_prefix(&[A]);
    let key = key();
    for (bits, verdict) in [(15, Err(VerifyError::Hash2)), (16, Ok(()))] {
        let pds = (0u128..)
            .map(|modifier| encode(modifier.to_be_bytes(), A, key.spki(), &extension))
            .find(|pds| hash2_zero_bits(pds) == bits)
            .unwrap();
        let as_sec_1 = interface_id(hash1(&pds, A), Sec::ONE);
        let address: [u8; 16] = [A, as_sec_1].concat().try_into().unwrap();
        assert_eq!(verify_hba(Locator::from(address), &pds), verdict);
        assert_eq!(HbaSet::from_pds(&pds, Sec::ONE).map(|_| ()), verdict);
    }
}

//= rfc3972#2 (test)
#[test]
fn u_and_g_are_ignored() {
    let set = a_set(&[A, B], Sec::ONE);
    for bits in [1, 2, 3] {
        assert_eq!(verify_hba(with_bits(set.locators()[0], bits), set.pds()), Ok(()));
    }
}

#[test]
fn stored_set_is_checked() {
    let set = a_set(&[A, B], Sec::ZERO);
    assert_eq!(HbaSet::from_pds(set.pds(), Sec::ZERO), Ok(set.clone()));
    assert_eq!(HbaSet::from_pds(set.members()[1].pds(), Sec::ZERO), Ok(set.clone()));
    assert_eq!(HbaSet::from_pds(set.pds(), Sec::ONE), Err(VerifyError::Hash2));
    assert_eq!(HbaSet::from_pds(&pds_with(&[]), Sec::ZERO), Err(VerifyError::NoMultiPrefix));
    let mut pds = set.pds().to_vec();
    pds[24] = 3;
    assert_eq!(HbaSet::from_pds(&pds, Sec::ZERO), Err(VerifyError::CollisionCount));
}

#[test]
fn more_extensions_or_prefixes_than_the_cap_are_refused() {
    let address = a_set(&[A], Sec::ZERO).locators()[0];
    let unknown = [0xff, 0xfd, 0, 0].repeat(100);
    assert_eq!(verify_hba(address, &pds_with(&unknown)), Err(VerifyError::TooMany));
    let prefixes = A.repeat(MAX_PREFIXES + 1);
    let header = [&[0, 0x12][..], &length(4 + prefixes.len()), &[0; 4]].concat();
    let result = verify_hba(address, &pds_with(&[header, prefixes].concat()));
    assert_eq!(result, Err(VerifyError::TooMany));
}

#[test]
fn generation_refuses_what_makes_no_set() {
    let generate = |prefixes: &[[u8; 8]]| generate_hba(prefixes, Sec::ZERO, &key(), [0; 16], 1);
    assert_eq!(generate(&[]), Err(GenerateError::NoPrefix));
    assert_eq!(generate(&[A, B, A]), Err(GenerateError::DuplicatePrefix { index: 2 }));
    let mut many: Vec<_> = (0u64..33).map(u64::to_be_bytes).collect();
    assert_eq!(generate(&many), Err(GenerateError::TooManyPrefixes));
    many.pop();
    assert_eq!(generate(&many).unwrap().locators().len(), MAX_PREFIXES);
    let result = generate_hba(&[A], Sec::ZERO, &key(), [0; 16], 0);
    assert_eq!(result, Err(GenerateError::Exhausted { next_modifier: [0; 16] }));
}

//= rfc3972#3-2 (test)
#[test]
fn public_key_must_be_one_spki_and_no_more() {
    let spki = key();
    assert!(HbaKey::of(&PublicKey::from_spki(spki.spki()).unwrap()).is_public_key());
    let trailing = [spki.spki(), &[0]].concat();
    for octets in [&[][..], &spki.spki()[..40], &trailing] {
        assert_eq!(PublicKey::from_spki(octets), Err(GenerateError::PublicKey));
    }
}

#[test]
fn public_key_too_long_for_a_message_is_refused() {
    let bits = vec![0x55; MAX_PDS_OCTETS];
    let bit_string = [&[0x03, 0x82][..], &length(bits.len() + 1), &[0], &bits].concat();
    let algorithm = &key().spki()[2..17].to_vec();
    let body = [&algorithm[..], &bit_string].concat();
    let spki = [&[0x30, 0x82][..], &length(body.len()), &body].concat();
    let key = HbaKey::of(&PublicKey::from_spki(&spki).unwrap());
    let result = generate_hba(&[A], Sec::ZERO, &key, [0; 16], 1);
    assert_eq!(result, Err(GenerateError::TooLong));
}

fn length(octets: usize) -> [u8; 2] {
    u16::try_from(octets).unwrap().to_be_bytes()
}

#[test]
fn third_collision_is_the_last() {
    let first = a_set(&[A, B], Sec::ONE);
    let second = first.after_collision().unwrap();
    let third = second.after_collision().unwrap();
    assert_eq!(third.after_collision(), Err(GenerateError::Collisions));
    assert_eq!((first.collision_count(), third.collision_count()), (0, 2));
    for (set, other) in [(&first, &second), (&second, &third), (&third, &first)] {
        for (member, foreign) in set.members().iter().zip(other.members()) {
            assert_eq!(verify_cga(member.address(), member.pds()), Ok(()));
            assert_eq!(verify_hba(member.address(), foreign.pds()), Err(VerifyError::Hash1));
        }
    }
}

#[test]
fn pds_of_a_stranger_is_none() {
    let set = a_set(&[A, B], Sec::ZERO);
    assert_eq!(set.pds_of(set.locators()[1]), Some(set.members()[1].pds()));
    assert_eq!(set.pds_of(a_set(&[A, C], Sec::ZERO).locators()[0]), None);
}

#[test]
fn each_error_is_counted_as_what_it_is() {
    for (error, reason) in [
        (VerifyError::Truncated, DropReason::Truncated),
        (VerifyError::TooLong, DropReason::TooMany),
        (VerifyError::PublicKey, DropReason::BadFormat),
        (VerifyError::Extension, DropReason::BadFormat),
        (VerifyError::TooMany, DropReason::TooMany),
        (VerifyError::MultiPrefixLength, DropReason::BadFormat),
        (VerifyError::DuplicateMultiPrefix, DropReason::BadFormat),
        (VerifyError::NoMultiPrefix, DropReason::Unverified),
        (VerifyError::PrefixNotInSet, DropReason::Unverified),
        (VerifyError::CollisionCount, DropReason::BadFormat),
        (VerifyError::PrefixMismatch, DropReason::Unverified),
        (VerifyError::Hash1, DropReason::Unverified),
        (VerifyError::Hash2, DropReason::Unverified),
        (VerifyError::HashFunction { sec: Sec::MAX }, DropReason::Unsupported),
        (VerifyError::NoSignature, DropReason::MissingOption),
        (VerifyError::NoPublicKey, DropReason::Unverified),
        (VerifyError::Key(KeyError::Malformed), DropReason::BadFormat),
        (VerifyError::Key(KeyError::NotRsa), DropReason::Unsupported),
        (VerifyError::Key(KeyError::TooShort { bits: 512 }), DropReason::Unsupported),
        (VerifyError::Key(KeyError::TooLong { bits: 8192 }), DropReason::Unsupported),
        (VerifyError::Signature, DropReason::Unverified),
        (VerifyError::TooManyLocators, DropReason::TooMany),
        (VerifyError::MethodUnsupported { index: 3 }, DropReason::Unsupported),
    ] {
        assert_eq!(DropReason::from(error), reason);
    }
}

#[test]
fn sec_has_three_bits() {
    assert_eq!(Sec::new(7), Some(Sec::MAX));
    assert_eq!(Sec::new(8), None);
    assert_eq!(Sec::of_interface_id([0x3f, 0, 0, 0, 0, 0, 0, 0]), Sec::ONE);
    assert_eq!(Sec::MAX.hash2_zero_bits(), 112);
}
