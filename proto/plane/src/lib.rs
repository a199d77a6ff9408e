//! The user-space data planes, in safe Rust: [`shim6`] is for the contexts of Shim6, [`ilnp`] for the sessions of ILNPv6. Each obeys its
//! half of the contract in [`moorline_datapath`], as the eBPF programs (`bpf/`) do in the kernel.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod ilnp;
pub mod shim6;
