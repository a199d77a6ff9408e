use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use moorline_api::EventKind;
use moorline_datapath::{Datapath, Settings};
use moorline_host::Host;
use moorline_host::datapath::{Triggers, Update};
use moorline_link::{Icmp6Socket, Queue, Readiness, Shim6Socket};
use moorline_netlink::{
    self as netlink, Advertisements, HostView, Journal, Monitor, Netlink, Reachability,
};
use moorline_types::{Instant, Ulid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time;

use crate::addresses::Addresses;
use crate::args::Args;
use crate::clock;
use crate::config::Config;
use crate::events::Events;
use crate::notice::Notices;
use crate::paths::Steer;
use crate::privileges;
use crate::protect::Moved;
use crate::ranker::Ranker;
use crate::server::{self, Ask};
use crate::store::Store;
use crate::usage::Quiet;

/// Everything the main loop owns.
pub(crate) struct Daemon {
    pub(crate) config: Config,
    pub(crate) config_path: Option<PathBuf>,
    /// What the data plane was told last.
    pub(crate) triggers: Option<Triggers>,
    pub(crate) host: Host,
    pub(crate) datapath: Datapath,
    pub(crate) netlink: Netlink,
    pub(crate) shim6: Shim6Socket,
    pub(crate) addresses: Addresses,
    pub(crate) view: HostView,
    /// When the view was taken.
    pub(crate) view_at: Instant,
    pub(crate) moved: Moved,
    pub(crate) notices: Notices,
    /// ULIDs kept on `moor0`.
    pub(crate) kept: BTreeSet<Ulid>,
    pub(crate) events: Events,
    pub(crate) started_unix_ms: u64,
    /// Contexts differ from those in the store.
    pub(crate) contexts_changed: bool,
    pub(crate) store: Store,
    /// Uplinks that carry the programs.
    pub(crate) attached: BTreeSet<u32>,
    /// What the data plane takes for our addresses.
    pub(crate) locals: BTreeMap<Ipv6Addr, u32>,
    save_at: Option<time::Instant>,
    /// Until then strangers wait.
    strangers_at: Option<time::Instant>,
    pub(crate) quiet: Quiet,
    pub(crate) steer: Steer,
    pub(crate) ranker: Ranker,
}

/// What wakes the main loop besides the daemon's own state.
struct Sources {
    icmp6: Icmp6Socket,
    reports: Readiness,
    monitor: Monitor,
    routers: Advertisements,
    reachability: Reachability,
    asked: mpsc::Receiver<Ask>,
}

/// How a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The host is as it was found.
    Restored,
    /// Programs, addresses, routes and contexts are in place, for the next run to go on with.
    HandedOver,
}

/// Runs the daemon until SIGTERM or SIGINT, then puts the host back as it was; until SIGUSR2, or with
/// `keep-on-stop`, it leaves everything in place.
///
/// # Errors
/// What keeps it from starting: rights, kernel features, another daemon, a damaged state directory.
pub async fn run(args: &Args, config: Config) -> anyhow::Result<Ending> {
    privileges::hide_memory()?;
    let store = Store::open(&args.state_dir)?;
    let events = Events::new();
    // First of all: where another daemon answers, nothing may be touched.
    let asked = server::start(&args.socket, events.clone())?;
    let (mut daemon, mut sources) = match Daemon::start(args, config, store, events, asked).await {
        Ok(started) => started,
        Err(error) => {
            if let Err(left) = undo_all(args).await {
                tracing::warn!("after the failed start: {left:#}");
            }
            return Err(error);
        }
    };
    // Tells systemd; fails where there is none.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let served = daemon.serve(&mut sources).await;
    daemon.events.push(EventKind::DaemonStopping, |_| {});
    match served {
        Ok(Ending::HandedOver) => daemon.hand_over(args).await?,
        Ok(Ending::Restored) | Err(_) => daemon.stop(args).await?,
    }
    served
}

/// Undoes what a crashed daemon left: addresses, rules, routes, links, programs.
///
/// # Errors
/// What could not be undone, each with its cause.
pub async fn reset(args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        std::os::unix::net::UnixStream::connect(&args.socket).is_err(),
        "moorlined is running and would be reset under its feet; stop it first"
    );
    undo_all(args).await
}

