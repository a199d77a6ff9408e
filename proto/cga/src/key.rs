use crate::PublicKey;
use alloc::vec::Vec;

/// Contents of the public key field of an HBA set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HbaKey {
    spki: Vec<u8>,
    is_public_key: bool,
}

impl HbaKey {
    /// Key field of HBA-only addresses: 384 random bits, the Extended Modifier (RFC 5535 s6).
    ///
    /// The bits become the modulus of an RSA key with exponent 65537. The leftmost bit is set, so that every
    /// parser finds a key of 384 bits.
    //= rfc5535#6-1 rfc5535#6-2 rfc5535#6-3 rfc5535#6-4
    #[must_use]
    pub fn extended_modifier(mut random: [u8; 48]) -> Self {
        random[0] |= 0x80;
        let spki = [&RSA_384_BEFORE_MODULUS[..], &random, &RSA_384_AFTER_MODULUS].concat();
        Self { spki, is_public_key: false }
    }

    /// Key field of CGA/HBA addresses: a public key. Sets the P flag.
    #[must_use]
    pub fn of(key: &PublicKey) -> Self {
        Self { spki: key.spki().to_vec(), is_public_key: true }
    }

    /// The DER in the PDS.
    #[must_use]
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Whether the field holds a real public key: the P flag of the Multi-Prefix extension.
    #[must_use]
    pub fn is_public_key(&self) -> bool {
        self.is_public_key
    }

    /// A key field with octets that `extended_modifier` would not make, as other implementations do.
    #[cfg(test)]
    pub(crate) fn foreign(spki: &[u8], is_public_key: bool) -> Self {
        Self { spki: spki.to_vec(), is_public_key }
    }
}

/// `SEQUENCE { SEQUENCE { OID rsaEncryption, NULL }, BIT STRING { SEQUENCE { INTEGER`, up to and with
/// the zero octet that keeps a modulus of 384 bits positive.
const RSA_384_BEFORE_MODULUS: [u8; 25] = [
    0x30, 0x4c, //
    0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05,
    0x00, //
    0x03, 0x3b, 0x00, //
    0x30, 0x38, 0x02, 0x31, 0x00,
];
/// `INTEGER 65537`.
const RSA_384_AFTER_MODULUS: [u8; 5] = [0x02, 0x03, 0x01, 0x00, 0x01];
