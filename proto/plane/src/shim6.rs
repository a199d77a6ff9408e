//! The user-space data plane: the contract of [`moorline_datapath::shim6`] in safe Rust.
//!
//! [`Plane`] stands between the sockets and the network and sees every IPv6 packet of the host:
//!
//! ```text
//!              sockets (ULIDs)
//!         |                    ^
//!   handle_outbound      handle_inbound ----> Up: control packets, unknown tags
//!         v                    |
//!              network (locators)
//!
//!   core --> handle_update          poll_report --> core
//!   clock -> handle_timeout        poll_timeout --> clock
//! ```
//!
//! **Outbound.** The address pair finds the context. While its locators are its ULIDs the packet goes
//! out as it is, and only the time is noted. Once it has moved, the 8-octet payload header (RFC 5533
//! s5.2) goes in behind the IPv6 header and the locators replace the addresses. Transport checksums
//! cover the ULIDs and stay right.
//!
//! **Inbound.** A packet with a payload header finds its context by the tag; if it comes from a locator
//! of the peer, the header comes out and the ULIDs go back in. Other packets find it by their addresses.
//!
//! An ICMPv6 error that quotes a packet of ours with a payload header gets the ULIDs back into the quote, so that the
//! socket is found (RFC 5533 s8).
//!
//! **Neither.** Unicast traffic other than ICMPv6 is counted per address pair until it deserves a
//! context. The table of pairs is bounded. It is kept in two lists by last use: pairs of a few packets
//! and pairs in use, the second with three quarters of the room, so that a scan pushes out scans.
//!
//! **Timers.** A packet stores two times at most. One deadline per context stands in an ordered set; it
//! moves forward only when a period begins that ends before it. When it passes, the stored times are
//! compared, what is due is reported, and the next deadline is set.
//!
//! The eBPF programs (`bpf/`) do the same in the kernel; `tests/vectors/plane` holds the packets,
//! counters and reports in which the two must agree, and says what the contract leaves open. Nothing in
//! the work for a packet grows with the number of contexts or pairs but the depth of the ordered maps.

mod congestion;
mod contexts;
mod flows;
mod hint;
mod icmp;
mod live;
mod packet;
mod paths;
mod plane;
mod settings;
mod tcp;

pub use crate::{Inbound, Outbound};
pub use flows::Flows;
pub use plane::{Plane, Sender};
pub use settings::{DEFAULT_MTU, MAX_FLOWS, Settings};
