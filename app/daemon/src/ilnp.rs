//! ILNPv6 between core, data plane and network, beside Shim6.
//!
//! | module | concern |
//! |---|---|
//! | `locators` | identifiers and locators of this node, from the host's addresses: pure |
//! | `presence` | the addresses that sessions need on uplinks beside the host's own |
//! | `carry` | carries out what the sessions decided |
//! | `again` | goes on with the sessions of the run before |
//! | `peers`, `no_peers` | what the DNS says of peers that the configuration names; a build without the DNS |
//! | `tell` | events and logs |
//! | `views` | what the control API tells |

mod again;
mod carry;
mod locators;
#[cfg(feature = "dns")]
mod peers;
#[cfg(not(feature = "dns"))]
#[path = "ilnp/no_peers.rs"]
mod peers;
mod presence;
mod tell;
mod views;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use anyhow::Context as _;
use moorline_addresses::{HostView, Mover};
use moorline_bpf::ilnp::IlnpDatapath;
use moorline_datapath::ilnp::{Report, Sockets};
use moorline_host::{Host, Sessions};
use moorline_ilnp::{Question, Socket};
use moorline_link::{PacketSocket, Readiness};
use moorline_netlink::connected_pairs_now;
use moorline_types::{Ilv, IlvPair, L64, LocatorPair, Nid, SessionId, Ulid, UlidPair};

use crate::clock;
use crate::config::IlnpConfig;
use crate::shell::Daemon;
use crate::unbound::Unbound;
pub(crate) use peers::Peers;
use presence::Presence;

/// The sessions, and what the host holds for them.
pub(crate) struct Ilnp {
    datapath: IlnpDatapath,
    sender: PacketSocket,
    config: IlnpConfig,
    /// As the data plane has them.
    sessions: BTreeMap<SessionId, Known>,
    /// Interfaces that carry the programs.
    attached: BTreeSet<u32>,
    /// The segmentation path, until it carries them.
    moors: Option<[u32; 2]>,
    /// Sessions differ from those in the store.
    pub(crate) is_unsaved: bool,
    /// Uplinks of our locators, as the data plane has them.
    locators: BTreeMap<L64, u32>,
    presence: Presence,
}

