use std::f64::consts::TAU;
use std::net::Ipv6Addr;
use std::time::Duration;

use clap::Args;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};
use serde::{Serialize, Serializer};

use super::{Packets, Record, Spread};
use crate::experiment::options::{self, as_seconds, span};

/// A day, or more, of traffic of some servers of a campus, made up.
///
/// Connections begin at random (a Poisson process) at a rate that goes up and down with the hour: least at 4,
/// most at 16 o'clock. Each server has half of the connections of the one before. Peers are drawn from a
/// population in which the n-th is n times rarer than the first. How long a connection lasts and how much it
/// carries have heavy tails (bounded Pareto distributions).
#[derive(Clone, Debug, PartialEq, Args, Serialize)]
#[command(about = None, long_about = None, next_help_heading = "The campus, without a trace")]
pub struct Campus {
    /// What everything random follows from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// How long it is.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = span)]
    #[serde(rename = "hours", serialize_with = "as_hours")]
    pub length: Duration,
    /// Servers, each with half of the connections of the one before.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub servers: u8,
    /// Connections that begin in a second at the busiest server at the busiest hour.
    // With this rate, the busiest server has fewer than 800 contexts, as in the paper.
    #[arg(long, value_name = "N", default_value_t = 72.0)]
    pub rate: f64,
    /// The same at the quietest hour, as a part of that.
    #[arg(long, value_name = "PART", default_value_t = 0.15)]
    pub night: f64,
    /// Hosts that the servers have as peers.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub peers: u32,
    /// Connections last so long at least.
    // The median duration is at most twice this value.
    #[arg(long, value_name = "TIME", default_value = "300ms", value_parser = span)]
    #[serde(rename = "shortest_s", serialize_with = "as_seconds")]
    pub shortest: Duration,
    /// And so long at most.
    #[arg(long, value_name = "TIME", default_value = "4h", value_parser = span)]
    #[serde(rename = "longest_s", serialize_with = "as_seconds")]
    pub longest: Duration,
    /// Exponent of the tail of the durations: the smaller, the more long ones.
    #[arg(long, value_name = "N", default_value_t = 0.9)]
    pub duration_tail: f64,
    /// Octets of a connection at least.
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub fewest_octets: u64,
    /// Exponent of the tail of the octets.
    #[arg(long, value_name = "N", default_value_t = 1.1)]
    pub octets_tail: f64,
}

impl Default for Campus {
    fn default() -> Self {
        options::defaults()
    }
}

fn as_hours<S: Serializer>(time: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_f64(time.as_secs_f64() / 3600.0)
}

impl Campus {
    /// Addresses of the servers.
    #[must_use]
    pub fn hosts(&self) -> Vec<Ipv6Addr> {
        (0..self.servers).map(server).collect()
    }

    /// Generates the packets. Equal parameters give equal packets.
    #[must_use]
    pub fn packets(&self) -> Packets {
        let random = ChaCha8Rng::seed_from_u64(self.seed);
        let arrivals = Arrivals { campus: self.clone(), random, now: 0.0 };
        let length = self.length;
        let packets = Spread::new(arrivals).take_while(move |packet| packet.at < length);
        Box::new(packets.map(Ok))
    }

    /// Rate at a time of the day, as a share of the greatest rate.
    fn activity(&self, seconds: f64) -> f64 {
        let since_4 = (seconds / 3600.0 - 4.0) / 24.0;
        self.night + (1.0 - self.night) * (0.5 - 0.5 * (TAU * since_4).cos())
    }
}

struct Arrivals {
    campus: Campus,
    random: ChaCha8Rng,
    /// Current time in seconds.
    now: f64,
}

impl Iterator for Arrivals {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let servers = i32::from(self.campus.servers);
        let most = self.campus.rate * (2.0 - 2.0_f64.powi(1 - servers));
        if servers == 0 || most <= 0.0 {
            return None;
        }
        // Thinning: draw arrivals at the greatest rate, and keep each with the share of its hour.
        loop {
            self.now -= (1.0 - self.uniform()).ln() / most;
            if self.now >= self.campus.length.as_secs_f64() {
                return None;
            }
            if self.uniform() < self.campus.activity(self.now) {
                return Some(self.record());
            }
        }
    }
}

impl Arrivals {
    fn record(&mut self) -> Record {
        let campus = self.campus.clone();
        let pick = self.uniform();
        let server_of = |index: &u8| pick < 1.0 - 0.5_f64.powi(i32::from(*index) + 1);
        // The remainder of the series goes to the first server.
        let index = (0..campus.servers).find(server_of).unwrap_or(0);
        let peer = f64::from(campus.peers.max(1)).powf(self.uniform());
        let longest = campus.longest.max(campus.shortest).as_secs_f64();
        let duration = self.pareto(campus.shortest.as_secs_f64(), longest, campus.duration_tail);
        let octets = self.pareto(campus.fewest_octets as f64, MOST_OCTETS, campus.octets_tail);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
        let (peer, octets) = (peer as u32, octets as u64);
        Record {
            start: Duration::from_secs_f64(self.now),
            duration: Duration::from_secs_f64(duration),
            source: Ipv6Addr::from_bits(PEERS | u128::from(peer)),
            destination: server(index),
            protocol: Some(6),
            octets,
            packets: octets / OCTETS_OF_PACKET + 2,
        }
    }

    /// A random number from 0 to less than 1.
    fn uniform(&mut self) -> f64 {
        f64::from(self.random.next_u32()) / 4_294_967_296.0
    }

    fn pareto(&mut self, least: f64, most: f64, tail: f64) -> f64 {
        let cut = (least / most).powf(tail);
        least * (1.0 - self.uniform() * (1.0 - cut)).powf(-1.0 / tail)
    }
}

fn server(index: u8) -> Ipv6Addr {
    Ipv6Addr::from_bits(SERVERS | (u128::from(index) + 1))
}

const MOST_OCTETS: f64 = 1e10;
/// Mean octets of a packet, over both directions.
const OCTETS_OF_PACKET: u64 = 700;
/// Server prefix 2001:db8:a1::/64. Peers are in 2001:db8:b1::/64.
const SERVERS: u128 = 0x2001_0db8_00a1 << 80;
const PEERS: u128 = 0x2001_0db8_00b1 << 80;
