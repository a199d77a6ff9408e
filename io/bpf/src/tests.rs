//! Tests of the programs under `BPF_PROG_TEST_RUN`, on a clock that the test sets.

pub(crate) mod both;
mod budget;
mod cost;
mod forwarded;
mod gather;
pub(crate) mod harness;
pub(crate) mod hops;
pub(crate) mod memory;
mod stack;
pub(crate) mod tables;
pub(crate) mod vectors;

use std::collections::BTreeMap;

use moorline_types::DropReason;

/// Whether the tests can run; prints a message if not.
pub(crate) fn can_run(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED {test}: needs root for eBPF");
    }
    root
}

#[test]
fn drop_reasons_in_c_are_those_in_rust() {
    let header = include_str!("../../../bpf/lib/drop.h");
    let in_rust: BTreeMap<String, u8> = DropReason::ALL
        .iter()
        .map(|reason| (format!("DROP_{}", reason.as_str().to_uppercase()), *reason as u8))
        .collect();
    let mut seen = 0;
    for line in header.lines() {
        let Some((name, number)) = line.trim().trim_end_matches(',').split_once(" = ") else {
            continue;
        };
        // The size of the table, not a reason.
        if name == "DROP_REASONS" {
            assert!(in_rust.values().all(|reason| u32::from(*reason) < number.parse().unwrap()));
        } else if name.starts_with("DROP_") {
            assert_eq!(in_rust.get(name), Some(&number.parse().unwrap()), "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 7, "{seen} reasons in drop.h");
}
