//! Tests of the programs under `BPF_PROG_TEST_RUN`, on a clock that the test sets.

mod batches;
mod both;
mod cost;
mod harness;
mod hops;
mod looks;
mod sockets;
mod tables;
mod vectors;
