//! SHA-1 blocks per second of each engine that this machine has, on one thread.
//!
//! Compare with `openssl speed -evp sha1 -bytes 16384` on the same core, at 64 octets a block.
#![allow(missing_docs, reason = "the functions of a benchmark are its own")]

use divan::{Bencher, counter::ItemsCount};
use moorline_cga::{Engine, Hash2Search, Sec};

fn main() {
    divan::main();
}

/// Octets behind the fixed part: a P-256 key (two blocks), an HBA set of two prefixes with 384 random
/// bits (three), and an RSA key of 1024 bits (four).
const TAILS: [usize; 3] = [91, 102, 162];
/// No modifier fits Sec 7 here, so a call makes all tries.
const TRIES: u64 = 1 << 20;

#[divan::bench(args = cases(), sample_count = 20, sample_size = 1)]
fn search(bencher: Bencher<'_, '_>, case: &(Engine, usize)) {
    let (engine, tail) = *case;
    let tail: Vec<u8> = (0..=255).cycle().take(tail).collect();
    let search = Hash2Search::new(&tail, Sec::MAX).with_engine(engine);
    let blocks = TRIES * search.blocks() as u64;
    bencher
        .counter(ItemsCount::new(blocks))
        .bench(|| assert_eq!(search.first_fit(divan::black_box(0), TRIES), None));
}

fn cases() -> Vec<(Engine, usize)> {
    Engine::available().flat_map(|engine| TAILS.map(|tail| (engine, tail))).collect()
}
