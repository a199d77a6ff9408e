//! A real `moorlined` on a host.

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

/// A running daemon and a client of its control socket. Dropping the `Daemon` stops the daemon in order.
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

/// Options for the start of a daemon.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// Path of the program.
    pub binary: PathBuf,
    /// Send Timeout (RFC 5534 s7).
    pub send_timeout: Duration,
    /// More lines of the configuration file.
    pub settings: String,
    /// A log filter instead of the daemon's default, such as `debug`.
    pub log: Option<&'static str>,
}

impl DaemonOptions {
    /// Options with these lines in the configuration file. [`preflight::find_daemon`] finds the program.
    ///
    /// # Errors
    /// The program was not found.
    pub fn new(send_timeout: Duration, settings: impl Into<String>) -> anyhow::Result<Self> {
        let binary = preflight::find_daemon().context(
            "moorlined is neither next to this program nor on PATH: `make build` makes it",
        )?;
        Ok(Self { binary, send_timeout, settings: settings.into(), log: None })
    }
}

/// Starts the daemons of both hosts of a pair at the same time, because each needs a moment to make its addresses.
///
/// # Errors
/// The same errors as [`Daemon::start`].
pub fn start_both(lab: &Lab, options: [&DaemonOptions; 2]) -> anyhow::Result<Vec<Daemon>> {
    thread::scope(|scope| {
        let start = |host| scope.spawn(move || Daemon::start(lab, HOSTS[host], options[host]));
        [0, 1].map(start).into_iter().map(|daemon| join(daemon.join())).collect()
    })
}

impl Daemon {
    /// Starts the daemon of a host and waits until it answers. After [`Daemon::kill`], a new start takes over the same
    /// state directory.
    ///
    /// # Errors
    /// The daemon ended or did not answer. The error quotes its log.
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

    /// Undoes the changes that a killed daemon left on a host, as `moorline down` does.
    ///
    /// # Errors
    /// The daemon could not undo everything. The error quotes its message.
    pub fn reset(lab: &Lab, host: &str, options: &DaemonOptions) -> anyhow::Result<()> {
        let mut command = command(lab, host, options)?;
        command.arg("--reset").arg("--config").arg(configuration(lab, host)?);
        output(&mut command).map(drop).with_context(|| format!("reset of {host}"))
    }

    /// Events since the start of the daemon, as far as they have arrived.
    pub fn events(&mut self) -> &[Event] {
        self.events.extend(self.incoming.try_iter());
        &self.events
    }

    /// Waits for the first event of this kind.
    ///
    /// # Errors
    /// No such event came within `limit`.
    pub fn wait_for(&mut self, kind: &EventKind, limit: Duration) -> anyhow::Result<Event> {
        interrupt::wait_for(&format!("event {kind}"), limit, || {
            Ok(self.events().iter().find(|event| event.kind == *kind).cloned())
        })
        .with_context(|| format!("log of moorlined:\n{}", self.tail()))
    }

    /// Waits for the verifiable address (HBA or CGA) of an uplink that the daemon announces to peers, and gives it.
    ///
    /// # Errors
    /// The daemon made no such address in time.
    pub fn verifiable_address(&self, uplink: &str) -> anyhow::Result<Ipv6Addr> {
        interrupt::wait_for("a provable address", START_LIMIT, || {
            let status = self.status()?;
            let uplinks = status.uplinks.iter().filter(|candidate| candidate.name == uplink);
            let mut locators = uplinks.flat_map(|uplink| &uplink.locators);
            Ok(locators.find(|l| l.proof != Proof::None && l.announced).map(|l| l.address))
        })
        .with_context(|| format!("uplink {uplink}; log of moorlined:\n{}", self.tail()))
    }

    /// The log of the daemon.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// The last lines of the log.
    #[must_use]
    pub fn tail(&self) -> String {
        tail(&self.log())
    }

    /// The process id of the daemon.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Kills the daemon with SIGKILL.
    ///
    /// # Errors
    /// The daemon could not be signalled.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.process.kill()
    }

    /// Ends the daemon with SIGTERM and waits until it has left its state to the next daemon.
    ///
    /// # Errors
    /// The daemon failed, or did not end in time.
    pub fn hand_over(mut self) -> anyhow::Result<()> {
        let status = self.process.end_by(Signal::TERM, STOP_LIMIT)?;
        let is_done = status.is_some_and(|status| status.success());
        ensure!(is_done, "handing over: {status:?}: {}", self.tail());
        Ok(())
    }

    /// Asks the daemon over the control socket to restore the host and to end, as `moorline down` does. Waits for the
    /// end.
    ///
    /// # Errors
    /// The daemon did not answer, could not restore everything, or did not end in time.
    pub fn down(mut self) -> anyhow::Result<()> {
        self.client.down().context("down")?;
        let status =
            interrupt::wait_for("the end of moorlined", STOP_LIMIT, || self.process.poll())?;
        ensure!(status.success(), "down: {status}: {}", self.tail());
        Ok(())
    }

    /// Ends the daemon with SIGINT and waits until it has restored the host. If the end takes too long, kills the daemon.
    ///
    /// # Errors
    /// The daemon could not be signalled.
    pub fn stop(mut self) -> anyhow::Result<()> {
        match self.process.end_by(Signal::INT, STOP_LIMIT)? {
            Some(_) => Ok(()),
            None => self.process.kill(),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // If the daemon has ended already, `end_by` sends no signal. If the daemon does not end, the drop of its
        // process kills it.
        let _ = self.process.end_by(Signal::INT, STOP_LIMIT);
    }
}

/// Whether the daemon calls a context protected.
pub(crate) fn is_protected(context: &Context) -> bool {
    context.readiness.as_ref().is_some_and(|one| one.state == ReadinessState::Protected)
}

/// The command of the daemon in the namespace of a host, with the directories of this host.
fn command(lab: &Lab, host: &str, options: &DaemonOptions) -> anyhow::Result<Command> {
    let directory = lab.directory(host)?;
    let mut command = lab.namespace(host)?.command(&options.binary);
    command.arg("--socket").arg(directory.join("moorlined.sock"));
    command.arg("--state-dir").arg(state_directory(lab, host)?);
    command.arg("--pin-dir").arg(lasting_bpffs(&directory)?.join("moorline"));
    Ok(command)
}

/// Path of the configuration file of a host's daemon.
///
/// # Errors
/// The directory of the host could not be made.
pub fn configuration(lab: &Lab, host: &str) -> anyhow::Result<PathBuf> {
    Ok(lab.directory(host)?.join("moorlined.toml"))
}

/// Directory in which the daemon of a host keeps its keys and addresses.
///
/// # Errors
/// The directory of the host could not be made.
pub fn state_directory(lab: &Lab, host: &str) -> anyhow::Result<PathBuf> {
    Ok(lab.directory(host)?.join("state"))
}

/// A BPF file system that outlives the daemon, as /sys/fs/bpf of a host does. A program in a namespace has its own
/// /sys, which ends with the program.
fn lasting_bpffs(directory: &Path) -> anyhow::Result<PathBuf> {
    let place = directory.join("bpf");
    if !place.exists() {
        fs::create_dir(&place).context("BPF file system")?;
        mount("bpf", &place, "bpf", MountFlags::empty(), None)
            .with_context(|| format!("mount a BPF file system at {}", place.display()))?;
    }
    Ok(place)
}

/// Reads the events of the daemon at `socket` until the daemon ends.
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
        // If the daemon is killed, the stream breaks. Here that is a normal end.
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
/// Generous, because the machine may be busy.
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(5);
