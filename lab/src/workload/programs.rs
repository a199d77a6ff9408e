//! curl and iperf3, unmodified, with the arrivals of their data.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::{Arrivals, Endpoint};
use crate::interrupt;
use crate::netns::Worker;
use crate::process::Process;

/// Running programs. Data in their output has reached an application.
#[derive(Debug)]
pub struct Programs<T> {
    processes: Vec<Process>,
    arrivals: Arrivals,
    reader: Worker<T>,
}

/// Result of ended programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended<T> {
    /// Whether all programs ended with status 0.
    pub success: bool,
    /// Octets that arrived, as precisely as the programs report them.
    pub bytes: u64,
    /// Value computed from the output.
    pub output: T,
    /// Standard error of all programs.
    pub messages: String,
}

/// A download with curl. The output is the SHA-256 of the received octets.
pub type Curl = Programs<[u8; 32]>;

/// An iperf3 client that sends, and its server. Arrivals are at the server.
pub type Iperf = Programs<()>;

impl<T> Programs<T> {
    /// The arrivals.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Whether all programs have ended.
    ///
    /// # Errors
    /// The system call failed.
    pub fn is_finished(&mut self) -> anyhow::Result<bool> {
        self.processes.iter_mut().try_fold(true, |all, one| Ok(all & one.poll()?.is_some()))
    }

    /// Ends programs that still run, and gives the result.
    ///
    /// # Errors
    /// The programs could not be ended, or their output could not be read.
    pub fn finish(mut self) -> anyhow::Result<Ended<T>> {
        let mut success = true;
        for process in &mut self.processes {
            success &= process.poll()?.is_some_and(|status| status.success());
            process.stop(Duration::from_secs(1))?;
        }
        let output = self.reader.join()?;
        let messages = self.processes.iter().map(Process::log).collect();
        Ok(Ended { success, bytes: self.arrivals.total(), output, messages })
    }
}

impl Curl {
    /// Starts a download of this URL.
    ///
    /// # Errors
    /// curl could not be started.
    pub fn start(from: &Endpoint, url: &str, directory: &Path) -> anyhow::Result<Self> {
        let mut command = from.namespace.command("curl");
        command
            .args(["--silent", "--show-error", "--fail", "--no-buffer", "--globoff", "--interface"])
            .args([&from.address.to_string(), url]);
        let arrivals = Arrivals::default();
        let noted = arrivals.clone();
        let read = move |mut output: ChildStdout| {
            let mut digest = Sha256::default();
            let mut buffer = vec![0; 64 * 1024];
            loop {
                match output.read(&mut buffer).context("read curl's output")? {
                    0 => return Ok(digest.finalize().into()),
                    count => {
                        noted.note(count as u64);
                        digest.update(&buffer[..count]);
                    }
                }
            }
        };
        let log = directory.join("curl.log");
        let (process, reader) = Process::start_read(&mut command, &log, read)?;
        Ok(Self { processes: vec![process], arrivals, reader })
    }
}

impl Iperf {
    /// Interval of arrivals: the shortest that iperf3 reports.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// Starts a server and a client that sends to it for `duration` at `rate` octets a second.
    ///
    /// # Errors
    /// iperf3 could not be started, or its server did not listen.
    pub fn start(
        from: &Endpoint,
        to: &Endpoint,
        duration: Duration,
        rate: u64,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        let arrivals = Arrivals::default();
        let noted = arrivals.clone();
        // The server reports every tenth of a second. `-f k` makes its numbers easy to parse.
        let mut command = iperf_server(to);
        command.args(["-i", "0.1", "-f", "k", "--forceflush"]);
        let read = move |output| {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let octets = lines.filter_map(|line| interval_bytes(&line));
            octets.filter(|octets| *octets > 0).for_each(|octets| noted.note(octets));
            Ok(())
        };
        let log = directory.join("iperf3-server.log");
        let (mut server, reader) = Process::start_read(&mut command, &log, read)?;
        await_listener(&mut server, to)?;
        let mut command = iperf_client([from, to], duration);
        command.args(["-C", "cubic", "-b", &(rate * 8).to_string()]).stdout(Stdio::null());
        let client = Process::start(&mut command, &directory.join("iperf3-client.log"))?;
        Ok(Self { processes: vec![client, server], arrivals, reader })
    }
}

/// The command of an iperf3 server for one client.
pub(super) fn iperf_server(at: &Endpoint) -> Command {
    let mut command = at.namespace.command("iperf3");
    command.args(["-s", "-1", "-B", &at.address.to_string()]);
    command
}

/// The command of an iperf3 client that sends for this time and reports once, at the end.
pub(super) fn iperf_client([from, to]: [&Endpoint; 2], duration: Duration) -> Command {
    let mut command = from.namespace.command("iperf3");
    command.args(["-i", "0", "-t", &duration.as_secs().max(1).to_string()]).args([
        "-c",
        &to.address.to_string(),
        "-B",
        &from.address.to_string(),
    ]);
    command
}

/// Waits until the server listens at its port.
pub(super) fn await_listener(server: &mut Process, at: &Endpoint) -> anyhow::Result<()> {
    interrupt::wait_for("the iperf3 server", Duration::from_secs(5), || {
        if let Some(status) = server.poll()? {
            anyhow::bail!("iperf3 server: {status}: {}", server.log());
        }
        let listening =
            at.namespace.enter(|| Ok(std::fs::read_to_string("/proc/thread-self/net/tcp6")?))?;
        Ok(listening.contains(":1451 00000000000000000000000000000000:0000 0A").then_some(()))
    })
}

/// Octets of a line such as `[  5]   0.10-0.20   sec   238 KBytes  19505 Kbits/sec`. `None` for any other line,
/// including the summary at the end.
fn interval_bytes(line: &str) -> Option<u64> {
    let rest = line.trim_start().strip_prefix('[')?.split_once(']')?.1;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [interval, "sec", _, _, rate, "Kbits/sec", tail @ ..] = words.as_slice() else {
        return None;
    };
    if tail.contains(&"receiver") || tail.contains(&"sender") {
        return None;
    }
    let (start, end) = interval.split_once('-')?;
    let seconds = end.parse::<f64>().ok()? - start.parse::<f64>().ok()?;
    let octets = rate.parse::<f64>().ok()? * 1000.0 / 8.0 * seconds;
    (0.0..1e15).contains(&octets).then(|| round(octets))
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the caller has checked the range"
)]
fn round(octets: f64) -> u64 {
    octets.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_and_the_summary_is_not() {
        let interval = "[  5]   0.10-0.20   sec  2.00 MBytes  160000 Kbits/sec                  ";
        assert_eq!(interval_bytes(interval), Some(2_000_000));
        let summary = "[  5]   0.00-4.00   sec  76.4 MBytes  160000 Kbits/sec           receiver";
        assert_eq!(interval_bytes(summary), None);
        let head = "[ ID] Interval           Transfer     Bitrate";
        assert_eq!(interval_bytes(head), None);
        assert_eq!(interval_bytes("-----------"), None);
    }
}
