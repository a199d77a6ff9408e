use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use moorline_datapath::ilnp::ChecksumMode;
use moorline_types::{L64, LocalRoutes, Nid, Prefix};
use moorline_wire::ilnp::AdmissionTypes;

use crate::consts::{IDLE_TIMEOUT, LOCATOR_LIFETIME, MAX_SESSIONS, MAX_WITH_NODE};
use crate::policy::{Admit, Policy};

/// When packets carry the nonce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NonceMode {
    /// First packets, after a change of locators, with Locator Updates, and where a receiver could not tell
    /// whose a packet is (decision 071).
    #[default]
    Economy,
    /// All of them, for peers that want that: the St Andrews kernel, FreeBSD.
    Always,
}

/// Which correspondents without a session are asked for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initiate {
    /// Correspondents with our handshake. One without it has to begin.
    #[default]
    Handshake,
    /// Those, and correspondents at an address for which the DNS has a NID and an L64 record (decision 142).
    Dns,
}

/// Octets of the nonces that we draw.
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
    /// Which correspondents get an entry.
    pub policy: Arc<dyn Policy>,
    /// [`MAX_SESSIONS`]: beyond, one gives way to another ([`moorline_index::Class`]).
    pub max_sessions: usize,
    /// [`MAX_WITH_NODE`]
    pub max_with_node: usize,
    /// Which correspondents are asked.
    pub initiate: Initiate,
    /// When packets carry the nonce.
    pub nonce: NonceMode,
    /// How long ours are.
    pub nonce_len: NonceLen,
    /// Of sessions whose correspondent wants nothing else.
    pub checksum: ChecksumMode,
    /// [`IDLE_TIMEOUT`]
    pub idle_timeout: Duration,
    /// ICMPv6 types of the handshake.
    pub types: AdmissionTypes,
    /// Peers whose Locator Updates may have the older form (decision 152): the addresses of their sockets.
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
    /// Lower is better.
    pub preference: u16,
    /// Seconds for which correspondents may think it valid.
    pub lifetime: u16,
}

impl LocalLocator {
    /// One without a preference over others.
    #[must_use]
    pub const fn new(l64: L64) -> Self {
        Self { l64, preference: 10, lifetime: LOCATOR_LIFETIME }
    }
}

/// This node as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalState {
    /// Its identifiers.
    pub nids: Vec<Nid>,
    /// The locators that work now. None: it is nowhere, and keeps its sessions until it is somewhere.
    pub locators: Vec<LocalLocator>,
    /// By which links its packets leave.
    pub routes: LocalRoutes,
}
