//! Cost of security when a context is established: figure 7 of the LinShim6 paper. The figure shows the time from the
//! first I1 to R2 with no security, HBA, CGA-compatible HBA and CGA, with keys of several lengths and with 2, 5 and 10
//! addresses.
//!
//! Two hosts with a daemon each share a cable with several prefixes. A datagram and its echo complete neighbor
//! discovery. Then one host sends enough octets to trigger a context, between two addresses that have none yet. When
//! all pairs have had a context, the daemons start again. Times are those of the packets at the initiator's end of the
//! cable.

mod exchange;

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::Args;
use moorline_api::{ContextState, Proof};
use moorline_cga::{KeyError, MAX_SIGNING_BITS, MIN_SIGNING_BITS};
use serde::{Serialize, Serializer};

use super::options::{List, sizes};
use super::pool::Trials;
use super::recovery::ends;
use super::statistics::{Seconds, median};
use super::{Card, Chart, Experiment, Needs, Results, Watch};
use crate::capture::Capture;
use crate::daemon::{Daemon, DaemonOptions, start_both};
use crate::interrupt;
use crate::lab::Lab;
use crate::topology::{HOSTS, SHARED_LINK, shared_address, shared_link};
use crate::workload::datagram_sockets;
use exchange::{Exchange, exchanges};

/// Time from I1 to R2 by the security of the addresses and by their number (as root).
///
/// Figure 7 of the LinShim6 paper, between two real daemons in network namespaces.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Negotiation {
    /// How addresses are secured: none, hba, hbacompat-BITS, cga-BITS.
    #[arg(
        long = "security",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "none,hba,hbacompat-1024,cga-384,cga-512,cga-1024,cga-2048"
    )]
    pub securities: Vec<Security>,
    /// How many addresses each host has.
    #[arg(long, value_name = "LIST", default_value = "2,5,10", value_parser = sizes)]
    pub sizes: List<usize>,
    /// Contexts for each combination.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub runs: usize,
}

/// Kind of security of the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// No security: peers learn no address but the ULID.
    None,
    /// An HBA set without a key.
    Hba,
    /// An HBA set with an RSA key of so many bits.
    HbaCompatible(u32),
    /// CGAs with an RSA key of so many bits, and signed locator lists.
    Cga(u32),
}

/// A bar of the figure.
#[derive(Clone, Debug, Serialize)]
struct Point {
    security: Security,
    addresses: usize,
    runs: usize,
    /// Time from I1 to R2.
    #[serde(flatten)]
    whole: Seconds,
    /// Time from I2 to R2: the responder's work on I2, and the wire.
    median_i2_r2_s: Option<f64>,
    /// Octets of I2, including its IPv6 header.
    i2_octets: Option<usize>,
    /// Reason why the combination was not measured.
    refused: Option<String>,
}

impl Experiment for Negotiation {
    fn card(&self) -> Card {
        Card {
            name: "negotiation",
            about: "time from I1 to R2 by the security of the addresses and by their number",
            needs: Needs::Daemons(&["tcpdump"]),
            columns: "security addresses runs median_s stddev_s median_i2_r2_s i2_octets refused",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        for size in &self.sizes {
            ensure!((1..=MAX_SIZE).contains(size), "1 to {MAX_SIZE} addresses, not {size}");
        }
        let of_security = |&security: &Security| {
            self.sizes.iter().map(move |&size| (Combination { security, size }, 1))
        };
        let cases = self.securities.iter().flat_map(of_security).collect();
        let trials = Trials { cases, seed: 0, parallel: 1 };
        let name = |one: &Combination| format!("{}, {} addresses", one.security, one.size);
        let tried = trials.run(watch, name, |trial| match trial.security.refusal() {
            Some(_) => Ok(Vec::new()),
            None => trial.run(self.runs).with_context(|| name(trial)),
        })?;
        let points: Vec<_> = tried.iter().map(|(one, tried)| Point::of(one, &tried[0])).collect();
        Ok(Results::new(self, &points)?.with_charts([chart(&points)]))
    }
}

fn chart(points: &[Point]) -> Chart {
    let bars = points.iter().map(|point| {
        let median_ms = point.whole.median_s.map(|seconds| 1e3 * seconds);
        (point.security, format!("{} addresses", point.addresses), median_ms)
    });
    Chart::bars("Median time from I1 to R2", ["", "milliseconds"], bars)
}

impl fmt::Display for Security {
    /// Writes the name in the figure.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Hba => f.write_str("hba"),
            Self::HbaCompatible(bits) => write!(f, "hbacompat-{bits}"),
            Self::Cga(bits) => write!(f, "cga-{bits}"),
        }
    }
}

