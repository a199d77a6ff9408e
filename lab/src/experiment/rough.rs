//! Faults on hosts and networks with default settings, with and without Moorline: the gap that a program sees.

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::options::count;
use super::pool::Trials;
use super::{Card, Chart, Experiment, Needs, Results, Watch};
use crate::named::named;
use crate::rough::app::Seen;
use crate::rough::scenario::Scenario;
use crate::rough::trial::{self, Outcome};

/// Faults of hosts and networks that nobody tuned: the gap of a program, with and without Moorline (as root).
///
/// Independent routers, firewalls, NAT66, roaming, renumbering, restarts. It ends with a failure if a program was
/// worse off with Moorline. With the defaults it takes some five minutes.
#[derive(Clone, Debug, Args, Serialize)]
pub struct Rough {
    /// Faults to cause; all of them if none is named.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Scenario::ALL.iter().copied(), hide_default_value = true)]
    pub scenarios: Vec<Scenario>,
    /// Networks side by side; they mostly wait.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = count)]
    pub parallel: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Point {
    scenario: Scenario,
    about: &'static str,
    /// Greatest difference of two gaps that counts as noise.
    margin_s: f64,
    without: Side,
    with: Side,
    /// Whether the daemon called its contexts protected before the fault.
    protected: &'static str,
    verdict: Verdict,
}

#[derive(Clone, Debug, Serialize)]
struct Side {
    /// Gap of each program, as text.
    gap: String,
    programs: Vec<Seen>,
    /// Gap from the moment at which an answer could come again.
    after_usable_s: Option<f64>,
    /// Whether a new connection succeeded afterwards.
    new: &'static str,
    watched_s: f64,
}

named! {
    enum Verdict {
        Same = "same",
        Better = "better",
        Worse = "WORSE",
    }
}

impl Experiment for Rough {
    fn card(&self) -> Card {
        Card {
            name: "rough",
            about: "gaps that a program sees on networks that nobody tuned, with and without Moorline",
            needs: Needs::Daemons(&["radvd", "python3"]),
            columns: "scenario without.gap with.gap without.new with.new protected verdict",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let pair = |&scenario| [false, true].map(|is_with| ((scenario, is_with), 1));
        let cases = self.scenarios.iter().flat_map(pair).collect();
        let trials = Trials { cases, seed: 0, parallel: self.parallel };
        let name = |(scenario, _): &(Scenario, bool)| scenario.to_string();
        let tried = trials.run(watch, name, |trial| {
            let (scenario, is_with) = **trial;
            trial::run(scenario, is_with, Duration::ZERO)
                .map_err(|error| error.context(scenario.name()))
        })?;
        let outcomes: Vec<_> = tried.iter().flat_map(|(_, outcomes)| outcomes).collect();
        let pairs = self.scenarios.iter().zip(outcomes.chunks_exact(2));
        let points: Vec<_> =
            pairs.map(|(scenario, pair)| Point::of(*scenario, pair[0], pair[1])).collect();
        let worse = points.iter().filter(|point| point.verdict == Verdict::Worse);
        let faults =
            worse.map(|point| format!("{}: worse with Moorline", point.scenario)).collect();
        let results = Results { faults, ..Results::new(self, &points)? };
        Ok(results.with_charts([chart(&points)]))
    }
}

impl Point {
    fn of(scenario: Scenario, without: &Outcome, with: &Outcome) -> Self {
        let plan = scenario.plan();
        let programs = without.seen.iter().zip(&with.seen);
        let verdicts =
            programs.map(|(without, with)| Verdict::of(without.gap, with.gap, plan.margin));
        let connects = match (without.connects, with.connects) {
            (true, false) => Verdict::Worse,
            (false, true) => Verdict::Better,
            (true, true) | (false, false) => Verdict::Same,
        };
        Self {
            scenario,
            about: scenario.about(),
            margin_s: plan.margin.as_secs_f64(),
            without: Side::of(without),
            with: Side::of(with),
            protected: yes_or_no(with.is_protected),
            verdict: verdicts.chain([connects]).max().unwrap_or(Verdict::Same),
        }
    }
}

impl Verdict {
    /// Compares the gaps of a program.
    fn of(without: Option<Duration>, with: Option<Duration>, margin: Duration) -> Self {
        match (without, with) {
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
        let shown = outcome.seen.iter().map(|seen| match (seen.gap, &seen.ended) {
            (Some(gap), _) => format!("{:.2}", gap.as_secs_f64()),
            (None, Some(_)) => "ended".to_owned(),
            (None, None) if seen.damaged > 0 => "damaged".to_owned(),
            (None, None) => format!("> {:.0}", outcome.watched.as_secs_f64().floor()),
        });
        Self {
            gap: shown.collect::<Vec<_>>().join(" / "),
            programs: outcome.seen.clone(),
            after_usable_s: outcome.after_usable.map(|time| time.as_secs_f64()),
            new: yes_or_no(outcome.connects),
            watched_s: outcome.watched.as_secs_f64(),
        }
    }

    /// The longest gap. A gap without an end counts as the time for which it was watched.
    fn longest(&self) -> Option<f64> {
        let gap = |seen: &Seen| seen.gap.map_or(self.watched_s, |gap| gap.as_secs_f64());
        let gaps = self.programs.iter().map(gap);
        gaps.reduce(f64::max)
    }
}

fn yes_or_no(is_so: bool) -> &'static str {
    if is_so { "yes" } else { "no" }
}

fn chart(points: &[Point]) -> Chart {
    let bars = points.iter().flat_map(|point| {
        [
            (point.scenario, "without Moorline", point.without.longest()),
            (point.scenario, "with Moorline", point.with.longest()),
        ]
    });
    Chart::bars("Longest time without an answer", ["scenario", "seconds"], bars).in_decades()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_gap_is_worse_beyond_the_margin_and_none_that_ends_is_worst() {
        let margin = Duration::from_millis(500);
        let gap = |ms| Some(Duration::from_millis(ms));
        let verdict = |without, with| Verdict::of(without, with, margin);
        assert_eq!(verdict(gap(100), gap(600)), Verdict::Same);
        assert_eq!(verdict(gap(100), gap(601)), Verdict::Worse);
        assert_eq!(verdict(gap(100), None), Verdict::Worse);
        assert_eq!(verdict(None, None), Verdict::Same);
        assert_eq!(verdict(None, gap(7000)), Verdict::Better);
        assert_eq!(verdict(gap(2000), gap(100)), Verdict::Better);
    }
}
