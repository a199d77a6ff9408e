use super::{signatures::rsa_key, vectors::file};
use crate::{
    KeyError, KeyFile, MAX_SIGNING_BITS, MIN_SIGNING_BITS, PublicKey, RsaKey, Signer,
    verify_signature,
};
use std::{format, string::String, vec::Vec};

fn parse(text: &str) -> Result<KeyFile, KeyError> {
    KeyFile::parse(text.as_bytes())
}

/// Octets of the public key, if the file has no private key.
fn address_only(file: &KeyFile) -> Vec<u8> {
    match file {
        KeyFile::AddressOnly(key) => key.spki().to_vec(),
        KeyFile::Rsa(_) => panic!("an RSA private key"),
    }
}

fn p256_spki() -> Vec<u8> {
    hex::decode(&file().keys["p256"].spki).unwrap()
}

fn p256_sec1() -> String {
    file().keys["p256"].private_pem.clone().unwrap()
}

#[test]
fn equal_seeds_make_equal_keys_and_are_wiped() {
    let make = |seed: u8| {
        let mut octets = [seed; 32];
        let key = RsaKey::generate(1024, &mut octets).unwrap();
        assert_eq!(octets, [0; 32]);
        key
    };
    let key = make(1);
    assert_eq!(key.bits(), 1024);
    assert_eq!(make(1).public_key(), key.public_key());
    assert_ne!(make(2).public_key(), key.public_key());
    let signature = key.sign(b"octets", [3; 32]).unwrap();
    assert_eq!(verify_signature(key.public_key().spki(), b"octets", &signature), Ok(()));
}

//= rfc5533#16-1 (test)
#[test]
fn keys_of_other_lengths_are_not_made() {
    let make = |bits| RsaKey::generate(bits, &mut [1; 32]).map(|key| key.bits());
    for bits in [0, 384, MIN_SIGNING_BITS - 1] {
        assert_eq!(make(bits), Err(KeyError::TooShort { bits }));
    }
    for bits in [MAX_SIGNING_BITS + 1, u32::MAX] {
        assert_eq!(make(bits), Err(KeyError::TooLong { bits }));
    }
}

#[test]
fn key_comes_back_from_what_it_was_written_to() {
    let key = rsa_key(&file(), "rsa2048");
    let pem = key.to_pkcs8_pem().unwrap();
    assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\n"));
    let der = key.to_pkcs8_der().unwrap();
    for octets in [pem.as_bytes(), &der] {
        let KeyFile::Rsa(back) = KeyFile::parse(octets).unwrap() else { panic!() };
        assert_eq!(back.public_key(), key.public_key());
        assert_eq!(back.sign(b"x", [1; 32]), key.sign(b"x", [2; 32]));
    }
}

#[test]
fn a_private_key_with_a_wrong_octet_is_refused_or_the_same_key() {
    let key = rsa_key(&file(), "rsa1024");
    let pkcs1 = file().keys["rsa1024"].private_pem.clone().unwrap();
    let (pkcs8, der) = (key.to_pkcs8_pem().unwrap(), key.to_pkcs8_der().unwrap());
    for whole in [pkcs1.as_bytes(), pkcs8.as_bytes(), &der] {
        for (at, bit) in (0..whole.len()).flat_map(|at| [0x01, 0x10, 0x80].map(|bit| (at, bit))) {
            let mut damaged = whole.to_vec();
            damaged[at] ^= bit;
            match KeyFile::parse(&damaged) {
                Ok(KeyFile::Rsa(back)) => {
                    assert_eq!(back.to_pkcs8_der().unwrap(), der, "octet {at}")
                }
                Ok(KeyFile::AddressOnly(_)) => panic!("octet {at} made it another kind of key"),
                Err(_) => {}
            }
        }
    }
}

#[test]
fn debug_shows_nothing_of_a_private_key() {
    let key = rsa_key(&file(), "rsa1024");
    assert_eq!(format!("{key:?}"), "RsaKey { bits: 1024, .. }");
    assert_eq!(format!("{:?}", KeyFile::Rsa(key)), "Rsa(RsaKey { bits: 1024, .. })");
}

