mod cga;
mod errors;
mod keys;
mod locator_set;
mod memory;
mod proofs;
mod properties;
mod search;
mod signatures;
mod signed_lists;
mod vectors;

use crate::{HbaKey, HbaSet, LocatorClaim, LocatorsVerified, Sec, VerifyError, generate_hba};
use alloc::vec::Vec;
use moorline_types::{Locator, Ulid};
use moorline_wire::{CgaExtension, LocatorEntry, LocatorList, MultiPrefix, VerificationMethod};

pub(crate) const A: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0];
pub(crate) const B: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0];
pub(crate) const C: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 3, 0, 4];

/// Number of tries that find a modifier for Sec 1, with a chance of failure of e^-16.
pub(crate) const ENOUGH_FOR_SEC_1: u64 = 1 << 20;

pub(crate) fn a_set(prefixes: &[[u8; 8]], sec: Sec) -> HbaSet {
    let key = HbaKey::extended_modifier([0x5a; 48]);
    generate_hba(prefixes, sec, &key, [7; 16], ENOUGH_FOR_SEC_1).unwrap()
}

pub(crate) fn encode_multi_prefix(prefixes: &[[u8; 8]]) -> Vec<u8> {
    let mut out = Vec::new();
    CgaExtension::MultiPrefix(MultiPrefix::new(false, prefixes.to_vec())).emit(&mut out);
    out
}

/// A PDS with any octets in place of the extensions.
pub(crate) fn encode(
    modifier: [u8; 16],
    prefix: [u8; 8],
    spki: &[u8],
    extensions: &[u8],
) -> Vec<u8> {
    [&modifier[..], &prefix, &[0], spki, extensions].concat()
}

pub(crate) fn list(generation: u32, entries: &[(Locator, VerificationMethod)]) -> LocatorList {
    let entries =
        entries.iter().map(|&(locator, method)| LocatorEntry { locator, method }).collect();
    LocatorList { generation, entries }
}

/// Verifies a list without a signature.
pub(crate) fn verify_list(
    ulid: Ulid,
    pds: &[u8],
    entries: &[(Locator, VerificationMethod)],
) -> Result<LocatorsVerified, VerifyError> {
    LocatorClaim { ulid, pds, list: Some(&list(1, entries)), signature: None }.verify()
}
