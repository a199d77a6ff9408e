//! Descriptions of parameters and keys, for people.

use crate::{Error, prefix_text};
use der::{Decode, Document, asn1::ObjectIdentifier, pem::LineEnding};
use moorline_cga::{Cga, HbaSet, KeyError, PublicKey, Sec, VerifyError};
use moorline_wire::{CgaExtension, CgaParameters};
use serde::Serialize;
use sha2::{Digest, Sha256};
use spki::SubjectPublicKeyInfoRef;
use std::net::Ipv6Addr;

/// Contents of a CGA Parameters data structure (RFC 3972 s3).
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub struct ParamsView {
    /// Length of the structure in octets.
    pub octets: usize,
    /// Modifier, in hex.
    pub modifier: String,
    /// Prefix of the address that the parameters were made for.
    pub prefix: String,
    /// Collision count, 0 to 2.
    pub collision_count: u8,
    /// The contents of the public key field.
    pub key: KeyView,
    /// Whether the field holds a key. An HBA set without a key has random octets there.
    pub is_real_key: bool,
    /// Extension fields, in order.
    pub extensions: Vec<ExtensionView>,
    /// Highest Sec in use whose condition Hash2 fulfils.
    pub sec: u8,
    /// Addresses with that Sec: of the set if there is a set, else of the prefix.
    pub addresses: Vec<Ipv6Addr>,
}

/// A public key.
#[derive(Clone, Debug, Serialize)]
pub struct KeyView {
    /// Common name of the algorithm, or its object identifier.
    pub algorithm: String,
    /// Bits of the modulus of an RSA key.
    pub bits: Option<u32>,
    /// Reason why the key cannot sign locator lists; none if it can.
    pub cannot_sign: Option<String>,
    /// Octets of the key's `SubjectPublicKeyInfo`.
    pub octets: usize,
    /// SHA-256 of the `SubjectPublicKeyInfo`, in hex.
    pub sha256: String,
}

/// An extension field.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum ExtensionView {
    /// Multi-Prefix extension (RFC 5535 s5).
    MultiPrefix {
        /// P flag.
        has_public_key: bool,
        /// Prefixes of the set.
        prefixes: Vec<String>,
    },
    /// Unknown extension: hashed, and otherwise ignored.
    Unknown {
        /// Extension Type.
        number: u16,
        /// Extension Data, in hex.
        data: String,
    },
}

impl ParamsView {
    /// Decodes the structure.
    ///
    /// # Errors
    ///
    /// The structure is malformed.
    pub fn new(params: &[u8]) -> Result<Self, VerifyError> {
        // With Sec 0, this checks only the form and the collision count.
        Cga::from_pds(params, Sec::ZERO)?;
        let sec = [Sec::TWO, Sec::ONE].into_iter().find(|&sec| Cga::from_pds(params, sec).is_ok());
        let sec = sec.unwrap_or(Sec::ZERO);
        let fields = CgaParameters::parse(params).map_err(|_| VerifyError::Extension)?;
        let addresses = if fields.multi_prefix().is_some() {
            let set = HbaSet::from_pds(params, sec)?;
            set.locators().iter().map(|locator| locator.0).collect()
        } else {
            vec![Cga::from_pds(params, sec)?.address().0]
        };
        let key = PublicKey::from_spki(&fields.public_key).map_err(|_| VerifyError::PublicKey)?;
        Ok(Self {
            octets: params.len(),
            modifier: hex::encode(fields.modifier),
            prefix: prefix_text(fields.subnet_prefix),
            collision_count: fields.collision_count,
            key: KeyView::new(&key),
            is_real_key: fields.multi_prefix().is_none_or(|set| set.has_public_key()),
            extensions: fields.extensions.iter().map(ExtensionView::new).collect(),
            sec: sec.value(),
            addresses,
        })
    }
}

impl KeyView {
    /// Describes a key from lengths and identifiers alone.
    #[must_use]
    pub fn new(key: &PublicKey) -> Self {
        let bits = key.rsa_bits();
        let cannot_sign = key.check_can_sign().err().map(|error| error.to_string());
        Self {
            algorithm: match bits {
                Ok(_) => "RSA".to_owned(),
                Err(_) => algorithm(key.spki()),
            },
            bits: bits.ok(),
            cannot_sign,
            octets: key.spki().len(),
            sha256: hex::encode(Sha256::digest(key.spki())),
        }
    }
}

impl ExtensionView {
    fn new(extension: &CgaExtension) -> Self {
        match extension {
            CgaExtension::MultiPrefix(set) => Self::MultiPrefix {
                has_public_key: set.has_public_key(),
                prefixes: set.prefixes.iter().copied().map(prefix_text).collect(),
            },
            CgaExtension::Unknown { kind, data } => {
                Self::Unknown { number: *kind, data: hex::encode(data) }
            }
        }
    }
}

