//! User-space data planes, in safe Rust: [`shim6`] for the contexts of Shim6, [`ilnp`] for the sessions of ILNPv6.
//! Each obeys its half of the contract in [`moorline_datapath`], as the eBPF programs (`bpf/`) do in the kernel.
//! [`Planes`] puts one behind the other.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod icmp;
pub mod ilnp;
mod planes;
mod reports;
pub mod shim6;

use core::net::Ipv6Addr;

use moorline_types::DropReason;

pub use planes::{By, Planes, Report};
pub use reports::MAX_REPORTS;

/// The fate of a packet that a socket sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outbound {
    /// The packet goes its way untouched.
    Pass,
    /// The plane has rewritten the packet, which leaves by the uplink of its new source.
    Send {
        /// Source address of the rewritten packet.
        source: Ipv6Addr,
    },
    /// The plane has dropped the packet, and counted it.
    Drop(DropReason),
}

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
