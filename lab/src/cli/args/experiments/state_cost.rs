use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::experiment::StateCost;
use crate::trace::Campus;
use humantime::parse_duration;
use moorline_datapath::shim6::TriggerPolicy;

/// Parameters of `state-cost`.
#[derive(Clone, Debug, clap::Args)]
pub struct StateCostArgs {
    /// Traffic: a capture (pcap, pcapng) or flow records as CSV (nfdump, IPFIX).
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Count the contexts of this host of the trace; of each by itself, if given more than once.
    #[arg(long = "host", value_name = "ADDRESS", requires = "trace")]
    pub hosts: Vec<IpAddr>,
    /// Quiet time after which the paper's servers forget a context.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    pub collect: Duration,
    /// Quiet time after which Moorline does.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    pub idle: Duration,
    /// Octets that earn a context of Moorline's.
    #[arg(long, value_name = "N", default_value_t = TriggerPolicy::default().bytes)]
    pub trigger_bytes: u64,
    /// Time in use that does.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub trigger_age: Duration,
    /// Number of packets that does.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub trigger_packets: Option<u32>,
    /// What a point stands for.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    pub step: Duration,
    #[command(flatten)]
    campus: CampusArgs,
}

/// What is made up without a trace.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "The campus, without a trace")]
struct CampusArgs {
    /// What everything random follows from.
    #[arg(long, value_name = "N", default_value_t = Campus::default().seed)]
    seed: u64,
    /// How long it is.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = parse_duration)]
    length: Duration,
    /// Servers, each with half of the connections of the one before.
    #[arg(long, value_name = "N", default_value_t = Campus::default().servers, value_parser = clap::value_parser!(u8).range(1..=16))]
    servers: u8,
    /// Connections that begin in a second at the busiest server at the busiest hour.
    #[arg(long, value_name = "N", default_value_t = Campus::default().rate)]
    rate: f64,
    /// The same at the quietest hour, as a part of that.
    #[arg(long, value_name = "PART", default_value_t = Campus::default().night)]
    night: f64,
    /// Hosts that the servers have as peers.
    #[arg(long, value_name = "N", default_value_t = Campus::default().peers)]
    peers: u32,
    /// Connections last so long at least.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = parse_duration)]
    shortest: Duration,
    /// And so long at most.
    #[arg(long, value_name = "TIME", default_value = "4h", value_parser = parse_duration)]
    longest: Duration,
    /// Exponent of the tail of the durations: the smaller, the more long ones.
    #[arg(long, value_name = "N", default_value_t = Campus::default().duration_tail)]
    duration_tail: f64,
    /// Octets of a connection at least.
    #[arg(long, value_name = "N", default_value_t = Campus::default().fewest_octets)]
    fewest_octets: u64,
    /// Exponent of the tail of the octets.
    #[arg(long, value_name = "N", default_value_t = Campus::default().octets_tail)]
    octets_tail: f64,
}

impl StateCostArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> StateCost {
        let CampusArgs { seed, length, servers, rate, night, peers, .. } = self.campus;
        let CampusArgs { shortest, longest, duration_tail, fewest_octets, octets_tail, .. } =
            self.campus;
        StateCost {
            trace: self.trace.clone(),
            hosts: self.hosts.clone(),
            campus: Campus {
                seed,
                length,
                servers,
                rate,
                night,
                peers,
                shortest,
                longest,
                duration_tail,
                fewest_octets,
                octets_tail,
            },
            collect: self.collect,
            idle: self.idle,
            trigger: TriggerPolicy {
                bytes: self.trigger_bytes,
                age: self.trigger_age,
                packets: self.trigger_packets.unwrap_or(u32::MAX),
                ..TriggerPolicy::default()
            },
            step: self.step,
        }
    }
}
