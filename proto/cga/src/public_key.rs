use crate::{GenerateError, KeyError, parameters::is_public_key};
use alloc::vec::Vec;
use der::{Decode, asn1::ObjectIdentifier};
use rsa::{RsaPublicKey, pkcs1::RsaPublicKeyRef};
use spki::SubjectPublicKeyInfoRef;

/// Shortest RSA key in bits whose signatures are accepted. Cannot be configured: RFC 3972 s3 allows 384 for
/// addresses, which anybody can factor today.
pub const MIN_SIGNING_BITS: u32 = 1024;
/// Longest RSA key in bits whose signatures are accepted: it bounds the cost of a verification.
pub const MAX_SIGNING_BITS: u32 = 4096;

/// A public key in the form of a PDS: the DER of a `SubjectPublicKeyInfo`.
///
/// The key may have any algorithm. RFC 3972 s3 asks for RSA, and only RSA can sign locator lists (RFC 5533
/// s5.15.5). Other algorithms make shorter parameters, and so a faster search, for addresses that need no
/// signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    spki: Vec<u8>,
}

impl PublicKey {
    /// Reads the DER of a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    ///
    /// [`GenerateError::PublicKey`] if the octets are no `SubjectPublicKeyInfo`, or if other octets follow
    /// it.
    pub fn from_spki(spki: &[u8]) -> Result<Self, GenerateError> {
        if !is_public_key(spki) {
            return Err(GenerateError::PublicKey);
        }
        Ok(Self { spki: spki.to_vec() })
    }

    /// Creates a key from a PDS that has been parsed, and so the frame of the key too.
    pub(crate) fn of_pds(spki: &[u8]) -> Self {
        Self { spki: spki.to_vec() }
    }

    /// The DER of the key.
    #[must_use]
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Bits of the modulus.
    ///
    /// # Errors
    ///
    /// [`KeyError::NotRsa`], or [`KeyError::Malformed`] if the algorithm is RSA and the key is not.
    pub fn rsa_bits(&self) -> Result<u32, KeyError> {
        rsa_parts(&self.spki).map(|parts| bits(&parts))
    }

    /// Checks that peers accept signatures of this key.
    ///
    /// # Errors
    ///
    /// The reason why they do not.
    pub fn check_can_sign(&self) -> Result<(), KeyError> {
        signing_bits(&self.spki).map(|_| ())
    }
}

/// Bits of the RSA key in an SPKI, if its signatures are accepted. Checks only lengths.
pub(crate) fn signing_bits(spki: &[u8]) -> Result<u32, KeyError> {
    let bits = bits(&rsa_parts(spki)?);
    check_signing_bits(bits).map(|()| bits)
}

//= rfc5533#16-1 rfc3972#3-6 rfc3972#5-7
pub(crate) fn check_signing_bits(bits: u32) -> Result<(), KeyError> {
    match bits {
        ..MIN_SIGNING_BITS => Err(KeyError::TooShort { bits }),
        MIN_SIGNING_BITS..=MAX_SIGNING_BITS => Ok(()),
        _ => Err(KeyError::TooLong { bits }),
    }
}

/// The RSA key in an SPKI, if its signatures are accepted.
pub(crate) fn signing_key(spki: &[u8]) -> Result<RsaPublicKey, KeyError> {
    signing_bits(spki)?;
    rsa_parts(spki)?.try_into().map_err(|_| KeyError::Malformed)
}

/// Checks the algorithm. RFC 3972 s3: "The algorithm identifier MUST be rsaEncryption", so RSASSA-PSS keys
/// are no RSA keys here. RFC 3279 s2.3.1: the parameters are NULL.
//= rfc3972#3-4 rfc3972#3-5
fn rsa_parts(spki: &[u8]) -> Result<RsaPublicKeyRef<'_>, KeyError> {
    let spki = SubjectPublicKeyInfoRef::from_der(spki).map_err(|_| KeyError::Malformed)?;
    if spki.algorithm.oid != RSA_ENCRYPTION {
        return Err(KeyError::NotRsa);
    }
    if !spki.algorithm.parameters.is_some_and(|parameters| parameters.is_null()) {
        return Err(KeyError::Malformed);
    }
    let octets = spki.subject_public_key.as_bytes().ok_or(KeyError::Malformed)?;
    RsaPublicKeyRef::from_der(octets).map_err(|_| KeyError::Malformed)
}

/// Bits of the modulus. A PDS has no room for a modulus of 2^32 bits.
fn bits(parts: &RsaPublicKeyRef<'_>) -> u32 {
    let modulus = parts.modulus.as_bytes();
    let unused = modulus.first().map_or(0, |first| first.leading_zeros());
    u32::try_from(8 * modulus.len()).unwrap_or(u32::MAX).saturating_sub(unused)
}

pub(crate) const RSA_ENCRYPTION: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
