//! Goodput of a flow whose path loses packets while another path loses none: with contexts that leave such a path, and
//! with contexts that stay.

use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use moorline_api::EventKind;
use serde::Serialize;

use super::options::{as_millis, count, rtt, span};
use super::pool::{Trial, Trials};
use super::recovery::{Flow, FlowName, Scene, pause};
use super::{Card, Chart, Experiment, Needs, Percentiles, Results, Watch};
use crate::Failure;
use crate::named::named;
use crate::topology::{ISPS, Impairment};

/// Goodput by a path that loses packets, and the time until the context leaves it (as root).
///
/// ISP 1 begins to drop packets of both directions by chance. ISP 2 drops none.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Lossy {
    /// Packets lost each way by ISP 1, of a hundred.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "5,15,30", value_parser = clap::value_parser!(u8).range(0..100))]
    #[serde(skip)]
    pub losses: Vec<u8>,
    /// Round-trip time in milliseconds.
    #[arg(long, value_name = "MS", default_value = "20", value_parser = rtt)]
    #[serde(rename = "rtt_ms", serialize_with = "as_millis")]
    pub rtt: Duration,
    /// Runs of each combination.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count)]
    pub repetitions: usize,
    /// How long a flow is measured from the first loss on.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = span)]
    #[serde(rename = "duration_ms", serialize_with = "as_millis")]
    pub duration: Duration,
    /// Networks side by side.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = count)]
    pub parallel: usize,
    /// Number that the moments of the first loss follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    flow: FlowName,
    system: LossySystem,
    loss_percent: u8,
    repetitions: usize,
    /// Runs in which a context left ISP 1.
    left: usize,
    /// Time from the first loss to the first move.
    left_after_s: Percentiles,
    /// Moves of both hosts together.
    moves: Percentiles,
    /// Payload that arrived, in 10^6 bits a second.
    goodput_mbit_s: Percentiles,
}

named! {
    /// Whether contexts leave a path that is much worse than another one.
    pub enum LossySystem {
        /// Contexts leave the path.
        Leaves = "leaves",
        /// Contexts stay.
        Stays = "stays",
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    flow: FlowName,
    system: LossySystem,
    loss: u8,
    rtt: Duration,
    duration: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Outcome {
    left: Option<Duration>,
    moves: u32,
    goodput: f64,
}

impl Experiment for Lossy {
    fn card(&self) -> Card {
        Card {
            name: "lossy",
            about: "goodput by a path that loses packets, and the time until a context leaves it",
            needs: Needs::Daemons(&[]),
            columns: "flow system loss_percent left repetitions left_after_s.median left_after_s.p95 \
                      goodput_mbit_s.median",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let name = |case: &Case| format!("{}, {}, {} % lost", case.flow, case.system, case.loss);
        let tried = self.trials().run(watch, name, run)?;
        let points: Vec<_> = tried.iter().map(|(case, all)| Point::of(case, all)).collect();
        Ok(Results::new(self, &points)?.with_charts([chart(&points)]))
    }
}

impl Lossy {
    fn trials(&self) -> Trials<Case> {
        let &Self { ref losses, rtt, repetitions, duration, parallel, seed } = self;
        let mut cases = Vec::new();
        for &flow in FlowName::ALL {
            for &system in LossySystem::ALL {
                let case = |&loss| (Case { flow, system, loss, rtt, duration }, repetitions);
                cases.extend(losses.iter().map(case));
            }
        }
        Trials { cases, seed, parallel }
    }
}

impl Point {
    fn of(case: &Case, all: &[Outcome]) -> Self {
        Self {
            flow: case.flow,
            system: case.system,
            loss_percent: case.loss,
            repetitions: all.len(),
            left: all.iter().filter(|one| one.left.is_some()).count(),
            left_after_s: Percentiles::of(all.iter().map(|one| Some(one.left?.as_secs_f64()))),
            moves: Percentiles::of(all.iter().map(|one| f64::from(one.moves))),
            goodput_mbit_s: Percentiles::of(all.iter().map(|one| one.goodput)),
        }
    }
}

fn run(trial: &Trial<Case>) -> anyhow::Result<Outcome> {
    let delay = Impairment::delay(trial.rtt / 2);
    // A cable with a rate carries packets of wire size, not super-packets, and loses each independently.
    let cables = Impairment { rate: Some(RATE), queue: QUEUE, seed: trial.seed, ..delay };
    let leaves = trial.system == LossySystem::Leaves;
    let settings = format!("leave-worse = {leaves}\n");
    let mut scene = Scene::protected(cables, SEND_TIMEOUT, &settings)?;
    let flow = scene.start(trial.flow)?;
    scene.settle(&flow, trial.seed)?;
    ensure!(!scene.has_moved(), "traffic moved before: {}", scene.logs());
    let octets = |flow: &Flow| flow.arrivals().iter().map(|one| one.total()).sum::<u64>();
    let before = octets(&flow);
    let since = scene.lab.fail(Failure::Lossy { router: ISPS[0].into(), percent: trial.loss })?;
    let mut left = None;
    while since.elapsed() < trial.duration {
        pause(LOOK)?;
        left = left.or_else(|| scene.has_moved().then(|| since.elapsed()));
    }
    let goodput = (octets(&flow) - before) as f64 * 8.0 / 1e6 / since.elapsed().as_secs_f64();
    let is_move = |event: &&moorline_api::Event| event.kind == EventKind::Moved;
    let moves = scene.daemons.iter_mut().map(|one| one.events().iter().filter(is_move).count());
    let moves = u32::try_from(moves.sum::<usize>())?;
    flow.lost(0)?;
    Ok(Outcome { left, moves, goodput })
}

fn chart(points: &[Point]) -> Chart {
    let places = points.iter().map(|point| {
        let Point { flow, system, loss_percent, goodput_mbit_s, .. } = point;
        (format!("{flow}, {system}"), f64::from(*loss_percent), goodput_mbit_s.range())
    });
    let axes = ["packets lost each way (%)", "goodput (Mbit/s)"];
    Chart::lines("A path that loses packets, and another one that loses none", axes, places)
}

/// Rate of each cable in octets a second, and size of its queue in octets.
const RATE: u64 = 12_500_000;
const QUEUE: u64 = 250_000;
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_tell_how_many_have_left_and_when() {
        let experiment = super::super::options::defaults::<Lossy>();
        let cases = experiment.trials().cases;
        assert_eq!(cases.len(), 2 * 2 * 3);
        let outcome = |left: Option<u64>, moves| Outcome {
            left: left.map(Duration::from_secs),
            moves,
            goodput: 12.0,
        };
        let all = [outcome(Some(7), 2), outcome(Some(9), 2), outcome(None, 0)];
        let point = Point::of(&cases[0].0, &all);
        assert_eq!((point.left, point.repetitions), (2, 3));
        assert_eq!(point.left_after_s.median, Some(9.0), "a run that stays is later than any");
        assert_eq!(point.moves.median, Some(2.0));
    }
}
