//! A program that sends a request every 10 ms, a program that answers, and the gap between answers.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;

use crate::experiment::options::as_seconds;
use crate::interrupt::wait_for;
use crate::lab::Lab;
use crate::named::named;
use crate::netns::Namespace;
use crate::process::Process;

named! {
    /// Protocol of the program.
    pub enum Kind {
        /// A TCP connection.
        Tcp = "tcp",
        /// A connected UDP socket, and a server that is bound to its address.
        Udp = "udp",
        /// Like `Udp`, but the server is bound to all addresses and answers from the address and interface of the
        /// request (`IPV6_PKTINFO`).
        PacketInfo = "udp-pktinfo",
    }
}

/// Server and form of the requests.
#[derive(Clone, Debug)]
pub struct Question {
    /// Protocol.
    pub kind: Kind,
    /// Address of the server.
    pub server: Ipv6Addr,
    /// Octets of a request and of its answer.
    pub size: usize,
    /// Interface for `SO_BINDTODEVICE`.
    pub device: Option<&'static str>,
    /// Source address; `None` for the kernel's choice.
    pub source: Option<Ipv6Addr>,
}

/// A moment on the monotonic clock.
pub type Moment = Duration;

/// Both programs while they run.
#[derive(Debug)]
pub struct App {
    /// Protocol.
    pub kind: Kind,
    client: Process,
    server: Process,
    heard: Arc<Mutex<Heard>>,
}

/// Output of the client.
#[derive(Clone, Debug, Default)]
struct Heard {
    answers: Vec<Moment>,
    damaged: usize,
    ended: Option<String>,
}

/// Results of the client between two moments.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seen {
    /// Protocol.
    pub program: Kind,
    /// Longest time without an answer; `None` if answers did not come to the end, or were wrong.
    #[serde(rename = "gap_s", serialize_with = "as_seconds")]
    pub gap: Option<Duration>,
    /// Number of answers with other octets than the request.
    pub damaged: usize,
    /// Reason for the end of the connection, if it ended.
    pub ended: Option<String>,
}

impl App {
    /// Starts the server, then the client.
    ///
    /// # Errors
    /// `python3` is missing, or the server ended.
    pub fn start(lab: &Lab, from: &str, to: &str, question: &Question) -> anyhow::Result<Self> {
        let Question { kind, server: address, size, device, source } = question;
        let script = lab.root().join("app.py");
        fs::write(&script, SCRIPT).context("the program")?;
        let (word, port) = (kind.name(), kind.port());
        let mut serve = python(lab.namespace(to)?, &script);
        serve.args(["serve", word, &address.to_string(), port]);
        let log = |host: &str, what: &str| -> anyhow::Result<_> {
            Ok(lab.directory(host)?.join(format!("{what}-{word}.log")))
        };
        let (server, told) = listen(&mut serve, &log(to, "serve")?)?;
        wait_for("server", START_LIMIT, || Ok(locked(&told).answers.first().copied()))
            .with_context(|| server.log())?;
        let mut ask = python(lab.namespace(from)?, &script);
        let word = if *kind == Kind::Tcp { "tcp" } else { "udp" };
        ask.args(["ask", word, &address.to_string(), port, &size.to_string()]);
        ask.arg(device.unwrap_or_default());
        ask.args(source.map(|source| source.to_string()));
        let (client, heard) = listen(&mut ask, &log(from, "ask")?)?;
        Ok(Self { kind: *kind, client, server, heard })
    }

    /// Time of the last answer.
    #[must_use]
    pub fn last(&self) -> Option<Moment> {
        locked(&self.heard).answers.last().copied()
    }

    /// Time of the first answer after a moment.
    #[must_use]
    pub fn first_after(&self, moment: Moment) -> Option<Moment> {
        locked(&self.heard).answers.iter().find(|answer| **answer > moment).copied()
    }

    /// Results of the client from one moment to another.
    #[must_use]
    pub fn seen(&self, from: Moment, to: Moment) -> Seen {
        locked(&self.heard).between(self.kind, from, to)
    }

    /// Error output of the two programs.
    #[must_use]
    pub fn complaints(&self) -> String {
        format!("{}{}", self.client.log(), self.server.log())
    }
}

