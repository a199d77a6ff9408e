//! A site with many contexts loses one of its ISPs: how long until they have moved, and at what cost.

use serde::Serialize;

use super::{Card, Chart, Experiment, Line, Results, Watch};
use crate::cost::{self, IspLoss, IspLossOutcome};

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
    fn card(&self) -> Card {
        Card {
            name: "isp-loss",
            about: "time until the contexts of a site have left an ISP that failed, and the probes it took",
            needs: None,
            columns: &[
                "is_noticed",
                "half_moved_s",
                "p99_moved_s",
                "all_moved_s",
                "site_probes",
                "peer_probes",
            ],
        }
    }

    /// Both ways, whichever the plan names.
    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        let (mut points, mut lines) = (Vec::new(), Vec::new());
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
            lines.push(Line::new(name, moved.step_by(step)));
            watch.done(if index == 0 { 0.5 } else { 1.0 });
        }
        let title = format!("{} contexts leave an ISP", self.contexts);
        let chart = Chart::lines(title, ["seconds since the loss", "per cent moved"], lines);
        Ok(Results::new(self, &points)?.with_charts([chart]))
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
