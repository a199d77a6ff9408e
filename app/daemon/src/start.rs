//! The start of the daemon: it opens what it needs, takes over what an earlier run has left, and updates the host.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use moorline_addresses::{HostView, Unbound};
use moorline_api::EventKind;
use moorline_bpf::{Datapath, Settings};
use moorline_contexts::Contexts;
use moorline_host::Host;
use moorline_link::{Icmp6Socket, Readiness, Shim6Socket};
use moorline_netlink::{MoorLinks, Netlink, Reachability};
use tokio::sync::mpsc;
use tokio::time;

use crate::addresses::Addresses;
use crate::args::Args;
use crate::clock;
use crate::config::Config;
use crate::events::Events;
use crate::excluded::LastExcluded;
use crate::health::Targets;
use crate::ilnp::{self, Ilnp, Peers};
use crate::introduce::Introductions;
use crate::moor::Moor;
use crate::neighbors::LostRouters;
use crate::notice::Notices;
use crate::path_mtu::PathMtus;
use crate::paths::Steer;
use crate::privileges;
use crate::ranker::Ranker;
use crate::saving::{SaveTimes, Saving};
use crate::server::Task;
use crate::shell::{Daemon, Sources, seed};
use crate::shim6::shim6_config;
use crate::store::Store;
use crate::survey::Surveys;
use crate::takeover::{Flushes, Takeover};
use crate::troubles::Troubles;
use crate::turns::Turns;
use crate::usage::Quiet;

/// The data planes of both protocols, and what tells of their reports.
struct Planes {
    datapath: Datapath,
    reports: Readiness,
    ilnp: Option<(Ilnp, Readiness)>,
}

impl Planes {
    /// Opens the data planes. Programs that an earlier run has attached go on.
    fn open(config: &Config, settings: &Settings, moor: &MoorLinks) -> anyhow::Result<Self> {
        let mut datapath = Datapath::open(settings).context("eBPF data plane")?;
        let moors = [moor.moor0_ifindex, moor.moor1_ifindex];
        datapath.attach_moor(moors[0], moors[1], moor.gathers).context("segmentation path")?;
        let reports = Readiness::of(datapath.poll_fd()).context("ring buffer")?;
        let ilnp = config.ilnp.as_ref().map(|ilnp| Ilnp::open(ilnp, settings, moors));
        Ok(Self { datapath, reports, ilnp: ilnp.transpose()? })
    }

    /// Detaches the programs of the earlier run from interfaces that are no uplinks now.
    fn detach_left(&mut self, view: &HostView, moor: &MoorLinks) {
        let moors = [moor.moor0_ifindex, moor.moor1_ifindex];
        for ifindex in self.datapath.attached_before() {
            let is_bare = view.bare.iter().any(|link| link.ifindex == ifindex);
            if view.uplink(ifindex).is_none() && !is_bare && !moors.contains(&ifindex) {
                self.datapath.detach_uplink(ifindex);
            }
        }
    }
}

