use crate::{GenerateError, parameters::is_public_key};
use alloc::vec::Vec;

/// A public key as it stands in a PDS: the DER of a `SubjectPublicKeyInfo`.
///
/// Of any algorithm. RFC 3972 s3 wants RSA, and only RSA can sign locator lists (RFC 5533 s5.15.5);
/// others make shorter parameters, and so a faster search, for addresses that need no signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    spki: Vec<u8>,
}

impl PublicKey {
    /// From the DER.
    ///
    /// # Errors
    ///
    /// [`GenerateError::PublicKey`] if it is no `SubjectPublicKeyInfo`, or if something follows it.
    pub fn from_spki(spki: &[u8]) -> Result<Self, GenerateError> {
        if !is_public_key(spki) {
            return Err(GenerateError::PublicKey);
        }
        Ok(Self { spki: spki.to_vec() })
    }

    /// The DER.
    #[must_use]
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }
}