impl FromStr for Security {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = match name.split_once('-') {
            None if name == "none" => Some(Self::None),
            None if name == "hba" => Some(Self::Hba),
            Some(("hbacompat", bits)) => bits.parse().ok().map(Self::HbaCompatible),
            Some(("cga", bits)) => bits.parse().ok().map(Self::Cga),
            _ => None,
        };
        found.ok_or("one of none, hba, hbacompat-BITS, cga-BITS")
    }
}

impl Serialize for Security {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Security {
    /// Reason why peers would refuse such addresses. `None` if peers accept them.
    fn refusal(self) -> Option<String> {
        let (Self::HbaCompatible(bits) | Self::Cga(bits)) = self else { return None };
        let error = match bits {
            ..MIN_SIGNING_BITS => KeyError::TooShort { bits },
            MIN_SIGNING_BITS..=MAX_SIGNING_BITS => return None,
            _ => KeyError::TooLong { bits },
        };
        Some(error.to_string())
    }

    /// Lines for the daemon's configuration file.
    fn settings(self) -> String {
        let (mode, bits) = match self {
            Self::None => ("off", None),
            Self::Hba => ("hba", None),
            Self::HbaCompatible(bits) => ("hba-compatible", Some(bits)),
            Self::Cga(bits) => ("cga", Some(bits)),
        };
        let key = bits.map_or_else(String::new, |bits| format!("[keys.default]\nbits = {bits}\n"));
        format!("addresses = \"{mode}\"\n{key}")
    }

    fn proof(self) -> Option<Proof> {
        match self {
            Self::None => None,
            Self::Hba => Some(Proof::Hba),
            Self::HbaCompatible(_) => Some(Proof::HbaCompatible),
            Self::Cga(_) => Some(Proof::Cga),
        }
    }
}

impl Point {
    /// The point of a combination. Without exchanges, the point has the reason for their absence.
    fn of(&Combination { security, size }: &Combination, exchanges: &[Exchange]) -> Self {
        let seconds = |time: fn(&Exchange) -> Duration| {
            exchanges.iter().map(move |one| time(one).as_secs_f64())
        };
        Self {
            security,
            addresses: size,
            runs: exchanges.len(),
            whole: Seconds::of(seconds(Exchange::i1_to_r2)),
            median_i2_r2_s: median(seconds(Exchange::i2_to_r2)),
            i2_octets: exchanges.first().map(|one| one.i2_octets),
            refused: security.refusal(),
        }
    }
}

/// A kind of security and a number of addresses.
#[derive(Clone, Copy, Debug)]
struct Combination {
    security: Security,
    size: usize,
}

impl Combination {
    fn run(&self, runs: usize) -> anyhow::Result<Vec<Exchange>> {
        let lab = Lab::build(shared_link(self.size))?;
        let initiator = lab.namespace(HOSTS[0])?;
        let capture = Capture::start(initiator, SHARED_LINK, &lab.directory(HOSTS[0])?)?;
        let mut left = runs;
        while left > 0 {
            let daemons = self.start(&lab)?;
            let ours = self.addresses(HOSTS[0], &daemons[0])?;
            let theirs = self.addresses(HOSTS[1], &daemons[1])?;
            let pairs = ours.iter().flat_map(|&our| theirs.iter().map(move |&their| (our, their)));
            for (our, their) in pairs.take(left) {
                establish(&lab, &daemons[0], our, their)?;
                left -= 1;
            }
            for daemon in daemons {
                daemon.stop()?;
            }
        }
        let exchanges = exchanges(&capture.finish()?);
        ensure!(exchanges.len() == runs, "{} exchanges captured, not {runs}", exchanges.len());
        Ok(exchanges)
    }

