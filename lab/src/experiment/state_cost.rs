//! Number of contexts on hosts over a day: figure 11 of the LinShim6 paper.

mod state;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{bail, ensure};
use clap::Args;
use moorline_datapath::shim6::TriggerPolicy;
use serde::Serialize;
use serde_json::{Value, json};

use super::options::{as_seconds, span};
use super::{Card, Chart, Experiment, Needs, Results, Watch, exact};
use crate::interrupt;
use crate::trace::{self, Campus, Packets};
use state::{State, Step};

/// Contexts at a time over a day of traffic, and the memory they take.
///
/// Figure 11 of the LinShim6 paper: for a capture or flow records, or for a day of some servers of a campus,
/// made up. That day takes some ten seconds in a release build.
#[derive(Clone, Debug, Args, Serialize)]
pub struct StateCost {
    /// Traffic: a capture (pcap, pcapng) or flow records as CSV (nfdump, IPFIX).
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Count the contexts of this host of the trace; of each by itself, if given more than once.
    #[arg(long = "host", value_name = "ADDRESS", requires = "trace")]
    #[serde(skip)]
    pub hosts: Vec<IpAddr>,
    /// Quiet time after which the paper's servers forget a context.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = span)]
    #[serde(rename = "collect_s", serialize_with = "as_seconds")]
    pub collect: Duration,
    /// Quiet time after which Moorline does.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = span)]
    #[serde(rename = "idle_s", serialize_with = "as_seconds")]
    pub idle: Duration,
    /// Octets that earn a context of Moorline's.
    #[arg(long, value_name = "N", default_value_t = TriggerPolicy::default().bytes)]
    pub trigger_bytes: u64,
    /// Time in use that does.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    #[serde(rename = "trigger_age_s", serialize_with = "as_seconds")]
    pub trigger_age: Duration,
    /// Number of packets that does.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub trigger_packets: Option<u32>,
    /// What a point stands for.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = span)]
    #[serde(rename = "step_s", serialize_with = "as_seconds")]
    pub step: Duration,
    #[allow(
        missing_docs,
        reason = "the text would take the place of the experiment's in the help"
    )]
    #[command(flatten)]
    pub campus: Campus,
}

/// Contexts of a host by a policy, in one step of the time.
#[derive(Debug, Serialize)]
struct Point<'a> {
    host: &'a str,
    policy: &'a str,
    /// Time since the start of the trace, in hours.
    hour: f64,
    #[serde(flatten)]
    step: Step,
}

/// Contexts of a host by a policy, over the whole trace.
#[derive(Debug, Serialize)]
struct Whole<'a> {
    host: &'a str,
    policy: &'a str,
    peak: usize,
    mean: f64,
    made: u64,
    most_made_a_second: f64,
    daemon_octets_at_peak: usize,
    table_octets_at_peak: usize,
}

impl Experiment for StateCost {
    fn card(&self) -> Card {
        Card {
            name: "state-cost",
            about: "contexts at a time over a day of traffic, and the memory they take",
            needs: Needs::Nothing,
            columns: "host policy peak mean made daemon_octets_at_peak table_octets_at_peak",
        }
    }

    fn measure(&self, watch: &mut dyn Watch) -> anyhow::Result<Results> {
        self.check()?;
        let (packets, hosts) = self.traffic(watch)?;
        let mut lanes = self.lanes(&hosts);
        let end = self.play(packets, &mut lanes, watch)?;
        for lane in &mut lanes {
            lane.state.finish(end)?;
        }
        let points = lanes.iter().flat_map(|Lane { host, policy, state }| {
            let hours = (0_u32..).map(|index| f64::from(index) * self.step_hours());
            let steps = state.steps.iter().zip(hours);
            steps.map(move |(&step, hour)| Point { host, policy, hour, step })
        });
        let points: Vec<_> = points.collect();
        let whole: Vec<_> = lanes.iter().map(|lane| self.whole(lane, end)).collect();
        let mut parameters = json!({"daemon_octets": DAEMON_OCTETS, "table_octets": TABLE_OCTETS});
        if self.trace.is_some() {
            parameters["campus"] = Value::Null;
        }
        let results = Results::new(self, &points)?.with_parameters(parameters);
        Ok(results.with_totals(&whole)?.with_charts(self.charts(&lanes)))
    }
}

/// The contexts of a host by a policy.
struct Lane {
    host: String,
    policy: String,
    state: State,
}

impl StateCost {
    fn check(&self) -> anyhow::Result<()> {
        let Campus { rate, night, duration_tail, octets_tail, .. } = self.campus;
        ensure!(rate.is_finite() && rate >= 0.0, "{rate} connections a second");
        ensure!((0.0..=1.0).contains(&night), "activity at night is a part of 1, not {night}");
        ensure!(duration_tail > 0.0 && octets_tail > 0.0, "the exponent of a tail is above 0");
        ensure!(!self.collect.is_zero() && !self.idle.is_zero(), "contexts gone at once");
        ensure!(self.step >= SHORTEST_STEP, "a step of less than {SHORTEST_STEP:?}");
        Ok(())
    }

