//! Options of the experiments about failures.

use crate::experiment::{Art, ArtFlow, HandOff, LocalEvent, PeerFlow, PeerSystem, Peers, Rough};
use crate::rough::scenario::Scenario;
use std::time::Duration;

/// Parameters of `art`.
#[derive(Clone, Debug, clap::Args)]
pub struct ArtArgs {
    /// Send Timeouts in seconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0.2,0.5,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", value_parser = parse_send_timeout)]
    pub send_timeouts: Vec<Duration>,
    /// Failures for each Send Timeout and flow.
    #[arg(long, value_name = "N", default_value_t = Art::default().repetitions, value_parser = parse_count)]
    pub repetitions: usize,
    /// What is hit: tcp, tcp-no-notice, udp-oneway, udp-bidir.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tcp,tcp-no-notice,udp-oneway,udp-bidir", value_parser = parse_flow)]
    pub flows: Vec<ArtFlow>,
    /// Keep no standby pair: RFC 5534 and nothing else.
    #[arg(long)]
    pub no_standby: bool,
    /// On a virtual clock, by the simulator: minutes for all of the paper's runs, and no root.
    #[arg(long)]
    pub simulated: bool,
    /// Networks side by side; they mostly wait.
    #[arg(long, value_name = "N", default_value_t = Art::default().parallel, value_parser = parse_count)]
    pub parallel: usize,
    /// What the moments of failures, delays and losses follow from.
    #[arg(long, value_name = "N", default_value_t = Art::default().seed)]
    pub seed: u64,
}

impl ArtArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> Art {
        Art {
            moorlined: None,
            send_timeouts: self.send_timeouts.clone(),
            repetitions: self.repetitions,
            flows: self.flows.clone(),
            standby: !self.no_standby,
            simulated: self.simulated,
            parallel: self.parallel,
            seed: self.seed,
        }
    }
}

/// Parameters of `rough`.
#[derive(Clone, Debug, clap::Args)]
pub struct RoughArgs {
    /// Faults to cause; all of them if none is named.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_scenario)]
    pub scenarios: Vec<Scenario>,
    /// Networks side by side; they mostly wait.
    #[arg(long, value_name = "N", default_value_t = Rough::default().parallel, value_parser = parse_count)]
    pub parallel: usize,
}

impl RoughArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> Rough {
        let scenarios = match self.scenarios.is_empty() {
            true => Rough::default().scenarios,
            false => self.scenarios.clone(),
        };
        Rough { moorlined: None, scenarios, parallel: self.parallel }
    }
}

fn parse_scenario(text: &str) -> Result<Scenario, String> {
    Scenario::of_name(text).ok_or_else(|| {
        let names = Scenario::ALL.map(|scenario| scenario.plan().name);
        format!("one of {}", names.join(", "))
    })
}

/// Parameters of `peers`.
#[derive(Clone, Debug, clap::Args)]
pub struct PeersArgs {
    /// Round-trip times in milliseconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,20,80,200", value_parser = parse_rtt)]
    pub rtts: Vec<Duration>,
    /// Failures for each combination; three at most for plain TCP, which is waited for in vain.
    #[arg(long, value_name = "N", default_value_t = Peers::default().repetitions, value_parser = parse_count)]
    pub repetitions: usize,
    /// Who is compared: moorline, moorline-rfc, mptcp, mptcp-fullmesh, tcp.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "moorline,moorline-rfc,mptcp,mptcp-fullmesh,tcp", value_parser = parse_system)]
    pub systems: Vec<PeerSystem>,
    /// What is hit: tcp-bulk, messages, udp-bidir (by Moorline alone).
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tcp-bulk,messages,udp-bidir", value_parser = parse_peer_flow)]
    pub flows: Vec<PeerFlow>,
    /// Send Timeout of Moorline in both profiles.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub send_timeout: Duration,
    /// How long anybody is waited for.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    pub limit: Duration,
    /// Networks side by side.
    #[arg(long, value_name = "N", default_value_t = Peers::default().parallel, value_parser = parse_count)]
    pub parallel: usize,
    /// What the moments of failures follow from.
    #[arg(long, value_name = "N", default_value_t = Peers::default().seed)]
    pub seed: u64,
}

