//! Traffic of ILNPv6 correspondents, one with a fixed source and many made-up ones. The traffic goes into the network
//! of a lab only.

use std::net::Ipv6Addr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use clap::builder::TypedValueParser as _;
use moorline_types::{Ilv, Nid, Nonce};
use serde::Serialize;

use crate::experiment::{Watch, options};
use crate::hop::Hop;
use crate::lab::Lab;
use crate::netns::{NETNS_DIR, Namespace};
use crate::topology::{HOSTS, SHARED_LINK, shared_address, shared_link};
use crate::workload::ilnp::{Datagram, made_up, rates_of_rank};
use crate::workload::{Generator, Stream};
use crate::{interrupt, preflight, sweep};

/// What to send, where to and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(about = None, long_about = None)]
pub struct Load {
    /// The rates of the study's test of this rank, 0 to 10, or beyond along the same line.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rank: u8,
    /// Datagrams of made-up correspondents a second, instead of the rank's; `max` for as many as go.
    #[arg(long, value_name = "N|max")]
    pub rate: Option<Rate>,
    /// Echo requests a second from the fixed source, instead of the rank's.
    #[arg(long, value_name = "N")]
    pub echo: Option<u64>,
    /// Threads for `--rate max`.
    // Each thread has identifiers of its own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: u8,
    /// Seconds.
    #[arg(long = "seconds", value_name = "N", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600).map(Duration::from_secs))]
    pub length: Duration,
    /// What the made-up identifiers come from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// UDP port that all is sent to.
    #[arg(long, value_name = "PORT", default_value_t = ECHO_PORT)]
    pub port: u16,
    /// Namespace of a lab that runs, such as moor-1234-a.
    // Without a namespace, the lab makes a network of two hosts.
    #[arg(long, value_name = "NAMESPACE", requires = "to")]
    pub from: Option<String>,
    /// Whom to send to from there.
    #[arg(long, value_name = "ADDRESS", requires = "from")]
    pub to: Option<Ipv6Addr>,
}

/// A rate of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Datagrams a second.
    PerSecond(u64),
    /// As many datagrams as the threads can send.
    Line,
}

impl Rate {
    const fn per_second(self) -> Option<u64> {
        match self {
            Self::PerSecond(rate) => Some(rate),
            Self::Line => None,
        }
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Line);
        }
        let wrong = |_| format!("{text} is no rate: a number of datagrams a second, or max");
        text.parse().map(Self::PerSecond).map_err(wrong)
    }
}

impl Load {
    /// The load of the study's test of this rank.
    #[must_use]
    pub fn of_rank(rank: u8, length: Duration) -> Self {
        Self { rank, length, ..options::defaults() }
    }

    fn echo(&self) -> u64 {
        self.echo.unwrap_or(rates_of_rank(self.rank).0)
    }

    fn made_up(&self) -> Rate {
        self.rate.unwrap_or(Rate::PerSecond(rates_of_rank(self.rank).1))
    }

    /// Sends the traffic and gives its counts.
    ///
    /// # Errors
    /// The target is no lab, the traffic could not be sent, or a signal came.
    pub fn run(&self, watch: &mut dyn Watch) -> anyhow::Result<Sent> {
        ensure!(!self.length.is_zero() && self.length <= LONGEST, "between a moment and an hour");
        let obstacles = preflight::check(&[]);
        ensure!(obstacles.is_empty(), "no network to send into: {}", obstacles.join("; "));
        interrupt::install()?;
        let (Some(from), Some(to)) = (&self.from, self.to) else {
            watch.stage("network of two hosts");
            let lab = Lab::build(shared_link(1))?;
            let [from, to] = HOSTS.map(|host| lab.namespace(host));
            let (from, to) = (from?, to?);
            let hop = Hop::across((from, SHARED_LINK), (to, SHARED_LINK))?;
            let before = received(to)?;
            let [source, victim] = HOSTS.map(|host| shared_address(host, 0));
            let sent = self.send(from, hop, [source, victim], watch)?;
            return Ok(Sent { received: Some(received(to)?.saturating_sub(before)), ..sent });
        };
        let from = lab_namespace(from)?;
        let (hop, source) = Hop::towards(&from, to)?;
        self.send(&from, hop, [source, to], watch)
    }

