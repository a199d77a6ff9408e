//! A download with curl, an unmodified program.

use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::{Arrivals, Endpoint};
use crate::process::Process;

/// A running curl. Its output is read through a pipe: what comes out of it has reached an application.
#[derive(Debug)]
pub struct Curl {
    process: Process,
    arrivals: Arrivals,
    reader: JoinHandle<std::io::Result<[u8; 32]>>,
}

/// What curl had to say in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// Whether curl ended with status 0.
    pub success: bool,
    /// Octets it put out.
    pub bytes: u64,
    /// SHA-256 of them.
    pub digest: [u8; 32],
    /// Its messages.
    pub messages: String,
}

impl Curl {
    /// Starts a download from this address.
    ///
    /// # Errors
    /// curl could not be started.
    pub fn start(from: &Endpoint, url: &str, directory: &Path) -> anyhow::Result<Self> {
        let mut command = from.namespace.command("curl");
        command
            .args(["--silent", "--show-error", "--fail", "--no-buffer", "--globoff", "--interface"])
            .args([&from.address.to_string(), url])
            .stdout(Stdio::piped());
        let mut process = Process::start(&mut command, &directory.join("curl.log"))?;
        let mut output = process.take_stdout().context("curl's output")?;
        let arrivals = Arrivals::default();
        let noted = arrivals.clone();
        let reader = thread::Builder::new()
            .name("curl output".into())
            .spawn(move || {
                let mut digest = Sha256::default();
                let mut buffer = vec![0; 64 * 1024];
                loop {
                    match output.read(&mut buffer)? {
                        0 => return Ok(digest.finalize().into()),
                        count => {
                            noted.note(count as u64);
                            digest.update(&buffer[..count]);
                        }
                    }
                }
            })
            .context("start a thread")?;
        Ok(Self { process, arrivals, reader })
    }

    /// The arrivals at curl's reader.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Whether it has ended.
    ///
    /// # Errors
    /// The system would not say.
    pub fn is_finished(&mut self) -> anyhow::Result<bool> {
        Ok(self.process.poll()?.is_some())
    }

    /// Ends it if it has not ended, and gives the result.
    ///
    /// # Errors
    /// It could not be ended.
    pub fn finish(mut self) -> anyhow::Result<Download> {
        let success = self.process.poll()?.is_some_and(|status| status.success());
        self.process.stop(std::time::Duration::from_secs(1))?;
        let read = self.reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Download {
            success,
            bytes: self.arrivals.total(),
            digest: read.context("read curl's output")?,
            messages: self.process.log(),
        })
    }
}
