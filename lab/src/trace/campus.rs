use std::f64::consts::TAU;
use std::net::Ipv6Addr;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

use super::{Packets, Record, Spread};

/// A day, or more, of traffic of some servers of a campus, made up.
///
/// Connections begin at random (a Poisson process) at a rate that goes up and down with the hour: least at 4,
/// most at 16 o'clock. Each server has half of the connections of the one before. Peers are drawn from a
/// population in which the n-th is n times rarer than the first. How long a connection lasts and how much it
/// carries have heavy tails (bounded Pareto distributions).
#[derive(Clone, Debug, PartialEq)]
pub struct Campus {
    /// What everything random follows from.
    pub seed: u64,
    /// How long it is.
    pub length: Duration,
    /// How many servers.
    pub servers: u8,
    /// Connections that begin in a second at the busiest server at the busiest hour.
    pub rate: f64,
    /// The same at the quietest hour, as a part of that.
    pub night: f64,
    /// Hosts that the servers have as peers.
    pub peers: u32,
    /// Connections last so long at least, and half of them no more than twice that.
    pub shortest: Duration,
    /// And so long at most.
    pub longest: Duration,
    /// Of the durations' Pareto distribution: the smaller, the more long ones.
    pub duration_tail: f64,
    /// Octets of a connection at least.
    pub fewest_octets: u64,
    /// Of the octets' Pareto distribution.
    pub octets_tail: f64,
}

impl Default for Campus {
    /// So many connections that the busiest server has, as the paper's, less than 800 contexts.
    fn default() -> Self {
        Self {
            seed: 1,
            length: Duration::from_secs(86_400),
            servers: 3,
            rate: 72.0,
            night: 0.15,
            peers: 50_000,
            shortest: Duration::from_millis(300),
            longest: Duration::from_secs(4 * 3600),
            duration_tail: 0.9,
            fewest_octets: 400,
            octets_tail: 1.1,
        }
    }
}

impl Campus {
    /// Its servers.
    #[must_use]
    pub fn hosts(&self) -> Vec<Ipv6Addr> {
        (0..self.servers).map(server).collect()
    }

    /// Its packets: the same each time.
    #[must_use]
    pub fn packets(&self) -> Packets {
        let random = ChaCha8Rng::seed_from_u64(self.seed);
        let arrivals = Arrivals { campus: self.clone(), random, now: 0.0 };
        let length = self.length;
        let packets = Spread::new(arrivals).take_while(move |packet| packet.at < length);
        Box::new(packets.map(Ok))
    }

    /// Share of the greatest rate at an hour of the day.
    fn activity(&self, seconds: f64) -> f64 {
        let since_4 = (seconds / 3600.0 - 4.0) / 24.0;
        self.night + (1.0 - self.night) * (0.5 - 0.5 * (TAU * since_4).cos())
    }
}

struct Arrivals {
    campus: Campus,
    random: ChaCha8Rng,
    /// Seconds.
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
        // Thinning: arrivals at the greatest rate, of which as many stay as the hour has.
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
        // What is left of the series goes to the first.
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

    /// From 0 to less than 1.
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
/// On average, both directions.
const OCTETS_OF_PACKET: u64 = 700;
/// 2001:db8:a1::/64 and 2001:db8:b1::/64.
const SERVERS: u128 = 0x2001_0db8_00a1 << 80;
const PEERS: u128 = 0x2001_0db8_00b1 << 80;