impl PeersArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> Peers {
        Peers {
            moorlined: None,
            rtts: self.rtts.clone(),
            repetitions: self.repetitions,
            systems: self.systems.clone(),
            flows: self.flows.clone(),
            send_timeout: self.send_timeout,
            limit: self.limit,
            parallel: self.parallel,
            seed: self.seed,
        }
    }
}

/// Parameters of `local-event`.
#[derive(Clone, Debug, clap::Args)]
pub struct LocalEventArgs {
    /// Round-trip times in milliseconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,20,80", value_parser = parse_rtt)]
    pub rtts: Vec<Duration>,
    /// Failures for each of them, under a transfer and under datagrams.
    #[arg(long, value_name = "N", default_value_t = LocalEvent::default().repetitions, value_parser = parse_count)]
    pub repetitions: usize,
    /// Networks side by side.
    #[arg(long, value_name = "N", default_value_t = LocalEvent::default().parallel, value_parser = parse_count)]
    pub parallel: usize,
    /// What the moments of failures follow from.
    #[arg(long, value_name = "N", default_value_t = LocalEvent::default().seed)]
    pub seed: u64,
}

impl LocalEventArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> LocalEvent {
        let &Self { ref rtts, repetitions, parallel, seed } = self;
        LocalEvent { moorlined: None, rtts: rtts.clone(), repetitions, parallel, seed }
    }
}

/// Parameters of `handoff`.
#[derive(Clone, Debug, clap::Args)]
pub struct HandOffArgs {
    /// Round-trip times in milliseconds.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,20,80", value_parser = parse_rtt)]
    pub rtts: Vec<Duration>,
    /// Hand-offs for each of them, hard and soft, under a transfer and under datagrams.
    #[arg(long, value_name = "N", default_value_t = HandOff::default().repetitions, value_parser = parse_count)]
    pub repetitions: usize,
    /// What the moments of hand-offs follow from.
    #[arg(long, value_name = "N", default_value_t = HandOff::default().seed)]
    pub seed: u64,
}

impl HandOffArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> HandOff {
        let &Self { ref rtts, repetitions, seed } = self;
        HandOff { moorlined: None, rtts: rtts.clone(), repetitions, seed }
    }
}

/// Milliseconds.
fn parse_rtt(text: &str) -> Result<Duration, String> {
    let ms: Option<f64> = text.parse().ok().filter(|ms| (0.0..=2000.0).contains(ms));
    ms.map(|ms| Duration::from_secs_f64(ms / 1e3))
        .ok_or_else(|| format!("{text} is no round-trip time: milliseconds up to 2000"))
}

fn parse_system(text: &str) -> Result<PeerSystem, String> {
    let names = || PeerSystem::ALL.map(PeerSystem::name).join(", ");
    PeerSystem::of_name(text).ok_or_else(|| format!("one of {}", names()))
}

fn parse_peer_flow(text: &str) -> Result<PeerFlow, String> {
    let names = || PeerFlow::ALL.map(PeerFlow::name).join(", ");
    PeerFlow::of_name(text).ok_or_else(|| format!("one of {}", names()))
}

fn parse_send_timeout(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|seconds| (0.2..=100.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text} is no Send Timeout: seconds from 0.2 to 100"))
}

/// One or more.
pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=100_000).contains(count));
    count.ok_or_else(|| format!("{text} is not a number from 1 to 100000"))
}

fn parse_flow(text: &str) -> Result<ArtFlow, String> {
    let names = || ArtFlow::ALL.map(ArtFlow::name).join(", ");
    ArtFlow::of_name(text).ok_or_else(|| format!("one of {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_timeouts_are_seconds_that_the_daemon_takes() {
        assert_eq!(parse_send_timeout("0.2"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_send_timeout("15"), Ok(Duration::from_secs(15)));
        for wrong in ["", "0.1", "-1", "101", "2s", "NaN"] {
            assert!(parse_send_timeout(wrong).is_err(), "{wrong}");
        }
        assert!(parse_count("0").is_err() && parse_count("45") == Ok(45));
    }
}