async fn undo_all(args: &Args) -> anyhow::Result<()> {
    let store = Store::open(&args.state_dir)?;
    Datapath::remove_pins(&args.pin_dir).context("BPF objects")?;
    let netlink = connect(&store)?;
    store.remove_contexts()?;
    undo(&netlink).await
}

impl Daemon {
    async fn start(
        args: &Args,
        config: Config,
        store: Store,
        events: Events,
        asked: mpsc::Receiver<Ask>,
    ) -> anyhow::Result<(Self, Sources)> {
        // Before anything on the host is changed: what is wrong with keys is told here.
        let addresses = Addresses::open(config.addresses.clone(), &store)?;
        let netlink = connect(&store)?;
        let mut routers = netlink.advertisements()?;
        let monitor = netlink.monitor().await?;
        let view = monitor.initial_view().clone();
        let moor = netlink.ensure_moor().await.context("segmentation path")?;
        let settings = Settings {
            max_contexts: config.max_contexts,
            max_flows: config.max_flows,
            pin_dir: Some(args.pin_dir.clone()),
            attach: config.attach,
            ..Settings::default()
        };
        let mut datapath = Datapath::open(&settings).context("eBPF data plane")?;
        let moors = [moor.moor0_ifindex, moor.moor1_ifindex];
        datapath.attach_moor(moors[0], moors[1]).context("segmentation path")?;
        let reports = Readiness::of(datapath.poll_fd()).context("ring buffer")?;
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).context("randomness of the kernel")?;
        let mut host = Host::new(host_config(&config), seed, clock::now());
        host.set_congestion_policy(config.congestion.policy);
        host.set_spread_default(config.spread);
        // Of a run that was killed: what is not ours any more goes with the first view.
        let locals = datapath.locals()?.into_iter().collect();
        for ifindex in datapath.attached_before() {
            if view.uplink(ifindex).is_none() && !moors.contains(&ifindex) {
                datapath.detach_uplink(ifindex);
            }
        }
        let mut daemon = Self {
            host,
            datapath,
            netlink,
            shim6: Shim6Socket::open().context("raw socket of protocol 140")?,
            addresses,
            view: HostView::default(),
            view_at: clock::now(),
            moved: Moved::default(),
            notices: Notices::open(config.tcp_notice)?,
            kept: BTreeSet::new(),
            events,
            started_unix_ms: clock::unix_ms(),
            contexts_changed: false,
            store,
            attached: BTreeSet::new(),
            locals,
            save_at: None,
            strangers_at: None,
            config_path: args.config.clone(),
            triggers: None,
            quiet: Quiet::default(),
            steer: Steer::default(),
            ranker: Ranker::start(config.ranker.clone()),
            config,
        };
        daemon.apply_triggers();
        daemon.events.push(EventKind::DaemonStarted, |_| {});
        daemon.on_view(view, &mut routers).await?;
        daemon.restore().await?;
        let icmp6 = Icmp6Socket::open().context("raw socket of ICMPv6")?;
        let reachability = daemon.netlink.reachability()?;
        privileges::reduce()?;
        tracing::info!(
            uplinks = daemon.view.uplinks.len(),
            data_plane = daemon.datapath.mode(),
            "started"
        );
        for warning in daemon.addresses.warnings(&daemon.view, &[]) {
            tracing::warn!("{warning}");
        }
        Ok((daemon, Sources { icmp6, reports, monitor, routers, reachability, asked }))
    }

    /// Goes on with the contexts of a run that was killed or has handed over.
    async fn restore(&mut self) -> anyhow::Result<()> {
        let now = clock::now();
        let mut restored = 0u32;
        for snapshot in self.store.load_contexts()? {
            let id = snapshot.id;
            match self.host.restore(snapshot, now) {
                Ok(()) => restored += 1,
                Err(reason) => tracing::warn!(context = %id, %reason, "context not taken over"),
            }
        }
        if restored > 0 {
            tracing::info!(contexts = restored, "took over from the run before");
        }
        for left in self.datapath.contexts()? {
            if !self.host.contexts().any(|context| context.id == left.id) {
                self.datapath.apply(&Update::Remove { context: left.id })?;
            }
        }
        // A pair that the run before was told of, and has made no context for yet, is told again.
        self.datapath.forget_traffic()?;
        self.pump().await;
        self.keep_ulids().await;
        Ok(())
    }

    async fn serve(&mut self, sources: &mut Sources) -> anyhow::Result<Ending> {
        let mut hand_over = signal(SignalKind::user_defined2())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut cgroups = time::interval(CGROUPS_AGAIN);
        loop {
            let wake = self.host.poll_timeout().map(|(at, _)| at);
            if self.contexts_changed && self.save_at.is_none() {
                self.save_at = Some(time::Instant::now() + SAVE_DELAY);
            }
            let save_at = self.save_at;
            let answer_at = self.quiet.answer_at();
            let notices_at = self.notices.poll_timeout();
            let reply_at = self.steer.answer_at();
            let addresses_at = self.addresses.poll_timeout(clock::now());
            tokio::select! {
                _ = terminate.recv() => return Ok(self.ending()),
                _ = interrupt.recv() => return Ok(self.ending()),
                _ = hand_over.recv() => return Ok(Ending::HandedOver),
                _ = hangup.recv() => self.reload(),
                _ = cgroups.tick(), if self.config.triggers.has_cgroups() => self.apply_triggers(),
                ready = sources.reports.ready() => {
                    ready?;
                    self.take_reports()?;
                }
                ready = self.shim6.ready(Queue::Established) => {
                    ready?;
                    self.take_messages(Queue::Established)?;
                }
                ready = self.shim6.ready(Queue::Strangers), if self.strangers_at.is_none() => {
                    ready?;
                    self.take_messages(Queue::Strangers)?;
                }
                () = until(self.strangers_at), if self.strangers_at.is_some() => {
                    self.strangers_at = None;
                }
                received = sources.icmp6.receive() => {
                    let error = received.context("raw socket of ICMPv6")?;
                    self.host.handle_unrecognized(error.quoted, error.locators, clock::now());
                }
                notice = sources.monitor.next() => {
                    let notice = notice.context("watching the host's addresses")?;
                    self.tell_changes(&notice);
                    let followed = self.on_view(notice.view, &mut sources.routers).await;
                    tell_failure(followed);
                }
                said = sources.routers.next() => {
                    let said = said.context("listening to routers")?;
                    self.addresses.handle_advertisement(&said, clock::now());
                }
                () = sleep_until(addresses_at), if addresses_at.is_some() => {
                    tell_failure(self.follow(&mut sources.routers).await);
                }
                lost = sources.reachability.next() => self.on_lost_neighbor(lost),
                () = sleep_until(notices_at), if notices_at.is_some() => {
                    self.notices.handle_timeout(clock::now());
                }
                ranked = self.ranker.next() => self.on_ranked(ranked),
                Some(ask) = sources.asked.recv() => self.answer(ask),
                () = sleep_until(wake), if wake.is_some() => {
                    self.host.handle_timeout(clock::now());
                }
                () = until(save_at), if save_at.is_some() => self.save(),
                () = until(answer_at), if answer_at.is_some() => self.answer_questions().await,
                () = until(reply_at), if reply_at.is_some() => self.answer_waiting(),
            }
            self.pump().await;
        }
    }

    /// Messages of protocol 140, a batch of them, so that nothing else waits for long. Strangers get no more of
    /// our time than [`STRANGERS_PER_SECOND`] leaves them: the rest of a flood is dropped by the kernel.
    fn take_messages(&mut self, queue: Queue) -> anyhow::Result<()> {
        for _ in 0..BATCH {
            let received = self.shim6.try_receive(queue).context("raw socket of protocol 140")?;
            let Some(received) = received else { return Ok(()) };
            self.host.handle_control(received.octets, received.locators, clock::now());
        }
        if queue == Queue::Strangers {
            let pause = Duration::from_secs(1) * BATCH / STRANGERS_PER_SECOND;
            self.strangers_at = Some(time::Instant::now() + pause);
        }
        Ok(())
    }

    fn take_reports(&mut self) -> anyhow::Result<()> {
        let host = &mut self.host;
        self.datapath.drain_reports(&mut |report| host.handle_report(report, clock::now()))?;
        Ok(())
    }

    fn answer(&mut self, ask: Ask) {
        // Who asked may be gone by now.
        match ask {
            Ask::Status(reply) => drop(reply.send(self.status())),
            Ask::Contexts(reply) => drop(reply.send(self.contexts())),
            Ask::Addresses(reply) => drop(reply.send(self.interface_addresses())),
            Ask::Paths(reply) => drop(reply.send(self.paths())),
            Ask::Wish(wish, who, reply) => self.grant(&wish, who, reply),
        }
    }
}

