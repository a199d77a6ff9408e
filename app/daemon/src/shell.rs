use std::collections::{BTreeMap, BTreeSet};
use std::future;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use moorline_addresses::Unbound;
use moorline_api::EventKind;
use moorline_bpf::Datapath;
use moorline_datapath::shim6::Triggers;
use moorline_host::Host;
use moorline_link::{Icmp6Error, Icmp6Socket, Queue, Readiness, Shim6Socket, Unrecognized};
use moorline_netlink::{Advertisements, Monitor, Netlink, Notice, Reachability};
use moorline_types::Instant;
use tokio::sync::mpsc;
use tokio::{task, time};

use crate::addresses::Addresses;
use crate::args::Args;
use crate::claims::{Claims, claim_pins};
use crate::clock;
use crate::config::Config;
use crate::ending::{Ending, undo_all};
use crate::events::Events;
use crate::excluded::LastExcluded;
use crate::health::Targets;
use crate::ilnp::{Ilnp, Peers};
use crate::introduce::Introductions;
use crate::moor::Moor;
use crate::neighbors::LostRouters;
use crate::notice::Notices;
use crate::path_mtu::PathMtus;
use crate::paths::Steer;
use crate::privileges;
use crate::ranker::Ranker;
use crate::saving::{SaveTimes, Saving};
use crate::server::{self, Task};
use crate::signals::Signals;
use crate::store::Store;
use crate::survey::Surveys;
use crate::takeover::{Flushes, Takeover};
use crate::troubles::Troubles;
use crate::turns::Turns;
use crate::usage::Quiet;

/// All state of the main loop.
pub(crate) struct Daemon {
    pub(crate) config: Config,
    pub(crate) config_path: Option<PathBuf>,
    /// Trigger rules in the data plane.
    pub(crate) triggers: Triggers,
    pub(crate) host: Host,
    pub(crate) datapath: Datapath,
    pub(crate) netlink: Netlink,
    pub(crate) shim6: Shim6Socket,
    pub(crate) addresses: Addresses,
    pub(crate) routers: Advertisements,
    pub(crate) troubles: Troubles,
    pub(crate) moor: Moor,
    pub(crate) notices: Notices,
    pub(crate) introductions: Introductions,
    pub(crate) events: Events,
    pub(crate) started_unix_ms: u64,
    /// Whether the contexts differ from the store.
    pub(crate) contexts_changed: bool,
    pub(crate) store: Store,
    /// Our addresses in the data plane.
    pub(crate) locals: BTreeMap<Ipv6Addr, u32>,
    pub(crate) save_times: SaveTimes,
    /// Warning, while contexts or sessions cannot be saved.
    pub(crate) unsaved: Option<String>,
    /// Warning, if the configuration could not be read again, or if keys that have changed wait for the next start.
    pub(crate) unapplied_config: Option<String>,
    /// Sentences on files of the last run that could not be read.
    pub(crate) damages: Vec<String>,
    pub(crate) path_mtus: PathMtus,
    pub(crate) unbound: Unbound,
    /// Time until which messages of strangers wait.
    pub(crate) strangers_at: time::Instant,
    pub(crate) quiet: Quiet,
    pub(crate) steer: Steer,
    /// ILNPv6, if it is on.
    pub(crate) ilnp: Option<Ilnp>,
    /// Whether ILNP's programs may have more reports than the daemon has read.
    pub(crate) ilnp_waits: bool,
    pub(crate) ranker: Ranker,
    pub(crate) lost_routers: LostRouters,
    pub(crate) targets: Targets,
    /// Uplinks that carry no packets, as reported in events.
    pub(crate) failing: BTreeSet<u32>,
    /// Uplinks that new connections avoided when the daemon last looked.
    pub(crate) avoided: BTreeSet<u32>,
    pub(crate) last_excluded: LastExcluded,
    pub(crate) turns: Turns,
    /// Takeover of the contexts of the last run.
    pub(crate) takeover: Takeover,
    pub(crate) flushes: Flushes,
    pub(crate) surveys: Surveys,
    pub(crate) saving: Saving,
}

/// Sources that wake the main loop, beside the daemon's own timers.
pub(crate) struct Sources {
    pub(crate) icmp6: Icmp6Socket,
    pub(crate) reports: Readiness,
    /// Reports of ILNP.
    pub(crate) sessions: Option<Readiness>,
    pub(crate) peers: Peers,
    pub(crate) monitor: Monitor,
    pub(crate) reachability: Reachability,
    pub(crate) tasks: mpsc::Receiver<Task>,
}

