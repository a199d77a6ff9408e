use moorline_cga::{HbaSet, MAX_LOCATORS, Sec, verify_cga, verify_hba, verify_locator_set};
use moorline_types::Locator;
use moorline_wire::{CgaParameters, VerificationMethod};

/// An address and a PDS: what verifies is what the owner of the PDS would have generated, and nothing
/// else. The set is made from the PDS too, as a fuzzer cannot guess a hash.
pub fn cga_verify(octets: &[u8]) -> bool {
    let Some((address, pds)) = octets.split_first_chunk::<16>() else { return false };
    let address = Locator::from(*address);
    let is_hba = verify_hba(address, pds).is_ok();
    let is_cga = verify_cga(address, pds).is_ok();
    let parameters = CgaParameters::parse(pds);
    assert!(!is_cga || parameters.is_ok_and(|p| p.subnet_prefix == address.prefix()));
    let list = [(address, VerificationMethod::HBA)];
    assert_eq!(verify_locator_set(address.as_ulid(), pds, &list).is_ok(), is_hba);
    let own = HbaSet::from_pds(pds, Sec::of_interface_id(address.interface_id()));
    assert_eq!(own.is_ok_and(|set| set.locators().contains(&without_u_and_g(address))), is_hba);
    match HbaSet::from_pds(pds, Sec::ZERO) {
        Ok(set) => check_set(&set, pds),
        Err(_) => assert!(!is_hba),
    }
    is_hba || is_cga || HbaSet::from_pds(pds, Sec::ZERO).is_ok()
}

fn check_set(set: &HbaSet, pds: &[u8]) {
    for member in set.members() {
        assert_eq!(verify_cga(member.address(), member.pds()), Ok(()));
        assert_eq!(HbaSet::from_pds(member.pds(), set.sec()).as_ref(), Ok(set));
    }
    let list: Vec<_> =
        set.locators().iter().map(|&locator| (locator, VerificationMethod::HBA)).collect();
    assert!(list.len() <= MAX_LOCATORS);
    for &locator in set.locators() {
        let verified = verify_locator_set(locator.as_ulid(), pds, &list).expect("its own set");
        assert_eq!(verified.locators(), set.locators());
    }
}

fn without_u_and_g(address: Locator) -> Locator {
    let mut octets = address.octets();
    octets[8] &= 0xfc;
    Locator::from(octets)
}
