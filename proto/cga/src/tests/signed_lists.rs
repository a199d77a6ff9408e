use super::{A, B, C, list, signatures::rsa_key, vectors::file};
use crate::{
    Cga, HbaKey, HbaSet, KeyError, LocatorClaim, LocatorsVerified, PublicKey, RsaKey, Sec, Signer,
    VerifyError, generate_cga, generate_hba, signed_octets,
};
use moorline_types::{Locator, Ulid};
use moorline_wire::{CgaExtension, LocatorList, MultiPrefix, VerificationMethod};
use std::{vec, vec::Vec};

const HBA: VerificationMethod = VerificationMethod::HBA;
const CGA: VerificationMethod = VerificationMethod::CGA;

fn key() -> RsaKey {
    rsa_key(&file(), "rsa1024")
}

fn a_cga(key: &RsaKey, prefix: [u8; 8]) -> Cga {
    generate_cga(prefix, Sec::ZERO, key.public_key(), &[], [7; 16], 1).unwrap()
}

/// An HBA set with a public key in it.
fn a_compatible_set(key: &RsaKey) -> HbaSet {
    let key = HbaKey::of(key.public_key());
    generate_hba(&[A, B], Sec::ZERO, &key, [7; 16], 1).unwrap()
}

/// An address that is no CGA.
fn plain(last: u8) -> Locator {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&C);
    octets[15] = last;
    Locator::from(octets)
}

fn sign(key: &RsaKey, list: &LocatorList) -> Vec<u8> {
    key.sign(&signed_octets(list), [9; 32]).unwrap()
}

fn verify(
    ulid: Ulid,
    pds: &[u8],
    list: &LocatorList,
    signature: Option<&[u8]>,
) -> Result<LocatorsVerified, VerifyError> {
    LocatorClaim { ulid, pds, list: Some(list), signature }.verify()
}

//= rfc3972#6-3 (test)
#[test]
fn list_verdicts_are_those_of_the_rfc() {
    for vector in &file().signature {
        let list = vector.list();
        let pds = hex::decode(&vector.pds).unwrap();
        let signature = hex::decode(&vector.signature).unwrap();
        // The vectors do not name the ULID; it is the address that fits the parameters.
        let is_hba = |entry: &&moorline_wire::LocatorEntry| entry.method == HBA;
        let ulid = list.entries.iter().find(is_hba).unwrap_or(&list.entries[0]).locator.as_ulid();
        let verdict = verify(ulid, &pds, &list, Some(&signature));
        assert_eq!(verdict.is_ok(), vector.locator_list_valid_rfc, "{}: {verdict:?}", vector.id);
        if let Ok(verified) = verdict {
            assert!(list.entries.iter().map(|entry| &entry.locator).eq(verified.locators()));
        }
    }
}

#[test]
fn refused_vectors_fail_at_the_step_that_was_broken() {
    let file = file();
    for (id, expected) in [
        ("sig-003", VerifyError::Signature),
        ("sig-005", VerifyError::Signature),
        ("sig-007", VerifyError::Signature),
        ("sig-011", VerifyError::NoPublicKey),
        ("sig-013", VerifyError::Signature),
        ("sig-027", VerifyError::Signature),
    ] {
        let vector = file.signature.iter().find(|vector| vector.id == id).unwrap();
        let list = vector.list();
        let pds = hex::decode(&vector.pds).unwrap();
        let signature = hex::decode(&vector.signature).unwrap();
        let at = usize::from(id == "sig-011");
        let ulid = list.entries[at].locator.as_ulid();
        assert_eq!(verify(ulid, &pds, &list, Some(&signature)), Err(expected), "{id}");
    }
}

/// LinShim6 wrote beyond the heap if an address that is no CGA preceded one in a signed list.
#[test]
fn signed_list_is_accepted_in_every_order() {
    let key = key();
    let set = a_compatible_set(&key);
    let later = a_cga(&key, C);
    let [ulid, other] = [set.locators()[0], set.locators()[1]];
    let entries =
        [(ulid, HBA), (other, HBA), (later.address(), CGA), (plain(1), CGA), (plain(2), CGA)];
    for order in permutations(entries.len()) {
        let entries: Vec<_> = order.iter().map(|&at| entries[at]).collect();
        let list = list(3, &entries);
        let signature = sign(&key, &list);
        let verified = verify(ulid.as_ulid(), set.pds(), &list, Some(&signature)).unwrap();
        assert!(list.entries.iter().map(|entry| &entry.locator).eq(verified.locators()));
    }
}

/// Permutations by Heap's algorithm.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut all = vec![order.clone()];
    let mut counters = vec![0; count];
    let mut at = 0;
    while at < count {
        if counters[at] < at {
            order.swap(if at % 2 == 0 { 0 } else { counters[at] }, at);
            all.push(order.clone());
            counters[at] += 1;
            at = 0;
        } else {
            counters[at] = 0;
            at += 1;
        }
    }
    assert_eq!(all.len(), (1..=count).product::<usize>());
    all
}