/// Runs the daemon. On SIGTERM, it leaves everything in place for the next run. On SIGINT, or a request at the control
/// socket, it restores the host.
///
/// # Errors
/// The daemon cannot start: missing rights or kernel features, another daemon, or a damaged state directory.
pub async fn run(args: &Args, config: Config) -> anyhow::Result<()> {
    privileges::check()?;
    privileges::hide_memory()?;
    let mut signals = Signals::catch().context("signals")?;
    let store = Store::open(&args.state_dir)?;
    // Take the claims first: this daemon must not change anything that another daemon uses.
    let _claims = claim(&store, args)?;
    let events = Events::new();
    let tasks = server::start(args, events.clone())?;
    let goes_on = Datapath::has_pins(&args.pin_dir);
    let started = Daemon::start(args, config, store, events, tasks, goes_on).await;
    let (mut daemon, mut sources) = match started {
        Ok(started) => started,
        Err(error) if goes_on => {
            tracing::warn!(
                "what the run before has left stays in place for the next start; `moorline down` removes it"
            );
            return Err(error);
        }
        Err(error) => {
            if let Err(left) = undo_all(args).await {
                tracing::warn!("after the failed start: {left:#}");
            }
            return Err(error);
        }
    };
    // Tell systemd; this fails on a host without systemd.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let turns = daemon.turns.clone();
    let served = turns.time(daemon.serve(&mut sources, &mut signals)).await;
    daemon.events.push(EventKind::DaemonStopping, |_| {});
    match served {
        Ok(Ending::Kept) => daemon.keep(args).await,
        Ok(Ending::Restored) => daemon.stop(args).await,
        // The service manager starts the daemon again.
        Err(error) => {
            if let Err(lost) = daemon.keep(args).await {
                tracing::warn!("for the next start: {lost:#}");
            }
            Err(error)
        }
    }
}

/// Returns random octets of the kernel.
pub(crate) fn seed<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut seed = [0; N];
    getrandom::fill(&mut seed).context("randomness of the kernel")?;
    Ok(seed)
}

/// Takes the claims. If a claim fails, removes the pin folder that this daemon has made, unless another daemon has claimed
/// the folder.
fn claim(store: &Store, args: &Args) -> anyhow::Result<Claims> {
    let is_new = !args.pin_dir.exists();
    if let Err(error) = Datapath::make_pin_dir(&args.pin_dir) {
        tracing::debug!(%error, "the data plane says what to do");
    }
    Claims::take(store, &args.pin_dir).inspect_err(|_| {
        let claimed = is_new.then(|| claim_pins(&args.pin_dir));
        if let Some(Ok(Some(_claim))) = claimed
            && let Err(error) = Datapath::remove_pin_dir(&args.pin_dir)
        {
            tracing::debug!(%error, "the pin folder stays");
        }
    })
}

