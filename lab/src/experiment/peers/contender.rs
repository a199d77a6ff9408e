//! The compared systems and their configuration.

use std::time::Duration;

use anyhow::Context as _;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use crate::experiment::recovery::Scene;
use crate::named::named;
use crate::topology::{HOSTS, ISPS, Impairment, host_address, prefix_of};
use crate::workload::Protocol;

named! {
    /// Ways to survive a failure.
    pub enum PeerSystem {
        /// Moorline with the default profile.
        Moorline = "moorline",
        /// Moorline in the `rfc` profile: the Send Timeout is the detector.
        MoorlineRfc = "moorline-rfc",
        /// The kernel's MPTCP with `subflow` and `signal` endpoints.
        Mptcp = "mptcp",
        /// The kernel's MPTCP with `subflow fullmesh` and `signal` endpoints.
        MptcpFullmesh = "mptcp-fullmesh",
        /// Plain TCP, which does not survive.
        Tcp = "tcp",
    }
}

named! {
    /// Kinds of traffic. The title of a chart quotes the documentation of its kind.
    pub enum PeerFlow {
        /// a transfer
        // At a fixed rate, with octets always on their way.
        Bulk = "tcp-bulk",
        /// 50 messages a second
        // Over a stream.
        Messages = "messages",
        /// 50 datagrams a second in both directions
        Datagrams = "udp-bidir",
    }
}

impl PeerSystem {
    pub(super) const fn is_moorline(self) -> bool {
        matches!(self, Self::Moorline | Self::MoorlineRfc)
    }

    pub(super) const fn is_mptcp(self) -> bool {
        matches!(self, Self::Mptcp | Self::MptcpFullmesh)
    }

    /// Whether the system carries the flow. MPTCP carries streams only. With plain TCP, datagrams would show the same
    /// result as streams.
    pub(super) const fn carries(self, flow: PeerFlow) -> bool {
        self.is_moorline() || !matches!(flow, PeerFlow::Datagrams)
    }

    pub(super) const fn protocol(self) -> Protocol {
        if self.is_mptcp() { Protocol::Mptcp } else { Protocol::Tcp }
    }

    /// Builds a network with the system. Gives the lines of configuration that it needs.
    pub(super) fn set_up(
        self,
        cables: Impairment,
        send_timeout: Duration,
    ) -> anyhow::Result<(Scene, usize)> {
        match self {
            Self::Tcp => Ok((Scene::plain(cables)?, 0)),
            Self::Moorline | Self::MoorlineRfc => {
                let profile = if self == Self::MoorlineRfc { "profile = \"rfc\"\n" } else { "" };
                let settings = format!("{profile}{HASTE}");
                let scene = Scene::protected(cables, send_timeout, &settings)?;
                Ok((scene, HOSTS.len() * profile.lines().count()))
            }
            Self::Mptcp => mesh(Scene::plain(cables)?, "subflow"),
            Self::MptcpFullmesh => mesh(Scene::plain(cables)?, "subflow fullmesh"),
        }
    }
}

/// Whether this kernel has MPTCP sockets.
pub(super) fn has_mptcp() -> bool {
    let flags = SocketFlags::CLOEXEC;
    socket_with(AddressFamily::INET6, SocketType::STREAM, flags, Some(ipproto::MPTCP)).is_ok()
}

/// Makes the kernel use both uplinks of both hosts: A opens subflows, and B advertises its addresses. Also adds rules
/// by source address, as Moorline does by itself, so that each subflow leaves by its own ISP.
fn mesh(scene: Scene, subflow: &str) -> anyhow::Result<(Scene, usize)> {
    let mut count = 0;
    for (host, kind) in HOSTS.into_iter().zip([subflow, "signal"]) {
        let namespace = scene.lab.namespace(host)?;
        let mut lines = vec!["mptcp limits set subflows 8 add_addr_accepted 8".to_owned()];
        let nodes = &scene.lab.topology().nodes;
        let node = nodes.iter().find(|node| node.name == host).context("host")?;
        for (isp, (name, route)) in (1..).zip(ISPS.into_iter().zip(&node.routes)) {
            let address = host_address(host, isp);
            lines.push(format!("mptcp endpoint add {address} dev {name} {kind}"));
            lines.push(format!("-6 rule add from {} lookup {isp}00", prefix_of(address)));
            let (via, dev) = (route.via.context("next hop")?, &route.interface);
            lines.push(format!("-6 route add default via {via} dev {dev} table {isp}00"));
        }
        count += lines.len();
        for line in lines {
            namespace.ip(&line.split(' ').collect::<Vec<_>>())?;
        }
    }
    Ok((scene, count))
}

/// Settings that shorten a trial and do not change the recovery: HBA sets without a key are made at once, and contexts
/// after 500 octets.
const HASTE: &str = "addresses = \"hba\"\ntrigger-bytes = 500\n";
