use crate::{
    GenerateError, HbaKey, HbaSet, Sec, parameters::MAX_PDS_OCTETS, search::Hash2Blocks,
    set::MAX_PREFIXES,
};
use alloc::vec;
use moorline_wire::{CgaExtension, CgaParameters, MultiPrefix, consts::CGA_FIXED_LEN};

/// Makes an HBA set (RFC 5535 s6), one address for each prefix.
///
/// Equal inputs give equal sets. `modifier_start` should be 128 random bits, so that sets cannot be
/// linked to each other. The search takes 2^(16 * Sec) tries on average and may take several times
/// that; with Sec 0 the first try is the last. Each try is a SHA-1 over some 140 octets.
///
/// # Errors
///
/// Nothing to make, or [`GenerateError::Exhausted`] after `max_tries`, with where to go on.
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
    let pds = parameters.emit();
    if pds.len() > MAX_PDS_OCTETS {
        return Err(GenerateError::TooLong);
    }
    let modifier = Hash2Blocks::new(&pds[CGA_FIXED_LEN..])
        .search(u128::from_be_bytes(modifier_start), sec, max_tries)
        .map_err(|next| GenerateError::Exhausted { next_modifier: next.to_be_bytes() })?;
    parameters.modifier = modifier.to_be_bytes();
    Ok(HbaSet::assemble(parameters, prefixes, sec))
}

fn check_prefixes(prefixes: &[[u8; 8]]) -> Result<(), GenerateError> {
    if prefixes.is_empty() {
        return Err(GenerateError::NoPrefix);
    }
    if prefixes.len() > MAX_PREFIXES {
        return Err(GenerateError::TooManyPrefixes);
    }
    // RFC 5535 allows a prefix to stand twice; the same address twice is of no use.
    match (1..prefixes.len()).find(|&index| prefixes[..index].contains(&prefixes[index])) {
        Some(index) => Err(GenerateError::DuplicatePrefix { index }),
        None => Ok(()),
    }
}
