//! Options of `moorline-lab load`.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::load::{ECHO_PORT, Load, Rate, Victim};

/// What is sent, where to and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadArgs {
    /// The rates of the study's test of this rank, 0 to 10, or beyond along the same line.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub rank: u8,
    /// Datagrams of made-up correspondents a second, instead of the rank's; `max` for as many as go.
    #[arg(long, value_name = "N|max")]
    pub rate: Option<Rate>,
    /// Echo requests a second from the fixed source, instead of the rank's.
    #[arg(long, value_name = "N")]
    pub echo: Option<u64>,
    /// Threads for `--rate max`.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: u8,
    /// Seconds.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// What the made-up identifiers come from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// UDP port that all is sent to.
    #[arg(long, value_name = "PORT", default_value_t = ECHO_PORT)]
    pub port: u16,
    /// Namespace of a lab that runs, such as moor-1234-a.
    #[arg(long, value_name = "NAMESPACE", requires = "to")]
    pub from: Option<String>,
    /// Whom to send to from there.
    #[arg(long, value_name = "ADDRESS", requires = "from")]
    pub to: Option<Ipv6Addr>,
    /// Print what was sent as a JSON object.
    #[arg(long)]
    pub json: bool,
}

impl LoadArgs {
    /// What is to be done.
    #[must_use]
    pub fn load(&self) -> Load {
        let load = Load::of_rank(self.rank, Duration::from_secs(self.seconds));
        let made_up = match self.rate.unwrap_or(load.made_up) {
            Rate::Line { .. } => Rate::Line { threads: self.threads },
            rate @ Rate::PerSecond(_) => rate,
        };
        let to = self.from.clone().zip(self.to).map(|(from, to)| Victim { from, to });
        let echo = self.echo.unwrap_or(load.echo);
        Load { to, echo, made_up, seed: self.seed, port: self.port, ..load }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Args, Command};
    use clap::Parser as _;

    fn load(line: &str) -> Load {
        let args = Args::try_parse_from(line.split(' ')).unwrap();
        let Command::Load(args) = args.command else { panic!("{line}") };
        args.load()
    }

    #[test]
    fn a_rank_has_the_rates_of_the_study_and_they_can_be_others() {
        let default = load("moorline-lab load");
        assert_eq!((default.echo, default.made_up), (1280, Rate::PerSecond(660)));
        assert_eq!((default.length, default.port), (Duration::from_secs(60), 7));
        let first = load("moorline-lab load --rank 1 --seconds 2");
        assert_eq!((first.made_up, first.length.as_secs()), (Rate::PerSecond(65), 2));
        let other = load("moorline-lab load --rate 50000 --echo 0");
        assert_eq!((other.echo, other.made_up), (0, Rate::PerSecond(50_000)));
        let line = load("moorline-lab load --rate max --threads 2");
        assert_eq!(line.made_up, Rate::Line { threads: 2 });
    }

    #[test]
    fn a_namespace_and_an_address_go_together() {
        let given = load("moorline-lab load --from moor-1-a --to 2001:db8::1");
        let victim = Victim { from: "moor-1-a".into(), to: "2001:db8::1".parse().unwrap() };
        assert_eq!(given.to, Some(victim));
        for wrong in ["--from moor-1-a", "--to 2001:db8::1", "--rate lots", "--seconds 0"] {
            let line = format!("moorline-lab load {wrong}");
            assert!(Args::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
