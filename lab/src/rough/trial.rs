//! The execution of one scenario.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::Context as _;
use moorline_api::{AddressInfo, AddressState, Event, EventKind, Proof};

use crate::clock::monotonic as now;
use crate::daemon::{Daemon, DaemonOptions, is_protected};
use crate::experiment::pause;
use crate::interrupt::{check, wait_for};

use super::app::{self, App, Kind, Moment, Question, Seen};
use super::network::{Access, Network, PLAIN, UPLINKS};
use super::scenario::{Asked, Plan, Scenario};

/// A network, its daemons, and their options.
#[derive(Debug)]
pub struct World {
    daemons: BTreeMap<&'static str, Daemon>,
    options: Option<DaemonOptions>,
    hosts: [&'static str; 2],
    /// The network.
    pub network: Network,
}

/// Outcome of a scenario.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Results of each program of the plan.
    pub seen: Vec<Seen>,
    /// Time from the moment from which an answer could come to the first answer; `None` if the scenario has no such
    /// moment, or if no answer came.
    pub after_usable: Option<Duration>,
    /// Time for which the programs were watched.
    pub watched: Duration,
    /// Whether a new connection to the same address was made afterwards.
    pub connects: bool,
    /// Whether the daemon of the host reported its contexts as protected before the event of the scenario.
    pub is_protected: bool,
    /// Whether a daemon has moved payload for the [cause](Plan::cause) of the scenario, if the scenario has one.
    pub has_cause: bool,
    /// Error output of the programs, and the last lines of the daemons' logs.
    pub story: String,
}

/// Executes a scenario, with daemons or without any. `patience` is the time for which silent programs are watched, if
/// it is longer than the window of the scenario, and then the longest wait for the cause of the scenario.
///
/// # Errors
/// The network could not be built, a daemon did not start, or the run was interrupted.
pub fn run(scenario: Scenario, is_with: bool, patience: Duration) -> anyhow::Result<Outcome> {
    let mut plan = scenario.plan();
    if !plan.is_long {
        plan.window = plan.window.max(patience);
    }
    let mut world = World::build(scenario, &plan, is_with)?;
    if !scenario.is_before_daemons() {
        world.start_daemons()?;
    }
    if plan.asked == Asked::Published || scenario.needs_made_source() {
        world.await_addresses()?;
    }
    let apps = world.start_apps(scenario, &plan)?;
    let (is_protected, begin) = match scenario == Scenario::IlnpFullSize {
        true => (false, first_answer(&apps)?),
        false => (world.settle(&apps)?, now()),
    };
    let usable = scenario.strike(&mut world)?;
    let over = now();
    let end = watch(&plan, &apps, begin, over)?;
    let seen: Vec<_> = apps.iter().map(|app| app.seen(begin, end)).collect();
    let after_usable = usable.and_then(|usable| {
        let answer = latest(apps.iter().map(|app| app.first_after(usable)))?;
        Some(answer.saturating_sub(usable))
    });
    let connects = connects(&world, &plan, begin)?;
    let watched = end.saturating_sub(begin);
    let has_cause = plan.cause.is_none_or(|cause| world.await_cause(cause, patience));
    check()?;
    let story = world.story(&apps);
    Ok(Outcome { seen, after_usable, watched, connects, is_protected, has_cause, story })
}

impl World {
    fn build(scenario: Scenario, plan: &Plan, is_with: bool) -> anyhow::Result<Self> {
        let mut network = Network::build(&plan.hosts, plan.rtt)?;
        scenario.prepare(&mut network)?;
        for host in plan.hosts {
            let access = Access::of(host, 0);
            network.own_address(access, access.prefix(1))?;
        }
        let options = || DaemonOptions::new(SEND_TIMEOUT, plan.settings);
        let options = is_with.then(options).transpose()?;
        Ok(Self { daemons: BTreeMap::new(), options, hosts: plan.hosts, network })
    }

    /// Starts a daemon in each host that may have one. Without Moorline it starts none.
    ///
    /// # Errors
    /// A daemon did not start.
    pub fn start_daemons(&mut self) -> anyhow::Result<()> {
        let Some(options) = &self.options else { return Ok(()) };
        for host in self.hosts.into_iter().filter(|host| *host != PLAIN) {
            let daemon = Daemon::start(&self.network.lab, host, options)?;
            self.daemons.insert(host, daemon);
        }
        Ok(())
    }

    /// Stops all daemons.
    ///
    /// # Errors
    /// A daemon could not be signalled.
    pub fn stop_daemons(&mut self) -> anyhow::Result<()> {
        std::mem::take(&mut self.daemons).into_values().try_for_each(Daemon::stop)
    }

    /// Stops the daemon of a host and starts it again, like a service manager.
    ///
    /// # Errors
    /// The daemon could not be signalled, or did not start.
    pub fn restart(&mut self, host: &'static str) -> anyhow::Result<()> {
        let (Some(daemon), Some(options)) = (self.daemons.remove(host), &self.options) else {
            return Ok(());
        };
        daemon.hand_over()?;
        self.daemons.insert(host, Daemon::start(&self.network.lab, host, options)?);
        Ok(())
    }