    fn traffic(&self, watch: &mut dyn Watch) -> anyhow::Result<(Packets, Vec<Option<Ipv6Addr>>)> {
        let given = self.hosts.iter().copied().map(trace::widened);
        let given: BTreeSet<_> = given.collect();
        let Some(path) = &self.trace else {
            ensure!(given.is_empty(), "hosts are those of a trace");
            watch.stage("a campus, made up");
            let hosts = self.campus.hosts().into_iter().map(Some).collect();
            return Ok((self.campus.packets(), hosts));
        };
        watch.stage(&format!("{}", path.display()));
        let hosts = given.into_iter().map(Some).collect();
        Ok((trace::open(path)?, if self.hosts.is_empty() { vec![None] } else { hosts }))
    }

    fn lanes(&self, hosts: &[Option<Ipv6Addr>]) -> Vec<Lane> {
        let first = TriggerPolicy { packets: 1, ..TriggerPolicy::NEVER };
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        let policies = [
            (format!("first packet, {}", seconds(self.collect)), first, self.collect),
            (format!("moorline, {}", seconds(self.collect)), self.trigger(), self.collect),
            (format!("moorline, {}", seconds(self.idle)), self.trigger(), self.idle),
        ];
        let lane = |host: Option<Ipv6Addr>,
                    (name, policy, collect): &(String, TriggerPolicy, _)| {
            let state = State::new(host, *policy, *collect, self.step);
            Lane { host: host_name(host), policy: name.clone(), state }
        };
        let lanes = hosts.iter().flat_map(|host| policies.iter().map(|policy| lane(*host, policy)));
        lanes.collect()
    }

    /// Plays the trace and gives its length.
    fn play(
        &self,
        packets: Packets,
        lanes: &mut [Lane],
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Duration> {
        let (mut begin, mut end) = (None, Duration::ZERO);
        for (index, packet) in packets.enumerate() {
            let mut packet = packet?;
            packet.at = packet.at.saturating_sub(*begin.get_or_insert(packet.at));
            end = end.max(packet.at);
            for lane in &mut *lanes {
                lane.state.handle(&packet)?;
            }
            if index.is_multiple_of(65_536) {
                interrupt::check()?;
                if self.trace.is_none() {
                    watch.done(end.div_duration_f64(self.campus.length).min(1.0));
                }
            }
        }
        if begin.is_none() {
            bail!("no IP packet in the trace");
        }
        watch.done(1.0);
        Ok(end)
    }

    fn whole<'a>(&self, lane: &'a Lane, end: Duration) -> Whole<'a> {
        let Lane { host, policy, state } = lane;
        let peak = most(&state.steps);
        let most_made = state.steps.iter().map(|step| step.made).max().unwrap_or(0);
        Whole {
            host,
            policy,
            peak,
            mean: state.whole_area as f64 / end.as_nanos().max(1) as f64,
            made: state.steps.iter().map(|step| step.made).sum(),
            most_made_a_second: most_made as f64 / self.step.as_secs_f64(),
            daemon_octets_at_peak: peak * DAEMON_OCTETS,
            table_octets_at_peak: peak * TABLE_OCTETS,
        }
    }

    /// The trigger policy of Moorline.
    fn trigger(&self) -> TriggerPolicy {
        TriggerPolicy {
            bytes: self.trigger_bytes,
            age: self.trigger_age,
            packets: self.trigger_packets.unwrap_or(u32::MAX),
            ..TriggerPolicy::default()
        }
    }

    fn step_hours(&self) -> f64 {
        self.step.as_secs_f64() / 3600.0
    }

    /// Charts, one for each host.
    fn charts(&self, lanes: &[Lane]) -> Vec<Chart> {
        let places = |Lane { policy, state, .. }: &Lane| {
            // A line needs no more points than a plot has columns.
            let every = state.steps.len().div_ceil(1000).max(1);
            let hours = (0_u32..).map(|index| f64::from(index) * every as f64 * self.step_hours());
            let places = hours.zip(state.steps.chunks(every));
            let place = |(hour, steps)| (policy.clone(), hour, exact(most(steps) as f64));
            places.map(place).collect::<Vec<_>>()
        };
        let chart = |lanes: &[Lane]| {
            let title = format!("Contexts of {}", lanes[0].host);
            Chart::lines(title, ["hours", "contexts at once"], lanes.iter().flat_map(places))
        };
        lanes.chunk_by(|one, next| one.host == next.host).map(chart).collect()
    }
}

/// Most contexts at the same time.
fn most(steps: &[Step]) -> usize {
    steps.iter().map(|step| step.most).max().unwrap_or(0)
}

fn host_name(host: Option<Ipv6Addr>) -> String {
    match host {
        None => "all hosts".to_owned(),
        Some(host) => host.to_ipv4_mapped().map_or_else(|| host.to_string(), |v4| v4.to_string()),
    }
}

/// Octets of a context in the daemon: growth of the memory from one to 100,000 contexts, for each context, after each
/// has checked its standby path (decision 038).
const DAEMON_OCTETS: usize = 481;
/// Octets of a context in the tables of the eBPF programs (decision 021).
const TABLE_OCTETS: usize = 251;
/// The traffic is counted in whole seconds.
const SHORTEST_STEP: Duration = Duration::from_secs(1);
