//! What security costs when a context is made: figure 7 of the LinShim6 paper, the time from the first
//! I1 to R2 with no security, HBA, CGA-compatible HBA and CGA, with keys of several lengths and with
//! 2, 5 and 10 addresses.
//!
//! Two hosts with a daemon each share a cable with so many prefixes. An echoed datagram takes care of
//! neighbour discovery; then one host sends enough to earn a context, between two addresses that have
//! none yet. When all pairs have had theirs, the daemons are started again. Times are those of the
//! packets on the initiator's end of the cable.

mod exchange;

use std::net::{Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use moorline_api::{ContextState, Proof};
use moorline_cga::{KeyError, MAX_SIGNING_BITS, MIN_SIGNING_BITS};
use serde::Serialize;

use super::{Bars, Chart, Data, Experiment, Results, Scale, Summary, Watch};
use crate::capture::Capture;
use crate::daemon::{Daemon, DaemonOptions, start_both};
use crate::lab::Lab;
use crate::topology::{HOSTS, SHARED_LINK, shared_address, shared_link};
use crate::{interrupt, preflight};
use exchange::{Exchange, exchanges};

/// Parameters.
#[derive(Clone, Debug)]
pub struct Negotiation {
    /// The daemon to run; found if not told.
    pub moorlined: Option<PathBuf>,
    /// How the addresses are secured.
    pub securities: Vec<Security>,
    /// How many addresses each host has.
    pub sizes: Vec<usize>,
    /// Contexts for each combination. As in the paper: 20.
    pub runs: usize,
}

/// How addresses are secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all: peers are told of no address but the ULID.
    None,
    /// A set without a key.
    Hba,
    /// A set with an RSA key of so many bits.
    HbaCompatible(u32),
    /// Addresses bound to an RSA key of so many bits; lists of them are signed.
    Cga(u32),
}

impl Default for Negotiation {
    fn default() -> Self {
        let cga = [384, 512, 1024, 2048].map(Security::Cga);
        let others = [Security::None, Security::Hba, Security::HbaCompatible(1024)];
        Self {
            moorlined: None,
            securities: others.into_iter().chain(cga).collect(),
            sizes: vec![2, 5, 10],
            runs: 20,
        }
    }
}

#[derive(Debug, Serialize)]
struct Parameters {
    securities: Vec<String>,
    sizes: Vec<usize>,
    runs: usize,
}

/// A bar.
#[derive(Clone, Debug, Default, Serialize)]
struct Point {
    security: String,
    addresses: usize,
    runs: usize,
    /// I1 to R2.
    median_s: Option<f64>,
    mean_s: Option<f64>,
    stddev_s: Option<f64>,
    min_s: Option<f64>,
    max_s: Option<f64>,
    /// The part of it that the responder has I2 for, wire included.
    median_i2_r2_s: Option<f64>,
    /// Octets of I2, its IPv6 header included.
    i2_octets: Option<usize>,
    /// Why it is not done.
    refused: Option<String>,
}

impl Experiment for Negotiation {
    fn name(&self) -> &'static str {
        "negotiation"
    }

    fn about(&self) -> &'static str {
        "time from I1 to R2 by the security of the addresses and by their number"
    }

    fn obstacles(&self) -> Vec<String> {
        let mut obstacles = preflight::check(&["tcpdump"]);
        obstacles.extend(preflight::check_bpf());
        if self.moorlined.is_none() && preflight::find_daemon().is_none() {
            obstacles.push("moorlined is neither next to this program nor on PATH".into());
        }
        obstacles
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let moorlined = self.moorlined.clone().or_else(preflight::find_daemon);
        let moorlined = moorlined.context("moorlined")?;
        for size in &self.sizes {
            ensure!((1..=MAX_SIZE).contains(size), "1 to {MAX_SIZE} addresses, not {size}");
        }
        let all = self.securities.len() * self.sizes.len();
        let mut points = Vec::new();
        for &security in &self.securities {
            for &size in &self.sizes {
                watch.stage(&format!("{}, {size} addresses", security.name()));
                watch.done(points.len() as f64 / all as f64);
                points.push(match security.refusal() {
                    Some(refused) => Point::refused(security, size, refused),
                    None => {
                        let trial = Trial { moorlined: &moorlined, security, size };
                        let exchanges = trial.run(self.runs).with_context(|| {
                            format!("{} with {size} addresses", security.name())
                        })?;
                        Point::of(security, size, &exchanges)
                    }
                });
            }
        }
        watch.done(1.0);
        let chart = self.chart(&points);
        let results = Results::new(self, &self.parameters(), &points)?.with_columns(&COLUMNS);
        Ok(results.with_charts(vec![chart]))
    }
}

impl Negotiation {
    fn parameters(&self) -> Parameters {
        Parameters {
            securities: self.securities.iter().map(|security| security.name()).collect(),
            sizes: self.sizes.clone(),
            runs: self.runs,
        }
    }