    /// Waits until each daemon has made its address and the kernel uses it for new connections, at most for
    /// [`PROOF_LIMIT`]. Not every network allows such an address.
    fn await_addresses(&self) -> anyhow::Result<()> {
        for daemon in self.daemons.values() {
            let is_there = || {
                let interfaces = daemon.addresses()?;
                let mut all = interfaces.iter().flat_map(|one| &one.addresses);
                let is_taken = |one: &AddressInfo| {
                    one.proof != Proof::None && one.state == AddressState::Preferred
                };
                Ok(all.any(is_taken).then_some(()))
            };
            // A scenario without such addresses is measured as well.
            let _ = wait_for("an address with a proof", PROOF_LIMIT, is_there);
            check()?;
        }
        Ok(())
    }

    /// The address that the programs send requests to.
    fn asked(&self, plan: &Plan) -> anyhow::Result<Ipv6Addr> {
        let server = plan.hosts[1];
        let access = Access::of(server, 0);
        match self.daemons.get(server) {
            Some(daemon) if plan.asked == Asked::Published => daemon.verifiable_address(UPLINKS[0]),
            Some(_) | None => self.network.own_address(access, access.prefix(1)),
        }
    }

    fn start_apps(&self, scenario: Scenario, plan: &Plan) -> anyhow::Result<Vec<App>> {
        let (client, server) = (plan.hosts[0], self.asked(plan)?);
        let access = Access::of(client, 0);
        let own = [Scenario::InstallRemove, Scenario::LinkFlapOwn, Scenario::ShortLifetimes];
        let own_address = || self.network.own_address(access, access.prefix(1));
        let source = own.contains(&scenario).then(own_address).transpose()?;
        let apps = plan.kinds.iter().map(|&kind| {
            let size = plan.sizes[usize::from(kind != Kind::Tcp)];
            let question = Question { kind, server, size, device: plan.device, source };
            App::start(&self.network.lab, client, plan.hosts[1], &question)
        });
        apps.collect()
    }

    /// Waits until the programs get answers, and for a context with a second pair as long as one may come. Returns
    /// whether there is such a context.
    fn settle(&self, apps: &[App]) -> anyhow::Result<bool> {
        first_answer(apps).with_context(|| self.story(apps))?;
        let Some(daemon) =
            self.daemons.get(self.hosts[0]).or_else(|| self.daemons.get(self.hosts[1]))
        else {
            pause(CALM)?;
            return Ok(false);
        };
        let is_ready = || {
            let contexts = daemon.contexts()?;
            Ok((!contexts.is_empty() && contexts.iter().all(is_protected)).then_some(()))
        };
        let ready = wait_for("a second pair", CONTEXT_LIMIT, is_ready).is_ok();
        check()?;
        pause(CALM)?;
        Ok(ready)
    }

    /// Waits until a daemon tells of a move for this cause. False if none does so within `limit`.
    fn await_cause(&mut self, cause: &str, limit: Duration) -> bool {
        let is_it = |event: &Event| {
            event.kind == EventKind::Moved && event.reason.as_deref() == Some(cause)
        };
        let has_moved = || {
            let mut all = self.daemons.values_mut();
            Ok(all.any(|daemon| daemon.events().iter().any(is_it)).then_some(()))
        };
        wait_for("a move", limit, has_moved).is_ok()
    }

    fn story(&self, apps: &[App]) -> String {
        let mut story: String = apps.iter().map(App::complaints).collect();
        for (host, daemon) in &self.daemons {
            story += &format!("{host}:\n{}\n", daemon.tail());
        }
        story
    }
}

fn first_answer(apps: &[App]) -> anyhow::Result<Duration> {
    wait_for("answers", ANSWER_LIMIT, || Ok(latest(apps.iter().map(App::last))))
}

/// The latest of these moments; `None` if one of them has not come.
fn latest(moments: impl Iterator<Item = Option<Moment>>) -> Option<Moment> {
    moments.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Tries new connections until one is made, or until the end of the window. So a program that soon had answers again
/// does not end the tries. Without a server for TCP there is nothing to try.
fn connects(world: &World, plan: &Plan, begin: Duration) -> anyhow::Result<bool> {
    if !plan.kinds.contains(&Kind::Tcp) {
        return Ok(false);
    }
    loop {
        let (lab, server) = (&world.network.lab, world.asked(plan)?);
        let connects = app::connects(lab, plan.hosts[0], server)?;
        if connects || now() >= begin + plan.window {
            return Ok(connects);
        }
        pause(CALM)?;
    }
}

/// Waits for the end of the window, or until every program has had answers for [`GOES_ON`]. Returns the end.
fn watch(plan: &Plan, apps: &[App], begin: Duration, over: Duration) -> anyhow::Result<Duration> {
    let end = begin + plan.window;
    while now() < end.max(over) {
        let is_back = |app: &App| {
            let is_alive = app.seen(begin, now()).gap.is_some();
            is_alive && app.last().is_some_and(|last| last > over + GOES_ON)
        };
        if !plan.is_long && apps.iter().all(is_back) {
            break;
        }
        pause(Duration::from_millis(50))?;
    }
    Ok(now())
}

/// Send Timeout, the daemon's default.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const CALM: Duration = Duration::from_millis(500);
const PROOF_LIMIT: Duration = Duration::from_secs(6);
const CONTEXT_LIMIT: Duration = Duration::from_secs(6);
const ANSWER_LIMIT: Duration = Duration::from_secs(8);
/// Time after the end of the event after which answers count as lasting.
const GOES_ON: Duration = Duration::from_millis(1500);
