//! A site with many contexts loses one of its ISPs: how long until they have moved, and at what cost.

use serde::Serialize;

use super::{Chart, Data, Experiment, Line, Results, Scale, Watch};
use crate::cost::{self, IspLoss, IspLossOutcome};

/// The parameters, for JSON.
#[derive(Debug, Serialize)]
struct Parameters {
    contexts: u32,
    round_trip_s: f64,
    send_timeout_s: f64,
    period_s: f64,
    limit_s: f64,
}

/// One way to lose the ISP.
#[derive(Debug, Serialize)]
struct Point {
    /// Whether the site saw its uplink fail.
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
    fn name(&self) -> &'static str {
        "isp-loss"
    }

    fn about(&self) -> &'static str {
        "time until the contexts of a site have left an ISP that failed, and the probes it took"
    }

    /// Both ways, whichever the plan names.
    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let (mut points, mut series) = (Vec::new(), Vec::new());
        for (index, is_noticed) in [true, false].into_iter().enumerate() {
            let name = if is_noticed { "uplink seen to fail" } else { "silent loss" };
            watch.stage(name);
            let outcome = cost::isp_loss(&Self { is_noticed, ..self.clone() })?;
            points.push(self.point(is_noticed, &outcome));
            let of_all = 100.0 / f64::from(self.contexts.max(1));
            let moved = (1u32..).zip(&outcome.moved);
            let moved = moved.map(|(count, at)| (at.as_secs_f64(), f64::from(count) * of_all));
            // A line needs no more points than a plot has columns.
            let step = outcome.moved.len().div_ceil(1000).max(1);
            series.push(Line { name: name.into(), points: moved.step_by(step).collect() });
            watch.done(if index == 0 { 0.5 } else { 1.0 });
        }
        let chart = Chart {
            title: format!("{} contexts leave an ISP", self.contexts),
            x: "seconds since the loss".into(),
            y: "per cent moved".into(),
            scale: Scale::Linear,
            data: Data::Lines { series },
        };
        let parameters = Parameters {
            contexts: self.contexts,
            round_trip_s: self.round_trip.as_secs_f64(),
            send_timeout_s: self.send_timeout.as_secs_f64(),
            period_s: self.period.as_secs_f64(),
            limit_s: self.limit.as_secs_f64(),
        };
        let results = Results::new(self, &parameters, &points)?.with_columns(&COLUMNS);
        Ok(results.with_charts(vec![chart]))
    }
}

impl IspLoss {
    fn point(&self, is_noticed: bool, outcome: &IspLossOutcome) -> Point {
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

const COLUMNS: [&str; 6] =
    ["is_noticed", "half_moved_s", "p99_moved_s", "all_moved_s", "site_probes", "peer_probes"];
