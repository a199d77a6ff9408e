use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::Uplink;
use moorline_api::{Context, Excluded, Ilcc, IlnpStatus, Status};
use moorline_netlink::HostRule;

/// Facts about the host.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Version of this program.
    pub version: String,
    /// The kernel.
    pub kernel: Kernel,
    /// The daemon.
    pub daemon: Daemon,
    /// Interfaces with a global address and a default route; if a daemon runs, only the uplinks that the daemon uses.
    pub uplinks: Vec<Uplink>,
    /// Indexes of uplinks on which the kernel follows no router, because this host forwards.
    pub deaf_uplinks: BTreeSet<u32>,
    /// Names of uplinks that the daemon does not use.
    pub unused: Vec<String>,
    /// Names of interfaces with a default route that lack a global address in use.
    pub candidates: Vec<String>,
    /// Interfaces without a default route on which the kernel follows no router, because this host forwards.
    pub deaf: Vec<Uplink>,
    /// All rules for IPv6, in order.
    pub rules: Vec<HostRule>,
    /// Rules of nftables, including rules of ip6tables-nft.
    pub firewall: Firewall,
    /// Tables of the older ip6tables, which this crate does not read.
    pub legacy_tables: Vec<String>,
    /// Whether the firewall has just been opened: the daemon asked the peers that did not answer before that.
    pub is_just_opened: bool,
    /// Addresses of the peer that the user names, each with the reason why no traffic with it earns a context; empty without
    /// a peer.
    pub asked: BTreeMap<Ipv6Addr, Option<Excluded>>,
}

/// Features of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Release, as `uname -r` prints it.
    pub release: String,
    /// Whether the kernel has BTF, which the programs need.
    pub has_btf: bool,
    /// Whether the kernel compiles programs (JIT).
    pub has_jit: bool,
}

/// Result of asking the daemon.
#[derive(Clone, Debug)]
pub enum Daemon {
    /// The daemon answers.
    Running(Box<Answers>),
    /// No process listens on the socket.
    NotRunning(String),
    /// The user has no permission for the socket.
    NoPermission(String),
    /// A process listens on the socket, and another error occurred.
    Broken(String),
}

/// Answers of the daemon.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Time since the start of the daemon.
    pub age: Duration,
    /// Overview.
    pub status: Status,
    /// Contexts, and peers that the daemon does not ask for a while.
    pub contexts: Vec<Context>,
    /// ILNP sessions.
    pub ilcc: Ilcc,
}

/// The rules of nftables.
#[derive(Clone, Debug)]
pub enum Firewall {
    /// Output of `nft -j list ruleset`.
    Ruleset(serde_json::Value),
    /// The program `nft` is not installed.
    NoProgram,
    /// The rules could not be read; holds the reason.
    Unread(String),
}

impl Facts {
    pub(crate) fn answers(&self) -> Option<&Answers> {
        match &self.daemon {
            Daemon::Running(answers) => Some(answers),
            Daemon::NotRunning(_) | Daemon::NoPermission(_) | Daemon::Broken(_) => None,
        }
    }

    /// Returns the state of ILNP; none without a daemon, or if ILNP is off.
    pub(crate) fn ilnp(&self) -> Option<&IlnpStatus> {
        self.answers()?.status.ilnp.as_ref()
    }
}