#[test]
fn elliptic_curve_keys_come_to_their_public_key() {
    let spki = p256_spki();
    for text in [p256_sec1(), P256_PKCS8.into(), format!("{EC_PARAMETERS}{}", p256_sec1())] {
        for text in [text.clone(), text.replace('\n', "\r\n"), format!("a note\n{text}the end\n")] {
            assert_eq!(address_only(&parse(&text).unwrap()), spki, "{text}");
        }
    }
    let public = KeyFile::parse(&spki).unwrap();
    assert_eq!(address_only(&public), spki);
    assert_eq!(public.public_key(), &PublicKey::from_spki(&spki).unwrap());
    assert_eq!(public.signer().err(), Some(KeyError::NotRsa));
}

#[test]
fn rsa_private_key_signs_if_it_is_long_enough() {
    let pem = file().keys["rsa1024"].private_pem.clone().unwrap();
    assert!(parse(&pem).unwrap().signer().is_ok());
    let public = KeyFile::parse(&hex::decode(&file().keys["rsa1024"].spki).unwrap()).unwrap();
    assert_eq!(public.signer().err(), Some(KeyError::NoPrivate));
    let short = KeyFile::parse(&hex::decode(&file().keys["rfc3972-rsa512"].spki).unwrap()).unwrap();
    assert_eq!(short.signer().err(), Some(KeyError::TooShort { bits: 512 }));
}

#[test]
fn what_is_no_key_says_why() {
    let sealed = P256_PKCS8.replace("PRIVATE", "ENCRYPTED PRIVATE");
    let sealed_by_openssl = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
                             DEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n";
    let rsa = file().keys["rsa1024"].private_pem.clone().unwrap();
    let changed = rsa.replacen("MIICXQIBAAKBgQC", "MIICXQIBAAKBgQD", 1);
    let cut = format!("{}\n-----END RSA PRIVATE KEY-----\n", &rsa[..200]);
    for (text, error) in [
        (&sealed[..], KeyError::Encrypted),
        (sealed_by_openssl, KeyError::Encrypted),
        (ED25519, KeyError::NoPublic),
        (&changed, KeyError::Malformed),
        (&cut, KeyError::Malformed),
        (&rsa[..200], KeyError::Malformed),
        (EC_PARAMETERS, KeyError::Malformed),
        ("", KeyError::Malformed),
        ("-----BEGIN ", KeyError::Malformed),
        ("-----BEGIN KEY-----\n-----END KEY-----", KeyError::Malformed),
    ] {
        assert_eq!(parse(text).err(), Some(error), "{text}");
    }
    assert_eq!(KeyFile::parse(&[0xff; 40]).err(), Some(KeyError::Malformed));
    // PBES2 without its parameters, followed by some octets.
    let sealed = hex::decode("3011300b06092a864886f70d01050d04020102").unwrap();
    assert_eq!(KeyFile::parse(&sealed).err(), Some(KeyError::Encrypted));
}

/// The key of the vectors, as `openssl pkey` writes it.
const P256_PKCS8: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQglJrc5R2Oy76zG9LN
v1sA/yFGjHQGfuWh35dE4PXs926hRANCAATJHq9GCoozfp9qzuoDw74w5ycmHLcW
Ejj7BzNjoJsBI7Z1T+kkaGzFW8U5kxe7+KXNzhILMbSDs4Dh4F0n90Ty
-----END PRIVATE KEY-----
";
/// Block that `openssl ecparam -genkey` writes in front of the key.
const EC_PARAMETERS: &str = "-----BEGIN EC PARAMETERS-----
BggqhkjOPQMBBw==
-----END EC PARAMETERS-----
";
/// A throw-away key in a form without the public key.
const ED25519: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIGs30UrTtOsvV35ad3eroSi+h+vpFMjkd81Djx+UvZEl
-----END PRIVATE KEY-----
";

/// No source of this crate calls a function that decrypts or encrypts: the private key only signs.
//= rfc3972#7.4-3 rfc3972#7.4-4 (test)
#[test]
fn keys_do_nothing_but_sign() {
    let mut folders =
        std::vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
    let mut calls = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.is_file() {
                let source = std::fs::read_to_string(&path).unwrap();
                for word in ["decrypt(", "encrypt(", "15Encrypt", "Oaep"] {
                    assert!(!source.contains(word), "{} in {}", word, path.display());
                }
                calls += source.matches(".sign_with_rng(").count();
            }
        }
    }
    assert_eq!(calls, 1);
}
