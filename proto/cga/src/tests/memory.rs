use super::{A, B, C, a_set, list, signatures::rsa_key, vectors::file, verify_list};
use crate::{
    HbaSet, LocatorClaim, LocatorsVerified, ParameterMemory, Sec, Signer, VerifyError,
    generate_cga, signed_octets,
};
use moorline_types::{Locator, Ulid};
use moorline_wire::VerificationMethod;
use proptest::{collection::vec, prelude::*};
use std::vec::Vec;

fn verified(set: &HbaSet, member: usize) -> LocatorsVerified {
    verify_list(set.locators()[member].as_ulid(), set.members()[member].pds(), &[]).unwrap()
}

/// HBA sets with different ULIDs.
fn peers(count: u8) -> Vec<HbaSet> {
    (0..count).map(|n| a_set(&[A, [n; 8]], Sec::ZERO)).collect()
}

fn ulid(set: &HbaSet) -> Ulid {
    set.locators()[0].as_ulid()
}

#[test]
fn list_without_parameters_is_verified_with_those_remembered() {
    let set = a_set(&[A, B, C], Sec::ZERO);
    let mut memory = ParameterMemory::new(10);
    assert_eq!(memory.recall(ulid(&set)), None);
    memory.remember(&verified(&set, 0));
    let pds = memory.recall(ulid(&set)).unwrap();
    let entries: Vec<_> =
        set.locators().iter().map(|&locator| (locator, VerificationMethod::HBA)).collect();
    let verdict = verify_list(ulid(&set), pds, &entries).unwrap();
    assert_eq!(verdict.locators().len(), 3);
    // Parameters of one ULID are not recalled for another one, even of the same set, which never was the ULID
    // of a peer.
    assert_eq!(memory.recall(set.locators()[1].as_ulid()), None);
}

#[test]
fn signed_list_without_parameters_is_verified_with_the_key_remembered() {
    let key = rsa_key(&file(), "rsa1024");
    let cga = generate_cga(A, Sec::ZERO, key.public_key(), &[], [7; 16], 1).unwrap();
    let ulid = cga.address().as_ulid();
    let mut memory = ParameterMemory::new(10);
    memory.remember(&verify_list(ulid, cga.pds(), &[]).unwrap());
    let new = Locator::from([0x20; 16]);
    let list = list(8, &[(cga.address(), VerificationMethod::CGA), (new, VerificationMethod::CGA)]);
    let signature = key.sign(&signed_octets(&list), [1; 32]).unwrap();
    let mut claim = LocatorClaim {
        ulid,
        pds: memory.recall(ulid).unwrap(),
        list: Some(&list),
        signature: Some(&signature),
    };
    assert!(claim.verify().unwrap().locators().contains(&new));
    let other = rsa_key(&file(), "rsa2048").sign(&signed_octets(&list), [1; 32]).unwrap();
    claim.signature = Some(&other);
    assert_eq!(claim.verify(), Err(VerifyError::Signature));
}

#[test]
fn newer_parameters_take_the_place_of_older_ones() {
    let set = a_set(&[A, B], Sec::ZERO);
    let mut memory = ParameterMemory::new(1);
    let address = set.locators()[0].as_ulid();
    for member in set.members() {
        memory.remember(&verify_list(address, member.pds(), &[]).unwrap());
        assert_eq!(memory.recall(address), Some(member.pds()));
        assert_eq!(memory.len(), 1);
    }
    assert_eq!(memory.forget(address).as_deref(), Some(set.members()[1].pds()));
    assert_eq!(memory.forget(address), None);
    assert!(memory.is_empty());
}

#[test]
fn oldest_is_forgotten_at_the_cap() {
    let sets = peers(4);
    let mut memory = ParameterMemory::new(3);
    for set in &sets[..3] {
        memory.remember(&verified(set, 0));
    }
    assert!(memory.recall(ulid(&sets[0])).is_some());
    memory.remember(&verified(&sets[3], 0));
    assert_eq!(memory.len(), 3);
    let is_there = sets.iter().map(|set| memory.recall(ulid(set)).is_some());
    assert_eq!(is_there.collect::<Vec<_>>(), [true, false, true, true]);
    let mut none = ParameterMemory::new(0);
    none.remember(&verified(&sets[0], 0));
    assert!(none.is_empty());
}

proptest! {
    /// Compares the memory with a list in order of use.
    #[test]
    fn memory_is_what_was_used_last(ops in vec((0u8..3, 0usize..6), 0..60), capacity in 1usize..5) {
        let sets = peers(6);
        let mut memory = ParameterMemory::new(capacity);
        let mut model: Vec<usize> = Vec::new();
        for (op, peer) in ops {
            let was_there = model.contains(&peer);
            match op {
                0 => memory.remember(&verified(&sets[peer], 0)),
                1 => prop_assert_eq!(memory.recall(ulid(&sets[peer])).is_some(), was_there),
                _ => prop_assert_eq!(memory.forget(ulid(&sets[peer])).is_some(), was_there),
            }
            model.retain(|&other| other != peer);
            if op == 0 || op == 1 && was_there {
                model.push(peer);
            }
            if model.len() > capacity {
                model.remove(0);
            }
            prop_assert_eq!(memory.len(), model.len());
        }
        for (peer, set) in sets.iter().enumerate() {
            prop_assert_eq!(memory.recall(ulid(set)).is_some(), model.contains(&peer));
        }
    }
}
