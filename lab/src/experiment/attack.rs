//! The catalogue of attacks: costs of each for the attacked host, and gaps of an honest connection meanwhile.
//!
//! Each row has a network of its own, with two daemons and a transfer between them. The attack begins when the transfer is
//! protected, or the transfer begins during the attack. After `length`, ISP 1 fails silently, and the attack goes on until
//! the transfer has recovered. A row tells its figures as they are: no figure is a fault of the run.

mod catalogue;
mod frames;
mod handshake;
mod host;
mod packets;
mod running;

use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use serde::Serialize;

use super::options::{as_names, as_seconds, span};
use super::recovery::{Flow, FlowName, Scene, Silence, await_recovery, pause};
use super::usage::{processor_time, resident};
use super::{Card, Chart, Experiment, Needs, Results, Watch};
use crate::named::named;
use crate::workload::{Arrivals, Gap, LONGEST_FLOOD};

pub use catalogue::Attack;
use running::{Running, Traffic};

/// Attacks on a host: processor time, memory, answers, and gaps of an honest connection (as root).
///
/// Between two real daemons in network namespaces, a network for each row; some ten minutes with the default
/// parameters.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Attacks {
    /// Attacks to make; all of them if none is named.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Attack::ALL.iter().copied(), hide_default_value = true)]
    #[serde(serialize_with = "as_names")]
    pub attacks: Vec<Attack>,
    /// When the connection begins; a row for each. If the attacker knows the connection, it begins before the attack.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Begin::ALL.iter().copied(), hide_default_value = true)]
    #[serde(serialize_with = "as_names")]
    pub begin: Vec<Begin>,
    /// Time between the begin of an attack on a protected connection, or the protection of a connection, and the cut.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span)]
    #[serde(rename = "length_s", serialize_with = "as_seconds")]
    pub length: Duration,
    /// Packets a second, instead of the rate of each attack.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(rename = "rate_per_s")]
    pub rate: Option<u64>,
    /// Time after the cut at which the wait for the connection ends.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span)]
    #[serde(rename = "limit_s", serialize_with = "as_seconds")]
    pub limit: Duration,
}

/// The row of an attack.
#[derive(Debug, Serialize)]
struct Row {
    attack: Attack,
    about: &'static str,
    begin: Begin,
    /// Packets of the attack that were sent, to both hosts together.
    packets_per_s: f64,
    octets_per_s: f64,
    /// Processor time of the attacked daemon, as part of the time of one processor.
    processor_share: f64,
    /// Resident memory of the attacked daemon at the cut, less that at the begin.
    memory_growth_octets: i64,
    /// Contexts of the attacked daemon at the end, in any state, or its ILNP correspondents. `None` if the daemon did not
    /// answer.
    entries: Option<u64>,
    answers_per_s: f64,
    /// Octets of the packets to made-up addresses for each octet of the attack, from the IPv6 headers on, to the end of the
    /// attack. `None` if the attacker sent no octet of its own.
    octets_out_per_in: Option<f64>,
    /// Time from the begin of the connection until both hosts have its context or session. `None` if they have none in
    /// time.
    protected_s: Option<f64>,
    /// Longest gap of the connection between the begin of the attack or of the connection and the cut. `None` if nothing arrived.
    gap_s: Option<f64>,
    /// Longest gap of the connection after the cut. `None` without a recovery.
    cut_gap_s: Option<f64>,
    outcome: Outcome,
}

named! {
    /// Begin of the honest connection.
    pub enum Begin {
        /// The connection is protected before the attack begins.
        Before = "before",
        /// The connection begins during the attack.
        During = "during",
    }
}

named! {
    /// End of the honest connection.
    enum Outcome {
        Recovered = "recovered",
        NotInTime = "not in time",
        /// The attack moved the connection before the cut, so the cut did not hit it.
        MovedBefore = "moved before",
        /// The attacker is the correspondent, so the connection is no honest one.
        NoCut = "no cut",
        /// The connection had no context or session in time, so there was no cut.
        NotProtected = "not protected",
    }
}