    fn send(
        &self,
        from: &Namespace,
        hop: Hop,
        [source, to]: [Ipv6Addr; 2],
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Sent> {
        let interface = hop.interface.clone();
        watch.stage(&format!("{} by {interface} to {to}", from.name()));
        let begin = Instant::now();
        let streams = self.streams(neighbour(source), to, &hop, NONCE);
        let generator = Generator::start(from, &interface, streams, self.length)?;
        while !generator.is_finished() {
            interrupt::check()?;
            thread::sleep(interrupt::TICK);
            watch.done((begin.elapsed().as_secs_f64() / self.length.as_secs_f64()).min(1.0));
        }
        let seconds = begin.elapsed().as_secs_f64();
        let counts = self.counts(&generator.finish()?);
        Ok(Sent {
            namespace: from.name().to_owned(),
            interface,
            to,
            seconds,
            echo_requests: counts.echo,
            made_up: counts.made_up,
            per_second: counts.all() as f64 / seconds,
            octets: counts.all() * FRAME_OCTETS,
            received: None,
        })
    }

    /// The streams of the load. If there are echo requests, their stream is the first. Without a nonce, the datagrams
    /// are classic IPv6.
    #[must_use]
    pub fn streams(
        &self,
        source: Ilv,
        to: Ipv6Addr,
        hop: &Hop,
        nonce: Option<Nonce>,
    ) -> Vec<Stream> {
        let (hop, ports) = (hop.clone(), (SOURCE_PORT, self.port));
        let datagram = Datagram { hop, source, destination: Ilv::of(to), ports, nonce };
        let mut streams = Vec::new();
        if self.echo() > 0 {
            let (frame, rate) = (datagram.frame(), Some(self.echo()));
            streams.push(Stream { frame, vary: Box::new(|_| ()), rate });
        }
        let threads = match self.made_up() {
            Rate::PerSecond(rate) => u8::from(rate > 0),
            Rate::Line => self.threads,
        };
        streams.extend((0..threads).map(|thread| {
            let (frame, vary) = made_up(datagram.clone(), self.seed ^ u64::from(thread) << 56);
            Stream { frame, vary, rate: self.made_up().per_second() }
        }));
        streams
    }

    /// Sorts the counts of the streams by kind of source.
    pub(crate) fn counts(&self, sent: &[u64]) -> Counts {
        let (echo, made_up) = sent.split_at(usize::from(self.echo() > 0).min(sent.len()));
        Counts { echo: echo.iter().sum(), made_up: made_up.iter().sum() }
    }
}

/// Counts of sent packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Packets of the fixed source.
    pub(crate) echo: u64,
    /// Packets of made-up sources.
    pub(crate) made_up: u64,
}

impl Counts {
    pub(crate) const fn all(&self) -> u64 {
        self.echo + self.made_up
    }
}

/// Report of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sent {
    /// Namespace of the sender.
    pub namespace: String,
    /// Interface of the sender.
    pub interface: String,
    /// Destination.
    pub to: Ipv6Addr,
    /// Length of the run in seconds.
    pub seconds: f64,
    /// Packets of the fixed source.
    pub echo_requests: u64,
    /// Packets of made-up sources.
    pub made_up: u64,
    /// Packets of both kinds a second.
    pub per_second: f64,
    /// Octets of all frames.
    pub octets: u64,
    /// Packets that the other end received. `None` unless the lab made the network for this load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
}

/// An identifier that no host has, with the locator of the link: a filter at the next router lets such a source pass.
fn neighbour(of: Ipv6Addr) -> Ilv {
    let of = Ilv::of(of);
    Ilv::new(of.l64, Nid(of.nid.0 ^ 0xfeed))
}

/// Gives the namespace of this name if it is one of a running lab.
///
/// # Errors
/// The name is no namespace of a running lab, or it is the machine's own namespace.
pub fn lab_namespace(name: &str) -> anyhow::Result<Namespace> {
    let living = sweep::living()?;
    if !living.iter().any(|one| one == name) {
        let there = if living.is_empty() { "none".into() } else { living.join(", ") };
        bail!(
            "{name} is no namespace of a lab that runs, and load goes nowhere else; there is {there}"
        );
    }
    let id = |path: &Path| {
        let file = fs::metadata(path).with_context(|| path.display().to_string())?;
        anyhow::Ok((file.dev(), file.ino()))
    };
    let own = id(&Path::new(NETNS_DIR).join(name))?;
    for path in [OWN, FIRST] {
        if id(Path::new(path)).is_ok_and(|id| id == own) {
            bail!("{name} is the network of this machine: load goes into labs alone");
        }
    }
    Ok(Namespace::named(name))
}

/// Number of packets that an interface has received.
fn received(namespace: &Namespace) -> anyhow::Result<u64> {
    let links = namespace.ip_json(&["-s", "link", "show", "dev", SHARED_LINK])?;
    let packets = links.first().and_then(|link| link["stats64"]["rx"]["packets"].as_u64());
    packets.context("an interface without counters")
}

/// The nonce of all correspondents, except made-up ones.
pub const NONCE: Option<Nonce> = Some(Nonce::Short(*b"ILNP"));
/// The echo port (RFC 862).
pub const ECHO_PORT: u16 = 7;
const SOURCE_PORT: u16 = 40_000;
/// Octets of a frame: the Ethernet header and the 76 octets of the study.
const FRAME_OCTETS: u64 = 90;
const LONGEST: Duration = Duration::from_secs(3600);
const OWN: &str = "/proc/self/ns/net";
const FIRST: &str = "/proc/1/ns/net";
