//! Signatures over locator lists (RFC 5533 s5.15.5): RSASSA-PKCS1-v1_5 with SHA-1.
//!
//! RFC 3972 s6 prescribes SHA-1. Collisions of SHA-1, which can be made, do not help a forger here: the
//! signed octets are the signer's own addresses, which nobody else chooses.

use crate::{PublicKey, SignError, VerifyError, public_key::signing_key};
use alloc::vec::Vec;
use moorline_wire::{LocatorList, VerificationMethod};
use rsa::pkcs1v15::Pkcs1v15Sign;
use sha1::{Digest, Sha1};

/// CGA Message Type tag of Shim6 (RFC 5533 s17): a signature for Shim6 is not valid for anything else.
//= rfc3972#7.4-2
pub const MESSAGE_TYPE_TAG: [u8; 16] = [
    0x4a, 0x30, 0x56, 0x62, 0x48, 0x58, 0x57, 0x4b, 0x36, 0x55, 0x41, 0x6f, 0x50, 0x6a, 0x6d, 0x48,
];

/// A signer: a private key, or something that stands for one.
///
/// Signing takes milliseconds. So it belongs before the first packet, never in the path of a packet; see
/// [`crate::LocalProof`].
//= rfc3972#7.4-3 rfc3972#7.4-4
pub trait Signer {
    /// The public key that verifies the signatures of this signer.
    fn public_key(&self) -> &PublicKey;

    /// Makes the CGA signature over `octets`. Equal octets give equal signatures, whatever `blinding` is.
    ///
    /// `blinding`: 32 random octets, never used before. They hide the private key from an attacker who can
    /// measure the time of signing.
    ///
    /// # Errors
    ///
    /// The key cannot sign, or the machine made a wrong signature.
    fn sign(&self, octets: &[u8], blinding: [u8; 32]) -> Result<Vec<u8>, SignError>;
}

/// The octets that a CGA signature covers: tag, generation, and the locators whose method is CGA, in the
/// order of the list.
//= rfc5533#5.15.5-1
#[must_use]
pub fn signed_octets(list: &LocatorList) -> Vec<u8> {
    let mut octets = MESSAGE_TYPE_TAG.to_vec();
    octets.extend(list.generation.to_be_bytes());
    let signed = list.entries.iter().filter(|entry| entry.method == VerificationMethod::CGA);
    octets.extend(signed.flat_map(|entry| entry.locator.octets()));
    octets
}

/// Verifies a CGA signature with the public key of a PDS.
///
/// # Errors
///
/// [`VerifyError::Key`] if signatures of the key are not accepted, [`VerifyError::Signature`] if the
/// signature is wrong. A signature must be exactly as long as the modulus: LinShim6 accepted longer ones.
//= rfc3972#6-2
pub fn verify_signature(spki: &[u8], octets: &[u8], signature: &[u8]) -> Result<(), VerifyError> {
    signing_key(spki)
        .map_err(VerifyError::Key)?
        .verify(scheme(), &Sha1::digest(octets), signature)
        .map_err(|_| VerifyError::Signature)
}

pub(crate) fn scheme() -> Pkcs1v15Sign {
    Pkcs1v15Sign::new::<Sha1>()
}
