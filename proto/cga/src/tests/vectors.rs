//! Vectors by LinShim6 and by an independent reading of the RFCs. `expect_rfc` is the verdict that the RFCs
//! demand.

use crate::{
    Cga, GenerateError, HbaKey, HbaSet, PublicKey, Sec, VerifyError, generate_cga, generate_hba,
    verify_cga, verify_hba,
};
use moorline_types::Locator;
use moorline_wire::{CgaParameters, LocatorEntry, LocatorList, VerificationMethod};
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

#[derive(Deserialize)]
pub(super) struct File {
    pub(super) keys: BTreeMap<String, Key>,
    cga: Vec<Vector>,
    hba: Vec<Vector>,
    pub(super) signature: Vec<SignatureVector>,
}

#[derive(Deserialize)]
pub(super) struct Key {
    pub(super) spki: String,
    pub(super) private_pem: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct SignatureVector {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) generation: u32,
    /// Contents of the Locator List option.
    locator_list_contents: String,
    pub(super) signature: String,
    pub(super) signed_octets: String,
    pub(super) pds: String,
    pub(super) signature_valid_rfc: bool,
    pub(super) locator_list_valid_rfc: bool,
    #[serde(default)]
    pub(super) negative: bool,
}

impl SignatureVector {
    /// Generation, count, methods, padding, locators (RFC 5533 s5.15.2).
    pub(super) fn list(&self) -> LocatorList {
        let octets = hex::decode(&self.locator_list_contents).unwrap();
        let count = usize::from(octets[4]);
        let methods = octets[5..5 + count].iter().map(|&method| VerificationMethod::new(method));
        let locators = octets[octets.len() - 16 * count..].as_chunks::<16>().0.iter();
        LocatorList {
            generation: u32::from_be_bytes(octets[..4].try_into().unwrap()),
            entries: methods
                .zip(locators)
                .map(|(method, &locator)| LocatorEntry { locator: locator.into(), method })
                .collect(),
        }
    }
}

#[derive(Deserialize)]
struct Vector {
    id: String,
    address_hex: String,
    pds: String,
    expect_rfc: bool,
    key: Option<String>,
    sec: Option<u8>,
    collision: Option<u8>,
    start_modifier: Option<String>,
    prefixes: Option<Vec<String>>,
    own_pds: Option<String>,
    p_flag_encoding: Option<String>,
}

impl Vector {
    fn address(&self) -> Locator {
        Locator::from(array::<16>(&self.address_hex))
    }

    fn pds(&self) -> Vec<u8> {
        hex::decode(&self.pds).unwrap()
    }

    fn sec(&self) -> Sec {
        Sec::new(self.sec.unwrap()).unwrap()
    }

    fn public_key(&self, file: &File) -> PublicKey {
        let spki = &file.keys[self.key.as_ref().unwrap()].spki;
        PublicKey::from_spki(&hex::decode(spki).unwrap()).unwrap()
    }

    /// The key of an HBA as the maker of the vector had it.
    fn hba_key(&self, file: &File) -> HbaKey {
        let name = self.key.as_deref().unwrap();
        if let Some(nonce) = name.strip_prefix("rsa-nonce:") {
            return HbaKey::extended_modifier(array(nonce));
        }
        let Some(nonce) = name.strip_prefix("raw-nonce:") else {
            return HbaKey::of(&self.public_key(file));
        };
        // In LinShim6, the BIT STRING holds the nonce itself.
        let spki = hex::decode("3042300d06092a864886f70d0101010500033100").unwrap();
        HbaKey::foreign(&[spki, hex::decode(nonce).unwrap()].concat(), false)
    }

    fn prefixes(&self) -> Vec<[u8; 8]> {
        self.prefixes.as_ref().unwrap().iter().map(|prefix| array(prefix)).collect()
    }
}

pub(super) fn file() -> File {
    serde_json::from_str(include_str!("../../../../tests/vectors/cga_hba.json")).unwrap()
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    hex::decode(text).unwrap().try_into().unwrap()
}

