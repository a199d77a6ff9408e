use std::collections::BTreeSet;
use std::time::Duration;

use moorline_addresses::Uplink;
use moorline_api::{Context, Ilcc, IlnpStatus, Status};
use moorline_netlink::HostRule;

/// What is known of the host.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Of this program.
    pub version: String,
    /// The kernel.
    pub kernel: Kernel,
    /// The daemon.
    pub daemon: Daemon,
    /// Interfaces with a global address and a default route; if there is a daemon, those that it uses.
    pub uplinks: Vec<Uplink>,
    /// Indexes of uplinks on which the kernel follows no router, because this host forwards.
    pub deaf_uplinks: BTreeSet<u32>,
    /// Names of those that it does not use.
    pub unused: Vec<String>,
    /// Names of interfaces with a default route that lack a global address in use.
    pub candidates: Vec<String>,
    /// Interfaces without a default route on which the kernel follows no router, because this host forwards.
    pub deaf: Vec<Uplink>,
    /// All rules for IPv6, in order.
    pub rules: Vec<HostRule>,
    /// Rules of nftables, those of ip6tables-nft among them.
    pub firewall: Firewall,
    /// Tables of the older ip6tables, which nothing here reads.
    pub legacy_tables: Vec<String>,
    /// The firewall has been opened a moment ago: what peers did not answer was tried before.
    pub is_just_opened: bool,
}

/// What the kernel can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: String,
    /// Whether it describes its types, which the programs need.
    pub has_btf: bool,
    /// Whether programs are compiled.
    pub has_jit: bool,
}

/// What came of asking the daemon.
#[derive(Clone, Debug)]
pub enum Daemon {
    /// It answers.
    Running(Box<Answers>),
    /// Nobody listens on its socket.
    NotRunning(String),
    /// Its socket is not for this user.
    NoPermission(String),
    /// It listens, and something else is wrong.
    Broken(String),
}

/// What the daemon says.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Time since its start.
    pub age: Duration,
    /// At a glance.
    pub status: Status,
    /// Its contexts and the peers that it has given up.
    pub contexts: Vec<Context>,
    /// Its ILNP sessions.
    pub ilcc: Ilcc,
}

/// The rules of nftables.
#[derive(Clone, Debug)]
pub enum Firewall {
    /// What `nft -j list ruleset` prints.
    Ruleset(serde_json::Value),
    /// There is no program to list them with.
    NoProgram,
    /// Could not be read.
    Unread(String),
}

impl Facts {
    pub(crate) fn answers(&self) -> Option<&Answers> {
        match &self.daemon {
            Daemon::Running(answers) => Some(answers),
            Daemon::NotRunning(_) | Daemon::NoPermission(_) | Daemon::Broken(_) => None,
        }
    }

    /// None where it is off, too.
    pub(crate) fn ilnp(&self) -> Option<&IlnpStatus> {
        self.answers()?.status.ilnp.as_ref()
    }
}
