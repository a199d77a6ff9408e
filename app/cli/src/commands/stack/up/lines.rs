//! Lines on standard output. A reader that does not read holds up a thread, and not the host.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

use anyhow::bail;

/// The writing end of standard output.
pub(super) struct Lines {
    queue: SyncSender<String>,
    /// Closed when the thread has written everything, or can write nothing any more.
    ended: Receiver<()>,
    /// Number of lines since the last one that found room.
    left_out: u64,
}

impl Lines {
    pub(super) fn start() -> io::Result<Self> {
        let (queue, lines) = mpsc::sync_channel::<String>(MAX_WAITING);
        let (end, ended) = mpsc::channel();
        // Not by the lock of standard output, which the main thread has.
        let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        thread::Builder::new().name("output".into()).spawn(move || {
            let _end: mpsc::Sender<()> = end;
            // The host learns of an error with its next line.
            lines.into_iter().try_for_each(|line| out.write_all(format!("{line}\n").as_bytes()))
        })?;
        Ok(Self { queue, ended, left_out: 0 })
    }

    /// Writes a line, or leaves it out if too many wait.
    ///
    /// # Errors
    /// Standard output is closed.
    pub(super) fn say(&mut self, line: String) -> anyhow::Result<()> {
        if self.left_out > 0 && self.queue_up(format!("{} lines are left out", self.left_out))? {
            self.left_out = 0;
        }
        if self.left_out > 0 || !self.queue_up(line)? {
            self.left_out += 1;
        }
        Ok(())
    }

    /// Returns false if there is no room.
    fn queue_up(&self, line: String) -> anyhow::Result<bool> {
        match self.queue.try_send(line) {
            Ok(()) => Ok(true),
            Err(TrySendError::Full(_)) => Ok(false),
            Err(TrySendError::Disconnected(_)) => bail!("standard output is closed"),
        }
    }

    /// Waits until all lines are written, but not long.
    pub(super) fn finish(self) {
        let Self { queue, ended, .. } = self;
        drop(queue);
        let _ = ended.recv_timeout(PATIENCE);
    }
}

/// Number of lines that wait for a reader.
const MAX_WAITING: usize = 1024;
/// Time for a reader that is behind when the host ends.
const PATIENCE: Duration = Duration::from_secs(1);