/// Encodes a public key as PEM (`BEGIN PUBLIC KEY`), which OpenSSL also reads.
///
/// # Errors
///
/// The octets are not a key.
pub fn public_key_pem(key: &PublicKey) -> Result<String, Error> {
    Document::try_from(key.spki())
        .and_then(|document| document.to_pem("PUBLIC KEY", LineEnding::LF))
        .map_err(|_| Error::PublicKey(KeyError::Malformed))
}

fn algorithm(spki: &[u8]) -> String {
    let Ok(spki) = SubjectPublicKeyInfoRef::from_der(spki) else { return "unknown".to_owned() };
    let parameters = spki.algorithm.parameters;
    let curve = parameters.and_then(|any| any.decode_as::<ObjectIdentifier>().ok());
    let known = |oid: ObjectIdentifier| NAMES.iter().find(|(dots, _)| oid.to_string() == *dots);
    let name = curve.and_then(known).or_else(|| known(spki.algorithm.oid));
    name.map_or_else(|| spki.algorithm.oid.to_string(), |(_, name)| (*name).to_owned())
}

/// Names of the usual curves and algorithms.
const NAMES: [(&str, &str); 7] = [
    ("1.2.840.113549.1.1.1", "RSA"),
    ("1.2.840.113549.1.1.10", "RSASSA-PSS"),
    ("1.2.840.10045.3.1.7", "P-256"),
    ("1.3.132.0.34", "P-384"),
    ("1.3.132.0.35", "P-521"),
    ("1.3.101.112", "Ed25519"),
    ("1.3.101.113", "Ed448"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Job, SetKey};
    use moorline_cga::Signer;

    const A: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0];
    const B: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0];

    #[test]
    fn a_set_without_a_key_says_so() {
        let job = Job::new(true, vec![A, B], SetKey::Random([1; 48]), Sec::ZERO, [9; 16]).unwrap();
        let made = job.finish(0).unwrap();
        let view = ParamsView::new(made.params()).unwrap();
        assert_eq!(view.modifier, "09".repeat(16));
        assert_eq!((view.prefix.as_str(), view.collision_count), ("2001:db8:1::/64", 0));
        assert_eq!((view.key.algorithm.as_str(), view.key.bits), ("RSA", Some(384)));
        assert!(!view.is_real_key);
        let addresses: Vec<_> = made.members().iter().map(|member| member.address().0).collect();
        assert_eq!(view.addresses, addresses);
        let [ExtensionView::MultiPrefix { has_public_key: false, prefixes }] = &view.extensions[..]
        else {
            panic!("{:?}", view.extensions)
        };
        assert_eq!(prefixes[..], ["2001:db8:1::/64", "2001:db8:2::/64"]);
    }

    #[test]
    fn a_cga_shows_its_key_and_unknown_extensions() {
        let key = crate::generate_key(1024).unwrap();
        let job =
            Job::new(false, vec![A], SetKey::Public(key.public_key().clone()), Sec::ZERO, [0; 16])
                .unwrap();
        let params = [job.finish(0).unwrap().params(), &[0x12, 0x34, 0, 2, 0xab, 0xcd]].concat();
        let view = ParamsView::new(&params).unwrap();
        assert_eq!((view.key.bits, view.key.cannot_sign.as_deref()), (Some(1024), None));
        assert!(view.is_real_key);
        let [ExtensionView::Unknown { number: 0x1234, data }] = &view.extensions[..] else {
            panic!("{:?}", view.extensions)
        };
        assert_eq!(data, "abcd");
        let error = ParamsView::new(&params[..params.len() - 1]).unwrap_err();
        assert_eq!(error, VerifyError::Extension);
    }

    #[test]
    fn keys_of_other_algorithms_have_names_and_come_back_from_pem() {
        // SubjectPublicKeyInfo of RFC 8410 s10.1.
        let ed25519 = hex::decode(concat!(
            "302a300506032b6570032100",
            "19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1"
        ));
        let key = PublicKey::from_spki(&ed25519.unwrap()).unwrap();
        let view = KeyView::new(&key);
        assert_eq!((view.algorithm.as_str(), view.bits, view.octets), ("Ed25519", None, 44));
        assert!(view.cannot_sign.is_some());
        let pem = public_key_pem(&key).unwrap();
        assert!(pem.starts_with("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA"), "{pem}");
        let read = moorline_cga::KeyFile::parse(pem.as_bytes()).unwrap();
        assert_eq!(read.public_key(), &key);
    }
}
