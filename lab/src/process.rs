//! Programs that run in a lab.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::netns::Worker;

/// A running program. Dropping the `Process` stops the program: SIGTERM, then SIGKILL.
#[derive(Debug)]
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command with its standard error in the file `log`. Ctrl-C at the terminal does not reach the program,
    /// because the lab decides the order of the ends.
    ///
    /// # Errors
    /// The command could not be started.
    pub fn start(command: &mut Command, log: &Path) -> anyhow::Result<Self> {
        let file = File::create(log).with_context(|| log.display().to_string())?;
        let child = command
            .stdin(Stdio::null())
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        Ok(Self { child, log: log.to_owned() })
    }

    /// The process id of the program.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Like [`Process::start`], with a thread that reads the standard output to its end.
    ///
    /// # Errors
    /// The command could not be started.
    pub fn start_read<T: Send + 'static>(
        command: &mut Command,
        log: &Path,
        read: impl FnOnce(ChildStdout) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<(Self, Worker<T>)> {
        let mut process = Self::start(command.stdout(Stdio::piped()), log)?;
        let output = process.child.stdout.take().context("output of a program")?;
        Ok((process, Worker::start("output of a program", move |_| read(output))?))
    }

    /// The exit status of the program. `None` while it runs.
    ///
    /// # Errors
    /// The system call failed.
    pub fn poll(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().context("wait for a program")
    }

    /// The standard error of the program so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills the program with SIGKILL.
    ///
    /// # Errors
    /// The program could not be signalled.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("kill a program")?;
        self.child.wait().context("wait for a killed program")?;
        Ok(())
    }

    /// Ends the program with SIGTERM, and with SIGKILL if it still runs after `patience`.
    ///
    /// # Errors
    /// The program could not be signalled.
    pub fn stop(&mut self, patience: Duration) -> anyhow::Result<()> {
        match self.end_by(Signal::TERM, patience)? {
            Some(_) => Ok(()),
            None => self.kill(),
        }
    }

    /// Sends a signal and waits for the end of the program. `None` if the program still runs after `patience`.
    ///
    /// # Errors
    /// The program could not be signalled.
    pub fn end_by(
        &mut self,
        signal: Signal,
        patience: Duration,
    ) -> anyhow::Result<Option<ExitStatus>> {
        if let Some(status) = self.poll()? {
            return Ok(Some(status));
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("process id")?, signal).context("signal a program")?;
        let end = Instant::now() + patience;
        while Instant::now() < end {
            if let Some(status) = self.poll()? {
                return Ok(Some(status));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(None)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A drop has no caller to tell. The guardian ends a program that could not be ended here.
        let _ = self.stop(PATIENCE);
    }
}

const PATIENCE: Duration = Duration::from_secs(3);
