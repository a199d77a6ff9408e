//! Numbers of the ILNP RFCs and of the admission handshake.

/// ICMPv6 type of a Locator Update (RFC 6743 s2).
pub const LOCATOR_UPDATE: u8 = 156;
/// ICMPv6 type of Propose and Confirm, of those for private experimentation (RFC 4443 s2.1). Configurable.
pub const ADMISSION_INITIATOR: u8 = 200;
/// ICMPv6 type of Accept and Refuse, of those for private experimentation (RFC 4443 s2.1). Configurable.
pub const ADMISSION_RESPONDER: u8 = 201;
/// Octets of the validator in Accept and Confirm.
pub const ADMISSION_VALIDATOR_LEN: usize = 16;
/// Largest number of options in a Destination Options header, each octet of Pad1 counted: 16, so that the time to
/// read a packet is bounded. Linux accepts 8 options that are no padding, and 7 octets of padding in a row.
pub const MAX_OPTIONS: usize = 16;
/// Largest number of locators in a Locator Update: the largest count of its field (RFC 6743 s2).
pub const MAX_UPDATE_LOCATORS: usize = 255;
/// Locators that fit into a Locator Update of 1280 octets, with a 96-bit nonce and the sequence number of Moorline.
pub const MAX_SENT_LOCATORS: usize = 100;
/// DNS type of a NID record (RFC 6742 s2.1).
pub const DNS_NID: u16 = 104;
/// DNS type of an L32 record (RFC 6742 s2.2).
pub const DNS_L32: u16 = 105;
/// DNS type of an L64 record (RFC 6742 s2.3).
pub const DNS_L64: u16 = 106;
/// DNS type of an LP record (RFC 6742 s2.4).
pub const DNS_LP: u16 = 107;
