//! The user-space data planes, in safe Rust: [`shim6`] is for the contexts of Shim6, [`ilnp`] for the sessions of ILNPv6. Each obeys its
//! half of the contract in [`moorline_datapath`], as the eBPF programs (`bpf/`) do in the kernel.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod ilnp;
pub mod shim6;

use moorline_types::DropReason;

/// The fate of a packet that comes from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// The packet goes to the sockets untouched.
    Pass,
    /// The plane has rewritten the packet, which goes to the sockets.
    Deliver,
    /// The packet goes to the machine of contexts or sessions untouched: a control message, or payload with a tag that the plane
    /// does not know.
    Up,
    /// The plane has dropped the packet, and counted it.
    Drop(DropReason),
}
