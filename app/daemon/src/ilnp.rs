//! ILNPv6 between core, data plane and network, beside Shim6.
//!
//! | module | concern |
//! |---|---|
//! | `again` | goes on with the sessions of the run before |
//! | `peers`, `no_peers` | what the DNS says of peers that the configuration names; a build without the DNS |
//! | `tell` | events and logs |
//! | `views` | what the control API tells |

mod again;
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

/// The sessions, and what the host holds for them.
pub(crate) struct Ilnp {
    pub(crate) datapath: IlnpDatapath,
    pub(crate) sender: PacketSocket,
    config: IlnpConfig,
    /// The segmentation path, until it carries them.
    moors: Option<[u32; 2]>,
    /// Sessions differ from those in the store.
    pub(crate) is_unsaved: bool,
    /// As the data plane has it.
    node: Node,
}

impl Ilnp {
    /// Loads the programs and opens sockets; what wakes the main loop comes with it. Programs of a run before go on
    /// until [`Self::attach`].
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

    /// Takes the programs of a run before off interfaces that lead nowhere now. On the others our programs take their place.
    fn detach_left(&mut self, view: &HostView) {
        let here = Node::places(view).chain(&view.bare).map(|place| place.ifindex);
        let here: BTreeSet<_> = here.chain(self.moors.into_iter().flatten()).collect();
        for gone in self.datapath.attached_before().into_iter().filter(|old| !here.contains(old)) {
            self.datapath.detach_uplink(gone);
        }
    }

    /// Puts the programs on an interface, and on the segmentation path before the first one.
    pub(crate) fn attach(&mut self, ifindex: u32) -> anyhow::Result<()> {
        if let Some(moors) = self.moors {
            self.attach_moor(moors)?;
        }
        Ok(self.datapath.attach_uplink(ifindex)?)
    }

    /// Puts the programs on the links of the segmentation path.
    pub(crate) fn attach_moor(&mut self, moors: [u32; 2]) -> anyhow::Result<()> {
        self.moors = Some(moors);
        let attached = self.datapath.attach_moor(moors[0], moors[1]);
        attached.context("segmentation path of ILNP")?;
        self.moors = None;
        Ok(())
    }

    /// What the programs have seen, and packets for the machine that they have kept from the stack: a batch of each, so
    /// that nothing else waits for long. Whether there may be more.
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

/// Driving it: the counterpart of `shim6`.
impl Daemon {
    /// What the programs of ILNP have to say.
    pub(crate) fn take_ilnp_reports(&mut self) -> anyhow::Result<()> {
        let Some(ilnp) = &mut self.ilnp else { return Ok(()) };
        self.ilnp_waits = ilnp.take_reports(&mut self.host, &mut self.unbound)?;
        Ok(())
    }

    /// All of that; what a flood adds meanwhile is not waited for.
    pub(crate) fn take_last_ilnp_reports(&mut self) -> anyhow::Result<()> {
        for _ in 0..BATCHES_OF_A_RING {
            self.take_ilnp_reports()?;
            if !self.ilnp_waits {
                break;
            }
        }
        Ok(())
    }

    /// Answers questions to the sockets of the host.
    pub(crate) fn answer_ilnp(&mut self, questions: &[Question]) {
        let Some(ilnp) = &self.ilnp else { return };
        let sockets = HostSockets::new(&ilnp.datapath);
        for question in questions {
            self.host.answer(*question, &sockets, clock::now());
        }
    }

    /// Ends all sessions, and tells the correspondents: without that they go on with checksums that nobody here expects.
    pub(crate) async fn end_sessions(&mut self) {
        if let Some(sessions) = self.host.ilnp_mut() {
            sessions.handle_end();
            self.pump().await;
        }
    }

    /// Tells the programs of our identifiers and locators. Identifiers come first, so that nothing that is for us is passed on.
    pub(crate) fn set_node(&mut self, node: &Node) -> anyhow::Result<()> {
        let Some(ilnp) = &mut self.ilnp else { return Ok(()) };
        ilnp.datapath.set_nids(&node.nids).context("identifiers in the data plane")?;
        let mut done = Ok(());
        // A locator that the tables refuse is not noted, so the next call tries the locator again.
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

/// The sockets of the host, as they answer the questions of the machine. Questions of a batch share one look for connected pairs.
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

/// The machine of the sessions, as the configuration has it.
pub(crate) fn machine(config: &IlnpConfig) -> anyhow::Result<Sessions> {
    Ok(Sessions::new(config.machine.clone(), seed()?, clock::now()))
}

/// Reports that are taken at once.
const REPORTS_AT_ONCE: u32 = 1024;
/// More than a ring holds at a time.
const BATCHES_OF_A_RING: u32 = 16;
