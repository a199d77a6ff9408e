use super::{A, B, C, a_set, encode, verify_list};
use crate::{
    HbaKey, HbaSet, MAX_LOCATORS, Sec, VerifyError, generate_hba,
    hash::{hash1, interface_id},
    verify_cga,
};
use moorline_types::{Locator, Ulid};
use moorline_wire::VerificationMethod;
use std::{vec, vec::Vec};

fn by_hba(locators: &[Locator]) -> Vec<(Locator, VerificationMethod)> {
    locators.iter().map(|&locator| (locator, VerificationMethod::HBA)).collect()
}

fn ulid(set: &HbaSet) -> Ulid {
    set.locators()[0].as_ulid()
}

/// A CGA without a Multi-Prefix extension.
fn a_cga(prefix: [u8; 8]) -> (Locator, Vec<u8>) {
    let key = HbaKey::extended_modifier([0x21; 48]);
    let pds = encode([3; 16], prefix, key.spki(), &[]);
    let hash1 = hash1(&pds, prefix);
    let octets = [prefix, interface_id(hash1, Sec::ZERO)].concat();
    (Locator::from(<[u8; 16]>::try_from(octets).unwrap()), pds)
}

#[test]
fn list_of_one_set_passes_in_its_own_order_with_the_pds_of_any_member() {
    let set = a_set(&[A, B, C], Sec::ONE);
    let reversed: Vec<_> = set.locators().iter().rev().copied().collect();
    for member in set.members() {
        let verified = verify_list(ulid(&set), member.pds(), &by_hba(&reversed)).unwrap();
        assert_eq!(verified.locators(), reversed);
        assert_eq!(verified.ulid(), ulid(&set));
        assert_eq!(verified.pds(), member.pds());
    }
}

#[test]
fn list_need_not_name_the_ulid() {
    let set = a_set(&[A, B, C], Sec::ZERO);
    let verified = verify_list(ulid(&set), set.pds(), &by_hba(&set.locators()[1..2])).unwrap();
    assert_eq!(verified.ulid(), set.locators()[0].as_ulid());
    assert_eq!(verified.locators(), &set.locators()[1..2]);
}

#[test]
fn one_foreign_locator_rejects_the_list() {
    let set = a_set(&[A, B], Sec::ZERO);
    let foreign = a_set(&[A, C], Sec::ZERO);
    for (stranger, expected) in [
        (foreign.locators()[0], VerifyError::Hash1),
        (foreign.locators()[1], VerifyError::PrefixNotInSet),
    ] {
        for at in 0..=2 {
            let mut list = by_hba(set.locators());
            list.insert(at, (stranger, VerificationMethod::HBA));
            assert_eq!(verify_list(ulid(&set), set.pds(), &list), Err(expected));
        }
    }
}

/// Otherwise a peer could bind its own addresses to the ULID of another host.
#[test]
fn pds_that_is_not_of_the_ulid_is_refused() {
    let set = a_set(&[A, B], Sec::ZERO);
    let victim = a_set(&[A, C], Sec::ZERO);
    let list = by_hba(set.locators());
    assert_eq!(verify_list(ulid(&victim), set.pds(), &list), Err(VerifyError::Hash1));
    assert_eq!(verify_list(ulid(&victim), set.pds(), &[]), Err(VerifyError::Hash1));
}

//= rfc5533#7.2-4 (test)
#[test]
fn hba_without_multi_prefix_extension_is_refused_even_for_the_ulid() {
    let (address, pds) = a_cga(A);
    assert_eq!(verify_cga(address, &pds), Ok(()));
    let list = by_hba(&[address]);
    let result = verify_list(address.as_ulid(), &pds, &list);
    assert_eq!(result, Err(VerifyError::NoMultiPrefix));
}

#[test]
fn ulid_alone_may_be_a_cga() {
    let (address, pds) = a_cga(A);
    for list in [&[][..], &[(address, VerificationMethod::CGA)]] {
        let verified = verify_list(address.as_ulid(), &pds, list).unwrap();
        assert_eq!(verified.locators().len(), list.len());
    }
    let (other, _) = a_cga(B);
    let result = verify_list(other.as_ulid(), &pds, &[]);
    assert_eq!(result, Err(VerifyError::PrefixMismatch));
}

//= rfc5533#7.2-4 (test)
#[test]
fn other_methods_are_unsupported_and_their_place_is_told() {
    let set = a_set(&[A, B, C], Sec::ZERO);
    for method in [0, 3, 200, 255].map(VerificationMethod::new) {
        let mut list = by_hba(set.locators());
        list[2].1 = method;
        let result = verify_list(ulid(&set), set.pds(), &list);
        assert_eq!(result, Err(VerifyError::MethodUnsupported { index: 2 }));
    }
    let mut list = by_hba(set.locators());
    list[0].1 = VerificationMethod::CGA;
    assert!(verify_list(ulid(&set), set.pds(), &list).is_ok());
    list[0].1 = VerificationMethod::new(3);
    let result = verify_list(ulid(&set), set.pds(), &list);
    assert_eq!(result, Err(VerifyError::MethodUnsupported { index: 0 }));
}

#[test]
fn list_at_the_cap_passes_and_one_above_does_not() {
    let prefixes: Vec<_> = (1u64..=32).map(|n| (0x2001_0db8 << 32 | n).to_be_bytes()).collect();
    let key = HbaKey::extended_modifier([2; 48]);
    let set = generate_hba(&prefixes, Sec::ZERO, &key, [0; 16], 1).unwrap();
    let mut list = by_hba(set.locators());
    assert_eq!(list.len(), MAX_LOCATORS);
    assert!(verify_list(ulid(&set), set.pds(), &list).is_ok());
    list.push(list[0]);
    let result = verify_list(ulid(&set), set.pds(), &list);
    assert_eq!(result, Err(VerifyError::TooManyLocators));
}

#[test]
fn list_with_a_bad_pds_is_refused_for_the_pds() {
    let set = a_set(&[A, B], Sec::ZERO);
    let list = by_hba(set.locators());
    let crash = [vec![0; 25], vec![0x30, 0x84, 0xf0, 0, 0, 0]].concat();
    assert_eq!(verify_list(ulid(&set), &crash, &list), Err(VerifyError::PublicKey));
    assert_eq!(verify_list(ulid(&set), &[], &list), Err(VerifyError::Truncated));
}
