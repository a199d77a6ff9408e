//! Codecs for the messages and options of RFC 5533, RFC 5534 and ILNPv6.
//!
//! Each packet of protocol 140 starts with Next Header, Hdr Ext Len and the P bit. With the P bit set, it is a
//! [`PayloadHeader`]: 8 octets in front of a moved upper-layer packet. With the P bit clear, it is a control message.
//!
//! A control message is read in two steps, so that a host under attack does the cheap checks before it decodes any
//! option (design s5):
//!
//! 1. [`Packet::parse`] checks addresses, lengths and the checksum and allocates nothing. The fixed
//!    fields and one raw option, such as the Responder Validator, can then be read in place.
//! 2. [`Packet::message`] decodes all options into a [`Message`], which owns its contents.
//!
//! [`Message::octets`] writes a message. It writes nothing above a cap: if the options do not fit into a message, it
//! leaves whole options out, from the end ([`Message::fits`] tells).
//!
//! Options are TLVs padded to 8 octets. An option that is unknown, or not listed for the type of its message, is kept
//! as [`Opt::Unknown`] and not decoded (RFC 5533 s5.15). If its critical bit is set, [`Packet::unknown_critical`]
//! gives the Pointer for the Error message that is due.
//!
//! The CGA Parameters data structure is an opaque option here; [`CgaParameters`] decodes it (RFC 3972 s3, RFC 4581
//! s2, RFC 5535 s5). `moorline-cga` computes its hashes.
//!
//! [`ip6`] contains the IPv6 header and the walk through extension headers. [`ilnp`] contains the messages and
//! options of ILNPv6 (RFC 6742 to 6744).
//!
//! No function here panics on any input, or allocates by a length field that the input does not fill. All caps are in
//! [`consts`].
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod cga;
mod checksum;
pub mod consts;
pub mod ilnp;
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
pub use checksum::fill_checksum;
pub use consts::{NEXT_HEADER_NONE, PAYLOAD_HEADER_LEN, PROTOCOL};
pub use locators::{LocatorEntry, LocatorList, LocatorPreference, LocatorPreferences};
pub use message::{
    ErrorMessage, I1, I2, I2bis, Keepalive, Message, R1, R1bis, R2, UpdateAck, UpdateRequest,
};
pub use moorline_ip::{checksum, fill_icmp_checksum, ip6, upper_layer_checksum};
pub use numbers::{ErrorCode, MessageType, OptionType, VerificationMethod};
pub use option::{OptionIter, RawOption};
pub use options::{Opt, Options};
pub use packet::Packet;
pub use payload::PayloadHeader;
pub use probe::{Probe, ProbeReport, ProbeState};
