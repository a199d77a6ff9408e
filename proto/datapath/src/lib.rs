//! The contract between the protocols and a data plane.
//!
//! A protocol decides, and a data plane executes and caches what the protocol told it. A plane takes updates, gives reports, and keeps
//! the traffic moving by itself in between. `io/bpf` and `proto/plane` implement the contract, in the kernel and in user space, and
//! the same vectors test both.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod ilnp;
pub mod shim6;
