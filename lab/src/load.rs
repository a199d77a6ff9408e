//! Traffic of correspondents of ILNPv6, real and made up, into the network of a lab and nowhere else.

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
    // Each with identifiers of its own.
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
    // Without one, a network of two hosts is made for it.
    #[arg(long, value_name = "NAMESPACE", requires = "to")]
    pub from: Option<String>,
    /// Whom to send to from there.
    #[arg(long, value_name = "ADDRESS", requires = "from")]
    pub to: Option<Ipv6Addr>,
}

/// How many a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// So many.
    PerSecond(u64),
    /// As many as threads can send.
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
    /// What the study's test of this rank sends.
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

    /// Sends.
    ///
    /// # Errors
    /// It is not to go into a lab, or could not be sent, or was interrupted.
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

    /// The streams; that of the echo requests, if there is one, is the first. Without a nonce they are of classic IPv6.
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

    /// Of what each of these streams has sent.
    pub(crate) fn counts(&self, sent: &[u64]) -> Counts {
        let (echo, made_up) = sent.split_at(usize::from(self.echo() > 0).min(sent.len()));
        Counts { echo: echo.iter().sum(), made_up: made_up.iter().sum() }
    }
}

/// Packets that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// By the fixed source.
    pub(crate) echo: u64,
    /// By made-up ones.
    pub(crate) made_up: u64,
}

impl Counts {
    pub(crate) const fn all(&self) -> u64 {
        self.echo + self.made_up
    }
}

/// What was sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sent {
    /// From where.
    pub namespace: String,
    /// Out of which interface.
    pub interface: String,
    /// To whom.
    pub to: Ipv6Addr,
    /// For how long.
    pub seconds: f64,
    /// From the fixed source.
    pub echo_requests: u64,
    /// From made-up ones.
    pub made_up: u64,
    /// Both.
    pub per_second: f64,
    /// Of all frames.
    pub octets: u64,
    /// Packets that came to the other end, where the network was made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
}

/// Somebody who is not there, on the same link: filters at the next router let such a source through.
fn neighbour(of: Ipv6Addr) -> Ilv {
    let of = Ilv::of(of);
    Ilv::new(of.l64, Nid(of.nid.0 ^ 0xfeed))
}

/// The namespace of a lab that runs, if this is one.
///
/// # Errors
/// It is the machine's own, or none of a lab.
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

/// Packets that an interface has taken in.
fn received(namespace: &Namespace) -> anyhow::Result<u64> {
    let links = namespace.ip_json(&["-s", "link", "show", "dev", SHARED_LINK])?;
    let packets = links.first().and_then(|link| link["stats64"]["rx"]["packets"].as_u64());
    packets.context("an interface without counters")
}

/// That of all correspondents, those that are made up apart.
pub const NONCE: Option<Nonce> = Some(Nonce::Short(*b"ILNP"));
/// RFC 862.
pub const ECHO_PORT: u16 = 7;
const SOURCE_PORT: u16 = 40_000;
/// Ethernet header and the 76 octets of the study.
const FRAME_OCTETS: u64 = 90;
const LONGEST: Duration = Duration::from_secs(3600);
const OWN: &str = "/proc/self/ns/net";
const FIRST: &str = "/proc/1/ns/net";
