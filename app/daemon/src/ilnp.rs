//! ILNPv6 between core, data plane and network, beside Shim6.
//!
//! | module | concern |
//! |---|---|
//! | `again` | takes over the sessions of the last run |
//! | `peers`, `no_peers` | DNS records of the peers in the configuration; the replacement in a build without the DNS |
//! | `tell` | events and logs |
//! | `views` | answers of the control API |

pub(crate) mod again;
#[cfg(feature = "dns")]
mod peers;
#[cfg(not(feature = "dns"))]
#[path = "ilnp/no_peers.rs"]
mod peers;
mod tell;
mod views;

use std::cell::OnceCell;
use std::collections::BTreeSet;

use anyhow::Context as _;
use moorline_addresses::{HostView, Mover, Unbound};
use moorline_bpf::ilnp::IlnpDatapath;
use moorline_datapath::Plane as _;
use moorline_datapath::ilnp::{Report, Sockets};
use moorline_host::{Host, Node, Sessions};
use moorline_ilnp::{Question, Socket};
use moorline_link::{PacketSocket, Readiness};
use moorline_types::{IlvPair, UlidPair};

use crate::clock;
use crate::config::IlnpConfig;
use crate::shell::{Daemon, seed};
use crate::usage::connected;
pub(crate) use peers::Peers;

/// Data plane and sockets of ILNP.
pub(crate) struct Ilnp {
    pub(crate) datapath: IlnpDatapath,
    pub(crate) sender: PacketSocket,
    config: IlnpConfig,
    /// Interfaces of the segmentation path, until the programs are on them.
    moors: Option<[u32; 2]>,
    /// Whether the sessions differ from the store.
    pub(crate) is_unsaved: bool,
    /// Node of the data plane: our identifiers and locators.
    node: Node,
}

impl Ilnp {
    /// Loads the programs and opens sockets; returns also the sources that wake the main loop. Programs of the last run stay
    /// attached until [`Self::attach`].
    pub(crate) fn open(
        config: &IlnpConfig,
        shared: &moorline_bpf::Settings,
        moors: [u32; 2],
    ) -> anyhow::Result<(Self, Readiness)> {
        let settings = config.datapath(shared);
        let datapath = IlnpDatapath::open(&settings).context("eBPF data plane of ILNP")?;
        let reports = Readiness::of(datapath.poll_fd()).context("ring buffer of ILNP")?;
        let ilnp = Self {
            datapath,
            sender: PacketSocket::open().context("raw socket for whole packets")?,
            config: config.clone(),
            moors: Some(moors),
            is_unsaved: false,
            node: Node::default(),
        };
        Ok((ilnp, reports))
    }

    /// Detaches the programs of the last run from interfaces that are no uplinks now. On uplinks our programs replace them.
    fn detach_left(&mut self, view: &HostView) {
        let here = Node::places(view).chain(&view.bare).map(|place| place.ifindex);
        let here: BTreeSet<_> = here.chain(self.moors.into_iter().flatten()).collect();
        for gone in self.datapath.attached_before().into_iter().filter(|old| !here.contains(old)) {
            self.datapath.detach_uplink(gone);
        }
    }

    /// Attaches the programs to an interface; before the first interface, to the segmentation path.
    pub(crate) fn attach(&mut self, ifindex: u32) -> anyhow::Result<()> {
        if let Some(moors) = self.moors {
            self.attach_moor(moors)?;
        }
        Ok(self.datapath.attach_uplink(ifindex)?)
    }

    /// Attaches the programs to the links of the segmentation path.
    pub(crate) fn attach_moor(&mut self, moors: [u32; 2]) -> anyhow::Result<()> {
        self.moors = Some(moors);
        let attached = self.datapath.attach_moor(moors[0], moors[1]);
        attached.context("segmentation path of ILNP")?;
        self.moors = None;
        Ok(())
    }

    /// Reads reports of the programs, and control packets that the programs have taken for the machine. Reads one batch of
    /// each, so that other work does not wait long. Returns whether there may be more.
    pub(crate) fn take_reports(
        &mut self,
        host: &mut Host,
        unbound: &mut Unbound,
    ) -> anyhow::Result<bool> {
        let mut left = REPORTS_AT_ONCE;
        while left > 0
            && let Some(report) = self.datapath.poll_report()?
        {
            left -= 1;
            if let Report::NoRoom { session } = report {
                unbound.on_no_room(Mover::Session(session), clock::now());
            }
            host.handle_ilnp_report(report, clock::now());
        }
        let has_reports = left == 0;
        let sockets = HostSockets::new(&self.datapath);
        let has_packets = self.datapath.drain_control(&mut |packet| {
            host.handle_ilnp(packet, clock::now());
            host.answer_all(&sockets, clock::now());
        })?;
        Ok(has_reports || has_packets)
    }
}

