//! Vectors by LinShim6 and by an independent reading of the RFCs. `expect_rfc` is the verdict.

use crate::{
    GenerateError, HbaKey, HbaSet, Sec, VerifyError, generate_hba, search::Hash2Blocks, verify_cga,
    verify_hba,
};
use moorline_types::Locator;
use serde::Deserialize;
use std::{collections::BTreeMap, string::String, vec::Vec};

#[derive(Deserialize)]
struct File {
    keys: BTreeMap<String, Key>,
    cga: Vec<Vector>,
    hba: Vec<Vector>,
}

#[derive(Deserialize)]
struct Key {
    spki: String,
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
    ext: Option<String>,
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

    /// The key of an HBA as the vector's maker had it.
    fn hba_key(&self, file: &File) -> HbaKey {
        let name = self.key.as_deref().unwrap();
        if let Some(nonce) = name.strip_prefix("rsa-nonce:") {
            return HbaKey::extended_modifier(array(nonce));
        }
        let Some(nonce) = name.strip_prefix("raw-nonce:") else {
            return HbaKey::public_key(&hex::decode(&file.keys[name].spki).unwrap()).unwrap();
        };
        // LinShim6: the BIT STRING holds the nonce itself.
        let spki = hex::decode("3042300d06092a864886f70d0101010500033100").unwrap();
        HbaKey::foreign(&[spki, hex::decode(nonce).unwrap()].concat(), false)
    }

    fn prefixes(&self) -> Vec<[u8; 8]> {
        self.prefixes.as_ref().unwrap().iter().map(|prefix| array(prefix)).collect()
    }
}

fn file() -> File {
    serde_json::from_str(include_str!("../../../../tests/vectors/cga_hba.json")).unwrap()
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    hex::decode(text).unwrap().try_into().unwrap()
}

#[test]
fn hba_verdicts_are_those_of_the_rfc() {
    let file = file();
    assert_eq!(file.hba.len(), 33);
    for vector in &file.hba {
        let verdict = verify_hba(vector.address(), &vector.pds());
        assert_eq!(verdict.is_ok(), vector.expect_rfc, "{}: {verdict:?}", vector.id);
    }
}

#[test]
fn cga_verdicts_are_those_of_the_rfc() {
    let file = file();
    assert_eq!(file.cga.len(), 39);
    for vector in &file.cga {
        let verdict = verify_cga(vector.address(), &vector.pds());
        assert_eq!(verdict.is_ok(), vector.expect_rfc, "{}: {verdict:?}", vector.id);
    }
}

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
        ("cga-031", VerifyError::Hash2),
        ("cga-033", VerifyError::Hash1),
        ("cga-037", VerifyError::PrefixMismatch),
        ("cga-059", VerifyError::CollisionCount),
        ("cga-061", VerifyError::CollisionCount),
        ("cga-067", VerifyError::Hash2),
        ("cga-069", VerifyError::Hash2),
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

/// The search of CGA and HBA is the same; only the CGA vectors say where it started.
#[test]
fn search_stops_at_the_modifier_of_the_vector() {
    let file = file();
    let mut seen = 0;
    for vector in file.cga.iter().filter(|vector| vector.start_modifier.is_some()) {
        let spki = hex::decode(&file.keys[vector.key.as_ref().unwrap()].spki).unwrap();
        let extensions = hex::decode(vector.ext.as_ref().unwrap()).unwrap();
        let mut blocks = Hash2Blocks::new(&[spki, extensions].concat());
        let start = u128::from_be_bytes(array(vector.start_modifier.as_ref().unwrap()));
        let found = blocks.search(start, vector.sec(), super::ENOUGH_FOR_SEC_1).unwrap();
        assert_eq!(found.to_be_bytes(), vector.pds()[..16], "{}", vector.id);
        seen += 1;
    }
    assert_eq!(seen, 15);
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

/// Not those with extensions besides Multi-Prefix or with the P flag at LinShim6's place.
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