//= rfc5535#7.2 (test)
#[test]
fn hba_verdicts_are_those_of_the_rfc() {
    let file = file();
    assert_eq!(file.hba.len(), 33);
    for vector in &file.hba {
        let verdict = verify_hba(vector.address(), &vector.pds());
        assert_eq!(verdict.is_ok(), vector.expect_rfc, "{}: {verdict:?}", vector.id);
    }
}

//= rfc3972#5-1 (test)
#[test]
fn cga_verdicts_are_those_of_the_rfc() {
    let file = file();
    assert_eq!(file.cga.len(), 39);
    for vector in &file.cga {
        let verdict = verify_cga(vector.address(), &vector.pds());
        assert_eq!(verdict.is_ok(), vector.expect_rfc, "{}: {verdict:?}", vector.id);
    }
}

//= rfc3972#3-1 rfc3972#5-2 (test)
#[test]
fn rejected_vectors_fail_at_the_step_that_was_broken() {
    let file = file();
    let all: BTreeMap<&str, (bool, &Vector)> = file
        .cga
        .iter()
        .map(|vector| (vector.id.as_str(), (false, vector)))
        .chain(file.hba.iter().map(|vector| (vector.id.as_str(), (true, vector))))
        .collect();
    for (id, expected) in [
        ("cga-031", VerifyError::HashFunction { sec: Sec::new(3).unwrap() }),
        ("cga-033", VerifyError::Hash1),
        ("cga-037", VerifyError::PrefixMismatch),
        ("cga-059", VerifyError::CollisionCount),
        ("cga-061", VerifyError::CollisionCount),
        ("cga-067", VerifyError::Hash2),
        ("cga-069", VerifyError::HashFunction { sec: Sec::MAX }),
        ("cga-071", VerifyError::PublicKey),
        ("cga-073", VerifyError::Truncated),
        ("cga-075", VerifyError::Extension),
        ("cga-077", VerifyError::PublicKey),
        ("hba-049", VerifyError::Hash1),
        ("hba-051", VerifyError::Hash1),
        ("hba-053", VerifyError::Hash1),
        ("hba-055", VerifyError::PrefixNotInSet),
        ("hba-057", VerifyError::Hash1),
        ("hba-059", VerifyError::MultiPrefixLength),
        ("hba-061", VerifyError::CollisionCount),
        ("hba-063", VerifyError::NoMultiPrefix),
    ] {
        let (is_hba, vector) = all[id];
        let verify = if is_hba { verify_hba } else { verify_cga };
        assert_eq!(verify(vector.address(), &vector.pds()), Err(expected), "{id}");
    }
}

/// Generates the vectors again, RFC 3972 appendix A among them, from the modifier with which the maker of the
/// vector started.
//= rfc3972#4-1 rfc3972#4-7 (test)
#[test]
fn cga_generation_gives_the_octets_of_the_vector() {
    let file = file();
    let mut seen = 0;
    for vector in file.cga.iter().filter(|vector| vector.start_modifier.is_some()) {
        let key = vector.public_key(&file);
        let fields = CgaParameters::parse(&vector.pds()).unwrap();
        let start = array(vector.start_modifier.as_ref().unwrap());
        let mut cga = generate_cga(
            fields.subnet_prefix,
            vector.sec(),
            &key,
            &fields.extensions,
            start,
            super::ENOUGH_FOR_SEC_1,
        )
        .unwrap();
        assert_eq!(cga.collision_count(), 0);
        for _ in 0..vector.collision.unwrap() {
            cga = cga.after_collision().unwrap();
        }
        assert_eq!(cga.pds(), vector.pds(), "{}", vector.id);
        assert_eq!(cga.address(), vector.address(), "{}", vector.id);
        assert_eq!(Cga::from_pds(&vector.pds(), vector.sec()), Ok(cga), "{}", vector.id);
        seen += 1;
    }
    assert_eq!(seen, 15);
}

