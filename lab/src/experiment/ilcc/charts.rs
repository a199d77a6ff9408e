//! The study's figures 3 to 16, with ours in them.

use super::seen::{Point, Second};
use super::{Layer, PlaneName, PolicyName};
use crate::experiment::{Bars, Chart, Line};
use crate::workload::ilnp::rates_of_rank;

/// Those for which there is something to show, each of a plane.
pub(super) fn figures(points: &[Point]) -> Vec<Chart> {
    let of = |&plane: &PlaneName| {
        let own: Vec<_> = points.iter().filter(|point| point.test.plane == plane).collect();
        let charts = figures_of_plane(&own).into_iter().filter(|chart| !chart.is_empty());
        let named = move |chart: Chart| {
            let title = format!("{} ({plane} plane)", chart.title);
            Chart { title, ..chart }
        };
        charts.map(named).collect::<Vec<_>>()
    };
    PlaneName::ALL.iter().flat_map(of).collect()
}

fn figures_of_plane(points: &[&Point]) -> Vec<Chart> {
    use Layer::{Network, Transport};
    let entries = |second: &Second| second.entries as f64;
    let dropped = |second: &Second| second.dropped as f64;
    let dropped_percent = |point: &Point| Some(100.0 * point.dropped_ratio);
    let stack_load = |point: &Point| Some(point.stack_load_percent);
    let served = |point: &Point| point.served_ratio.map(|ratio| 100.0 * ratio);
    let figure = Figures(points);
    vec![
        volume(points),
        figure.by_second("4: ILCC growth, transport layer", "entries", Transport, entries),
        figure.by_second("5: ILCC growth, network layer", "entries", Network, entries),
        figure.by_rank(
            "6: average latency of the transport layer, an answer",
            US,
            Transport,
            |point| point.send_latency_us,
        ),
        figure.by_rank("7: average latency of the network layer, a packet", US, Network, |point| {
            point.latency_us
        }),
        figure.by_rank("8: echo requests served", PERCENT, Transport, served),
        figure.by_rank("9: packets dropped, transport layer", PERCENT, Transport, dropped_percent),
        figure.by_second(
            "10: packets dropped a second, transport layer",
            "packets",
            Transport,
            dropped,
        ),
        figure.by_rank("11: packets dropped, network layer", PERCENT, Network, dropped_percent),
        figure.by_second(
            "12: packets dropped a second, network layer",
            "packets",
            Network,
            dropped,
        ),
        figure.by_rank("13: load of the target", PERCENT, Transport, |point| point.load_percent),
        figure.by_rank("14: share of the protocol stack in it", PERCENT, Transport, |point| {
            point.stack_share_percent
        }),
        figure.by_rank("15: load of ILNP, transport layer", PERCENT, Transport, stack_load),
        figure.by_rank("16: load of ILNP, network layer", PERCENT, Network, stack_load),
    ]
}

struct Figures<'a>(&'a [&'a Point]);

impl Figures<'_> {
    fn of(&self, layer: Layer, policy: PolicyName) -> impl Iterator<Item = &Point> {
        let is_one = move |point: &&Point| (point.test.layer, point.test.policy) == (layer, policy);
        self.0.iter().copied().filter(is_one)
    }

    fn by_rank(
        &self,
        title: &str,
        y: &str,
        layer: Layer,
        of: impl Fn(&Point) -> Option<f64>,
    ) -> Chart {
        let line = |&policy: &PolicyName| {
            let place = |point: &Point| Some((f64::from(point.test.rank), of(point)?));
            Line::new(policy.name(), self.of(layer, policy).filter_map(place))
        };
        Chart::lines(title, ["test", y], PolicyName::ALL.iter().map(line))
    }

    /// Of `open` in the tests that the study shows, or in all if these are fewer.
    fn by_second(&self, title: &str, y: &str, layer: Layer, of: impl Fn(&Second) -> f64) -> Chart {
        let all: Vec<_> = self.of(layer, PolicyName::Open).collect();
        let is_shown =
            |point: &&&Point| all.len() <= SHOWN.len() || SHOWN.contains(&point.test.rank);
        let line = |point: &&Point| {
            let values = (1..).map(f64::from).zip(point.by_second.iter().map(&of));
            Line::new(format!("test {}", point.test.rank), values)
        };
        Chart::lines(title, ["s", y], all.iter().filter(is_shown).map(line))
    }
}

fn volume(points: &[&Point]) -> Chart {
    let mut ranks: Vec<_> = points.iter().map(|point| point.test.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let bars = |name: &str, of: &dyn Fn(u8) -> Option<f64>| {
        Bars::new(name, ranks.iter().map(|rank| of(*rank)))
    };
    let sent = |name: &str, of: fn(&Point) -> f64| {
        bars(name, &|rank| {
            let at = |one: &&&Point| (one.test.rank, one.test.layer) == (rank, Layer::Transport);
            points.iter().find(at).map(|point| of(point))
        })
    };
    let asked = |rank: u8| {
        let (echo, load) = rates_of_rank(rank);
        Some((echo + load) as f64)
    };
    let series = [
        sent("echo requests", |point| point.echo_per_s),
        sent("made-up correspondents", |point| point.made_up_per_s),
        bars("both in the study", &asked),
    ];
    Chart::bars("3: generated traffic", ["test", "packets/s"], &ranks, series)
}

/// As many as there are colours.
const SHOWN: [u8; 5] = [1, 3, 5, 7, 10];
const US: &str = "us";
const PERCENT: &str = "%";