impl Experiment for Attacks {
    fn card(&self) -> Card {
        Card {
            name: "attack",
            about: "attacks on a host: processor time, memory, answers, and gaps of an honest connection",
            needs: Needs::Daemons(&[]),
            columns: "attack begin packets_per_s processor_share memory_growth_octets entries octets_out_per_in \
                      protected_s gap_s cut_gap_s outcome",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let of_attack = |&attack: &Attack| self.begin.iter().map(move |&begin| (attack, begin));
        let is_possible = |&(attack, begin): &(Attack, Begin)| {
            begin == Begin::Before || !attack.knows_the_connection()
        };
        let planned: Vec<_> = self.attacks.iter().flat_map(of_attack).filter(is_possible).collect();
        ensure!(!planned.is_empty() && !self.length.is_zero(), "nothing to measure");
        ensure!(
            self.length + self.limit * 2 <= LONGEST_FLOOD / 2,
            "an attack lasts {:?} at most",
            LONGEST_FLOOD / 2
        );
        let mut rows = Vec::new();
        for &(attack, begin) in &planned {
            let name = format!("{attack}, connection {begin}");
            watch.stage(&name);
            rows.push(self.row(attack, begin).map_err(|error| error.context(name))?);
            watch.done(rows.len() as f64 / planned.len() as f64);
        }
        let bars = rows.iter().flat_map(|row| {
            let label = format!("{}, {}", row.attack, row.begin);
            [(label.clone(), "without a cut", row.gap_s), (label, "with a cut", row.cut_gap_s)]
        });
        let chart = Chart::bars("Gaps of an honest connection under attack", ["attack", "s"], bars);
        Ok(Results::new(self, &rows)?.with_charts([chart]))
    }
}

/// An honest connection under attack.
struct Trial {
    flow: Flow,
    /// Time until both hosts have its context or session. `None` if they have none in time.
    protected: Option<Duration>,
    running: Running,
    /// Begin of the attack.
    begun: Instant,
    /// Resources of the attacked daemon at the begin of the attack.
    before: Usage,
}

impl Attacks {
    fn row(&self, attack: Attack, begin: Begin) -> anyhow::Result<Row> {
        let mut scene = attack.scene()?;
        let Trial { flow, protected, running, begun, before } =
            self.begin(attack, begin, &mut scene)?;
        pause(self.length)?;
        let (seconds, after) = (begun.elapsed().as_secs_f64(), Usage::of(scene.daemons[0].id())?);
        let gap = longest_gap(&flow.arrivals(), begun);
        let traffic = running.traffic()?;
        let (outcome, cut_gap) = match protected {
            Some(_) if attack.is_of_the_correspondent() => (Outcome::NoCut, None),
            Some(_) => self.cut(&mut scene, &flow)?,
            None => (Outcome::NotProtected, None),
        };
        let entries = entries(attack, &scene);
        let drawn = amplification(attack, running.traffic()?);
        running.finish()?;
        // The connection of a host that did not recover may have ended.
        let _ = flow.lost(0);
        let per_second = |count: u64| count as f64 / seconds;
        Ok(Row {
            attack,
            about: attack.about(),
            begin,
            packets_per_s: per_second(traffic.packets),
            octets_per_s: per_second(traffic.octets),
            processor_share: (after.processor - before.processor).as_secs_f64() / seconds,
            memory_growth_octets: after.memory.cast_signed() - before.memory.cast_signed(),
            entries,
            answers_per_s: per_second(traffic.answers),
            octets_out_per_in: drawn,
            protected_s: protected.map(|time| time.as_secs_f64()),
            gap_s: gap.map(|gap| gap.length().as_secs_f64()),
            cut_gap_s: cut_gap.map(|gap| gap.length().as_secs_f64()),
            outcome,
        })
    }

    /// Begins the connection and the attack, in this order or the other one.
    fn begin(&self, attack: Attack, begin: Begin, scene: &mut Scene) -> anyhow::Result<Trial> {
        let first = match begin {
            Begin::Before => Some(self.connect(attack, scene)?),
            Begin::During => None,
        };
        let (begun, before) = (Instant::now(), Usage::of(scene.daemons[0].id())?);
        let running =
            Running::start(attack, scene, self.rate, first.as_ref().map(|(flow, _)| flow))?;
        let (flow, protected) = match first {
            Some(first) => first,
            None => {
                pause(LEAD)?;
                self.connect(attack, scene)?
            }
        };
        Ok(Trial { flow, protected, running, begun, before })
    }

    /// Begins a connection, and waits until it is protected and both hosts know the locators of each other.
    fn connect(
        &self,
        attack: Attack,
        scene: &mut Scene,
    ) -> anyhow::Result<(Flow, Option<Duration>)> {
        let begun = Instant::now();
        let flow = scene.start(FlowName::Bulk)?;
        let protected = scene.protected_within(self.limit)?.then(|| begun.elapsed());
        if protected.is_some() {
            scene.settle(&flow, attack as u64)?;
        }
        Ok((flow, protected))
    }

    /// Cuts the path and waits until the connection goes on.
    fn cut(&self, scene: &mut Scene, flow: &Flow) -> anyhow::Result<(Outcome, Option<Gap>)> {
        let Some(cut) = scene.silence()? else { return Ok((Outcome::MovedBefore, None)) };
        let silence = Silence { least: LEAST_SILENCE, stragglers: STRAGGLERS, limit: self.limit };
        let gap = await_recovery(&flow.arrivals(), cut, silence)?;
        let outcome = if gap.is_some() { Outcome::Recovered } else { Outcome::NotInTime };
        Ok((outcome, gap))
    }
}

/// Resources that a daemon has used.
struct Usage {
    processor: Duration,
    memory: u64,
}

impl Usage {
    fn of(daemon: u32) -> anyhow::Result<Self> {
        Ok(Self { processor: processor_time(daemon)?, memory: resident(daemon)? })
    }
}

fn longest_gap(arrivals: &[Arrivals], begin: Instant) -> Option<Gap> {
    let gaps = arrivals.iter().filter_map(|arrivals| arrivals.longest_gap_after(begin));
    gaps.max_by_key(Gap::length)
}

/// Answers to a spoofed host go to that host and are not counted.
fn amplification(attack: Attack, traffic: Traffic) -> Option<f64> {
    let is_counted = !attack.is_in_the_name_of_hosts() && traffic.octets > 0;
    is_counted.then(|| traffic.octets_of_answers as f64 / traffic.octets as f64)
}

/// Contexts of host A in any state, or its ILNP correspondents. `None` if the daemon does not answer.
fn entries(attack: Attack, scene: &Scene) -> Option<u64> {
    let daemon = &scene.daemons[0];
    if attack.is_on_ilnp() {
        return daemon.ilcc().ok().map(|ilcc| ilcc.correspondents.len() as u64);
    }
    let counts = daemon.status().ok()?.contexts;
    Some(counts.establishing + counts.established + counts.no_support)
}

/// Send Timeout, the daemon's default.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between the begin of an attack and that of a connection during the attack. Budgets for bursts are used up by then.
const LEAD: Duration = Duration::from_secs(1);
const LEAST_SILENCE: Duration = Duration::from_millis(100);
const STRAGGLERS: Duration = Duration::from_millis(50);