impl Daemon {
    /// Starts the daemon. `goes_on` says that an earlier run has left its data plane in place.
    pub(crate) async fn start(
        args: &Args,
        config: Config,
        store: Store,
        events: Events,
        tasks: mpsc::Receiver<Task>,
        goes_on: bool,
    ) -> anyhow::Result<(Self, Sources)> {
        let takeover = Takeover::begin(&store, &args.pin_dir, goes_on)?;
        // Report errors of keys before any change to the host.
        let (addresses, addressing, proof) = Addresses::open(config.addresses.clone(), &store)?;
        let netlink = Netlink::connect()?;
        let routers = netlink.advertisements()?;
        let monitor = netlink.monitor().await?;
        let mut view = monitor.view().clone();
        view.leave_alone(|name| config.uses(name));
        let moor = netlink.ensure_moor().await.context("segmentation path")?;
        let settings = settings(args, &config);
        let mut planes = Planes::open(&config, &settings, &moor)?;
        planes.detach_left(&view, &moor);
        let Planes { datapath, reports, ilnp } = planes;
        let (ilnp, sessions) = ilnp.unzip();
        let mut daemon = Self {
            host: machines(&config)?
                .with_addressing(addressing, proof)
                .with_targets(config.uplink_probes.clone(), seed()?),
            targets: Targets::open(&config.uplink_probes)?,
            failing: BTreeSet::new(),
            avoided: BTreeSet::new(),
            last_excluded: LastExcluded::default(),
            turns: Turns::default(),
            takeover,
            flushes: Flushes::default(),
            surveys: Surveys::default(),
            saving: Saving::default(),
            // Start with the addresses of the last run; the first view removes addresses that are no longer ours.
            locals: datapath.locals()?.into_iter().collect(),
            datapath,
            netlink,
            shim6: Shim6Socket::open().context("raw socket of protocol 140")?,
            addresses,
            routers,
            troubles: Troubles::default(),
            moor: Moor::new(moor),
            notices: Notices::open(config.tcp_notice)?,
            introductions: Introductions::open().context("raw socket for routers")?,
            events,
            started_unix_ms: clock::unix_ms(),
            contexts_changed: false,
            store,
            save_times: SaveTimes::new(time::Instant::now()),
            unsaved: None,
            unapplied_config: None,
            damages: Vec::new(),
            path_mtus: PathMtus::default(),
            unbound: Unbound::default(),
            strangers_at: time::Instant::now(),
            config_path: args.config.clone(),
            triggers: settings.triggers,
            quiet: Quiet::default(),
            steer: Steer::default(),
            ilnp,
            ilnp_waits: false,
            ranker: Ranker::start(config.ranker.clone()),
            lost_routers: LostRouters::default(),
            config,
        };
        let (icmp6, reachability) = match daemon.begin(args, view, goes_on).await {
            Ok(begun) => begun,
            Err(error) => {
                if goes_on {
                    daemon.leave_routing().await;
                }
                return Err(error);
            }
        };
        daemon.log_start();
        let ilnp = daemon.config.ilnp.as_ref();
        let peers = Peers::start(ilnp.map_or(&[], |ilnp| &ilnp.peers));
        let sources = Sources { icmp6, reports, sessions, peers, monitor, reachability, tasks };
        Ok((daemon, sources))
    }

    /// Takes over the state of an earlier run, if `goes_on`, and updates the host.
    async fn begin(
        &mut self,
        args: &Args,
        view: HostView,
        goes_on: bool,
    ) -> anyhow::Result<(Icmp6Socket, Reachability)> {
        self.restore_sessions(args, goes_on).await?;
        self.events.push(EventKind::DaemonStarted, |_| {});
        // Do this before the host sets any route.
        self.host.handle_left(self.netlink.moved().await?);
        self.host.handle_left_preference(clock::now());
        self.begin_ilnp(&view);
        self.on_view(view);
        self.pump().await;
        // If at least one uplink has the programs, the daemon can work.
        let is_partial = !self.host.carriers().shim6.is_empty();
        if !goes_on && let Some(trouble) = self.troubles.fatal(is_partial) {
            anyhow::bail!("{trouble}");
        }
        let icmp6 = Icmp6Socket::open().context("raw socket of ICMPv6")?;
        let reachability = self.netlink.reachability()?;
        privileges::reduce()?;
        self.begin_takeover().await?;
        Ok((icmp6, reachability))
    }

    fn log_start(&self) {
        tracing::info!(
            uplinks = self.host.view().uplinks.len(),
            data_plane = self.datapath.mode(),
            "started"
        );
        for warning in self.address_views().warnings(&BTreeMap::new()) {
            tracing::warn!("{warning}");
        }
    }
}

/// Settings of both data planes.
fn settings(args: &Args, config: &Config) -> Settings {
    Settings {
        max_contexts: config.max_contexts,
        max_flows: config.max_flows,
        triggers: config.triggers.now(),
        pin_dir: args.pin_dir.clone(),
        attach: config.attach,
        ..Settings::default()
    }
}

/// The machines of both protocols, without any context, session or address.
fn machines(config: &Config) -> anyhow::Result<Host> {
    let sessions = config.ilnp.as_ref().map(ilnp::machine).transpose()?;
    let mut contexts = Contexts::new(shim6_config(config), seed()?, clock::now());
    contexts.set_congestion_policy(config.congestion.policy);
    contexts.set_spread_default(config.spread);
    Ok(Host::new(contexts, sessions))
}
