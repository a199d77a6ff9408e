//! What happens to hosts and networks that nobody tuned, with and without Moorline: the gap that a program saw.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::pool::run_groups;
use super::recovery::{self, obstacles};
use super::{Bars, Chart, Data, Experiment, Results, Scale, Watch};
use crate::rough::app::{Kind, Seen};
use crate::rough::scenario::Scenario;
use crate::rough::trial::{self, Outcome};

/// Parameters.
#[derive(Clone, Debug)]
pub struct Rough {
    /// The daemon to run; found if not told.
    pub moorlined: Option<PathBuf>,
    /// What happens.
    pub scenarios: Vec<Scenario>,
    /// Networks side by side; they mostly wait.
    pub parallel: usize,
}

impl Default for Rough {
    fn default() -> Self {
        Self { moorlined: None, scenarios: Scenario::ALL.into(), parallel: 3 }
    }
}

#[derive(Debug, Serialize)]
struct Parameters {
    scenarios: Vec<&'static str>,
    parallel: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    scenario: &'static str,
    about: &'static str,
    /// A gap that is longer by no more is noise.
    margin_s: f64,
    without: Side,
    with: Side,
    /// Whether the daemon said that its contexts are protected, before it happened.
    protected: &'static str,
    verdict: Verdict,
}

#[derive(Clone, Debug, Serialize)]
struct Side {
    /// Of each program, for a person.
    gap: String,
    programs: Vec<Program>,
    /// From the moment when an answer could come again.
    after_usable_s: Option<f64>,
    /// Whether a connection was made afterwards.
    new: &'static str,
    watched_s: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Program {
    program: &'static str,
    /// None if answers did not come again.
    gap_s: Option<f64>,
    damaged: usize,
    ended: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
enum Verdict {
    #[serde(rename = "same")]
    Same,
    #[serde(rename = "better")]
    Better,
    #[serde(rename = "WORSE")]
    Worse,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    scenario: Scenario,
    is_with: bool,
}

impl Experiment for Rough {
    fn name(&self) -> &'static str {
        "rough"
    }

    fn about(&self) -> &'static str {
        "gaps that a program sees on networks that nobody tuned, with and without Moorline"
    }

    fn obstacles(&self) -> Vec<String> {
        obstacles(self.moorlined.as_ref(), &["radvd", "python3"])
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let moorlined = recovery::daemon(self.moorlined.as_deref())?;
        let jobs: Vec<_> = self
            .scenarios
            .iter()
            .map(|&scenario| [false, true].map(|is_with| Job { scenario, is_with }))
            .collect();
        let groups: Vec<_> = jobs.iter().map(|pair| &pair[..]).collect();
        let work = |job: &Job| {
            trial::run(job.scenario, job.is_with.then_some(moorlined.as_path()), Duration::ZERO)
                .map_err(|error| error.context(job.scenario.plan().name))
        };
        let name = |job: &Job| job.scenario.plan().name.to_owned();
        let outcomes = run_groups(&groups, self.parallel, work, name, watch)?;
        let points = self.scenarios.iter().zip(&outcomes).filter_map(|(scenario, pair)| {
            let [without, with] = pair.as_slice() else { return None };
            Some(Point::of(*scenario, without, with))
        });
        let points: Vec<_> = points.collect();
        let scenarios = self.scenarios.iter().map(|scenario| scenario.plan().name).collect();
        let parameters = Parameters { scenarios, parallel: self.parallel };
        let results = Results::new(self, &parameters, &points)?;
        let worse = points.iter().filter(|point| point.verdict == Verdict::Worse);
        let faults =
            worse.map(|point| format!("{}: worse with Moorline", point.scenario)).collect();
        let results = Results { faults, ..results };
        Ok(results.with_columns(&COLUMNS).with_charts(vec![chart(&points)]))
    }
}

impl Point {
    fn of(scenario: Scenario, without: &Outcome, with: &Outcome) -> Self {
        let plan = scenario.plan();
        let programs = without.seen.iter().zip(&with.seen);
        let verdicts =
            programs.map(|((_, without), (_, with))| Verdict::of(without, with, plan.margin));
        let connects = match (without.connects, with.connects) {
            (true, false) => Verdict::Worse,
            (false, true) => Verdict::Better,
            (true, true) | (false, false) => Verdict::Same,
        };
        Self {
            scenario: plan.name,
            about: plan.about,
            margin_s: plan.margin.as_secs_f64(),
            without: Side::of(without),
            with: Side::of(with),
            protected: yes_or_no(with.is_protected),
            verdict: verdicts.chain([connects]).max().unwrap_or(Verdict::Same),
        }
    }
}

