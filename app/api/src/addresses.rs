use crate::open_enum::open_enum;
use crate::types::Proof;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// An entry of the answer to `GET /v1/addresses`: an interface and its global addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddresses {
    /// Name of the interface.
    pub interface: String,
    /// Index of the interface.
    pub ifindex: u32,
    /// Addresses that the daemon makes on the interface; a setting for a prefix overrides this mode.
    pub mode: AddressMode,
    /// Global addresses of the interface.
    #[serde(default)]
    pub addresses: Vec<AddressInfo>,
}

/// A global address of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressInfo {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of the prefix in bits.
    pub prefix_len: u8,
    /// Proof by which a peer can verify that the address is ours.
    pub proof: Proof,
    /// Security parameter of the hash (RFC 3972); none without a proof.
    pub sec: Option<u8>,
    /// Number of duplicates found before this address; none without a proof.
    pub collision_count: Option<u8>,
    /// Name of the key of the address; none without a key.
    pub key: Option<String>,
    /// Name of the address's set; none without a proof.
    pub set: Option<String>,
    /// Parameters that prove the address, in hex, for `moorline addr verify --params hex:`.
    pub params: Option<String>,
    /// Whether the address is temporary (RFC 8981).
    #[serde(default)]
    pub temporary: bool,
    /// Allowed use of the address.
    pub state: AddressState,
    /// Preferred lifetime in seconds; none: infinite.
    pub preferred_s: Option<u32>,
    /// Valid lifetime in seconds; none: infinite.
    pub valid_s: Option<u32>,
    /// Whether the daemon tells peers of the address.
    pub announced: bool,
}

open_enum! {
    /// Kind of addresses that the daemon makes.
    AddressMode {
        /// Cryptographically generated addresses (RFC 3972).
        Cga = "cga",
        /// A hash-based set over fixed prefixes, without a key (RFC 5535).
        Hba = "hba",
        /// A hash-based set with a key, and cryptographically generated addresses for later prefixes.
        HbaCompatible = "hba-compatible",
        /// No addresses.
        Off = "off",
    }
}

open_enum! {
    /// Allowed use of an address, as the kernel reports it (RFC 4862 s5.5.4, s5.4).
    AddressState {
        /// Any traffic.
        Preferred = "preferred",
        /// Only traffic that uses the address already.
        Deprecated = "deprecated",
        /// No traffic yet: duplicate address detection runs.
        Tentative = "tentative",
        /// No traffic: another host has the address.
        Duplicate = "duplicate",
    }
}