    fn chart(&self, points: &[Point]) -> Chart {
        let median = |security: Security, size: usize| {
            let of = |point: &&Point| point.security == security.name() && point.addresses == size;
            points.iter().find(of).and_then(|point| point.median_s).map(|seconds| 1e3 * seconds)
        };
        let bars = |&size: &usize| Bars {
            name: format!("{size} addresses"),
            values: self.securities.iter().map(|&security| median(security, size)).collect(),
        };
        Chart {
            title: "Median time from I1 to R2".into(),
            x: String::new(),
            y: "milliseconds".into(),
            scale: Scale::Linear,
            data: Data::Bars {
                groups: self.securities.iter().map(|security| security.name()).collect(),
                series: self.sizes.iter().map(bars).collect(),
            },
        }
    }
}

impl Security {
    /// As in the figure.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::None => "none".into(),
            Self::Hba => "hba".into(),
            Self::HbaCompatible(bits) => format!("hbacompat-{bits}"),
            Self::Cga(bits) => format!("cga-{bits}"),
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        match name.split_once('-') {
            None if name == "none" => Some(Self::None),
            None if name == "hba" => Some(Self::Hba),
            Some(("hbacompat", bits)) => bits.parse().ok().map(Self::HbaCompatible),
            Some(("cga", bits)) => bits.parse().ok().map(Self::Cga),
            _ => None,
        }
    }

    /// Why no peer would accept it.
    fn refusal(self) -> Option<String> {
        let (Self::HbaCompatible(bits) | Self::Cga(bits)) = self else { return None };
        let error = match bits {
            ..MIN_SIGNING_BITS => KeyError::TooShort { bits },
            MIN_SIGNING_BITS..=MAX_SIGNING_BITS => return None,
            _ => KeyError::TooLong { bits },
        };
        Some(error.to_string())
    }

    /// In the configuration of the daemon.
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
    fn refused(security: Security, size: usize, refused: String) -> Self {
        let refused = Some(refused);
        Self { security: security.name(), addresses: size, refused, ..Self::default() }
    }

    fn of(security: Security, size: usize, exchanges: &[Exchange]) -> Self {
        let seconds = |time: fn(&Exchange) -> Duration| {
            let times: Vec<_> = exchanges.iter().map(|one| time(one).as_secs_f64()).collect();
            Summary::of(&times)
        };
        let whole = seconds(Exchange::i1_to_r2);
        Self {
            security: security.name(),
            addresses: size,
            runs: exchanges.len(),
            median_s: whole.map(|times| times.median),
            mean_s: whole.map(|times| times.mean),
            stddev_s: whole.map(|times| times.stddev),
            min_s: whole.map(|times| times.min),
            max_s: whole.map(|times| times.max),
            median_i2_r2_s: seconds(Exchange::i2_to_r2).map(|times| times.median),
            i2_octets: exchanges.first().map(|one| one.i2_octets),
            refused: None,
        }
    }
}

/// One combination.
struct Trial<'a> {
    moorlined: &'a PathBuf,
    security: Security,
    size: usize,
}

impl Trial<'_> {
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

    /// Both at once.
    fn start(&self, lab: &Lab) -> anyhow::Result<Vec<Daemon>> {
        // The responder answers and does not begin.
        let triggers = [TRIGGER, NO_TRIGGER];
        let [initiator, responder] = triggers.map(|trigger| DaemonOptions {
            binary: self.moorlined.clone(),
            send_timeout: SEND_TIMEOUT,
            settings: format!("{trigger}{}", self.security.settings()),
        });
        start_both(lab, [&initiator, &responder])
    }

    /// One in each prefix; waits until the daemon has made them.
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

/// Makes the initiator want a context and waits until it has it.
fn establish(lab: &Lab, initiator: &Daemon, our: Ipv6Addr, their: Ipv6Addr) -> anyhow::Result<()> {
    let bind = |host: &str, address: Ipv6Addr| {
        lab.namespace(host)?.enter(|| {
            let socket = UdpSocket::bind((address, 0)).with_context(|| format!("{address}"))?;
            socket.set_read_timeout(Some(ECHO_LIMIT))?;
            Ok(socket)
        })
    };
    let (here, there) = (bind(HOSTS[0], our)?, bind(HOSTS[1], their)?);
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    // There and back: afterwards the neighbours know each other.
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

const COLUMNS: [&str; 8] = [
    "security",
    "addresses",
    "runs",
    "median_s",
    "stddev_s",
    "median_i2_r2_s",
    "i2_octets",
    "refused",
];
/// Prefixes on the cable.
const MAX_SIZE: usize = 32;
/// No context is lost in the meantime.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);
const TRIGGER: &str = "trigger-bytes = 1000\n";
const NO_TRIGGER: &str = "trigger-bytes = 1000000000\ntrigger-age = \"1d\"\n";
/// Octets that reach the trigger, and fit into a packet.
const ENOUGH: usize = 1200;
const ECHO_LIMIT: Duration = Duration::from_secs(5);
const CONTEXT_LIMIT: Duration = Duration::from_secs(10);
/// Keys of 4096 bits take seconds to make.
const ADDRESSES_LIMIT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn securities_have_names() {
        for security in Negotiation::default().securities {
            assert_eq!(Security::of_name(&security.name()), Some(security));
        }
        for wrong in ["", "cga", "hba-1024", "cga-x", "none-1", "rsa-1024", "cga-1024-1"] {
            assert_eq!(Security::of_name(wrong), None, "{wrong}");
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
