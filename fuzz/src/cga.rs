use moorline_cga::{
    HbaSet, LocatorClaim, LocatorsVerified, MAX_LOCATORS, Sec, VerifyError, verify_cga, verify_hba,
};
use moorline_types::{Locator, Ulid};
use moorline_wire::{CgaParameters, LocatorEntry, LocatorList, VerificationMethod};

/// Input: an address and a PDS. An address verifies exactly if the owner of the PDS would have generated it. The target
/// also makes the set from the PDS, because a fuzzer cannot guess a hash.
pub(crate) fn cga_verify(octets: &[u8]) -> bool {
    let Some((address, pds)) = octets.split_first_chunk::<16>() else { return false };
    let address = Locator::from(*address);
    let is_hba = verify_hba(address, pds).is_ok();
    let is_cga = verify_cga(address, pds).is_ok();
    let parameters = CgaParameters::parse(pds);
    assert!(!is_cga || parameters.is_ok_and(|p| p.subnet_prefix == address.prefix()));
    assert_eq!(verify_by_hba(address.as_ulid(), pds, &[address]).is_ok(), is_hba);
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
    assert!(set.locators().len() <= MAX_LOCATORS);
    for &locator in set.locators() {
        let verified = verify_by_hba(locator.as_ulid(), pds, set.locators()).expect("its own set");
        assert_eq!(verified.locators(), set.locators());
    }
}

fn verify_by_hba(
    ulid: Ulid,
    pds: &[u8],
    locators: &[Locator],
) -> Result<LocatorsVerified, VerifyError> {
    let entry = |&locator| LocatorEntry { locator, method: VerificationMethod::HBA };
    let list = LocatorList { generation: 0, entries: locators.iter().map(entry).collect() };
    LocatorClaim { ulid, pds, list: Some(&list), signature: None }.verify()
}

fn without_u_and_g(address: Locator) -> Locator {
    let mut octets = address.octets();
    octets[8] &= 0xfc;
    Locator::from(octets)
}
