//! Wires in network namespaces, with the kernel at their other ends. They need root and `ip`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod frames;
mod harness;
mod relay;
