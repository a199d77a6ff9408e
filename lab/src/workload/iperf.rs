//! iperf3, an unmodified program, as a stream.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;

use super::{Arrivals, Endpoint};
use crate::interrupt;
use crate::process::Process;

/// A running pair of iperf3, the client sending.
#[derive(Debug)]
pub struct Iperf {
    client: Process,
    server: Process,
    arrivals: Arrivals,
    readers: [JoinHandle<Vec<String>>; 2],
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IperfResult {
    /// Both ended with status 0.
    pub success: bool,
    /// Octets that the server had received, to the precision of its report.
    pub bytes: u64,
    /// What the client printed last.
    pub messages: String,
}

impl Iperf {
    /// Time between arrivals: the finest that iperf3 reports.
    pub const INTERVAL: Duration = Duration::from_millis(100);

    /// Starts a server and a client that sends to it for `duration` at `rate` octets a second.
    ///
    /// # Errors
    /// iperf3 could not be started or its server did not come up.
    pub fn start(
        from: &Endpoint,
        to: &Endpoint,
        duration: Duration,
        rate: u64,
        directory: &Path,
    ) -> anyhow::Result<Self> {
        // The server reports each tenth of a second; `-f k` makes its numbers easy to read.
        let mut command = to.namespace.command("iperf3");
        command.args(["-i", "0.1", "-f", "k", "--forceflush"]).stdout(Stdio::piped());
        let mut server = start_server(&mut command, to, directory)?;
        let arrivals = Arrivals::default();
        let server_output = read_lines(server.take_stdout(), Some(arrivals.clone()))?;

        let mut command = from.namespace.command("iperf3");
        command
            .args(["-C", "cubic", "-i", "0", "-c", &to.address.to_string()])
            .args(["-B", &from.address.to_string()])
            .args(["-t", &duration.as_secs().to_string(), "-b", &(rate * 8).to_string()])
            .stdout(Stdio::piped());
        let mut client = Process::start(&mut command, &directory.join("iperf3-client.log"))?;
        let client_output = read_lines(client.take_stdout(), None)?;
        Ok(Self { client, server, arrivals, readers: [client_output, server_output] })
    }

    /// The arrivals at the server, a tenth of a second each.
    #[must_use]
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// Whether both have ended.
    ///
    /// # Errors
    /// The system would not say.
    pub fn is_finished(&mut self) -> anyhow::Result<bool> {
        Ok(self.client.poll()?.is_some() && self.server.poll()?.is_some())
    }

    /// Ends what has not ended, and gives the result.
    ///
    /// # Errors
    /// It could not be ended.
    pub fn finish(mut self) -> anyhow::Result<IperfResult> {
        let mut success = true;
        for process in [&mut self.client, &mut self.server] {
            success &= process.poll()?.is_some_and(|status| status.success());
            process.stop(Duration::from_secs(1))?;
        }
        let mut printed = Vec::new();
        for reader in self.readers {
            printed.extend(reader.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        }
        let messages = format!("{}\n{}", printed.join("\n"), self.client.log());
        Ok(IperfResult { success, bytes: self.arrivals.total(), messages })
    }
}

/// A server for one client, that has come up.
pub(super) fn start_server(
    command: &mut Command,
    at: &Endpoint,
    directory: &Path,
) -> anyhow::Result<Process> {
    command.args(["-s", "-1", "-B", &at.address.to_string()]);
    let mut server = Process::start(command, &directory.join("iperf3-server.log"))?;
    await_listener(&mut server, at)?;
    Ok(server)
}

/// The server is up when its port is listened at.
fn await_listener(server: &mut Process, at: &Endpoint) -> anyhow::Result<()> {
    interrupt::wait_for("the iperf3 server", Duration::from_secs(5), || {
        if let Some(status) = server.poll()? {
            anyhow::bail!("iperf3 server: {status}: {}", server.log());
        }
        let listening =
            at.namespace.enter(|| Ok(std::fs::read_to_string("/proc/thread-self/net/tcp6")?))?;
        Ok(listening.contains(":1451 00000000000000000000000000000000:0000 0A").then_some(()))
    })
}

/// Reads a program's lines to the end; those with a rate are arrivals, the others are kept.
fn read_lines(
    output: Option<ChildStdout>,
    arrivals: Option<Arrivals>,
) -> anyhow::Result<JoinHandle<Vec<String>>> {
    let output = output.context("iperf3's output")?;
    thread::Builder::new()
        .name("iperf3 output".into())
        .spawn(move || {
            let mut kept = Vec::new();
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                match (&arrivals, interval_bytes(&line)) {
                    (Some(arrivals), Some(bytes)) if bytes > 0 => arrivals.note(bytes),
                    (Some(_), Some(_)) => {}
                    _ => kept.push(line),
                }
            }
            kept
        })
        .context("start a thread")
}

/// Octets of a line such as `[  5]   0.10-0.20   sec   238 KBytes  19505 Kbits/sec`; none for any
/// other line, the summary at the end included.
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
