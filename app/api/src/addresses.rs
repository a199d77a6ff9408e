use crate::open_enum::open_enum;
use crate::types::Proof;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// An entry of the answer to `GET /v1/addresses`: an interface and its global addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceAddresses {
    /// Name of the interface.
    pub interface: String,
    /// Its index.
    pub ifindex: u32,
    /// What addresses are made on it, where nothing else is said of a prefix.
    pub mode: AddressMode,
    /// Its addresses.
    #[serde(default)]
    pub addresses: Vec<AddressInfo>,
}

/// A global address of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressInfo {
    /// The address.
    pub address: Ipv6Addr,
    /// Length of its prefix in bits.
    pub prefix_len: u8,
    /// How a peer can verify that it is ours.
    pub proof: Proof,
    /// Security parameter of its hash; none without a proof.
    pub sec: Option<u8>,
    /// How many duplicates were found before it; none without a proof.
    pub collision_count: Option<u8>,
    /// Name of its key; none for those that have none.
    pub key: Option<String>,
    /// Name of the set that it is made with; none without a proof.
    pub set: Option<String>,
    /// Parameters that prove it, in hex, as `moorline addr verify --params hex:` takes them.
    pub params: Option<String>,
    /// Whether another one takes its place with time (RFC 8981).
    #[serde(default)]
    pub temporary: bool,
    /// What it can be used for.
    pub state: AddressState,
    /// Seconds that it can be used for new traffic; none: for ever.
    pub preferred_s: Option<u32>,
    /// Seconds that it can be used at all; none: for ever.
    pub valid_s: Option<u32>,
    /// Whether peers are told of it.
    pub announced: bool,
}

open_enum! {
    /// Which addresses are made.
    AddressMode {
        /// Cryptographically generated ones (RFC 3972).
        Cga = "cga",
        /// A hash-based set over fixed prefixes, without a key (RFC 5535).
        Hba = "hba",
        /// A hash-based set with a key, and cryptographically generated ones for later prefixes.
        HbaCompatible = "hba-compatible",
        /// None.
        Off = "off",
    }
}

open_enum! {
    /// What an address can be used for, as the kernel sees it (RFC 4862 s5.5.4, s5.4).
    AddressState {
        /// Any traffic.
        Preferred = "preferred",
        /// Traffic that uses it already.
        Deprecated = "deprecated",
        /// Nothing yet: duplicate address detection is going on.
        Tentative = "tentative",
        /// Nothing: another host has it.
        Duplicate = "duplicate",
    }
}
