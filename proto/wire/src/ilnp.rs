//! ILNPv6: the messages and options of RFC 6742, 6743 and 6744, and those of the admission handshake of Moorline.
//!
//! * [`NonceHeader`]: the Destination Options header with the Nonce option (RFC 6744 s2).
//! * [`LocatorUpdate`]: the ICMPv6 message that tells correspondents of locators (RFC 6743 s2).
//! * [`OlderLocatorUpdate`]: Locator Update in the form of an older implementation (decision 152).
//! * [`Admission`]: the ICMPv6 messages by which two hosts agree on a session (decision 070).
//! * [`Echo`]: the ICMPv6 Echo Request that asks a correspondent to show that it reads our nonce (decision 146).
//! * [`Control`]: a decoded packet with one of these messages.
//! * [`ChecksumDelta`]: change of the checksum of TCP or UDP when locators change (RFC 6741 s4.2).
//! * [`NidRecord`], [`L32Record`], [`L64Record`], [`LpRecord`]: RDATA of the DNS records (RFC 6742 s2).

mod admission;
mod chain;
mod checksum;
pub mod consts;
mod control;
mod dns;
mod echo;
mod icmp;
mod locator_update;
mod nonce;

pub use admission::{Accept, Admission, AdmissionFlags, AdmissionTypes, Confirm, Flow, Refusal};
pub use chain::Chain;
pub use checksum::{ChecksumDelta, checksum_at, transport_checksum};
pub use control::{Control, ERROR_HEADER_LEN, NONCE_AT, PARAMETER_PROBLEM, UNRECOGNIZED_OPTION};
pub use dns::{DomainName, L32Record, L64Record, LpRecord, NidRecord};
pub use echo::{ECHO_MARK, ECHO_REPLY, ECHO_REQUEST, Echo};
pub use locator_update::{L64Entry, LocatorUpdate, OlderLocatorUpdate, Operation};
pub use nonce::{NONCE_OPTION, NonceHeader, OptionsHeader};
