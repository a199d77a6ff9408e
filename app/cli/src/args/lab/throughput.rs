use super::failures::parse_count;
use moorline_lab::experiment::{Protocol, Throughput};
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
    /// Length of a run in seconds.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
}

impl ThroughputArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> Throughput {
        let duration = Duration::from_secs(self.seconds);
        Throughput { protocol: self.protocol, pairs: self.pairs, duration, ..Throughput::default() }
    }
}

fn parse_protocol(text: &str) -> Result<Protocol, &'static str> {
    let all = [Protocol::Shim6, Protocol::Ilnp];
    all.into_iter().find(|one| one.name() == text).ok_or("one of shim6, ilnp")
}
