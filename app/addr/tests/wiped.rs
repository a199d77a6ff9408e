//! Test that no part of a private key stays in memory after the process has dropped it.
//!
//! This program has no other test, because the test would find the key of another test.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use moorline_addr::{generate_key, read_key, write_key};
use moorline_cga::{RsaKey, Signer as _};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

#[test]
fn nothing_of_a_private_key_stays_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key.pem");
    let key = generate_key(1024).unwrap();
    let needles = needles_of(&key);
    assert!(found(&needles).contains(&"q as a number".to_owned()), "what is there is found");
    write_key(&path, &key).unwrap();
    drop(key);
    assert_eq!(found(&needles), [""; 0], "made, written, dropped");

    let file = read_key(&path).unwrap();
    assert_eq!(file.signer().unwrap().sign(b"octets", [7; 32]).unwrap().len(), 128);
    assert!(found(&needles).contains(&"q as a number".to_owned()), "it is the same key");
    drop(file);
    assert_eq!(found(&needles), [""; 0], "read, used, dropped");
}

/// Piece of a secret, stored in a form that the search does not match.
struct Needle {
    what: String,
    masked: Vec<u8>,
}

impl Needle {
    fn new(what: &str, octets: impl Iterator<Item = u8>) -> Self {
        Self { what: what.to_owned(), masked: octets.map(|octet| octet ^ MASK).collect() }
    }

    fn is_in(&self, memory: &[u8]) -> bool {
        let first = self.masked[0] ^ MASK;
        memory.windows(self.masked.len()).any(|window| {
            window[0] == first
                && window.iter().zip(&self.masked).all(|(octet, masked)| octet ^ MASK == *masked)
        })
    }
}

fn needles_of(key: &RsaKey) -> Vec<Needle> {
    let der = key.to_pkcs8_der().unwrap();
    // Skip the header of PrivateKeyInfo, up to the octets of RSAPrivateKey.
    let rsa = &der[26..];
    let mut rest = value(rsa).0;
    let mut integers = Vec::new();
    while !rest.is_empty() {
        let (integer, after) = value(rest);
        integers.push(integer);
        rest = after;
    }
    let mut needles = Vec::new();
    for (name, integer) in [("d", 3), ("p", 4), ("q", 5)].map(|(name, n)| (name, integers[n])) {
        let tail = &integer[integer.len() - 32..];
        needles.push(Needle::new(&format!("{name} in DER"), tail.iter().copied()));
        // Little-endian words, least significant word first.
        needles.push(Needle::new(&format!("{name} as a number"), tail.iter().rev().copied()));
    }
    let pem = key.to_pkcs8_pem().unwrap();
    needles.push(Needle::new("PEM", pem.lines().nth(9).unwrap().bytes()));
    needles
}

/// Splits off the value of a DER element; returns the value and the rest.
fn value(der: &[u8]) -> (&[u8], &[u8]) {
    let (length, header) = match der[1] {
        0x81 => (usize::from(der[2]), 3),
        0x82 => (usize::from(der[2]) << 8 | usize::from(der[3]), 4),
        short => (usize::from(short), 2),
    };
    der[header..].split_at(length)
}

/// Returns the names of the needles found in the writable memory of this process.
fn found(needles: &[Needle]) -> Vec<String> {
    let memory = File::open("/proc/self/mem").unwrap();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mut found = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (range, _) = line.split_once(' ').unwrap();
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|hex| u64::from_str_radix(hex, 16).unwrap());
        let mut octets = vec![0; usize::try_from(to - from).unwrap()];
        // Some ranges, such as guard pages, cannot be read.
        if memory.read_exact_at(&mut octets, from).is_ok() {
            let here = needles.iter().filter(|needle| needle.is_in(&octets));
            found.extend(here.map(|needle| needle.what.clone()));
        }
        octets.fill(0);
        std::hint::black_box(&octets);
    }
    found.sort();
    found.dedup();
    found
}

const MASK: u8 = 0x5a;
