//! The contract between the protocols and a data plane.
//!
//! A protocol decides. A data plane executes and caches its decisions. A plane takes updates, gives reports, and
//! keeps the traffic moving in between without help. The contract is the trait [`Plane`] with the types of a
//! protocol. `io/bpf` implements it in the kernel, `proto/plane` in user space, and the same vectors test both.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod ilnp;
mod plane;
pub mod shim6;

pub use plane::Plane;
