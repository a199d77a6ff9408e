//! A network namespace by name, and ways to run things in it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::processors;

/// A handle on a named network namespace. [`crate::Lab`] makes and removes namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A handle on the namespace of this name.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// The name of the namespace, as `ip netns` shows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs inside the namespace, with its own /sys (`ip netns exec`).
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs `work` on a new thread inside the namespace and gives its result. A socket that `work` makes stays in the
    /// namespace, whichever thread uses it.
    ///
    /// # Errors
    /// The namespace could not be entered, or `work` failed.
    pub fn enter<T: Send>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        thread::scope(|scope| {
            let thread = scope.spawn(|| self.move_thread_into().and_then(|()| work()));
            join(thread.join())
        })
        .with_context(|| format!("in namespace {}", self.name))
    }

    /// Like [`Namespace::enter`], but does not wait. The work ends by itself or by [`Worker::stop`].
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn work<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce(&AtomicBool) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<Worker<T>> {
        let namespace = self.clone();
        Worker::start(what, move |stop| namespace.move_thread_into().and_then(|()| work(stop)))
    }

    /// Sets a value under `net.*` by its path below /proc/sys/net, such as `ipv6/conf/all/forwarding`.
    ///
    /// # Errors
    /// This kernel has no such setting.
    pub fn sysctl(&self, path: &str, value: &str) -> anyhow::Result<()> {
        let file = PathBuf::from("/proc/sys/net").join(path);
        self.enter(|| fs::write(&file, value).with_context(|| format!("write {}", file.display())))
    }

    /// Sets values under `net.ipv6.conf`, for present and future interfaces.
    ///
    /// # Errors
    /// This kernel has no such setting.
    pub fn configure_ipv6(&self, settings: &[(&str, &str)]) -> anyhow::Result<()> {
        for (key, value) in settings {
            for scope in ["all", "default"] {
                self.sysctl(&format!("ipv6/conf/{scope}/{key}"), value)?;
            }
        }
        Ok(())
    }

    /// Runs `ip` with these arguments inside the namespace and gives its standard output.
    ///
    /// # Errors
    /// `ip` failed.
    pub fn ip(&self, arguments: &[&str]) -> anyhow::Result<String> {
        output(Command::new("ip").args(["-n", &self.name]).args(arguments))
    }

    /// Runs `ip -j` with these arguments inside the namespace and gives the parsed JSON.
    pub(crate) fn ip_json(&self, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
        let text = output(Command::new("ip").args(["-n", &self.name, "-j"]).args(arguments))?;
        serde_json::from_str(&text).context("what ip printed")
    }

    /// Runs lines of `ip` commands inside the namespace, in one process.
    ///
    /// # Errors
    /// `ip` refused a line. The error quotes its message.
    pub fn ip_batch(&self, lines: &str) -> anyhow::Result<()> {
        self.waiting_ip()?.feed(lines)
    }

    /// Applies an nftables script inside the namespace, as one transaction.
    ///
    /// # Errors
    /// `nft` refused the script. The error quotes its message.
    pub fn nft(&self, script: &str) -> anyhow::Result<()> {
        self.waiting_nft()?.feed(script)
    }

    /// Starts `ip` inside the namespace. The process waits for its lines.
    pub(crate) fn waiting_ip(&self) -> anyhow::Result<Waiting> {
        Waiting::start(Command::new("ip").args(["-n", &self.name, "-batch", "-"]))
    }

    /// Starts `nft` inside the namespace. The process waits for its script.
    pub(crate) fn waiting_nft(&self) -> anyhow::Result<Waiting> {
        Waiting::start(self.command("nft").args(["-f", "-"]))
    }

    /// Switches off offloads of an interface: [`SEGMENTATION`] or [`ALL_OFFLOADS`]. The kernel then does their work.
    ///
    /// # Errors
    /// `ethtool` failed.
    pub fn switch_off(&self, interface: &str, offloads: &[&str]) -> anyhow::Result<()> {
        let off = offloads.iter().flat_map(|offload| [offload, "off"]);
        output(self.command("ethtool").args(["-K", interface]).args(off)).map(drop)
    }

    /// Makes one processor receive all packets that come to an interface.
    ///
    /// # Errors
    /// The kernel lacks `CONFIG_RPS`, or there is no such interface.
    pub fn receive_on(&self, interface: &str, processor: usize) -> anyhow::Result<()> {
        let file = format!("/sys/class/net/{interface}/queues/rx-0/rps_cpus");
        feed(self.command("tee").arg(file), &processors::mask(processor))
    }

    fn move_thread_into(&self) -> anyhow::Result<()> {
        let path = PathBuf::from(NETNS_DIR).join(&self.name);
        let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .with_context(|| format!("enter {}", path.display()))
    }
}

