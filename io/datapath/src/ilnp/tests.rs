//! The programs under `BPF_PROG_TEST_RUN`, on a clock that the test sets.

mod both;
mod harness;
mod sockets;