impl Kind {
    fn port(self) -> &'static str {
        match self {
            Self::Tcp => TCP_PORT,
            Self::Udp | Self::PacketInfo => "7001",
        }
    }
}

/// Whether a new connection to a running server can be made and gets an answer.
///
/// # Errors
/// `python3` is missing.
pub fn connects(lab: &Lab, from: &str, server: Ipv6Addr) -> anyhow::Result<bool> {
    let mut once = python(lab.namespace(from)?, &lab.root().join("app.py"));
    once.args(["once", &server.to_string(), TCP_PORT]).stdin(Stdio::null()).stderr(Stdio::null());
    Ok(once.output().context("python3")?.stdout.starts_with(b"ok"))
}

fn python(host: &Namespace, script: &Path) -> Command {
    let mut command = host.command("python3");
    command.arg("-B").arg(script);
    command
}

/// Starts a program, and parses its output.
fn listen(command: &mut Command, log: &Path) -> anyhow::Result<(Process, Arc<Mutex<Heard>>)> {
    let heard = Arc::new(Mutex::new(Heard::default()));
    let noted = Arc::clone(&heard);
    let note = move |output| {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.for_each(|line| locked(&noted).note(&line));
        Ok(())
    };
    let (process, _) = Process::start_read(command, log, note)?;
    Ok((process, heard))
}

fn locked(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Heard {
    fn between(&self, program: Kind, from: Moment, to: Moment) -> Seen {
        let before = self.answers.iter().rev().find(|answer| **answer <= from);
        let within = self.answers.iter().filter(|answer| (from..=to).contains(*answer));
        let (mut last, mut gap) = (*before.unwrap_or(&from), Duration::ZERO);
        for answer in within.copied().chain([to]) {
            gap = gap.max(answer.saturating_sub(last));
            last = last.max(answer);
        }
        let latest = self.answers.iter().rev().find(|answer| **answer <= to);
        let is_alive = latest.is_some_and(|latest| to.saturating_sub(*latest) < ALIVE);
        let gap = (is_alive && self.damaged == 0).then_some(gap);
        Seen { program, gap, damaged: self.damaged, ended: self.ended.clone() }
    }

    fn note(&mut self, line: &str) {
        match (line.parse(), line.strip_prefix("ended ")) {
            (Ok(nanos), _) => self.answers.push(Duration::from_nanos(nanos)),
            (_, Some(reason)) => self.ended = Some(reason.to_owned()),
            (Err(_), None) if line == "ready" => self.answers.push(Duration::ZERO),
            (Err(_), None) => self.damaged += 1,
        }
    }
}

const SCRIPT: &str = include_str!("app.py");
const TCP_PORT: &str = "7000";
const START_LIMIT: Duration = Duration::from_secs(20);
/// Age of the last answer up to which answers count as still coming.
const ALIVE: Duration = Duration::from_millis(700);

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(answers: &[u64], from: u64, to: u64) -> Option<Duration> {
        let ms = Duration::from_millis;
        let mut heard = Heard::default();
        answers.iter().for_each(|at| heard.note(&ms(*at).as_nanos().to_string()));
        heard.between(Kind::Tcp, ms(from), ms(to)).gap
    }

    #[test]
    fn a_gap_begins_with_the_last_answer_before_and_is_none_if_no_answer_comes() {
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(gap(&[100, 200, 300], 250, 400), ms(100));
        assert_eq!(gap(&[100, 200, 2000, 2100], 250, 2200), ms(1800));
        assert_eq!(gap(&[100, 200, 1000], 250, 1600), ms(800));
        assert_eq!(gap(&[100, 200], 250, 2200), None);
        assert_eq!(gap(&[], 250, 2250), None);
    }

    #[test]
    fn what_is_no_time_is_an_end_or_damage() {
        let mut heard = Heard::default();
        ["17", "ended ETIMEDOUT", "damaged"].iter().for_each(|line| heard.note(line));
        assert_eq!((heard.answers.len(), heard.damaged), (1, 1));
        assert_eq!(heard.between(Kind::Udp, Duration::ZERO, Duration::from_nanos(20)).gap, None);
        assert_eq!(heard.ended.as_deref(), Some("ETIMEDOUT"));
    }
}
