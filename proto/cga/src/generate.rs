use crate::{
    Cga, GenerateError, HbaKey, HbaSet, PublicKey, Sec,
    parameters::{MAX_PDS_OCTETS, Parameters},
    search::Hash2Search,
    set::MAX_PREFIXES,
};
use alloc::{vec, vec::Vec};
use moorline_wire::{CgaExtension, CgaParameters, MultiPrefix, consts::CGA_FIXED_LEN};

/// Makes a CGA (RFC 3972 s4) with a collision count of zero.
///
/// Equal inputs give equal addresses. `modifier_start` should be 128 random bits, so that addresses of one
/// key cannot be linked to each other. The search takes 2^(16 * Sec) tries on average, and may take several
/// times as many. With Sec 0 the first try succeeds.
///
/// # Errors
///
/// The inputs allow no address, or [`GenerateError::Exhausted`] after `max_tries`, with the modifier from
/// which to continue.
//= rfc3972#4-1 rfc3972#4-6 rfc3972#4-7 rfc3972#4-8
pub fn generate_cga(
    prefix: [u8; 8],
    sec: Sec,
    key: &PublicKey,
    extensions: &[CgaExtension],
    modifier_start: [u8; 16],
    max_tries: u64,
) -> Result<Cga, GenerateError> {
    let mut parameters = CgaParameters {
        modifier: modifier_start,
        subnet_prefix: prefix,
        collision_count: 0,
        public_key: key.spki().to_vec(),
        extensions: extensions.to_vec(),
    };
    let pds = emit(&parameters)?;
    // Our verification accepts the extension that `HbaSet` makes; these extensions come from the caller.
    Parameters::parse(&pds).map_err(GenerateError::Extensions)?;
    parameters.modifier = find_modifier(&pds, sec, modifier_start, max_tries)?;
    Ok(Cga::assemble(parameters.emit(), key.clone(), sec))
}

/// Makes an HBA set (RFC 5535 s6), one address for each prefix.
///
/// Equal inputs give equal sets. `modifier_start` should be 128 random bits, so that sets cannot be linked to
/// each other. The search takes 2^(16 * Sec) tries on average, and may take several times as many. With Sec 0
/// the first try succeeds. Each try is a SHA-1 over some 140 octets.
///
/// # Errors
///
/// The inputs allow no set, or [`GenerateError::Exhausted`] after `max_tries`, with the modifier from which
/// to continue.
//= rfc5535#6
pub fn generate_hba(
    prefixes: &[[u8; 8]],
    sec: Sec,
    key: &HbaKey,
    modifier_start: [u8; 16],
    max_tries: u64,
) -> Result<HbaSet, GenerateError> {
    check_prefixes(prefixes)?;
    let multi_prefix = MultiPrefix::new(key.is_public_key(), prefixes.to_vec());
    let mut parameters = CgaParameters {
        modifier: modifier_start,
        subnet_prefix: prefixes[0],
        collision_count: 0,
        public_key: key.spki().to_vec(),
        extensions: vec![CgaExtension::MultiPrefix(multi_prefix)],
    };
    let pds = emit(&parameters)?;
    parameters.modifier = find_modifier(&pds, sec, modifier_start, max_tries)?;
    Ok(HbaSet::assemble(parameters, prefixes, sec))
}

fn emit(parameters: &CgaParameters) -> Result<Vec<u8>, GenerateError> {
    let pds = parameters.emit();
    if pds.len() > MAX_PDS_OCTETS { Err(GenerateError::TooLong) } else { Ok(pds) }
}

/// Searches for a modifier. Only the public key and the extensions of `pds` matter.
fn find_modifier(
    pds: &[u8],
    sec: Sec,
    start: [u8; 16],
    max_tries: u64,
) -> Result<[u8; 16], GenerateError> {
    if !sec.is_sha1() {
        return Err(GenerateError::HashFunction { sec });
    }
    let start = u128::from_be_bytes(start);
    let after = |tries: u64| start.wrapping_add(tries.into()).to_be_bytes();
    match Hash2Search::new(&pds[CGA_FIXED_LEN..], sec).first_fit(start, max_tries) {
        Some(offset) => Ok(after(offset)),
        None => Err(GenerateError::Exhausted { next_modifier: after(max_tries) }),
    }
}

fn check_prefixes(prefixes: &[[u8; 8]]) -> Result<(), GenerateError> {
    if prefixes.is_empty() {
        return Err(GenerateError::NoPrefix);
    }
    if prefixes.len() > MAX_PREFIXES {
        return Err(GenerateError::TooManyPrefixes);
    }
    // RFC 5535 allows a prefix to occur twice, but the same address twice is of no use.
    match (1..prefixes.len()).find(|&index| prefixes[..index].contains(&prefixes[index])) {
        Some(index) => Err(GenerateError::DuplicatePrefix { index }),
        None => Ok(()),
    }
}
