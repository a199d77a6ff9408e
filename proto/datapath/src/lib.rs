//! The contract between the protocols and a data plane.
//!
//! A protocol decides, and a data plane executes and caches what the protocol told it. A plane takes updates, gives reports, and keeps
//! the traffic moving by itself in between. `io/bpf` and `proto/plane` implement the contract, which is the trait [`Plane`] with the
//! types of a protocol, in the kernel and in user space, and the same vectors test both.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod ilnp;
mod plane;
pub mod shim6;

pub use plane::Plane;