impl Daemon {
    fn save(&mut self) {
        (self.contexts_changed, self.save_at) = (false, None);
        if let Err(error) = self.store.save_contexts(self.host.snapshot()) {
            tracing::warn!("contexts would not survive a crash: {error:#}");
        }
    }

    const fn ending(&self) -> Ending {
        if self.config.keep_on_stop { Ending::HandedOver } else { Ending::Restored }
    }

    /// Leaves everything as it is, for the next run. Traffic goes on meanwhile; what it needs to be told is
    /// in the store.
    async fn hand_over(mut self, args: &Args) -> anyhow::Result<()> {
        // What the programs have told so far is in the contexts that are kept.
        let told = self.take_reports();
        self.pump().await;
        let saved = self.store.save_contexts(self.host.snapshot());
        tracing::info!(contexts = self.host.contexts().count(), "handing over");
        let _ = std::fs::remove_file(&args.socket);
        told?;
        saved.context("contexts for the next run")
    }

    /// Puts the host back as it was found.
    async fn stop(mut self, args: &Args) -> anyhow::Result<()> {
        tracing::info!("stopping");
        self.datapath.detach_all();
        let undone = undo(&self.netlink).await;
        let closed = self.datapath.close();
        self.store.remove_contexts()?;
        // Gone already if somebody tidied up.
        let _ = std::fs::remove_file(&args.socket);
        undone?;
        closed.context("BPF objects; `moorline reset` tries again")
    }
}