#[test]
fn cga_ulid_proves_any_addresses_by_signature() {
    let key = key();
    let cga = a_cga(&key, A);
    let list = list(0, &[(plain(1), CGA), (cga.address(), CGA), (a_cga(&key, B).address(), CGA)]);
    let signature = sign(&key, &list);
    let ulid = cga.address().as_ulid();
    let verified = verify(ulid, cga.pds(), &list, Some(&signature)).unwrap();
    assert!(verified.locators().contains(&plain(1)));
    // None of them passes as an HBA, signed or not.
    for at in 0..3 {
        let mut list = list.clone();
        list.entries[at].method = HBA;
        let signature = sign(&key, &list);
        let result = verify(ulid, cga.pds(), &list, Some(&signature));
        assert_eq!(result, Err(VerifyError::NoMultiPrefix), "{at}");
    }
}

/// A CGA may have a Multi-Prefix extension that does not contain its own prefix.
#[test]
fn cga_ulid_beside_a_set_of_its_parameters_is_accepted() {
    let key = key();
    let extension = CgaExtension::MultiPrefix(MultiPrefix::new(true, vec![A, B]));
    let cga = generate_cga(C, Sec::ZERO, key.public_key(), &[extension], [7; 16], 1).unwrap();
    let set = HbaSet::from_pds(cga.pds(), Sec::ZERO).unwrap();
    let entries = [(cga.address(), CGA), (set.locators()[0], HBA), (set.locators()[1], HBA)];
    let ulid = cga.address().as_ulid();
    let verified = verify(ulid, cga.pds(), &list(0, &entries), None).unwrap();
    assert_eq!(verified.locators().len(), 3);
    let as_hba = list(0, &[(cga.address(), HBA)]);
    assert_eq!(verify(ulid, cga.pds(), &as_hba, None), Err(VerifyError::PrefixNotInSet));
    let stranger = a_cga(&key, [9; 8]).address().as_ulid();
    let nothing = list(0, &[]);
    let result = verify(stranger, cga.pds(), &nothing, None);
    assert_eq!(result, Err(VerifyError::PrefixNotInSet));
}

//= rfc5533#5.15.5-1 (test)
#[test]
fn generation_order_and_members_are_signed() {
    let key = key();
    let cga = a_cga(&key, A);
    let ulid = cga.address().as_ulid();
    let good = list(5, &[(cga.address(), CGA), (plain(1), CGA), (plain(2), CGA)]);
    let signature = sign(&key, &good);
    let refused = |list: &LocatorList| {
        let result = verify(ulid, cga.pds(), list, Some(&signature));
        assert_eq!(result, Err(VerifyError::Signature), "{list:?}");
    };
    assert!(verify(ulid, cga.pds(), &good, Some(&signature)).is_ok());
    refused(&LocatorList { generation: 6, ..good.clone() });
    let mut changed = good.clone();
    changed.entries.swap(1, 2);
    refused(&changed);
    changed.entries.pop();
    refused(&changed);
    changed = good.clone();
    changed.entries.push(good.entries[1]);
    refused(&changed);
    changed = good.clone();
    changed.entries[2].locator = plain(3);
    refused(&changed);
}

#[test]
fn missing_signature_and_impossible_keys_are_refused_before_any_hash() {
    let key = key();
    let set = a_compatible_set(&key);
    let entries = [(set.locators()[0], HBA), (plain(1), CGA)];
    let list = list(0, &entries);
    // Not even the parameters are parsed, nor compared with the ULID.
    let stranger = plain(7).as_ulid();
    assert_eq!(verify(stranger, &[], &list, None), Err(VerifyError::NoSignature));
    let refused = |spki: &[u8], signature: &[u8]| {
        let key = PublicKey::from_spki(spki).unwrap();
        let cga = generate_cga(A, Sec::ZERO, &key, &[], [7; 16], 1).unwrap();
        verify(stranger, cga.pds(), &list, Some(signature)).unwrap_err()
    };
    let file = file();
    let spki = |name: &str| hex::decode(&file.keys[name].spki).unwrap();
    let short = VerifyError::Key(KeyError::TooShort { bits: 512 });
    assert_eq!(refused(&spki("rfc3972-rsa512"), &[0; 64]), short);
    assert_eq!(refused(&spki("p256"), &[0; 64]), VerifyError::Key(KeyError::NotRsa));
    for length in [0, 127, 129, 256] {
        assert_eq!(refused(&spki("rsa1024"), &vec![0; length]), VerifyError::Signature);
    }
    assert_eq!(refused(&spki("rsa1024"), &[0; 128]), VerifyError::NoMultiPrefix);
    let set = super::a_set(&[A, B], Sec::ZERO);
    let result = verify(stranger, set.pds(), &list, Some(&[0; 48]));
    assert_eq!(result, Err(VerifyError::NoPublicKey));
}

