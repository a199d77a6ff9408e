use crate::{KeyError, PublicKey, SignError, Signer, signature::scheme};
use alloc::{boxed::Box, string::String, vec::Vec};
use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;
use core::fmt;
use rsa::{
    RsaPrivateKey,
    pkcs1::DecodeRsaPrivateKey,
    pkcs8::{DecodePrivateKey, EncodePrivateKey, EncodePublicKey, LineEnding},
};
use sha1::{Digest, Sha1};
use zeroize::{Zeroize, Zeroizing};

/// An RSA private key, wiped when dropped. Its `Debug` shows only the length.
#[derive(Clone)]
pub struct RsaKey {
    private: Box<RsaPrivateKey>,
    public: PublicKey,
}

impl RsaKey {
    /// Makes a key of [`crate::MIN_SIGNING_BITS`] to [`crate::MAX_SIGNING_BITS`], with the exponent 65537.
    ///
    /// Equal seeds give equal keys. So `seed` must be 32 random octets; it is as secret as the key, and is
    /// wiped. Takes tens of milliseconds to a second for 2048 bits, and seconds for 4096.
    ///
    /// # Errors
    ///
    /// `bits` is out of range.
    //= rfc5533#16-1 rfc3972#7.1-1
    pub fn generate(bits: u32, seed: &mut [u8; 32]) -> Result<Self, KeyError> {
        let mut random = ChaCha20Rng::from_seed(*seed);
        seed.zeroize();
        crate::public_key::check_signing_bits(bits)?;
        let bits = usize::try_from(bits).map_err(|_| KeyError::TooLong { bits })?;
        let private = RsaPrivateKey::new(&mut random, bits).map_err(|_| KeyError::Malformed)?;
        Self::of(private)
    }

    /// Reads the DER of PKCS#8 or PKCS#1. The key may have any length: addresses may have short keys.
    ///
    /// # Errors
    ///
    /// [`KeyError::Malformed`], also if the numbers of the key do not belong together, or if there are three
    /// primes.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        RsaPrivateKey::from_pkcs8_der(der)
            .or_else(|_| RsaPrivateKey::from_pkcs1_der(der))
            .map_err(|_| KeyError::Malformed)
            .and_then(Self::of)
    }

    /// The DER of PKCS#8, wiped when dropped.
    ///
    /// # Errors
    ///
    /// [`KeyError::Malformed`]; keys that were made here do not give it.
    pub fn to_pkcs8_der(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        self.private.to_pkcs8_der().map(|der| der.to_bytes()).map_err(|_| KeyError::Malformed)
    }

    /// The PEM of PKCS#8 (`BEGIN PRIVATE KEY`), wiped when dropped.
    ///
    /// # Errors
    ///
    /// As [`RsaKey::to_pkcs8_der`].
    pub fn to_pkcs8_pem(&self) -> Result<Zeroizing<String>, KeyError> {
        self.private.to_pkcs8_pem(LineEnding::LF).map_err(|_| KeyError::Malformed)
    }

    /// Bits of the modulus.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.public.rsa_bits().unwrap_or(0)
    }

    fn of(private: RsaPrivateKey) -> Result<Self, KeyError> {
        let spki = private.as_public_key().to_public_key_der().map_err(|_| KeyError::Malformed)?;
        let public = PublicKey::from_spki(spki.as_bytes()).map_err(|_| KeyError::Malformed)?;
        Ok(Self { private: Box::new(private), public })
    }
}

impl Signer for RsaKey {
    fn public_key(&self) -> &PublicKey {
        &self.public
    }

    //= rfc3972#6-1
    fn sign(&self, octets: &[u8], mut blinding: [u8; 32]) -> Result<Vec<u8>, SignError> {
        let mut random = ChaCha20Rng::from_seed(blinding);
        blinding.zeroize();
        self.public.check_can_sign()?;
        // The key verifies each signature that it makes: a fault in the arithmetic would reveal the key.
        self.private
            .sign_with_rng(&mut random, scheme(), &Sha1::digest(octets))
            .map_err(|_| SignError::Faulty)
    }
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RsaKey").field("bits", &self.bits()).finish_non_exhaustive()
    }
}
