//! The CGA Parameters data structure, with the checks that verification adds to those of the codec.

use crate::{Sec, VerifyError, hash::hash2_zero_bits};
use der::Decode;
use moorline_types::DropReason;
use moorline_wire::{
    CgaExtension, CgaParameters,
    consts::{CGA_FIXED_LEN, MAX_PDS_LEN},
};
use spki::SubjectPublicKeyInfoRef;

/// Longest PDS that is parsed, in octets.
pub const MAX_PDS_OCTETS: usize = MAX_PDS_LEN;

/// A PDS and its fields. Hashes cover the octets of the PDS as they came, never an encoding of the fields.
pub(crate) struct Parameters<'a> {
    pub(crate) pds: &'a [u8],
    pub(crate) fields: CgaParameters,
}

impl<'a> Parameters<'a> {
    /// Parses a PDS. The octets of the public key stay opaque within their frame of strict DER: a verifier
    /// accepts any (RFC 5535 s6 puts random octets there, LinShim6 even without the shape of an RSA key).
    pub(crate) fn parse(pds: &'a [u8]) -> Result<Self, VerifyError> {
        if pds.len() > MAX_PDS_OCTETS {
            return Err(VerifyError::TooLong);
        }
        match pds.get(CGA_FIXED_LEN..) {
            None | Some([]) => return Err(VerifyError::Truncated),
            Some(tail) => after_public_key(tail).ok_or(VerifyError::PublicKey)?,
        };
        let fields = CgaParameters::parse(pds).map_err(|reason| {
            if reason == DropReason::Truncated {
                VerifyError::Extension
            } else if reason == DropReason::BadLength {
                VerifyError::MultiPrefixLength
            } else if reason == DropReason::TooMany {
                VerifyError::TooMany
            } else {
                VerifyError::PublicKey
            }
        })?;
        check_multi_prefix(&fields)?;
        Ok(Self { pds, fields })
    }

    /// Parses the PDS of addresses with this Sec.
    pub(crate) fn for_sec(pds: &'a [u8], sec: Sec) -> Result<Self, VerifyError> {
        if !sec.is_sha1() {
            return Err(VerifyError::HashFunction { sec });
        }
        let parameters = Self::parse(pds)?;
        parameters.check_collision_count()?;
        if hash2_zero_bits(pds) < sec.hash2_zero_bits() {
            return Err(VerifyError::Hash2);
        }
        Ok(parameters)
    }

    //= rfc3972#3-1
    pub(crate) const fn check_collision_count(&self) -> Result<(), VerifyError> {
        if self.fields.collision_count > MAX_COLLISION_COUNT {
            return Err(VerifyError::CollisionCount);
        }
        Ok(())
    }

    /// Prefixes of the set; `None` for a CGA that is no HBA.
    pub(crate) fn prefixes(&self) -> Option<&[[u8; 8]]> {
        self.fields.multi_prefix().map(|multi_prefix| &multi_prefix.prefixes[..])
    }
}

/// Largest collision count. RFC 3972 s3: "MUST be 0, 1, or 2".
//= rfc3972#3-1
pub(crate) const MAX_COLLISION_COUNT: u8 = 2;

/// Whether the octets are one public key and nothing else.
pub(crate) fn is_public_key(octets: &[u8]) -> bool {
    after_public_key(octets) == Some(&[])
}

/// The octets behind one `SubjectPublicKeyInfo`, which is strict DER within the slice.
//= rfc3972#3-2
fn after_public_key(octets: &[u8]) -> Option<&[u8]> {
    SubjectPublicKeyInfoRef::from_der_partial(octets).ok().map(|(_, rest)| rest)
}

/// Checks the Multi-Prefix extension. With two of them the set of the owner would be ambiguous, and without
/// prefixes there is no set.
fn check_multi_prefix(fields: &CgaParameters) -> Result<(), VerifyError> {
    let mut found = fields.extensions.iter().filter_map(|extension| match extension {
        CgaExtension::MultiPrefix(multi_prefix) => Some(multi_prefix),
        CgaExtension::Unknown { .. } => None,
    });
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(VerifyError::DuplicateMultiPrefix),
        (Some(only), None) if only.prefixes.is_empty() => Err(VerifyError::MultiPrefixLength),
        _ => Ok(()),
    }
}