#[test]
fn caller_can_tell_before_any_work_whether_there_is_a_signature_to_verify() {
    let key = key();
    let set = a_compatible_set(&key);
    let [ulid, other] = [set.locators()[0], set.locators()[1]];
    for (entries, expected) in [
        (vec![], false),
        (vec![(ulid, HBA), (other, HBA)], false),
        (vec![(ulid, CGA), (other, HBA)], false),
        (vec![(ulid, CGA), (other, CGA)], true),
        (vec![(ulid, HBA), (plain(1), CGA)], true),
    ] {
        let list = list(1, &entries);
        let signature = sign(&key, &list);
        let claim = LocatorClaim {
            ulid: ulid.as_ulid(),
            pds: set.pds(),
            list: Some(&list),
            signature: Some(&signature),
        };
        assert_eq!(claim.needs_signature(), expected, "{entries:?}");
        let checked = claim.check().unwrap();
        assert_eq!(checked.needs_signature(), expected);
        assert_eq!(checked.verify_signature().unwrap().locators().len(), entries.len());
        // A signature that no locator needs is not checked.
        let verdict = LocatorClaim { signature: Some(b"noise"), ..claim }.verify();
        assert_eq!(verdict.is_ok(), !expected);
    }
    let alone = LocatorClaim { ulid: ulid.as_ulid(), pds: set.pds(), list: None, signature: None };
    assert!(!alone.needs_signature());
    let verified = alone.verify().unwrap();
    assert_eq!((verified.ulid(), verified.locators()), (ulid.as_ulid(), &[][..]));
}

/// A signature binds addresses to a key. The hashes show that the key belongs to the ULID.
//= rfc3972#6-3 (test)
#[test]
fn signed_list_with_the_parameters_of_somebody_else_is_refused() {
    let key = key();
    let victim = a_cga(&rsa_key(&file(), "rsa2048"), A).address();
    let forger = a_cga(&key, A);
    let list = list(0, &[(victim, CGA), (plain(1), CGA)]);
    let signature = sign(&key, &list);
    let result = verify(victim.as_ulid(), forger.pds(), &list, Some(&signature));
    assert_eq!(result, Err(VerifyError::Hash1));
}

#[test]
fn hba_of_another_set_is_refused_even_if_others_are_signed() {
    let key = key();
    let set = a_compatible_set(&key);
    let foreign = super::a_set(&[A, B], Sec::ZERO).locators()[1];
    let list = list(0, &[(set.locators()[0], HBA), (foreign, HBA), (plain(1), CGA)]);
    let signature = sign(&key, &list);
    let ulid = set.locators()[0].as_ulid();
    let result = verify(ulid, set.pds(), &list, Some(&signature));
    assert_eq!(result, Err(VerifyError::Hash1));
}

/// RFC 5533 s7.2: the Pointer of an Error message with code 2.
#[test]
fn inconsistent_method_is_pointed_at() {
    let key = key();
    let cga = a_cga(&key, A);
    let ulid = cga.address().as_ulid();
    let point = |pds: &[u8], methods: &[VerificationMethod], signature| {
        let locators = [cga.address(), plain(1), plain(2)];
        let entries: Vec<_> = locators.into_iter().zip(methods.iter().copied()).collect();
        let list = list(0, &entries);
        let claim = LocatorClaim { ulid, pds, list: Some(&list), signature };
        let error = claim.verify().unwrap_err();
        (error, claim.inconsistent_method(error))
    };
    let unknown = VerificationMethod::new(77);
    let signature = Some(&[1; 128][..]);
    assert_eq!(
        point(cga.pds(), &[CGA, CGA, unknown], signature),
        (VerifyError::MethodUnsupported { index: 2 }, Some(2))
    );
    assert_eq!(
        point(cga.pds(), &[CGA, CGA, HBA], signature),
        (VerifyError::NoMultiPrefix, Some(2))
    );
    assert_eq!(
        point(super::a_set(&[A], Sec::ZERO).pds(), &[CGA, CGA, CGA], signature),
        (VerifyError::NoPublicKey, Some(1))
    );
    let set = a_compatible_set(&key);
    let entries = [(set.locators()[0], HBA), (plain(1), HBA)];
    let list = list(0, &entries);
    let ulid = set.locators()[0].as_ulid();
    let claim = LocatorClaim { ulid, pds: set.pds(), list: Some(&list), signature: None };
    assert_eq!(claim.verify().unwrap_err(), VerifyError::PrefixNotInSet);
    assert_eq!(claim.inconsistent_method(VerifyError::PrefixNotInSet), Some(1));
    assert_eq!(point(cga.pds(), &[CGA, CGA], signature), (VerifyError::Signature, None));
    assert_eq!(point(cga.pds(), &[CGA, CGA], None), (VerifyError::NoSignature, None));
}
