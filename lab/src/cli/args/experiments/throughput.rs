use super::failures::parse_count;
use crate::experiment::{Protocol, Throughput};
use crate::workload::Traffic;
use std::time::Duration;

/// Parameters of `throughput`.
#[derive(Clone, Debug, clap::Args)]
pub struct ThroughputArgs {
    /// shim6, or ilnp: traffic before and after a hand-off, both against plain IPv6.
    #[arg(long, value_name = "NAME", default_value = "shim6", value_parser = parse_protocol)]
    pub protocol: Protocol,
    /// Pairs of runs, with Moorline and without.
    #[arg(long, value_name = "N", default_value_t = Throughput::default().pairs, value_parser = parse_count)]
    pub pairs: usize,
    /// What is sent: tcp, udp.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tcp,udp", value_parser = parse_traffic)]
    pub traffic: Vec<Traffic>,
    /// Length of a run in seconds.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
}

impl ThroughputArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> Throughput {
        let duration = Duration::from_secs(self.seconds);
        let &Self { protocol, pairs, ref traffic, .. } = self;
        let traffic = traffic.clone();
        Throughput { protocol, pairs, duration, traffic, ..Throughput::default() }
    }
}

fn parse_protocol(text: &str) -> Result<Protocol, &'static str> {
    let all = [Protocol::Shim6, Protocol::Ilnp];
    all.into_iter().find(|one| one.name() == text).ok_or("one of shim6, ilnp")
}

fn parse_traffic(text: &str) -> Result<Traffic, &'static str> {
    let all = [Traffic::Tcp, Traffic::Udp];
    all.into_iter().find(|one| one.name() == text).ok_or("one of tcp, udp")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_and_protocols_have_the_names_of_the_results() {
        assert_eq!(parse_traffic("udp"), Ok(Traffic::Udp));
        assert_eq!(parse_protocol("ilnp"), Ok(Protocol::Ilnp));
        assert!(parse_traffic("sctp").is_err() && parse_protocol("tcp").is_err());
    }
}
