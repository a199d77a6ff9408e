//! Hash1, Hash2 and the interface identifier (RFC 3972 s3 and s4).
//!
//! `pds` is an encoded PDS in all functions, so it has at least its fixed part.

use crate::Sec;
use moorline_wire::consts::CGA_FIXED_LEN;
use sha1::{Digest, Sha1};

/// Hash1 of a PDS with this prefix in its prefix field.
//= rfc3972#3-8 rfc3972#5-9
pub(crate) fn hash1(pds: &[u8], prefix: [u8; 8]) -> [u8; 8] {
    let digest = Sha1::new()
        .chain_update(&pds[..MODIFIER_LEN])
        .chain_update(prefix)
        .chain_update(&pds[MODIFIER_LEN + prefix.len()..])
        .finalize();
    let [hash1 @ .., _, _, _, _, _, _, _, _, _, _, _, _] = digest.0;
    hash1
}

/// Number of leftmost bits of Hash2 that are zero. Hash2 does not cover prefix and collision count, so it is
/// the same for all addresses of a set.
//= rfc3972#3-8 rfc3972#5-9
pub(crate) fn hash2_zero_bits(pds: &[u8]) -> u32 {
    let digest = Sha1::new()
        .chain_update(&pds[..MODIFIER_LEN])
        .chain_update([0; CGA_FIXED_LEN - MODIFIER_LEN])
        .chain_update(&pds[CGA_FIXED_LEN..])
        .finalize();
    let [hash2 @ .., _, _, _, _] = digest.0;
    u128::from_be_bytes(hash2).leading_zeros()
}

/// Writes Sec into the three leftmost bits of Hash1 and clears `u` and `g`.
//= rfc3972#2
pub(crate) const fn interface_id(hash1: [u8; 8], sec: Sec) -> [u8; 8] {
    let mut id = hash1;
    id[0] = id[0] & FIRST_OCTET_MASK | sec.value() << 5;
    id
}

/// Whether an interface identifier equals Hash1, except for Sec, `u` and `g`.
pub(crate) const fn is_hash1(interface_id: [u8; 8], hash1: [u8; 8]) -> bool {
    (u64::from_be_bytes(interface_id) ^ u64::from_be_bytes(hash1)) & MASK1 == 0
}

/// Octets of the modifier, the first field.
pub(crate) const MODIFIER_LEN: usize = 16;
/// Mask1: the bits of Hash1 that are compared (RFC 3972 s2).
const MASK1: u64 = 0x1cff_ffff_ffff_ffff;
/// Mask1 in the first octet: bits 0 to 2 are Sec, bits 6 and 7 are `u` and `g`.
const FIRST_OCTET_MASK: u8 = 0x1c;