/// Drives the sessions: the counterpart of `shim6`.
impl Daemon {
    /// Handles a batch of reports of ILNP's programs.
    pub(crate) fn take_ilnp_reports(&mut self) -> anyhow::Result<()> {
        let Some(ilnp) = &mut self.ilnp else { return Ok(()) };
        self.ilnp_waits = ilnp.take_reports(&mut self.host, &mut self.unbound)?;
        Ok(())
    }

    /// Handles all pending reports of ILNP's programs; the number of batches is bounded, so a flood cannot prolong it.
    pub(crate) fn take_last_ilnp_reports(&mut self) -> anyhow::Result<()> {
        for _ in 0..BATCHES_OF_A_RING {
            self.take_ilnp_reports()?;
            if !self.ilnp_waits {
                break;
            }
        }
        Ok(())
    }

    /// Answers the machine's questions about sockets of the host.
    pub(crate) fn answer_ilnp(&mut self, questions: &[Question]) {
        let Some(ilnp) = &self.ilnp else { return };
        let sockets = HostSockets::new(&ilnp.datapath);
        for question in questions {
            self.host.answer(*question, &sockets, clock::now());
        }
    }

    /// Ends all sessions and tells the correspondents. Otherwise they would continue to send packets with checksums that
    /// this host does not expect.
    pub(crate) async fn end_sessions(&mut self) {
        if let Some(sessions) = self.host.ilnp_mut() {
            sessions.handle_end();
            self.pump().await;
        }
    }

    /// Writes our identifiers and locators to the tables. Identifiers come first, so that the programs never treat a packet
    /// for this host as a forwarded packet.
    pub(crate) fn set_node(&mut self, node: &Node) -> anyhow::Result<()> {
        let Some(ilnp) = &mut self.ilnp else { return Ok(()) };
        ilnp.datapath.set_nids(&node.nids).context("identifiers in the data plane")?;
        let mut done = Ok(());
        // A locator that the tables refuse is not stored in `node`, so the next call tries it again.
        let mut written = ilnp.node.uplinks.clone();
        for l64 in ilnp.node.uplinks.keys().filter(|l64| !node.uplinks.contains_key(l64)) {
            match ilnp.datapath.unset_locator(*l64) {
                Ok(()) => drop(written.remove(l64)),
                Err(error) => done = Err(error),
            }
        }
        for (l64, ifindex) in &node.uplinks {
            if written.get(l64) != Some(ifindex) {
                match ilnp.datapath.set_locator(*l64, *ifindex) {
                    Ok(()) => drop(written.insert(*l64, *ifindex)),
                    Err(error) => done = Err(error),
                }
            }
        }
        ilnp.node = Node { uplinks: written, ..node.clone() };
        done.context("locators in the data plane")
    }
}

/// Answers of the host's sockets to questions of the machine. The questions of a batch share one list of connected pairs.
struct HostSockets<'a> {
    datapath: &'a IlnpDatapath,
    connected: OnceCell<BTreeSet<UlidPair>>,
}

impl<'a> HostSockets<'a> {
    fn new(datapath: &'a IlnpDatapath) -> Self {
        Self { datapath, connected: OnceCell::new() }
    }
}

impl Sockets for HostSockets<'_> {
    fn kind(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket {
        self.datapath.socket_kind(pair, protocol, ports).unwrap_or_else(|error| {
            tracing::debug!(%error, "asking for a socket");
            Socket::None
        })
    }

    fn any_between(&self, pair: IlvPair) -> bool {
        self.connected.get_or_init(connected).contains(&pair.ulids())
    }
}

/// Makes the machine of the sessions from the configuration.
pub(crate) fn machine(config: &IlnpConfig) -> anyhow::Result<Sessions> {
    Ok(Sessions::new(config.machine.clone(), seed()?, clock::now()))
}

/// Number of reports in a batch.
const REPORTS_AT_ONCE: u32 = 1024;
/// Largest number of batches at the end of a run; a ring holds fewer.
const BATCHES_OF_A_RING: u32 = 16;
