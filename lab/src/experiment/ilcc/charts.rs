//! Figures 3 to 16 of the study, with our results.

use super::seen::{Point, Second};
use super::{Layer, PlaneName, PolicyName, Test};
use crate::experiment::{Chart, exact};
use crate::workload::ilnp::rates_of_rank;

/// All figures, separately for each plane.
pub(super) fn figures(points: &[Point]) -> Vec<Chart> {
    let of = |&plane: &PlaneName| {
        let own: Vec<_> = points.iter().filter(|point| point.test.plane == plane).collect();
        let named = move |mut chart: Chart| {
            chart.title += &format!(" ({plane} plane)");
            chart
        };
        figures_of_plane(&own).into_iter().map(named).collect::<Vec<_>>()
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
    let sending = |point: &Point| point.send_latency_us;
    let receiving = |point: &Point| point.latency_us;
    let load = |point: &Point| point.load_percent;
    let share = |point: &Point| point.stack_share_percent;
    let by_rank = |title: &str, y, layer, of: &dyn Fn(&Point) -> Option<f64>| {
        let own = points.iter().filter(|point| point.test.layer == layer);
        let places =
            own.map(|point| (point.test.policy, f64::from(point.test.rank), exact(of(point))));
        Chart::lines(title, ["test", y], places)
    };
    // Lines of policy `open`, for the tests that the study shows, or for all tests if there are fewer.
    let by_second = |title: &str, y, layer, of: &dyn Fn(&Second) -> f64| {
        let is_own = |test: Test| (test.layer, test.policy) == (layer, PolicyName::Open);
        let mut own: Vec<_> = points.iter().filter(|point| is_own(point.test)).collect();
        if own.len() > SHOWN.len() {
            own.retain(|point| SHOWN.contains(&point.test.rank));
        }
        let places = own.into_iter().flat_map(|point| {
            let name = format!("test {}", point.test.rank);
            let seconds = (1..).map(f64::from).zip(&point.by_second);
            seconds.map(move |(at, second)| (name.clone(), at, exact(of(second))))
        });
        Chart::lines(title, ["s", y], places)
    };
    vec![
        volume(points),
        by_second("4: ILCC growth, transport layer", "entries", Transport, &entries),
        by_second("5: ILCC growth, network layer", "entries", Network, &entries),
        by_rank("6: average latency of the transport layer, an answer", US, Transport, &sending),
        by_rank("7: average latency of the network layer, a packet", US, Network, &receiving),
        by_rank("8: echo requests served", PERCENT, Transport, &served),
        by_rank("9: packets dropped, transport layer", PERCENT, Transport, &dropped_percent),
        by_second("10: packets dropped a second, transport layer", "packets", Transport, &dropped),
        by_rank("11: packets dropped, network layer", PERCENT, Network, &dropped_percent),
        by_second("12: packets dropped a second, network layer", "packets", Network, &dropped),
        by_rank("13: load of the target", PERCENT, Transport, &load),
        by_rank("14: share of the protocol stack in it", PERCENT, Transport, &share),
        by_rank("15: load of ILNP, transport layer", PERCENT, Transport, &stack_load),
        by_rank("16: load of ILNP, network layer", PERCENT, Network, &stack_load),
    ]
}

fn volume(points: &[&Point]) -> Chart {
    let mut ranks: Vec<_> = points.iter().map(|point| point.test.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let bars = ranks.into_iter().flat_map(|rank| {
        let is_it = |test: Test| (test.rank, test.layer) == (rank, Layer::Transport);
        let sent = points.iter().find(|point| is_it(point.test));
        let (echo, load) = rates_of_rank(rank);
        [
            (rank, "echo requests", sent.map(|point| point.echo_per_s)),
            (rank, "made-up correspondents", sent.map(|point| point.made_up_per_s)),
            (rank, "both in the study", Some((echo + load) as f64)),
        ]
    });
    Chart::bars("3: generated traffic", ["test", "packets/s"], bars)
}

/// Tests that the figures by second show.
const SHOWN: [u8; 5] = [1, 3, 5, 7, 10];
const US: &str = "us";
const PERCENT: &str = "%";
