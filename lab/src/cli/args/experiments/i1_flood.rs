use std::time::Duration;

use crate::experiment::FloodCost;

/// Parameters of `i1-flood`.
#[derive(Clone, Debug, clap::Args)]
pub struct I1FloodArgs {
    /// Pairs of a time without and a time with the flood.
    #[arg(long, value_name = "N", default_value_t = FloodCost::default().pairs)]
    pub pairs: usize,
    /// Length of each.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = humantime::parse_duration)]
    pub length: Duration,
    /// Octets a second of the transfer.
    #[arg(long, value_name = "N", default_value_t = FloodCost::default().rate, value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: u64,
    /// I1s a second; as many as a thread can send without it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub flood: Option<u64>,
}

impl I1FloodArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> FloodCost {
        let Self { pairs, length, rate, flood } = *self;
        FloodCost { moorlined: None, pairs, length, rate, flood }
    }
}