impl Verdict {
    fn of(without: &Seen, with: &Seen, margin: Duration) -> Self {
        match (gap(without), gap(with)) {
            (Some(_), None) => Self::Worse,
            (None, None) => Self::Same,
            (None, Some(_)) => Self::Better,
            (Some(without), Some(with)) if with > without + margin => Self::Worse,
            (Some(without), Some(with)) if with + margin < without => Self::Better,
            (Some(_), Some(_)) => Self::Same,
        }
    }
}

impl Side {
    fn of(outcome: &Outcome) -> Self {
        let shown = outcome.seen.iter().map(|(_, seen)| match (gap(seen), &seen.ended) {
            (Some(gap), _) => format!("{:.2}", gap.as_secs_f64()),
            (None, Some(_)) => "ended".to_owned(),
            (None, None) if seen.damaged > 0 => "damaged".to_owned(),
            (None, None) => format!("> {:.0}", outcome.watched.as_secs_f64().floor()),
        });
        Self {
            gap: shown.collect::<Vec<_>>().join(" / "),
            programs: outcome.seen.iter().map(|(kind, seen)| Program::of(*kind, seen)).collect(),
            after_usable_s: outcome.after_usable.map(|time| time.as_secs_f64()),
            new: yes_or_no(outcome.connects),
            watched_s: outcome.watched.as_secs_f64(),
        }
    }

    /// The longest gap; what did not end counts for as long as it was watched.
    fn longest(&self) -> Option<f64> {
        let gaps = self.programs.iter().map(|program| program.gap_s.unwrap_or(self.watched_s));
        gaps.reduce(f64::max)
    }
}

impl Program {
    fn of(kind: Kind, seen: &Seen) -> Self {
        Self {
            program: match kind {
                Kind::Tcp => "tcp",
                Kind::Udp => "udp",
                Kind::PacketInfo => "udp-pktinfo",
            },
            gap_s: gap(seen).map(|gap| gap.as_secs_f64()),
            damaged: seen.damaged,
            ended: seen.ended.clone(),
        }
    }
}

/// None if answers did not come again, or were wrong.
fn gap(seen: &Seen) -> Option<Duration> {
    (seen.is_alive && seen.damaged == 0).then_some(seen.gap)
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn chart(points: &[Point]) -> Chart {
    let series = |name: &str, side: fn(&Point) -> &Side| Bars {
        name: name.into(),
        values: points.iter().map(|point| side(point).longest()).collect(),
    };
    Chart {
        title: "Longest time without an answer".into(),
        x: "scenario".into(),
        y: "seconds".into(),
        scale: Scale::Log,
        data: Data::Bars {
            groups: points.iter().map(|point| point.scenario.to_owned()).collect(),
            series: vec![
                series("without Moorline", |point| &point.without),
                series("with Moorline", |point| &point.with),
            ],
        },
    }
}

const COLUMNS: [&str; 7] =
    ["scenario", "without.gap", "with.gap", "without.new", "with.new", "protected", "verdict"];

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ms: u64, is_alive: bool) -> Seen {
        Seen { gap: Duration::from_millis(ms), is_alive, damaged: 0, ended: None }
    }

    #[test]
    fn a_longer_gap_is_worse_beyond_the_margin_and_none_that_ends_is_worst() {
        let margin = Duration::from_millis(500);
        let verdict = |without, with| Verdict::of(&without, &with, margin);
        assert_eq!(verdict(seen(100, true), seen(600, true)), Verdict::Same);
        assert_eq!(verdict(seen(100, true), seen(601, true)), Verdict::Worse);
        assert_eq!(verdict(seen(100, true), seen(8000, false)), Verdict::Worse);
        assert_eq!(verdict(seen(8000, false), seen(8000, false)), Verdict::Same);
        assert_eq!(verdict(seen(8000, false), seen(7000, true)), Verdict::Better);
        assert_eq!(verdict(seen(2000, true), seen(100, true)), Verdict::Better);
        let damaged = Seen { damaged: 1, ..seen(10, true) };
        assert_eq!(verdict(seen(10, true), damaged), Verdict::Worse);
    }
}
