//! Silence and loss of a connection under ILNP when its host changes its locator. In a hard hand-off the old locator is
//! gone. In a soft hand-off both locators are valid for a time.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Serialize;

use super::options::{count, rtt};
use super::pool::{Trial, Trials};
use super::recovery::{Disturbance, FlowName, Scene};
use super::statistics::ms;
use super::{Card, Chart, Experiment, Needs, Percentiles, Results, Watch};
use crate::named::named;
use crate::topology::{HOSTS, ISPS, Impairment};

/// Silence and loss when a host under ILNP changes its locator, by hard and soft hand-offs (as root).
#[derive(Clone, Debug, Args, Serialize)]
pub struct HandOff {
    /// Round-trip times in milliseconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,20,80", value_parser = rtt)]
    #[serde(skip)]
    pub rtts: Vec<Duration>,
    /// Hand-offs for each of them, hard and soft, under a transfer and under datagrams.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = count)]
    pub repetitions: usize,
    /// What the moments of hand-offs follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    hand_off: Kind,
    flow: FlowName,
    rtt_ms: f64,
    repetitions: usize,
    /// Longest silence of the application after the hand-off.
    gap_ms: Percentiles,
    /// Share of the hand-offs whose silence is at most the round trip time and [`ALLOWED`].
    in_time_ratio: f64,
    /// Datagrams lost, or segments that the host sent again.
    packets_lost: Percentiles,
    /// Repeated segments that the other host reports as received before.
    needless: Percentiles,
}

named! {
    enum Kind {
        Hard = "hard",
        Soft = "soft",
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    kind: Kind,
    flow: FlowName,
    rtt: Duration,
}

impl Experiment for HandOff {
    fn card(&self) -> Card {
        Card {
            name: "handoff",
            about: "silence and loss when a host under ILNP changes its locator",
            needs: Needs::Daemons(&[]),
            columns: "hand_off flow rtt_ms gap_ms.median gap_ms.p95 in_time_ratio \
                      packets_lost.median needless.median",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let name = |case: &Case| format!("{}, {}, RTT {} ms", case.kind, case.flow, ms(case.rtt));
        let tried = self.trials().run(watch, name, run)?;
        let points: Vec<_> = tried.iter().map(|(case, all)| Point::of(case, all)).collect();
        Ok(Results::new(self, &points)?.with_charts([chart(&points)]))
    }
}

impl HandOff {
    fn trials(&self) -> Trials<Case> {
        let mut cases = Vec::new();
        for &kind in Kind::ALL {
            for &flow in FlowName::ALL {
                let case = |&rtt| (Case { kind, flow, rtt }, self.repetitions);
                cases.extend(self.rtts.iter().map(case));
            }
        }
        Trials { cases, seed: self.seed, parallel: 1 }
    }
}

impl Case {
    /// Makes host A change its locator. Gives the moment of the change, or just before.
    fn change(&self, scene: &Scene) -> anyhow::Result<Instant> {
        if self.kind == Kind::Hard {
            return scene.drop_carrier();
        }
        let at = Instant::now();
        deprecate(scene)?;
        Ok(at)
    }

    /// Longest silence in time: the round trip time and [`ALLOWED`].
    fn budget(&self) -> Duration {
        self.rtt + ALLOWED
    }
}

impl Point {
    fn of(case: &Case, all: &[Disturbance]) -> Self {
        let is_in_time = |one: &&Disturbance| one.gap.is_none_or(|gap| gap <= case.budget());
        let in_time = all.iter().filter(is_in_time).count();
        Self {
            hand_off: case.kind,
            flow: case.flow,
            rtt_ms: ms(case.rtt),
            repetitions: all.len(),
            gap_ms: Percentiles::of(all.iter().map(|one| one.gap.map(ms))),
            in_time_ratio: in_time as f64 / all.len() as f64,
            packets_lost: Percentiles::of(all.iter().map(|one| one.packets_lost as f64)),
            needless: Percentiles::of(all.iter().map(|one| one.needless.map(|n| n as f64))),
        }
    }
}

/// Makes a soft hand-off: deprecates the address of host A at ISP 1, so that new traffic does not use it.
pub(super) fn deprecate(scene: &Scene) -> anyhow::Result<()> {
    let address = format!("{}/64", scene.ends[0].address);
    let change = ["-6", "addr", "change", &address, "dev", ISPS[0], "preferred_lft", "0"];
    scene.lab.namespace(HOSTS[0])?.ip(&change)?;
    Ok(())
}

/// Runs one hand-off of host A.
fn run(trial: &Trial<Case>) -> anyhow::Result<Disturbance> {
    let cables = Impairment { seed: trial.seed, ..Impairment::delay(trial.rtt / 2) };
    let mut scene = Scene::as_it_is(cables, SEND_TIMEOUT, SETTINGS)?;
    let flow = scene.start(trial.flow)?;
    scene.settle(&flow, trial.seed)?;
    let outcome = scene
        .disturb(flow, |scene| trial.change(scene))
        .with_context(|| format!("{trial:?}: {}", scene.logs()))?;
    ensure!(scene.has_moved(), "{trial:?}: the session did not move: {}", scene.logs());
    Ok(outcome)
}

fn chart(points: &[Point]) -> Chart {
    let places = points.iter().map(|point| {
        (format!("{}, {}", point.hand_off, point.flow), point.rtt_ms, point.gap_ms.range())
    });
    Chart::lines("Silence after a hand-off", ["round-trip time (ms)", "milliseconds"], places)
}

const SEND_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const SETTINGS: &str = "addresses = \"off\"\nilnp = \"on\"\n";
/// Allowance for the daemon, and for the 4 ms between two arrivals.
const ALLOWED: Duration = Duration::from_millis(14);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hand_offs_in_time_are_counted() {
        let experiment = HandOff { repetitions: 2, ..HandOff::default() };
        let cases = experiment.trials().cases;
        assert_eq!(cases.iter().map(|(_, times)| times).sum::<usize>(), 2 * 2 * 3 * 2);
        let outcome = |ms| {
            let gap = Some(Duration::from_millis(ms));
            Disturbance { gap, packets_lost: ms, needless: Some(0) }
        };
        let point = Point::of(&cases[0].0, &[outcome(10), outcome(40)]);
        let what = (point.hand_off.name(), point.flow.name(), point.rtt_ms);
        assert_eq!(what, ("hard", "tcp-bulk", 1.0));
        assert!((point.in_time_ratio - 0.5).abs() < 1e-9);
        assert_eq!(point.gap_ms.median, Some(25.0));
    }
}
