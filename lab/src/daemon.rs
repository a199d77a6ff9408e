//! A real `moorlined` in a host.

use std::net::Ipv6Addr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context as _, bail, ensure};
use moorline_api::{
    BlockingClient, Client, Context, Event, EventKind, EventsQuery, Proof, ReadinessState,
};
use rustix::mount::{MountFlags, mount};
use rustix::process::Signal;

use crate::lab::Lab;
use crate::netns::{Worker, join, output};
use crate::process::Process;
use crate::topology::HOSTS;
use crate::{interrupt, preflight};

/// A running daemon, with what a client can ask it; stopped in order when dropped.
#[derive(Debug)]
pub struct Daemon {
    process: Process,
    client: BlockingClient,
    incoming: Receiver<Event>,
    events: Vec<Event>,
}

impl Deref for Daemon {
    type Target = BlockingClient;

    fn deref(&self) -> &BlockingClient {
        &self.client
    }
}

/// How to start daemons.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The program.
    pub binary: PathBuf,
    /// Send Timeout (RFC 5534 s7).
    pub send_timeout: Duration,
    /// More lines of the configuration file.
    pub settings: String,
    /// A log filter other than the daemon's own: `debug`.
    pub log: Option<&'static str>,
}

impl DaemonOptions {
    /// With these lines in the configuration; the program is the one that [`preflight::find_daemon`] finds.
    ///
    /// # Errors
    /// It finds none.
    pub fn new(send_timeout: Duration, settings: impl Into<String>) -> anyhow::Result<Self> {
        let binary = preflight::find_daemon().context(
            "moorlined is neither next to this program nor on PATH: `make build` makes it",
        )?;
        Ok(Self { binary, send_timeout, settings: settings.into(), log: None })
    }
}

/// Starts a daemon in each host of a pair, both at once, as each takes a moment to make its addresses.
///
/// # Errors
/// As [`Daemon::start`].
pub fn start_both(lab: &Lab, options: [&DaemonOptions; 2]) -> anyhow::Result<Vec<Daemon>> {
    thread::scope(|scope| {
        let start = |host| scope.spawn(move || Daemon::start(lab, HOSTS[host], options[host]));
        [0, 1].map(start).into_iter().map(|daemon| join(daemon.join())).collect()
    })
}

impl Daemon {
    /// Starts the daemon of a host and waits until it answers. Starting it again after
    /// [`Daemon::kill`] takes over the same state directory.
    ///
    /// # Errors
    /// It ended or did not answer: its log is in the message.
    pub fn start(lab: &Lab, host: &str, options: &DaemonOptions) -> anyhow::Result<Self> {
        let directory = lab.directory(host)?;
        let socket = directory.join("moorlined.sock");
        let config = configuration(lab, host)?;
        let timeout = options.send_timeout.as_millis();
        let text = format!("send-timeout = \"{timeout}ms\"\n{}\n", options.settings);
        fs::write(&config, text).context("configuration")?;
        let mut command = command(lab, host, options)?;
        command.arg("--config").arg(&config).stdout(Stdio::null());
        command.envs(options.log.map(|filter| ("MOORLINE_LOG", filter)));
        let mut process = Process::start(&mut command, &directory.join("moorlined.log"))?;
        let client =
            BlockingClient::new(Client::new(&socket)).context("client of the control socket")?;
        interrupt::wait_for("moorlined", START_LIMIT, || match process.poll()? {
            Some(status) => bail!("moorlined ended: {status}"),
            None => Ok(client.status().ok()),
        })
        .with_context(|| format!("host {host}; its log:\n{}", tail(&process.log())))?;
        let incoming = follow(socket)?;
        Ok(Self { process, client, incoming, events: Vec::new() })
    }

    /// Undoes what a killed daemon left on a host, as `moorline down` does.
    ///
    /// # Errors
    /// What is left.
    pub fn reset(lab: &Lab, host: &str, options: &DaemonOptions) -> anyhow::Result<()> {
        let mut command = command(lab, host, options)?;
        command.arg("--reset").arg("--config").arg(configuration(lab, host)?);
        output(&mut command).map(drop).with_context(|| format!("reset of {host}"))
    }

    /// Events since its start, as far as they have come in.
    pub fn events(&mut self) -> &[Event] {
        self.events.extend(self.incoming.try_iter());
        &self.events
    }

    /// Waits for the first event of a kind and context of these ULIDs, seen from the host.
    ///
    /// # Errors
    /// It did not come within `limit`.
    pub fn wait_for(&mut self, kind: &EventKind, limit: Duration) -> anyhow::Result<Event> {
        interrupt::wait_for(&format!("event {kind}"), limit, || {
            Ok(self.events().iter().find(|event| event.kind == *kind).cloned())
        })
        .with_context(|| format!("log of moorlined:\n{}", self.tail()))
    }