/// The only example of the RFC, from the modifier that it gives: the search succeeds at the next one.
//= rfc3972#3-8 rfc3972#4-1 (test)
#[test]
fn appendix_of_rfc_3972_is_reproduced() {
    let file = file();
    let vector = &file.cga[0];
    assert_eq!(vector.id, "cga-001");
    let start = array("89a8a8b2e858d8b8f2633f44d2d4ce9a");
    let key = vector.public_key(&file);
    let prefix = [0xfe, 0x80, 0, 0, 0, 0, 0, 0];
    let generate = |start, tries| generate_cga(prefix, Sec::ONE, &key, &[], start, tries);
    let next_modifier = array("89a8a8b2e858d8b8f2633f44d2d4ce9b");
    assert_eq!(generate(start, 1), Err(GenerateError::Exhausted { next_modifier }));
    let cga = generate(next_modifier, 1).unwrap();
    assert_eq!(cga.address().to_string(), "fe80::3c4a:5bf6:ffb4:ca6c");
    assert_eq!(generate(start, 2), Ok(cga));
}

#[test]
fn sets_come_back_from_any_pds_of_theirs() {
    let file = file();
    let mut seen = 0;
    for vector in file.hba.iter().filter(|vector| vector.own_pds.is_some()) {
        let set = HbaSet::from_pds(&vector.pds(), vector.sec()).unwrap();
        let own_pds = hex::decode(vector.own_pds.as_ref().unwrap()).unwrap();
        assert_eq!(set.pds_of(vector.address()), Some(&own_pds[..]), "{}", vector.id);
        assert_eq!(set.sec(), vector.sec());
        assert_eq!(Some(set.collision_count()), vector.collision);
        let prefixes: Vec<_> = set.locators().iter().map(|locator| locator.prefix()).collect();
        assert_eq!(prefixes, vector.prefixes());
        seen += 1;
    }
    assert_eq!(seen, 24);
}

//= rfc5535#6 (test)
#[test]
fn generation_gives_the_octets_of_the_vector() {
    let file = file();
    let mut seen = 0;
    for vector in file.hba.iter().filter(|vector| is_ours_to_generate(vector)) {
        let modifier = vector.pds()[..16].try_into().unwrap();
        let key = vector.hba_key(&file);
        let mut set = generate_hba(&vector.prefixes(), vector.sec(), &key, modifier, 1).unwrap();
        for _ in 0..vector.collision.unwrap() {
            set = set.after_collision().unwrap();
        }
        let own_pds = hex::decode(vector.own_pds.as_ref().unwrap()).unwrap();
        assert_eq!(set.pds_of(vector.address()), Some(&own_pds[..]), "{}", vector.id);
        seen += 1;
    }
    assert_eq!(seen, 15);
}

/// Whether our generation can make the vector: not with extensions besides Multi-Prefix, or with the P flag
/// at the place of LinShim6.
fn is_ours_to_generate(vector: &Vector) -> bool {
    let (Some(prefixes), Some(p_flag)) = (&vector.prefixes, &vector.p_flag_encoding) else {
        return false;
    };
    let multi_prefix = std::format!("0012{:04x}", 4 + 8 * prefixes.len());
    let is_alone = vector.pds.ends_with(&std::format!(
        "{multi_prefix}{}{}",
        if p_flag == "P=0" { "00000000" } else { "80000000" },
        prefixes.concat()
    )) && !vector.pds.contains("fffd0002");
    is_alone && p_flag != "LinShim6-LE 00000080"
}

#[test]
fn generation_of_another_modifier_would_be_refused() {
    let file = file();
    let vector = file.hba.iter().find(|vector| vector.id == "hba-013").unwrap();
    let modifier: [u8; 16] = vector.pds()[..16].try_into().unwrap();
    let next = u128::from_be_bytes(modifier) + 1;
    let result = generate_hba(
        &vector.prefixes(),
        vector.sec(),
        &vector.hba_key(&file),
        next.to_be_bytes(),
        1,
    );
    let next_modifier = (next + 1).to_be_bytes();
    assert_eq!(result, Err(GenerateError::Exhausted { next_modifier }));
}
