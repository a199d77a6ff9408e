//! Codecs for the messages and options of RFC 5533, RFC 5534 and ILNPv6.
//!
//! Everything of protocol 140 starts with Next Header, Hdr Ext Len and the P bit. With the P bit set
//! it is a [`PayloadHeader`], 8 octets in front of a moved upper-layer packet. With the P bit clear it
//! is a control message.
//!
//! A control message is read in two steps, so that a host under attack spends nothing on options
//! before it has looked at what is cheap to check (design s5):
//!
//! 1. [`Packet::parse`] checks addresses, lengths and the checksum and allocates nothing. The fixed
//!    fields and one raw option, such as the Responder Validator, can then be read in place.
//! 2. [`Packet::message`] decodes all options into a [`Message`], which owns its contents.
//!
//! [`Message::octets`] is the way back. Nothing it writes is above a cap: what does not fit into a message
//! is left out, whole options from the end ([`Message::fits`] tells).
//!
//! Options are TLVs padded to 8 octets. One that is unknown, or not listed for the type of message it
//! is in, is kept as [`Opt::Unknown`] and never looked into (RFC 5533 s5.15); if its critical bit is
//! set, [`Packet::unknown_critical`] gives the Pointer for the Error message that is due.
//!
//! The CGA Parameters data structure is an opaque option here; [`CgaParameters`] takes it apart
//! (RFC 3972 s3, RFC 4581 s2, RFC 5535 s5). What it hashes to is `moorline-cga`'s concern.
//!
//! [`ip6`] has the IPv6 header and the walk behind it. [`ilnp`] has the messages and options of ILNPv6 (RFC 6742 to 6744).
//!
//! Nothing here panics on any input, and nothing allocates by a length that is claimed rather than
//! present. All caps are in [`consts`].
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod cga;
mod checksum;
pub mod consts;
pub mod ilnp;
pub mod ip6;
mod locators;
mod message;
mod numbers;
mod option;
mod options;
mod packet;
mod payload;
mod probe;
mod reader;
mod writer;

pub use cga::{CgaExtension, CgaParameters, MultiPrefix};
pub use checksum::{checksum, fill_checksum, fill_icmp_checksum, upper_layer_checksum};
pub use consts::{NEXT_HEADER_NONE, PAYLOAD_HEADER_LEN, PROTOCOL};
pub use locators::{LocatorEntry, LocatorList, LocatorPreference, LocatorPreferences};
pub use message::{
    ErrorMessage, I1, I2, I2bis, Keepalive, Message, R1, R1bis, R2, UpdateAck, UpdateRequest,
};
pub use numbers::{ErrorCode, MessageType, OptionType, VerificationMethod};
pub use option::{OptionIter, RawOption};
pub use options::{Opt, Options};
pub use packet::Packet;
pub use payload::PayloadHeader;
pub use probe::{Probe, ProbeReport, ProbeState};
