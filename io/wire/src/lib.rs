//! Wires for the host stack in user space: devices that carry Ethernet frames.
//!
//! A [`WireSpec`] is the text that a user gives, and a [`Wire`] is the open device. Each wire carries whole Ethernet frames without
//! a frame check sequence:
//!
//! | text | device |
//! |---|---|
//! | `tap:NAME` | a TAP interface: this host is at one end, Linux at the other. The interface is made if it does not exist |
//! | `packet:IFACE` | an interface of Linux, by a socket of the family AF_PACKET. Linux must not have IPv6 on that interface (`disable_ipv6`): otherwise both hosts answer, and a Linux that is a router sends the packets of this host on |
//! | `unix:PATH`, `unix-listen:PATH` | a Unix stream with the length of each frame in front, as QEMU (`-netdev stream`) and passt have it |
//!
//! Linux leaves checksums and the cutting of large TCP segments to its network adapters. So TAP and AF_PACKET have notes in front of
//! each frame ([`vnet`]). A [`Wire`] finishes that work in received frames: checksums are complete, and frames are no longer than the
//! MTU. A caller that accepts TCP segments of up to 64 KB receives them whole ([`Wire::set_super_segments`]), and any caller can send
//! such segments ([`Wire::try_send_super`]).
//!
//! Frames come from strangers: each is at most [`MAX_FRAME`] octets long, at most one frame is in memory at a time, and each frame
//! that a wire refuses is counted ([`Counts`]).

mod cut;
mod device;
mod interface;
mod packet;
mod spec;
mod stream;
mod tap;
pub mod vnet;
mod wire;

pub use spec::{SpecError, WireSpec};
pub use wire::{Counts, Wire};

/// Octets of the largest frame of a wire: the header of Ethernet, and an IPv6 packet without the jumbo payload option.
pub const MAX_FRAME: usize = moorline_ip::ethernet::LEN + 40 + 65_535;
