use crate::{KeyError, PublicKey, RsaKey, Signer, public_key::RSA_ENCRYPTION};
use der::{
    Decode, Encode, Reader, SliceReader, TagNumber,
    asn1::{AnyRef, BitStringRef, ContextSpecific, ObjectIdentifier, OctetStringRef},
};
use rsa::pkcs8::{PrivateKeyInfoRef, SecretDocument};
use spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};

/// A key from a file.
#[derive(Clone, Debug)]
pub enum KeyFile {
    /// An RSA private key. It may be too short to sign.
    Rsa(RsaKey),
    /// Only the public key, of any algorithm: for addresses. A private key other than RSA also gives this, as
    /// it has no use here (RFC 5533 s5.15.5).
    AddressOnly(PublicKey),
}

impl KeyFile {
    /// Reads PEM or DER: PKCS#8, PKCS#1, SEC1 or a `SubjectPublicKeyInfo`, as OpenSSL writes them.
    ///
    /// In PEM the first key counts, whatever precedes it.
    ///
    /// # Errors
    ///
    /// The fault of the key.
    pub fn parse(octets: &[u8]) -> Result<Self, KeyError> {
        let Some(pem) = core::str::from_utf8(octets).ok().and_then(first_key) else {
            return Self::from_der(octets);
        };
        if pem.starts_with("-----BEGIN ENCRYPTED ") || pem.contains(OPENSSL_ENCRYPTED) {
            return Err(KeyError::Encrypted);
        }
        let (_, der) = SecretDocument::from_pem(pem).map_err(|_| KeyError::Malformed)?;
        Self::from_der(der.as_bytes())
    }

    /// The public key for the PDS.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        match self {
            Self::Rsa(key) => key.public_key(),
            Self::AddressOnly(key) => key,
        }
    }

    /// The key to sign with.
    ///
    /// # Errors
    ///
    /// The reason why there is none, or why peers do not accept its signatures.
    pub fn signer(&self) -> Result<&RsaKey, KeyError> {
        match self {
            Self::Rsa(key) => key.public_key().check_can_sign().map(|()| key),
            Self::AddressOnly(key) => {
                Err(key.check_can_sign().err().unwrap_or(KeyError::NoPrivate))
            }
        }
    }

    /// Reads DER. The formats differ behind the first octet, so each can be tried.
    fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        if let Ok(key) = PublicKey::from_spki(der) {
            return Ok(Self::AddressOnly(key));
        }
        match PrivateKeyInfoRef::from_der(der) {
            Ok(info) if info.algorithm.oid != RSA_ENCRYPTION => of_other_algorithm(&info),
            Ok(_) => RsaKey::from_der(der).map(Self::Rsa),
            Err(_) => match Sec1::from_der(der) {
                Ok(sec1) => address_only(EC_PUBLIC_KEY, sec1.curve, sec1.public_key),
                Err(_) if is_encrypted(der) => Err(KeyError::Encrypted),
                Err(_) => RsaKey::from_der(der).map(Self::Rsa),
            },
        }
    }
}

/// The first PEM block whose label ends in KEY: OpenSSL writes the curve in front of the key.
fn first_key(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        rest = &rest[rest.find("-----BEGIN ")?..];
        let label = rest["-----BEGIN ".len()..].split("-----").next()?;
        let end = rest.find("-----END ")? + "-----END ".len();
        let after = end + rest[end..].find("-----")? + "-----".len();
        if label.ends_with("KEY") {
            return Some(&rest[..after]);
        }
        rest = &rest[after..];
    }
}

/// Reads a private key other than RSA. RFC 5958 s2 has a field for the public key. For elliptic curves, most
/// writers put the public key into the octets of the private key instead (RFC 5915).
fn of_other_algorithm(info: &PrivateKeyInfoRef<'_>) -> Result<KeyFile, KeyError> {
    let AlgorithmIdentifierRef { oid, parameters } = info.algorithm;
    let inner = || Sec1::from_der(info.private_key.as_bytes()).ok()?.public_key;
    let public_key =
        if oid == EC_PUBLIC_KEY { info.public_key.or_else(inner) } else { info.public_key };
    address_only(oid, parameters, public_key)
}

fn address_only(
    oid: ObjectIdentifier,
    parameters: Option<AnyRef<'_>>,
    public_key: Option<BitStringRef<'_>>,
) -> Result<KeyFile, KeyError> {
    let subject_public_key = public_key.ok_or(KeyError::NoPublic)?;
    let algorithm = AlgorithmIdentifierRef { oid, parameters };
    let spki = SubjectPublicKeyInfoRef { algorithm, subject_public_key };
    let spki = spki.to_der().map_err(|_| KeyError::Malformed)?;
    let key = PublicKey::from_spki(&spki).map_err(|_| KeyError::Malformed)?;
    Ok(KeyFile::AddressOnly(key))
}

/// Whether the octets are an `EncryptedPrivateKeyInfo` (RFC 5958 s3).
fn is_encrypted(der: &[u8]) -> bool {
    let parse = || {
        let mut reader = SliceReader::new(der)?;
        reader.sequence(|reader| {
            reader.decode::<AlgorithmIdentifierRef<'_>>()?;
            reader.decode::<&OctetStringRef>()
        })?;
        reader.finish()
    };
    parse().is_ok()
}

/// `ECPrivateKey` (RFC 5915 s3) without the private key.
struct Sec1<'a> {
    curve: Option<AnyRef<'a>>,
    public_key: Option<BitStringRef<'a>>,
}

impl<'a> Sec1<'a> {
    fn from_der(der: &'a [u8]) -> der::Result<Self> {
        let mut reader = SliceReader::new(der)?;
        let key = reader.sequence(|reader| {
            reader.decode::<u8>()?;
            reader.decode::<&OctetStringRef>()?;
            let curve = ContextSpecific::decode_explicit(reader, TagNumber(0))?;
            let public_key = ContextSpecific::decode_explicit(reader, TagNumber(1))?;
            Ok::<_, der::Error>(Self {
                curve: curve.map(|field| field.value),
                public_key: public_key.map(|field| field.value),
            })
        })?;
        reader.finish()?;
        Ok(key)
    }
}

/// Text in the header of OpenSSL's own format.
const OPENSSL_ENCRYPTED: &str = "Proc-Type: 4,ENCRYPTED";
const EC_PUBLIC_KEY: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
