//! Numbers of the RFCs and the caps on what a peer may send. None can be configured.

use moorline_types::Encapsulation;

/// IPv6 Next Header value of Shim6 (RFC 5533 s17).
pub const PROTOCOL: u8 = 140;
/// IPv6 Next Header value in a control message: no header follows (RFC 5533 s5.3).
pub const NEXT_HEADER_NONE: u8 = 59;

/// Octets of the payload extension header (RFC 5533 s5.2).
pub const PAYLOAD_HEADER_LEN: usize = Encapsulation::PayloadHeader.overhead() as usize;
/// Octets that all control messages have: up to the checksum, and 2 octets with a meaning of each type.
pub const CONTROL_HEADER_LEN: usize = 8;
/// Octets of a probe report (RFC 5534 s5.2): two addresses, nonce, data.
pub const PROBE_REPORT_LEN: usize = 40;
/// Octets of the CGA Parameters in front of the public key (RFC 3972 s3).
pub const CGA_FIXED_LEN: usize = 25;

/// Largest control message in octets: 1280 without the IPv6 header (RFC 5533 s5.1).
pub const MAX_MESSAGE_LEN: usize = 1240;
/// Largest number of options in a message. The RFCs define 8, none of which is useful twice.
pub const MAX_OPTIONS: usize = 16;
/// Largest number of locators in a list, and of elements in Locator Preferences (design s5).
pub const MAX_LOCATORS: usize = 32;
/// Largest number of probe reports in each direction: the fields are 4 bits wide (RFC 5534 s5.2).
pub const MAX_PROBE_REPORTS: usize = 15;
/// Largest CGA Parameters data structure in octets: RSA of 4096 bits and 32 prefixes take 835.
pub const MAX_PDS_LEN: usize = 1024;
/// Largest number of extension fields in a CGA Parameters data structure.
pub const MAX_CGA_EXTENSIONS: usize = 16;
/// Largest number of prefixes in a Multi-Prefix extension: as many as locators.
pub const MAX_PREFIXES: usize = MAX_LOCATORS;