/// Offloads for segmentation. Without them the kernel segments before the interface gets the packet, and merges no
/// packets on receipt.
pub const SEGMENTATION: [&str; 4] = ["tso", "gso", "gro", "tx-udp-segmentation"];
/// All offloads. Without them the kernel also computes and verifies checksums, and copies each packet into one buffer.
pub const ALL_OFFLOADS: [&str; 7] = ["tso", "gso", "gro", "tx-udp-segmentation", "tx", "rx", "sg"];

/// A running thread, mostly in a namespace. Dropping the `Worker` tells the thread to stop.
#[derive(Debug)]
pub struct Worker<T> {
    stop: Stop,
    handle: JoinHandle<anyhow::Result<T>>,
    what: String,
}

impl<T: Send + 'static> Worker<T> {
    /// Starts a worker in the namespace of the caller.
    pub(crate) fn start(
        what: &str,
        work: impl FnOnce(&AtomicBool) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<Self> {
        let (stop, what) = (Stop::default(), what.to_owned());
        let told = Arc::clone(&stop.0);
        let handle = thread::Builder::new().name(what.clone()).spawn(move || work(&told));
        Ok(Self { stop, handle: handle.with_context(|| format!("start thread {what}"))?, what })
    }
}

impl<T> Worker<T> {
    /// Whether the work is over, so that [`Worker::join`] would return at once.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Tells the work to stop.
    pub fn stop(&self) {
        self.stop.0.store(true, Ordering::Relaxed);
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// The work failed.
    pub fn join(self) -> anyhow::Result<T> {
        join(self.handle.join()).context(self.what)
    }

    /// Tells the work to stop and waits for its result.
    ///
    /// # Errors
    /// The work failed.
    pub fn finish(self) -> anyhow::Result<T> {
        self.stop();
        self.join()
    }
}

#[derive(Debug, Default)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a command to its end and gives its standard output.
///
/// # Errors
/// The command could not be started, or it failed. The error quotes its standard error.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| describe(command))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}: {}: {}", describe(command), output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command to its end with this standard input.
///
/// # Errors
/// The same errors as [`output`].
pub fn feed(command: &mut Command, input: &str) -> anyhow::Result<()> {
    Waiting::start(command)?.feed(input)
}

/// A program that has been started and waits for its standard input.
#[derive(Debug)]
pub(crate) struct Waiting {
    child: Child,
    what: String,
}

impl Waiting {
    fn start(command: &mut Command) -> anyhow::Result<Self> {
        let what = describe(command);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(Self { child: command.spawn().with_context(|| what.clone())?, what })
    }

    /// Writes the whole input to the program and waits for its end.
    pub(crate) fn feed(mut self, input: &str) -> anyhow::Result<()> {
        if let Some(mut stdin) = self.child.stdin.take() {
            // If the command has failed early, the pipe is closed. Its exit status says more than the error of the
            // write.
            let _ = stdin.write_all(input.as_bytes());
        }
        let mut said = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            stderr.read_to_string(&mut said).with_context(|| self.what.clone())?;
        }
        let status = self.child.wait().with_context(|| self.what.clone())?;
        ensure!(status.success(), "{}: {status}: {}", self.what, said.trim());
        Ok(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // The program ends when its standard input ends.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// The nftables script of a table with one chain. `hook` gives type, hook and priority, such as `filter hook forward
/// priority 0`.
pub(crate) fn chain(table: &str, hook: &str, rules: impl IntoIterator<Item = String>) -> String {
    let rules: Vec<_> = rules.into_iter().collect();
    format!("table {table} {{\n chain only {{\n  type {hook};\n  {}\n }}\n}}\n", rules.join("\n  "))
}

fn describe(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

pub(crate) fn join<T>(result: thread::Result<anyhow::Result<T>>) -> anyhow::Result<T> {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The directory in which `ip netns` keeps the names of namespaces.
pub(crate) const NETNS_DIR: &str = "/run/netns";
