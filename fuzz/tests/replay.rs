//! Replays every corpus, then mutates it with a fixed seed. So the tests find what a fuzzer would find in its first
//! second, and every machine runs the same inputs.

use moorline_fuzz::{TARGETS, Target};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Inputs made from each corpus.
const MUTATIONS: usize = 20_000;
/// Greatest length of a made input.
const MAX_LEN: usize = 2048;

#[test]
fn every_corpus_file_keeps_the_promises() {
    for target in TARGETS {
        for (path, octets) in corpus(target) {
            run(target, &octets, &path.display().to_string());
        }
    }
}

#[test]
fn every_corpus_holds_good_and_bad_inputs() {
    for target in TARGETS {
        let seeds = corpus(target);
        let good = seeds.iter().filter(|(_, octets)| (target.run)(octets)).count();
        assert!(good > 0 && good < seeds.len(), "{}: {good} of {} good", target.name, seeds.len());
    }
}

#[test]
fn mutated_corpus_keeps_the_promises() {
    for target in TARGETS {
        let seeds: Vec<Vec<u8>> = corpus(target).into_iter().map(|(_, octets)| octets).collect();
        let mut random = Random(0x6d6f_6f72_6c69_6e65);
        let mut good = 0;
        for at in 0..MUTATIONS {
            let octets = mutate(&seeds, &mut random);
            good += usize::from(run(target, &octets, &format!("mutation {at}")));
        }
        // If mutations break every input, or none, they test nothing.
        let share = good * 100 / MUTATIONS;
        assert!((1..=99).contains(&share), "{}: {share} % well formed", target.name);
    }
}

#[test]
fn every_target_has_its_corpus_and_no_more() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names.len(), TARGETS.len(), "two of the same name");
    assert_eq!(entries("corpus"), names);
}

/// Whether the input is well formed. If the target panics, prints the input.
#[track_caller]
fn run(target: &Target, octets: &[u8], label: &str) -> bool {
    match catch_unwind(AssertUnwindSafe(|| (target.run)(octets))) {
        Ok(good) => good,
        Err(_) => panic!("{}: {label}: panics on {}", target.name, hex::encode(octets)),
    }
}

/// Inputs sorted by name, so that every machine runs them in the same order.
fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new("corpus").join(target.name);
    let names = entries(&folder);
    assert!(!names.is_empty(), "{}: no corpus", target.name);
    names
        .into_iter()
        .map(|name| {
            let path = folder.join(name);
            let octets = std::fs::read(root().join(&path)).expect("a readable file");
            (path, octets)
        })
        .collect()
}

fn entries(folder: impl AsRef<Path>) -> BTreeSet<String> {
    std::fs::read_dir(root().join(folder))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A seed with one to four changes.
fn mutate(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut octets = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        change(&mut octets, seeds, random);
    }
    octets.truncate(MAX_LEN);
    octets
}

fn change(octets: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    const EDGES: [u8; 10] = [0, 1, 2, 3, 4, 0x7f, 0x80, 0x81, 0xfe, 0xff];
    let at = random.below(octets.len() + 1);
    match random.below(8) {
        0 => octets.truncate(at),
        1 => {
            let other = &seeds[random.below(seeds.len())];
            octets.truncate(at);
            octets.extend_from_slice(&other[at.min(other.len())..]);
        }
        2 => {
            let len = random.below(24).min(octets.len() - at);
            let copy = octets[at..at + len].to_vec();
            octets.splice(at..at, copy);
        }
        3 => {
            let end = (at + 8).min(octets.len());
            octets.drain(at..end);
        }
        4 if at < octets.len() => octets[at] ^= 1 << random.below(8),
        5 if at < octets.len() => octets[at] = octets[at].wrapping_add(1),
        6 if at < octets.len() => octets[at] = octets[at].wrapping_sub(1),
        _ if at < octets.len() => octets[at] = EDGES[random.below(EDGES.len())],
        _ => octets.push(EDGES[random.below(EDGES.len())]),
    }
}

/// `SplitMix64`: random enough to pick changes, and equal on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let limit = u64::try_from(limit.max(1)).expect("fits");
        usize::try_from((value ^ (value >> 31)) % limit).expect("below a usize")
    }
}