    /// The address that the daemon made on an uplink and that peers can verify; waits for it.
    ///
    /// # Errors
    /// There is none.
    pub fn verifiable_address(&self, uplink: &str) -> anyhow::Result<Ipv6Addr> {
        interrupt::wait_for("a provable address", START_LIMIT, || {
            let status = self.status()?;
            let uplinks = status.uplinks.iter().filter(|candidate| candidate.name == uplink);
            let mut locators = uplinks.flat_map(|uplink| &uplink.locators);
            Ok(locators.find(|l| l.proof != Proof::None && l.announced).map(|l| l.address))
        })
        .with_context(|| format!("uplink {uplink}; log of moorlined:\n{}", self.tail()))
    }

    /// What it logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The last lines of what it logged.
    #[must_use]
    pub fn tail(&self) -> String {
        tail(&self.log())
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// SIGKILL.
    ///
    /// # Errors
    /// It could not be signalled.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill()
    }

    /// SIGTERM, and waits until it has left everything to the next one.
    ///
    /// # Errors
    /// It ended otherwise, or not in time.
    pub fn hand_over(mut self) -> anyhow::Result<()> {
        let status = self.process.end_by(Signal::TERM, STOP_LIMIT)?;
        let is_done = status.is_some_and(|status| status.success());
        ensure!(is_done, "handing over: {status:?}: {}", self.tail());
        Ok(())
    }

    /// Asks it over the control socket to restore the host and to end, as `moorline down` does, and waits until it has.
    ///
    /// # Errors
    /// It did not answer, could not restore all, or did not end in time.
    pub fn down(mut self) -> anyhow::Result<()> {
        self.client.down().context("down")?;
        let status =
            interrupt::wait_for("the end of moorlined", STOP_LIMIT, || self.process.poll())?;
        ensure!(status.success(), "down: {status}: {}", self.tail());
        Ok(())
    }

    /// SIGINT, and waits until it has restored what it changed.
    ///
    /// # Errors
    /// It could not be signalled.
    pub fn stop(mut self) -> anyhow::Result<()> {
        match self.process.end_by(Signal::INT, STOP_LIMIT)? {
            Some(_) => Ok(()),
            None => self.process.kill(),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended already is not signalled; one that does not end is killed with its process.
        let _ = self.process.end_by(Signal::INT, STOP_LIMIT);
    }
}

/// Whether a daemon says of a context that it can move.
pub(crate) fn is_protected(context: &Context) -> bool {
    context.readiness.as_ref().is_some_and(|one| one.state == ReadinessState::Protected)
}

/// The program in its namespace, with the places of a host.
fn command(lab: &Lab, host: &str, options: &DaemonOptions) -> anyhow::Result<Command> {
    let directory = lab.directory(host)?;
    let mut command = lab.namespace(host)?.command(&options.binary);
    command.arg("--socket").arg(directory.join("moorlined.sock"));
    command.arg("--state-dir").arg(state_directory(lab, host)?);
    command.arg("--pin-dir").arg(lasting_bpffs(&directory)?.join("moorline"));
    Ok(command)
}

/// Where the daemon of a host has its configuration.
///
/// # Errors
/// There is no such host.
pub fn configuration(lab: &Lab, host: &str) -> anyhow::Result<PathBuf> {
    Ok(lab.directory(host)?.join("moorlined.toml"))
}

/// Where the daemon of a host keeps its keys and addresses.
///
/// # Errors
/// There is no such host.
pub fn state_directory(lab: &Lab, host: &str) -> anyhow::Result<PathBuf> {
    Ok(lab.directory(host)?.join("state"))
}

/// A BPF file system that outlives the daemon, as a host's /sys/fs/bpf does: a program in a namespace
/// has a /sys of its own that ends with it.
fn lasting_bpffs(directory: &Path) -> anyhow::Result<PathBuf> {
    let place = directory.join("bpf");
    if !place.exists() {
        fs::create_dir(&place).context("BPF file system")?;
        mount("bpf", &place, "bpf", MountFlags::empty(), None)
            .with_context(|| format!("mount a BPF file system at {}", place.display()))?;
    }
    Ok(place)
}

/// Reads the events of the daemon at `socket` until it ends.
fn follow(socket: PathBuf) -> anyhow::Result<Receiver<Event>> {
    let (to_owner, incoming) = mpsc::channel();
    let read = move || -> anyhow::Result<()> {
        let client = BlockingClient::new(Client::new(socket))?;
        for event in client.events(EventsQuery { since: Some(0), follow: None })? {
            if to_owner.send(event?).is_err() {
                break;
            }
        }
        Ok(())
    };
    Worker::start("moorlined events", move |_| {
        // The stream breaks when the daemon is killed: an end like any other here.
        let _ = read();
        Ok(())
    })?;
    Ok(incoming)
}

/// The last lines of a log.
fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

const TAIL_LINES: usize = 20;
const START_LIMIT: Duration = Duration::from_secs(10);
const STOP_LIMIT: Duration = Duration::from_secs(5);
