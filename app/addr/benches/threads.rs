//! Searches with Sec 2 on one thread and on several threads.
//!
//! The gain of a second thread depends on other work of the machine: run this benchmark on an idle machine.
#![allow(missing_docs, reason = "the functions of a benchmark are its own")]

use divan::{Bencher, counter::ItemsCount};
use moorline_addr::{Job, Search, SetKey, Shard};
use moorline_cga::Sec;
use std::{num::NonZeroUsize, sync::atomic::AtomicBool, thread};

fn main() {
    divan::main();
}

#[divan::bench(args = threads(), sample_count = 5, sample_size = 1)]
fn search(bencher: Bencher<'_, '_>, threads: NonZeroUsize) {
    let mut search = Search::new(job(), Shard::WHOLE);
    search.threads = threads;
    bencher.counter(ItemsCount::new(OFFSET)).bench(|| {
        let found = search.run(&AtomicBool::new(false), |_| ()).expect("found before");
        assert_eq!(found.offset, OFFSET);
    });
}

fn job() -> Job {
    let prefixes = vec![[0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0], [0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0]];
    Job::new(true, prefixes, SetKey::Random([SEED; 48]), Sec::TWO, [0; 16]).expect("made before")
}

fn threads() -> Vec<NonZeroUsize> {
    let all = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    (0..10).filter_map(|n| NonZeroUsize::new(1 << n)).take_while(|n| *n <= all).collect()
}

/// First seed, counted from 0, whose search ends within seconds.
const SEED: u8 = 5;
/// Offset of the modifier of this seed.
const OFFSET: u64 = 127_055_877;
