use crate::{
    Sec, VerifyError,
    hash::{hash1, hash2_zero_bits, is_hash1},
    parameters::Parameters,
};
use alloc::vec::Vec;
use moorline_types::Locator;

/// Verifies that an address belongs to the HBA set of a PDS (RFC 5535 s7.2). The PDS may be that of any
/// address of the set.
///
/// # Errors
///
/// The step that failed.
pub fn verify_hba(address: Locator, pds: &[u8]) -> Result<(), VerifyError> {
    Verifier::new(pds)?.hba(address)
}

/// Verifies that an address is the CGA of a PDS (RFC 3972 s5). Its owner is then the owner of the public key
/// in the PDS.
///
/// # Errors
///
/// The step that failed.
pub fn verify_cga(address: Locator, pds: &[u8]) -> Result<(), VerifyError> {
    Verifier::new(pds)?.cga(address)
}

/// Verifies any number of addresses against one PDS.
pub(crate) struct Verifier<'a> {
    parameters: Parameters<'a>,
    /// Zero bits of Hash2, which is the same for the whole set. With Sec 0 it is not computed.
    hash2_zero_bits: Option<u32>,
}

impl<'a> Verifier<'a> {
    pub(crate) fn new(pds: &'a [u8]) -> Result<Self, VerifyError> {
        Ok(Self { parameters: Parameters::parse(pds)?, hash2_zero_bits: None })
    }

    pub(crate) fn parameters(&self) -> &Parameters<'a> {
        &self.parameters
    }

    pub(crate) fn into_public_key(self) -> Vec<u8> {
        self.parameters.fields.public_key
    }

    //= rfc5535#7.2
    pub(crate) fn hba(&mut self, address: Locator) -> Result<(), VerifyError> {
        let prefixes = self.parameters.prefixes().ok_or(VerifyError::NoMultiPrefix)?;
        if !prefixes.contains(&address.prefix()) {
            return Err(VerifyError::PrefixNotInSet);
        }
        self.parameters.check_collision_count()?;
        self.hashes(address)
    }

    //= rfc3972#5-1 rfc5535#7.1
    pub(crate) fn cga(&mut self, address: Locator) -> Result<(), VerifyError> {
        self.parameters.check_collision_count()?;
        if address.prefix() != self.parameters.fields.subnet_prefix {
            return Err(VerifyError::PrefixMismatch);
        }
        self.hashes(address)
    }

    /// Checks RFC 3972 s5 steps 3 to 7, if the hash function is SHA-1 (RFC 4982 s4.1), with the prefix of the
    /// address in the PDS.
    //= rfc3972#5-1 rfc3972#5-2
    fn hashes(&mut self, address: Locator) -> Result<(), VerifyError> {
        let interface_id = address.interface_id();
        let sec = Sec::of_interface_id(interface_id);
        if !sec.is_sha1() {
            return Err(VerifyError::HashFunction { sec });
        }
        if !is_hash1(interface_id, hash1(self.parameters.pds, address.prefix())) {
            return Err(VerifyError::Hash1);
        }
        let wanted = sec.hash2_zero_bits();
        if wanted > 0 {
            let pds = self.parameters.pds;
            let found = self.hash2_zero_bits.get_or_insert_with(|| hash2_zero_bits(pds));
            if *found < wanted {
                return Err(VerifyError::Hash2);
            }
        }
        Ok(())
    }
}
