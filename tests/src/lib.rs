//! Tests across crates.
//!
//! `plane` reads the vectors of the data plane contracts (`tests/vectors/plane` and `tests/vectors/plane/ilnp`, see
//! their READMEs) and plays them to the user-space data planes. `io/bpf` plays the same files to the eBPF programs.
#![forbid(unsafe_code)]

pub mod plane;
