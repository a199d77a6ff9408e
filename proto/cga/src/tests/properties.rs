use super::{A, B, C, verify_list};
use crate::{HbaKey, HbaSet, PublicKey, Sec, VerifyError, generate_hba, verify_cga, verify_hba};
use moorline_types::Locator;
use moorline_wire::VerificationMethod;
use proptest::{collection::btree_set, prelude::*};
use std::vec::Vec;

prop_compose! {
    fn any_set()(
        prefixes in btree_set(any::<[u8; 8]>(), 1..=8),
        start in any::<[u8; 16]>(),
        random in prop::array::uniform32(any::<u8>()),
        is_public_key in any::<bool>(),
        collisions in 0..=2,
    ) -> HbaSet {
        let mut octets = [0; 48];
        octets[..32].copy_from_slice(&random);
        let mut key = HbaKey::extended_modifier(octets);
        if is_public_key {
            key = HbaKey::of(&PublicKey::from_spki(key.spki()).unwrap());
        }
        let prefixes: Vec<_> = prefixes.into_iter().collect();
        let mut set = generate_hba(&prefixes, Sec::ZERO, &key, start, 1).unwrap();
        for _ in 0..collisions {
            set = set.after_collision().unwrap();
        }
        set
    }
}

proptest! {
    #[test]
    fn any_generated_set_verifies(set in any_set()) {
        for member in set.members() {
            prop_assert_eq!(verify_cga(member.address(), member.pds()), Ok(()));
            prop_assert_eq!(verify_hba(member.address(), set.pds()), Ok(()));
        }
        let list: Vec<_> =
            set.locators().iter().map(|&locator| (locator, VerificationMethod::HBA)).collect();
        let ulid = set.locators()[0].as_ulid();
        prop_assert!(verify_list(ulid, set.pds(), &list).is_ok());
        prop_assert_eq!(HbaSet::from_pds(set.pds(), set.sec()), Ok(set));
    }

    #[test]
    fn no_octets_panic_the_verifier(pds: Vec<u8>, address: [u8; 16], with_fixed_part: bool) {
        let pds = if with_fixed_part { [&[0; 25][..], &pds].concat() } else { pds };
        prop_assert!(verify_hba(Locator::from(address), &pds).is_err());
        prop_assert!(verify_cga(Locator::from(address), &pds).is_err());
    }

    #[test]
    fn noise_in_a_real_pds_never_verifies(
        set in any_set(),
        at in any::<prop::sample::Index>(),
        noise in any::<[u8; 4]>(),
    ) {
        let mut pds = set.pds().to_vec();
        let at = at.index(pds.len() - 4);
        pds[at..at + 4].copy_from_slice(&noise);
        let prefix_replaced = pds[..16] == set.pds()[..16] && pds[24..] == set.pds()[24..];
        let verdict = verify_hba(set.locators()[0], &pds);
        prop_assert_eq!(verdict.is_ok(), prefix_replaced, "{:?}", verdict);
    }
}

/// Each bit of the PDS matters, except for the prefix field, which RFC 5535 s7.2 step 1 replaces.
#[test]
fn any_single_bit_of_the_pds_matters() {
    let set = super::a_set(&[A, B, C], Sec::ONE);
    let address = set.locators()[0];
    for bit in 0..8 * set.pds().len() {
        let mut pds = set.pds().to_vec();
        pds[bit / 8] ^= 0x80 >> (bit % 8);
        let is_prefix = (128..192).contains(&bit);
        let as_hba = verify_hba(address, &pds);
        assert_eq!(as_hba.is_ok(), is_prefix, "bit {bit}: {as_hba:?}");
        let as_cga = verify_cga(address, &pds);
        assert!(as_cga.is_err(), "bit {bit}");
        if is_prefix {
            assert_eq!(as_cga, Err(VerifyError::PrefixMismatch));
        }
    }
}

/// Each bit of the address matters, except for `u`, `g`, and the bits that make Sec smaller.
#[test]
fn any_single_bit_of_the_address_matters() {
    let set = super::a_set(&[A, B, C], Sec::ONE);
    for bit in 0..128 {
        let mut octets = set.locators()[0].octets();
        octets[bit / 8] ^= 0x80 >> (bit % 8);
        let verdict = verify_hba(Locator::from(octets), set.pds());
        let (sec_to_0, u, g) = (66, 70, 71);
        let is_free = [sec_to_0, u, g].contains(&bit);
        assert_eq!(verdict.is_ok(), is_free, "bit {bit}: {verdict:?}");
        match bit {
            0..64 => assert!(verdict.is_err()),
            64 | 65 => assert!(matches!(verdict, Err(VerifyError::HashFunction { .. }))),
            _ if is_free => {}
            _ => assert_eq!(verdict, Err(VerifyError::Hash1)),
        }
    }
}
