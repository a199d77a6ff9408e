//! Tests that cross crates.
//!
//! `plane` reads the vectors of the data plane contract (`tests/vectors/plane`, see its README) and
//! plays them to the user-space data plane; `io/bpf` plays the same files to the eBPF programs.
#![forbid(unsafe_code)]

pub mod plane;
