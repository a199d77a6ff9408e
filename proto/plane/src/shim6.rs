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
//! **Outbound.** The address pair finds the context. While the locators of the context are its ULIDs, the packet
//! leaves as it is, and the plane only notes the time. Once the context has moved, the plane inserts the 8-octet
//! payload header (RFC 5533 s5.2) behind the IPv6 header and replaces the addresses by the locators. Transport
//! checksums cover the ULIDs and stay right.
//!
//! **Inbound.** A packet with a payload header finds its context by the tag. If the packet comes from a locator of
//! the peer, the plane takes the header out and puts the ULIDs back. A packet without a payload header finds its
//! context by its addresses.
//!
//! If an ICMPv6 error quotes a packet of ours with a payload header, the plane puts the ULIDs back into the quote, so
//! that the stack finds the socket (RFC 5533 s8).
//!
//! **No context.** The plane counts unicast traffic other than ICMPv6 per address pair, until the pair deserves a
//! context. The table of pairs is bounded. It consists of two lists in order of last use: newcomers with a few
//! packets, and pairs in use. Pairs in use have three quarters of the room, so that a scan pushes out only other
//! scans.
//!
//! **Timers.** A packet stores two times at most. Each context has one deadline in an ordered set. The deadline moves
//! forward only when a period begins that ends before it. When the deadline passes, the plane compares the stored
//! times, reports what is due and sets the next deadline.
//!
//! The eBPF programs (`bpf/`) do the same in the kernel. `tests/vectors/plane` holds the packets, counters and
//! reports in which the two must agree, and says what the contract leaves open. The work for a packet grows with the
//! number of contexts and pairs only by the depth of the ordered maps.

mod both_ways;
pub(crate) mod budget;
mod congestion;
pub(crate) mod contexts;
mod flows;
pub(crate) mod hint;
mod icmp;
mod label;
mod live;
mod packet;
mod paths;
mod plane;
mod proof;
mod settings;
pub(crate) mod tcp;

pub use crate::{Inbound, Outbound};
pub use both_ways::Passage;
pub use flows::Flows;
pub use plane::{Plane, Sender};
pub use settings::{DEFAULT_MTU, MAX_FLOWS, Settings};