    /// Starts both daemons at the same time.
    fn start(&self, lab: &Lab) -> anyhow::Result<Vec<Daemon>> {
        // The responder answers, and never initiates.
        let triggers = [TRIGGER, NO_TRIGGER];
        let [initiator, responder] = triggers.map(|trigger| {
            let settings = format!("{trigger}{}", self.security.settings());
            DaemonOptions::new(SEND_TIMEOUT, settings)
        });
        start_both(lab, [&initiator?, &responder?])
    }

    /// The addresses of a host, one in each prefix. Waits until the daemon has made them.
    fn addresses(&self, host: &str, daemon: &Daemon) -> anyhow::Result<Vec<Ipv6Addr>> {
        let Some(proof) = self.security.proof() else {
            return Ok((0..self.size).map(|prefix| shared_address(host, prefix)).collect());
        };
        interrupt::wait_for("addresses", ADDRESSES_LIMIT, || {
            let status = daemon.status()?;
            let locators = status.uplinks.iter().flat_map(|uplink| &uplink.locators);
            let ours = locators.filter(|one| one.proof == proof && one.announced);
            let ours: Vec<_> = ours.map(|one| one.address).collect();
            Ok((ours.len() == self.size).then_some(ours))
        })
        .with_context(|| format!("host {host}: {}", daemon.log()))
    }
}

/// Triggers a context at the initiator and waits until it is established.
fn establish(lab: &Lab, initiator: &Daemon, our: Ipv6Addr, their: Ipv6Addr) -> anyhow::Result<()> {
    let ends = ends(lab, [our, their])?;
    let [here, there] = datagram_sockets(ends.each_ref(), ECHO_LIMIT)?;
    // A datagram and its echo: afterwards both neighbors know each other's link-layer address.
    let mut octets = [0; 16];
    here.send(b"hello")?;
    there.recv(&mut octets).context("first datagram")?;
    there.send(b"hello")?;
    here.recv(&mut octets).context("its answer")?;
    here.send(&[0; ENOUGH])?;
    interrupt::wait_for("a context", CONTEXT_LIMIT, || {
        let contexts = initiator.contexts()?;
        let mut contexts = contexts.iter().filter(|one| one.state == ContextState::Established);
        let is_it = contexts.any(|one| (one.ulid_local, one.ulid_peer) == (our, their));
        Ok(is_it.then_some(()))
    })
    .with_context(|| format!("log of moorlined:\n{}", initiator.log()))
}

/// Most prefixes on the cable.
const MAX_SIZE: usize = 32;
/// Long enough that no context fails during the measurement.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
const TRIGGER: &str = "trigger-bytes = 1000\n";
const NO_TRIGGER: &str = "trigger-bytes = 1000000000\ntrigger-age = \"1d\"\n";
/// Octets that reach the trigger and fit into a packet.
const ENOUGH: usize = 1200;
const ECHO_LIMIT: Duration = Duration::from_secs(5);
const CONTEXT_LIMIT: Duration = Duration::from_secs(10);
/// The generation of a key of 4096 bits takes seconds.
const ADDRESSES_LIMIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn securities_have_names() {
        for security in Negotiation::default().securities {
            assert_eq!(security.to_string().parse(), Ok(security));
        }
        for wrong in ["", "cga", "hba-1024", "cga-x", "none-1", "rsa-1024", "cga-1024-1"] {
            assert!(wrong.parse::<Security>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn short_keys_are_refused_as_elsewhere() {
        assert_eq!(Security::Cga(1024).refusal(), None);
        let refusal = Security::Cga(512).refusal().unwrap();
        assert_eq!(refusal, "an RSA key of 512 bits is too short to sign: 1024 at least");
        assert!(Security::HbaCompatible(8192).refusal().is_some());
        assert_eq!(Security::None.refusal(), None);
    }
}
