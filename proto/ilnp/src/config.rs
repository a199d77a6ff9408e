use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_datapath::ilnp::ChecksumMode;
use moorline_types::{L64, LocalRoutes, Nid, Prefix};
use moorline_wire::ilnp::AdmissionTypes;

use crate::consts::{IDLE_TIMEOUT, LOCATOR_LIFETIME, MAX_SESSIONS, MAX_WITH_NODE};
use crate::policy::{Admit, Policy};

/// Packets that carry the nonce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NonceMode {
    /// First packets, packets after a change of locators, Locator Updates, and packets whose session a receiver could
    /// not tell without a nonce (decision 071).
    #[default]
    Economy,
    /// All packets, for peers that want that: the St Andrews kernel, FreeBSD.
    Always,
}

/// Correspondents without a session that this host asks for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initiate {
    /// Correspondents with our handshake. A correspondent without the handshake has to begin.
    #[default]
    Handshake,
    /// Correspondents with our handshake, and correspondents at an address for which the DNS has a NID and an L64
    /// record (decision 142).
    Dns,
}

/// Length of the nonces that we draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NonceLen {
    /// 32 bits: the header takes 8 octets.
    #[default]
    Short,
    /// 96 bits: the header takes 16 octets.
    Long,
}

/// Settings of a [`crate::Machine`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Decides which correspondents get an entry.
    pub policy: Arc<dyn Policy>,
    /// Largest number of sessions, [`MAX_SESSIONS`] by default. Beyond it one session gives way to another
    /// ([`moorline_index::Class`]).
    pub max_sessions: usize,
    /// Largest number of sessions with one node, [`MAX_WITH_NODE`] by default.
    pub max_with_node: usize,
    /// Correspondents that this host asks for a session.
    pub initiate: Initiate,
    /// Packets that carry the nonce.
    pub nonce: NonceMode,
    /// Length of our nonces.
    pub nonce_len: NonceLen,
    /// Checksum of a session whose correspondent asks for no other.
    pub checksum: ChecksumMode,
    /// Quiet time after which a session is forgotten, [`IDLE_TIMEOUT`] by default.
    pub idle_timeout: Duration,
    /// ICMPv6 types of the handshake.
    pub types: AdmissionTypes,
    /// Addresses, as sockets see them, of peers whose Locator Updates may have the older form (decision 152).
    pub older_updates: Vec<Prefix>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: Arc::new(Admit::default()),
            max_sessions: MAX_SESSIONS,
            max_with_node: MAX_WITH_NODE,
            initiate: Initiate::Handshake,
            nonce: NonceMode::Economy,
            nonce_len: NonceLen::Short,
            checksum: ChecksumMode::NidOnly,
            idle_timeout: IDLE_TIMEOUT,
            types: AdmissionTypes::default(),
            older_updates: Vec::new(),
        }
    }
}

/// A locator of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalLocator {
    /// The locator.
    pub l64: L64,
    /// Preference: lower is better.
    pub preference: u16,
    /// Seconds for which correspondents may regard the locator as valid.
    pub lifetime: u16,
}

impl LocalLocator {
    /// Makes a locator with the default preference and lifetime.
    #[must_use]
    pub const fn new(l64: L64) -> Self {
        Self { l64, preference: 10, lifetime: LOCATOR_LIFETIME }
    }
}

/// Present identifiers, locators and routes of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalState {
    /// Its identifiers.
    pub nids: Vec<Nid>,
    /// The locators that work now. A node without locators keeps its sessions until it has one again.
    pub locators: Vec<LocalLocator>,
    /// Links by which packets of this node leave.
    pub routes: LocalRoutes,
}