async fn undo(netlink: &Netlink) -> anyhow::Result<()> {
    let mut failed = 0u32;
    for undone in netlink.undo_all().await {
        if undone.is_failure() {
            failed += 1;
            tracing::warn!("{undone}");
        } else {
            tracing::debug!("{undone}");
        }
    }
    anyhow::ensure!(
        failed == 0,
        "{failed} changes are left on the host; `moorline reset` tries again"
    );
    Ok(())
}

fn connect(store: &Store) -> anyhow::Result<Netlink> {
    let journal = Journal::open(store.journal())?;
    Ok(Netlink::connect(netlink::Settings::default(), journal)?)
}

fn host_config(config: &Config) -> moorline_host::Config {
    let mut host = moorline_host::Config {
        idle: config.idle,
        asks_before_removal: true,
        profile: config.profile,
        counts_congestion: config.congestion.watch,
        ..moorline_host::Config::default()
    };
    host.shim6.max_contexts = config.max_contexts;
    host.shim6.send_timeout = config.send_timeout;
    host
}

/// An interface may be gone again by now; the next notice tells.
fn tell_failure(followed: anyhow::Result<()>) {
    if let Err(error) = followed {
        tracing::warn!("following the uplinks: {error:#}");
    }
}

async fn until(wake: Option<time::Instant>) {
    time::sleep_until(wake.unwrap_or_else(time::Instant::now)).await;
}

async fn sleep_until(wake: Option<Instant>) {
    if let Some(wake) = wake {
        time::sleep(wake.since(clock::now())).await;
    }
}

/// Cgroups that trigger rules name are looked up again.
const CGROUPS_AGAIN: Duration = Duration::from_secs(10);
/// Contexts are written at most this often: many may change at once.
const SAVE_DELAY: Duration = Duration::from_millis(200);
/// Messages of protocol 140 that are taken at once.
const BATCH: u32 = 64;
/// Messages of strangers that are looked at in a second, when there are more: a tenth of a core or two. Of a site
/// that comes back with 10,000 contexts all are answered in two seconds.
const STRANGERS_PER_SECOND: u32 = 20_000;
