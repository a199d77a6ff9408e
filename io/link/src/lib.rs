//! Raw sockets and links.
//!
//! [`Shim6Socket`] carries protocol 140: control messages both ways, and payload whose tag no
//! program knew. That it is open keeps the kernel from answering "unrecognized next header".
//! [`Icmp6Socket`] listens for that answer from peers without Shim6.

mod icmp6;
mod shim6;
mod socket;

pub use icmp6::{Icmp6Socket, Unrecognized};
pub use shim6::{Received, Shim6Socket};