impl Daemon {
    async fn serve(
        &mut self,
        sources: &mut Sources,
        signals: &mut Signals,
    ) -> anyhow::Result<Ending> {
        let mut cgroups = time::interval(CGROUPS_AGAIN);
        let mut rankings = time::interval(RANK_AGAIN);
        loop {
            self.plan_save();
            let due = self.poll_timeout();
            let (is_surveying, is_copying) = (self.surveys.is_running(), self.saving.is_copying());
            let (is_reading, is_in_slices) =
                (self.takeover.is_reading(), self.takeover.is_in_slices());
            tokio::select! {
                _ = signals.terminate.recv() => return Ok(Ending::Kept),
                _ = signals.interrupt.recv() => return Ok(Ending::Restored),
                _ = signals.hangup.recv() => self.reload(),
                _ = cgroups.tick(), if self.config.triggers.has_cgroups() => self.apply_triggers(),
                found = self.takeover.read(), if is_reading => self.handle_found(found?),
                () = future::ready(()), if is_in_slices => self.take_over_slice().await?,
                () = future::ready(()), if is_surveying => self.survey_slice(),
                ready = sources.reports.ready(), if !is_reading => ready.map(|()| self.take_reports())??,
                ready = ready(sources.sessions.as_ref()), if !is_reading && sources.sessions.is_some() => {
                    ready.map(|()| self.take_ilnp_reports())??;
                }
                () = future::ready(()), if !is_reading && self.ilnp_waits => self.take_ilnp_reports()?,
                known = sources.peers.next(), if !is_reading => self.on_known_peer(&known),
                ready = self.shim6.ready(Queue::Established), if !is_reading => {
                    ready.map(|()| self.take_messages(Queue::Established))??;
                }
                ready = strangers(self.strangers_at, &self.shim6), if !is_reading => {
                    ready.map(|()| self.take_messages(Queue::Strangers))??;
                }
                received = sources.icmp6.receive(), if !is_reading => self.on_icmp6(received)?,
                notice = sources.monitor.next() => self.on_notice(notice),
                said = self.routers.next() => {
                    self.host.handle_advertisement(&said.context("listening to routers")?, clock::now());
                }
                echo = self.targets.next() => self.on_echo(echo)?,
                neighbor = sources.reachability.next() => self.on_neighbor(neighbor).await,
                ranked = self.ranker.next() => self.on_ranked(ranked),
                _ = rankings.tick(), if self.config.ranker.is_some() => self.rank_all(),
                Some(task) = sources.tasks.recv() => if let Some(ending) = task(self) {
                    // Let the answer leave first, because the following code may never yield.
                    task::yield_now().await;
                    return Ok(ending);
                },
                () = until(due) => self.handle_timeout().await,
                () = future::ready(()), if is_copying => self.copy_slice(),
                (began, written) = self.saving.written() => self.on_written(began, written),
            }
            self.pump().await;
            // One input is a turn: the tasks of the control socket come between.
            task::yield_now().await;
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    fn poll_timeout(&self) -> Option<time::Instant> {
        let (now, clock) = (time::Instant::now(), clock::now());
        let machines =
            [self.host.poll_timeout(), self.notices.poll_timeout(), self.unbound.poll_timeout()];
        let machines = machines.map(|at| at.map(|at| now + at.since(clock)));
        let (answer_at, reply_at) = (self.quiet.answer_at(), self.steer.answer_at());
        let own = [self.save_times.at(), self.moor.poll_timeout(), answer_at, reply_at];
        machines.into_iter().chain(own).flatten().min()
    }

    /// Handles the timers that are due.
    async fn handle_timeout(&mut self) {
        let (now, clock) = (time::Instant::now(), clock::now());
        let is_over = |at: Option<Instant>| at.is_some_and(|at| at <= clock);
        let is_due = |at: Option<time::Instant>| at.is_some_and(|at| at <= now);
        if is_over(self.host.poll_timeout()) {
            self.host.handle_timeout(clock);
        }
        if is_over(self.notices.poll_timeout()) {
            self.notices.handle_timeout(clock);
        }
        if is_over(self.unbound.poll_timeout()) {
            self.set_unbound().await;
        }
        if is_due(self.quiet.answer_at()) {
            self.answer_questions();
        }
        if is_due(self.steer.answer_at()) {
            self.answer_waiting();
        }
        if is_due(self.moor.poll_timeout()) {
            self.make_moor_anew().await;
        }
        if is_due(self.save_times.at()) {
            self.save();
        }
    }

    /// Schedules the save of contexts and sessions, if they differ from the store.
    fn plan_save(&mut self) {
        let is_unsaved = self.ilnp.as_ref().is_some_and(|ilnp| ilnp.is_unsaved);
        if (self.contexts_changed || is_unsaved) && self.saving.is_idle() {
            self.save_times.handle_change(time::Instant::now());
        }
    }

    fn on_icmp6(&mut self, received: std::io::Result<Icmp6Error<'_>>) -> anyhow::Result<()> {
        match received.context("raw socket of ICMPv6")? {
            Icmp6Error::Unrecognized(Unrecognized { quoted, locators, source }) => {
                self.host.shim6_mut().handle_unrecognized(quoted, locators, source, clock::now());
            }
            Icmp6Error::TooBig(told) => self.on_too_big(told),
        }
        Ok(())
    }

    fn on_notice(&mut self, notice: Notice) {
        if notice.only_specific {
            return self.host.handle_specific(notice.view.specific, clock::now());
        }
        self.follow_moor(notice.view.has_moor);
        let changes = self.named_changes(&notice);
        self.host.handle_interfaces_down(&notice.routes_taken);
        if !notice.routes_taken.is_empty() || notice.resynced {
            self.host.doubt_routes();
        }
        self.on_view(notice.view);
        self.tell_changes(&changes);
    }
}

/// Waits for a source; without a source, waits for ever.
async fn ready(source: Option<&Readiness>) -> std::io::Result<()> {
    match source {
        Some(source) => source.ready().await,
        None => future::pending().await,
    }
}

/// Waits for a message of a stranger, and until this time.
async fn strangers(from: time::Instant, shim6: &Shim6Socket) -> std::io::Result<()> {
    if from > time::Instant::now() {
        time::sleep_until(from).await;
    }
    shim6.ready(Queue::Strangers).await
}

/// Waits until this time; without a time, waits for ever.
async fn until(wake: Option<time::Instant>) {
    match wake {
        // A timer of the runtime is over a millisecond later at the soonest, and another input may be ready until then.
        Some(wake) if wake <= time::Instant::now() => {}
        Some(wake) => time::sleep_until(wake).await,
        None => future::pending().await,
    }
}

/// Interval of look-ups of the cgroups in trigger rules.
const CGROUPS_AGAIN: Duration = Duration::from_secs(10);
/// Interval at which contexts with changed pairs, or an expired order, are ranked again.
const RANK_AGAIN: Duration = Duration::from_secs(10);
