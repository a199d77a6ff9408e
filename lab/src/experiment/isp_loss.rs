//! A site with many contexts loses one of its ISPs: the time until the contexts have moved, and the probes.

mod world;

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::options::{as_seconds, span};
use super::{Card, Chart, Experiment, Needs, Results, Watch, exact};
use world::World;

/// Time until the contexts of a site have left an ISP that failed, and the probes it took.
///
/// On a virtual clock, so it takes seconds.
// The site has one context with each of its peers. All use one of the two ISPs, and that ISP fails.
#[derive(Clone, Debug, Args, Serialize)]
pub struct IspLoss {
    /// Contexts, each with a peer of its own.
    // Each context has one flow: requests of the site, which the peer answers at once.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub contexts: u32,
    /// Send Timeout of both sides.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    #[serde(rename = "send_timeout_s", serialize_with = "as_seconds")]
    pub send_timeout: Duration,
    /// Round-trip time.
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = span)]
    #[serde(rename = "round_trip_s", serialize_with = "as_seconds")]
    pub round_trip: Duration,
    /// Between two requests of a flow.
    #[arg(skip = Duration::from_millis(500))]
    #[serde(rename = "period_s", serialize_with = "as_seconds")]
    pub period: Duration,
    /// Longest time that is looked at.
    #[arg(skip = Duration::from_secs(120))]
    #[serde(rename = "limit_s", serialize_with = "as_seconds")]
    pub limit: Duration,
}

/// A way to lose the ISP, and its results.
#[derive(Debug, Serialize)]
struct Point {
    /// Whether the site notices that its uplink fails.
    is_noticed: bool,
    moved: usize,
    half_moved_s: Option<f64>,
    p99_moved_s: Option<f64>,
    all_moved_s: Option<f64>,
    site_probes: usize,
    peer_probes: usize,
    most_site_probes_in_a_second: usize,
}

impl Experiment for IspLoss {
    fn card(&self) -> Card {
        Card {
            name: "isp-loss",
            about: "time until the contexts of a site have left an ISP that failed, and the probes it took",
            needs: Needs::Nothing,
            columns: "is_noticed half_moved_s p99_moved_s all_moved_s site_probes peer_probes",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let (mut points, mut places) = (Vec::new(), Vec::new());
        for (index, is_noticed) in [true, false].into_iter().enumerate() {
            let name = if is_noticed { "uplink seen to fail" } else { "silent loss" };
            watch.stage(name);
            let outcome = self.lose(is_noticed)?;
            points.push(self.point(is_noticed, &outcome));
            let of_all = 100.0 / f64::from(self.contexts.max(1));
            let moved = (1u32..).zip(&outcome.moved);
            let moved = moved.map(|(count, at)| (at.as_secs_f64(), f64::from(count) * of_all));
            // A line needs no more points than a plot has columns.
            let step = outcome.moved.len().div_ceil(1000).max(1);
            places.extend(moved.step_by(step).map(|(at, percent)| (name, at, exact(percent))));
            watch.done(if index == 0 { 0.5 } else { 1.0 });
        }
        let title = format!("{} contexts leave an ISP", self.contexts);
        let chart = Chart::lines(title, ["seconds since the loss", "per cent moved"], places);
        Ok(Results::new(self, &points)?.with_charts([chart]))
    }
}

impl IspLoss {
    /// Plays the loss on a virtual clock: the machines of all hosts, and a network that only delays. If `is_noticed`,
    /// the site sees its uplink fail. Otherwise packets are lost silently.
    fn lose(&self, is_noticed: bool) -> anyhow::Result<Outcome> {
        let mut world = World::new(self)?;
        world.establish()?;
        world.lose(is_noticed);
        world.run(self.limit)?;
        Ok(world.into_outcome())
    }

    fn point(&self, is_noticed: bool, outcome: &Outcome) -> Point {
        let by = |per_cent| outcome.moved_by(self.contexts, per_cent).map(|at| at.as_secs_f64());
        Point {
            is_noticed,
            moved: outcome.moved.len(),
            half_moved_s: by(50),
            p99_moved_s: by(99),
            all_moved_s: by(100),
            site_probes: outcome.site_probes.len(),
            peer_probes: outcome.peer_probes.len(),
            most_site_probes_in_a_second: outcome.most_probes_in_a_second(),
        }
    }
}

/// Results of a loss.
#[derive(Debug, Default)]
struct Outcome {
    /// For each context that moved, the time from the loss to the first answer by the other ISP, ascending.
    moved: Vec<Duration>,
    /// Times of the site's probes after the loss, ascending.
    site_probes: Vec<Duration>,
    /// Times of the probes of all peers after the loss, ascending.
    peer_probes: Vec<Duration>,
}

impl Outcome {
    /// Time until `per_cent` of `contexts` had moved. `None` if fewer moved.
    fn moved_by(&self, contexts: u32, per_cent: u32) -> Option<Duration> {
        let needed = (u64::from(contexts) * u64::from(per_cent)).div_ceil(100);
        let index = usize::try_from(needed.saturating_sub(1)).ok()?;
        self.moved.get(index).copied()
    }

    /// Most probes that the site sent in one second, over all seconds that begin with a probe.
    fn most_probes_in_a_second(&self) -> usize {
        let second = Duration::from_secs(1);
        let probes = &self.site_probes;
        let in_second = |(from, &at): (usize, &Duration)| {
            probes.partition_point(|&other| other < at + second) - from
        };
        probes.iter().enumerate().map(in_second).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> IspLoss {
        IspLoss {
            contexts: 20,
            send_timeout: Duration::from_secs(1),
            limit: Duration::from_secs(20),
            ..IspLoss::default()
        }
    }

    #[test]
    fn all_move_after_the_send_timeout_and_not_before() {
        let outcome = plan().lose(false).unwrap();
        assert_eq!(outcome.moved.len(), 20);
        assert!(outcome.moved_by(20, 1) > Some(Duration::from_millis(500)), "{outcome:?}");
        assert!(outcome.site_probes.len() >= 20, "{outcome:?}");
        assert!(outcome.most_probes_in_a_second() >= 1);
    }

    #[test]
    fn a_loss_that_is_noticed_takes_no_timeout() {
        let outcome = plan().lose(true).unwrap();
        assert_eq!(outcome.moved.len(), 20);
        assert!(outcome.moved_by(20, 50) < Some(Duration::from_secs(1)), "{outcome:?}");
        assert_eq!(outcome.moved_by(20, 100), outcome.moved.last().copied());
    }

    #[test]
    fn contexts_that_have_not_moved_have_no_time() {
        let outcome = IspLoss { limit: Duration::from_millis(10), ..plan() }.lose(false).unwrap();
        assert_eq!(outcome.moved_by(20, 50), None);
    }
}
