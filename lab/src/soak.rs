//! Random but valid sequences of messages of both protocols, against a whole daemon.
//!
//! Host A has a daemon with Shim6 and ILNP, and host B has one with Shim6, or with both. A connection between them goes on while
//! uplinks fail. Nodes behind both ISPs talk to host A: real senders, who read the answers and use them, and made-up sources.
//! All choices follow from a seed. As answers of the daemon decide the next messages, two runs with one seed differ in time
//! only as far as the daemon's answers differ.
//!
//! The grammar is in `shim6`, `ilnp` and `traffic`: each gives the next message of an `actor`, `wrap` puts
//! extension headers around it, `cast` has all actors, `speaker` sends and receives, `ledger` and `judge` judge.

mod actor;
mod cast;
mod dice;
mod ilnp;
mod judge;
mod ledger;
mod programs;
mod shim6;
mod speaker;
mod traffic;
mod wrap;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use serde::Serialize;

use crate::experiment::Needs;
use crate::experiment::recovery::{Scene, pause};
use crate::topology::{HOSTS, ISPS};
use cast::Cast;
use judge::{Honest, Judge};
use programs::Programs;
use speaker::Speaker;

/// Options of a soak.
#[derive(Clone, Debug, Args)]
pub struct Soak {
    /// Length of the soak in seconds.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..))]
    pub seconds: u64,
    /// Seed of all messages; without it, a new one, which is printed.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Messages a second.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=50_000))]
    pub rate: u64,
    /// The honest connection is an ILNP session, and not one of a Shim6 context.
    #[arg(long)]
    pub ilnp: bool,
}

/// Result of a soak.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Seed of all messages.
    pub seed: u64,
    /// Length of the soak.
    pub seconds: u64,
    /// Packets to the host.
    pub packets: u64,
    /// Messages of the daemon to nodes of the soak, by kind.
    pub heard: BTreeMap<String, u64>,
    /// Messages of the daemon to sources that had proved nothing.
    pub unproved: u64,
    /// Packets of the host to locators of third parties, which nodes of the soak name.
    pub elsewhere: u64,
    /// Most contexts of the daemon at once.
    pub most_contexts: u64,
    /// Most ILNP correspondents of the daemon at once.
    pub most_sessions: u64,
    /// Resident memory of the daemon before the first message.
    pub memory_before_octets: u64,
    /// Largest resident memory of the daemon.
    pub memory_most_octets: u64,
    /// Largest resident memory before the end of the warm-up. `None` if the soak is shorter than the warm-up.
    pub memory_warm_octets: Option<u64>,
    /// Longest turn of the daemon's event loop.
    pub longest_turn_ms: f64,
    /// Longest time of an answer to `GET /v1/status`.
    pub longest_status_ms: f64,
    /// Cuts of an uplink that the honest connection survived.
    pub cuts: u64,
    /// Longest gap of the honest connection.
    pub longest_gap_s: f64,
    /// Broken promises, which make the soak fail.
    pub broken: Vec<String>,
    /// Times over a limit of the wall clock, which other work of the machine may cause. `moorline-lab soak` fails by them,
    /// a test does not. A debug build has no such limits.
    pub slow: Vec<String>,
    /// Whether lab and daemon are a debug build.
    pub is_debug_build: bool,
}

impl Soak {
    /// Reasons why a soak cannot run here.
    #[must_use]
    pub fn obstacles() -> Vec<String> {
        Needs::Daemons(&["ip", "nft"]).obstacles()
    }

    /// Runs the soak. `tell` gets a report every minute.
    ///
    /// # Errors
    /// The network could not be built, or the daemon died. A broken promise is no error: see [`Report::broken`].
    pub fn run(&self, tell: &mut dyn FnMut(&Report)) -> anyhow::Result<Report> {
        let seed = self.seed.unwrap_or_else(fresh_seed);
        let mut scene = Scene::of_both_protocols(SEND_TIMEOUT, SETTINGS, self.ilnp)?;
        let mut honest = Honest::start(&mut scene, self.ilnp)?;
        let [one, two] = ISPS.map(|isp| scene.daemons[0].verifiable_address(isp));
        let cast = Cast::new(seed, [one?, two?])?;
        let wanted: Vec<_> = cast.wanted().collect();
        let programs = Programs::start(scene.lab.namespace(HOSTS[0])?, &wanted)?;
        let mut judge = Judge::start(&scene.daemons[0], Report { seed, ..Report::default() })?;
        tell(judge.report());
        let speaker = Speaker::start(&scene.lab, cast, self.rate)?;
        let begin = Instant::now();
        let mut told = 0;
        while begin.elapsed() < Duration::from_secs(self.seconds) {
            pause(LOOK_AGAIN)?;
            if speaker.is_finished() {
                speaker.finish()?;
                bail!("the nodes of the soak have ended");
            }
            judge.look(&scene.daemons[0], begin.elapsed(), &speaker.tally())?;
            honest.look(&scene, &mut judge)?;
            let minutes = begin.elapsed().as_secs() / 60;
            if minutes > told {
                told = minutes;
                tell(judge.report());
            }
        }
        // A cut shortly before the end has its time.
        while honest.is_cut() {
            pause(LOOK_AGAIN)?;
            honest.look(&scene, &mut judge)?;
        }
        judge.look(&scene.daemons[0], begin.elapsed(), &speaker.finish()?)?;
        honest.finish(&mut judge)?;
        programs.finish()?;
        Ok(judge.into_report())
    }
}

/// A seed that nobody has chosen.
fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one("soak") >> 16
}

const SEND_TIMEOUT: Duration = Duration::from_secs(2);
/// Small tables, so that they are full early, and what grows later is a fault.
const SETTINGS: &str = "max-contexts = 2048\nilnp-max-sessions = 1024\n";
const LOOK_AGAIN: Duration = Duration::from_secs(1);
