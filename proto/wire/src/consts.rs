//! Numbers of the RFCs and the caps on what a peer may send. None can be configured.

use moorline_types::Encapsulation;

/// IPv6 Next Header value of Shim6 (RFC 5533 s17).
pub const PROTOCOL: u8 = 140;
/// Next Header value of a control message: nothing follows (RFC 5533 s5.3).
pub const NEXT_HEADER_NONE: u8 = 59;

/// Octets of the payload extension header (RFC 5533 s5.2).
pub const PAYLOAD_HEADER_LEN: usize = Encapsulation::PayloadHeader.overhead() as usize;
/// Octets common to all control messages, up to and with the checksum and 2 of each type's own.
pub const CONTROL_HEADER_LEN: usize = 8;
/// Octets of a probe report (RFC 5534 s5.2): two addresses, nonce, data.
pub const PROBE_REPORT_LEN: usize = 40;
/// Octets of the CGA Parameters before the public key (RFC 3972 s3).
pub const CGA_FIXED_LEN: usize = 25;

/// Largest control message in octets: 1280 without the IPv6 header (RFC 5533 s5.1).
pub const MAX_MESSAGE_LEN: usize = 1240;
/// Options in a message. The RFCs define 8, of which none is useful twice.
pub const MAX_OPTIONS: usize = 16;
/// Locators in a list, and elements in Locator Preferences (design s5).
pub const MAX_LOCATORS: usize = 32;
/// Probe reports each way: the fields are 4 bits wide (RFC 5534 s5.2).
pub const MAX_PROBE_REPORTS: usize = 15;
/// Octets of a CGA Parameters data structure: RSA of 4096 bits and 32 prefixes take 835.
pub const MAX_PDS_LEN: usize = 1024;
/// Extension fields in a CGA Parameters data structure.
pub const MAX_CGA_EXTENSIONS: usize = 16;
/// Prefixes in a Multi-Prefix extension: as many as locators.
pub const MAX_PREFIXES: usize = MAX_LOCATORS;
