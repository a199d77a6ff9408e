//! The study's figures 3 to 16, with ours in them.

use super::{Layer, PlaneName, Point, PolicyName};
use crate::experiment::{Bars, Chart, Data, Line, Scale};
use crate::workload::ilnp::rates_of_rank;

/// Those for which there is something to show, each of a plane.
pub(super) fn figures(points: &[Point]) -> Vec<Chart> {
    let of = |plane| {
        let own: Vec<_> = points.iter().filter(|point| point.plane == plane).cloned().collect();
        let name = |chart: Chart| Chart {
            title: format!("{} ({} plane)", chart.title, plane.name()),
            ..chart
        };
        figures_of_plane(&own).into_iter().map(name).collect::<Vec<_>>()
    };
    [PlaneName::User, PlaneName::Ebpf].into_iter().flat_map(of).collect()
}

fn figures_of_plane(points: &[Point]) -> Vec<Chart> {
    use Layer::{Network, Transport};
    let percent = |ratio: Option<f64>| ratio.map(|ratio| 100.0 * ratio);
    let entries = |second: &super::Second| second.entries as f64;
    let dropped = |second: &super::Second| second.dropped as f64;
    let figures = Figures(points);
    let charts = [
        volume(points),
        figures.by_second("4: ILCC growth, transport layer", "entries", Transport, entries),
        figures.by_second("5: ILCC growth, network layer", "entries", Network, entries),
        figures.by_rank(
            "6: average latency of the transport layer, an answer",
            US,
            Transport,
            |p| p.send_latency_us,
        ),
        figures.by_rank("7: average latency of the network layer, a packet", US, Network, |p| {
            p.latency.mean
        }),
        figures.by_rank("8: echo requests served", PERCENT, Transport, |p| percent(p.served_ratio)),
        figures.by_rank("9: packets dropped, transport layer", PERCENT, Transport, |p| {
            percent(Some(p.dropped_ratio))
        }),
        figures.by_second(
            "10: packets dropped a second, transport layer",
            "packets",
            Transport,
            dropped,
        ),
        figures.by_rank("11: packets dropped, network layer", PERCENT, Network, |p| {
            percent(Some(p.dropped_ratio))
        }),
        figures.by_second(
            "12: packets dropped a second, network layer",
            "packets",
            Network,
            dropped,
        ),
        figures.by_rank("13: load of the target", PERCENT, Transport, |p| p.load_percent),
        figures.by_rank("14: share of the protocol stack in it", PERCENT, Transport, |p| {
            p.stack_share_percent
        }),
        figures.by_rank("15: load of ILNP, transport layer", PERCENT, Transport, |p| {
            Some(p.stack_load_percent)
        }),
        figures.by_rank("16: load of ILNP, network layer", PERCENT, Network, |p| {
            Some(p.stack_load_percent)
        }),
    ];
    charts.into_iter().filter(|chart| !chart.is_empty()).collect()
}

struct Figures<'a>(&'a [Point]);

impl Figures<'_> {
    fn of(&self, layer: Layer, policy: PolicyName) -> impl Iterator<Item = &Point> {
        self.0.iter().filter(move |point| point.layer == layer && point.policy == policy)
    }

    fn by_rank(
        &self,
        title: &str,
        y: &str,
        layer: Layer,
        of: impl Fn(&Point) -> Option<f64>,
    ) -> Chart {
        let line = |policy: PolicyName| Line {
            name: policy.name().into(),
            points: self
                .of(layer, policy)
                .filter_map(|point| Some((f64::from(point.rank), of(point)?)))
                .collect(),
        };
        let series = POLICIES.map(line).into_iter().filter(|line| !line.points.is_empty());
        chart(title, "test", y, series.collect())
    }

    /// Of `open` in the tests that the study shows, or in all if these are fewer.
    fn by_second(
        &self,
        title: &str,
        y: &str,
        layer: Layer,
        of: impl Fn(&super::Second) -> f64,
    ) -> Chart {
        let all: Vec<_> = self.of(layer, PolicyName::Open).collect();
        let is_shown = |point: &&&Point| all.len() <= SHOWN.len() || SHOWN.contains(&point.rank);
        let line = |point: &&Point| Line {
            name: format!("test {}", point.rank),
            points: (1..).map(f64::from).zip(point.by_second.iter().map(&of)).collect(),
        };
        chart(title, "s", y, all.iter().filter(is_shown).map(line).collect())
    }
}

fn volume(points: &[Point]) -> Chart {
    let mut ranks: Vec<_> = points.iter().map(|point| point.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let sent = |rank: u8, of: fn(&Point) -> f64| {
        let at = |point: &&Point| point.rank == rank && point.layer == Layer::Transport;
        points.iter().find(at).map(of)
    };
    let asked = |rank: u8| {
        let (echo, load) = rates_of_rank(rank);
        Some((echo + load) as f64)
    };
    let bars = |name: &str, of: &dyn Fn(u8) -> Option<f64>| Bars {
        name: name.into(),
        values: ranks.iter().map(|rank| of(*rank)).collect(),
    };
    Chart {
        title: "3: generated traffic".into(),
        x: "test".into(),
        y: "packets/s".into(),
        scale: Scale::Linear,
        data: Data::Bars {
            groups: ranks.iter().map(u8::to_string).collect(),
            series: vec![
                bars("echo requests", &|rank| sent(rank, |point| point.echo_per_s)),
                bars("made-up correspondents", &|rank| sent(rank, |point| point.made_up_per_s)),
                bars("both in the study", &asked),
            ],
        },
    }
}

fn chart(title: &str, x: &str, y: &str, series: Vec<Line>) -> Chart {
    Chart {
        title: title.into(),
        x: x.into(),
        y: y.into(),
        scale: Scale::Linear,
        data: Data::Lines { series },
    }
}

const POLICIES: [PolicyName; 2] = [PolicyName::Open, PolicyName::Admit];
/// As many as there are colours.
const SHOWN: [u8; 5] = [1, 3, 5, 7, 10];
const US: &str = "us";
const PERCENT: &str = "%";
