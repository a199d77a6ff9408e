//! Codecs for Ethernet, IPv6 and its extension headers, ICMPv6, Neighbor Discovery, MLD and UDP, and for IPv4, ARP and ICMP.
//!
//! | module | concern |
//! |---|---|
//! | [`ethernet`] | the Ethernet header, and the addresses of multicast groups on Ethernet (RFC 2464) |
//! | [`ip6`] | the IPv6 header, and the walk to the upper layer that data planes do |
//! | [`header`] | the whole IPv6 header, for a host (RFC 8200 s3) |
//! | [`extension`] | options, routing headers and fragment headers (RFC 8200 s4) |
//! | [`icmp`] | ICMPv6 messages (RFC 4443) |
//! | [`nd`] | Neighbor Discovery (RFC 4861, 4191, 8106, 3971 s5.3.2) |
//! | [`mld`] | Multicast Listener Discovery, versions 1 and 2 (RFC 2710, 3810) |
//! | [`udp`] | UDP |
//! | [`ip4`], [`icmp4`] | the IPv4 header (RFC 791), ICMP messages (RFC 792) |
//! | [`arp`] | ARP (RFC 826) |
//! | [`address`] | addresses and groups with a meaning, and their scopes |
//! | [`PacketBuf`] | a packet with room in front of it |
//!
//! A parser takes the octets of one message and returns a type that borrows from them, or a [`Malformed`]. No parser panics on any
//! input, or allocates by a length field that the input does not fill. [`nd`] checks all that RFC 4861 demands of a
//! message before a host uses it, so a message that has been parsed is a valid one.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod address;
pub mod arp;
mod buffer;
mod checksum;
pub mod ethernet;
pub mod extension;
pub mod header;
pub mod icmp;
pub mod icmp4;
pub mod ip4;
pub mod ip6;
mod malformed;
pub mod mld;
pub mod nd;
mod reader;
pub mod udp;

pub use buffer::{HEADROOM, PacketBuf};
pub use checksum::{checksum, fill, fill_icmp_checksum, fold, upper_layer_checksum};
pub use ethernet::Mac;
pub use header::Header;
pub use malformed::Malformed;