/// What is kept of a session outside the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// The addresses that sockets see.
    pub pair: IlvPair,
    /// Those of what we send.
    pub wire: IlvPair,
    /// Octets that its packets may need beyond the header of Shim6.
    pub room: u32,
    /// Whether its packets are to have a route of their own.
    pub is_routed: bool,
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
            sessions: BTreeMap::new(),
            attached: BTreeSet::new(),
            moors: Some(moors),
            is_unsaved: false,
            locators: BTreeMap::new(),
            presence: Presence::default(),
        };
        Ok((ilnp, reports))
    }

    /// Puts the programs on interfaces that lead somewhere, and takes them off those that do no longer. One with
    /// nothing but deprecated addresses is among them: correspondents may be sending there still.
    pub(crate) fn attach(&mut self, view: &HostView) -> anyhow::Result<()> {
        // First of all, so that none of what is for us is passed on.
        let nids = locators::nids(view, &self.session_nids());
        self.datapath.set_nids(&nids).context("identifiers in the data plane")?;
        let present: BTreeSet<_> = locators::places(view).map(|place| place.ifindex).collect();
        if let Some([moor0, moor1]) = self.moors {
            // Of a run before: those that are here still get our programs in place of its own.
            let left = self.datapath.attached_before().into_iter();
            for gone in left.filter(|old| !present.contains(old) && ![moor0, moor1].contains(old)) {
                self.datapath.detach_uplink(gone);
            }
            self.datapath.attach_moor(moor0, moor1).context("segmentation path of ILNP")?;
            self.moors = None;
        }
        for gone in self.attached.difference(&present) {
            self.datapath.detach_uplink(*gone);
        }
        for new in present.difference(&self.attached) {
            self.datapath
                .attach_uplink(*new)
                .with_context(|| format!("programs of ILNP on interface {new}"))?;
        }
        self.attached = present;
        Ok(())
    }

    /// Puts the programs on another pair of links of the segmentation path.
    pub(crate) fn attach_moor_anew(
        &mut self,
        moors: [u32; 2],
        view: &HostView,
    ) -> anyhow::Result<()> {
        self.moors = Some(moors);
        self.attach(view)
    }

    /// Identifiers that have sessions.
    fn session_nids(&self) -> BTreeSet<Nid> {
        self.sessions.values().map(|known| known.pair.local.nid).collect()
    }

    /// What the programs have seen, and packets for the machine that they have kept from the stack: a batch of each, so
    /// that nothing else waits for long. Whether there may be more.
    pub(crate) fn take_reports(
        &self,
        host: &mut Host,
        unbound: &mut Unbound,
    ) -> anyhow::Result<bool> {
        let has_reports = self.datapath.drain_reports(&mut |report| {
            if let Report::NoRoom { session } = report {
                unbound.on_no_room(Mover::Session(session));
            }
            host.handle_ilnp_report(report, clock::now());
        })?;
        let sockets = HostSockets::new(&self.datapath);
        let has_packets = self.datapath.drain_control(&mut |packet| {
            host.handle_ilnp(packet, clock::now());
            host.answer_all(&sockets, clock::now());
        })?;
        Ok(has_reports || has_packets)
    }

    /// Addresses of live sessions that sockets are bound to.
    pub(crate) fn local_addresses(&self) -> impl Iterator<Item = Ulid> + '_ {
        self.sessions.values().map(|known| Ulid(known.pair.local.address()))
    }

    /// Takes the programs off; what is on the host besides is in the journal.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        self.datapath.close().context("BPF objects of ILNP")
    }

    /// Without the addresses that are there for sessions alone: no business of Shim6, and no locators.
    pub(crate) fn own_addresses_only(&mut self, view: &mut HostView) {
        self.presence.leave_out(view);
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

    /// Tells the sessions where this node is now. Addresses that they need are on the uplinks before anything is
    /// sent from there.
    pub(crate) async fn follow_locators(&mut self) {
        self.steer.is_news = false;
        let node = self.node();
        let Some((ilnp, (node, nids))) = self.ilnp.as_mut().zip(node) else { return };
        ilnp.tell_locators(&node.uplinks);
        ilnp.presence.follow(&self.netlink, &node, &nids).await;
        if let Some(sessions) = self.host.ilnp_mut() {
            sessions.handle_local(&node.state, clock::now());
        }
        self.pump().await;
    }

    /// The same, if there are other rules.
    pub(crate) async fn follow_rules(&mut self) {
        if self.steer.is_news {
            self.follow_locators().await;
        }
    }

    /// This node as it is now, and the identifiers that have sessions.
    fn node(&self) -> Option<(locators::Node, BTreeSet<Nid>)> {
        let ilnp = self.ilnp.as_ref()?;
        let nids = ilnp.session_nids();
        let is_attached = |ifindex: u32| ilnp.attached.contains(&ifindex);
        let node = locators::node(&self.view, &is_attached, &nids, &self.rules());
        Some((node, nids))
    }

    /// Whether an uplink has this address, be it for sessions alone.
    pub(crate) fn is_on_uplink(&self, address: Ipv6Addr) -> bool {
        self.view.uplink_of(address).is_some()
            || self.ilnp.as_ref().is_some_and(|ilnp| ilnp.presence.has_made(address))
    }
}

impl Ilnp {
    fn tell_locators(&mut self, uplinks: &BTreeMap<L64, u32>) {
        let mut failed = None;
        for l64 in self.locators.keys().filter(|l64| !uplinks.contains_key(l64)) {
            failed = self.datapath.unset_locator(*l64).err().or(failed);
        }
        for (l64, ifindex) in uplinks {
            if self.locators.get(l64) != Some(ifindex) {
                failed = self.datapath.set_locator(*l64, *ifindex).err().or(failed);
            }
        }
        if let Some(error) = failed {
            tracing::warn!(%error, "locators in the data plane");
        }
        self.locators.clone_from(uplinks);
    }

    /// The locators of the packets of a session.
    pub(crate) fn path_of(&self, session: SessionId) -> Option<LocatorPair> {
        self.sessions.get(&session).map(|known| known.wire.ulids().as_locators())
    }

    /// Octets that packets of a session may need beyond the header of Shim6.
    pub(crate) fn room_of(&self, session: SessionId) -> Option<u32> {
        self.sessions.get(&session).map(|known| known.room)
    }

    /// The uplink that packets with this source leave by; 0 is for the routing table to decide.
    pub(crate) fn uplink_of(&self, source: Ipv6Addr) -> u32 {
        self.locators.get(&Ilv::of(source).l64).copied().unwrap_or(0)
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
        let all = self.connected.get_or_init(|| {
            connected_pairs_now().unwrap_or_else(|error| {
                // Then quiet is all that counts.
                tracing::debug!(%error, "asking for sockets");
                BTreeSet::new()
            })
        });
        all.contains(&pair.ulids())
    }
}

/// The machine of the sessions, as the configuration has it.
pub(crate) fn machine(config: &IlnpConfig) -> anyhow::Result<Sessions> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("randomness of the kernel")?;
    Ok(Sessions::new(config.machine(), seed, clock::now()))
}

/// More than a ring holds at a time.
const BATCHES_OF_A_RING: u32 = 16;
