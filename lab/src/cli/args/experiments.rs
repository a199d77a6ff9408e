mod failures;
mod i1_flood;
mod ilcc;
mod load;
mod state_cost;
mod throughput;

use failures::{ArtArgs, HandOffArgs, LocalEventArgs, PeersArgs, RoughArgs};
use throughput::ThroughputArgs;

use crate::experiment::{AddrCost, I2Cost, IspLoss, Negotiation, Security};
use clap::Subcommand;
use moorline_cga::Sec;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use i1_flood::I1FloodArgs;
use ilcc::{IlccArgs, IlnpFloodArgs};
pub(crate) use load::LoadArgs;
use state_cost::StateCostArgs;

/// Where the results are.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// The folder that experiments were told with --out; the page goes there too.
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Print where the page is and what is in it as a JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Which experiment, and where its results go.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Print the results as one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
    /// Write NAME.json and the plot, NAME.svg, into this folder.
    #[arg(long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Which.
    #[command(subcommand)]
    pub experiment: ExperimentArgs,
}

/// The experiments with their parameters.
#[derive(Clone, Debug, Subcommand)]
pub enum ExperimentArgs {
    /// Time to make two addresses, CGA and HBA, and how it grows with their number.
    ///
    /// Figure 6 of the LinShim6 paper. With the default parameters it takes about a quarter of an hour
    /// on two cores with AVX-512, nearly all of it for Sec 2; `--secs 1` takes half a minute.
    AddrCost(AddrCostArgs),
    /// Time from I1 to R2 by the security of the addresses and by their number (as root).
    ///
    /// Figure 7 of the LinShim6 paper, between two real daemons in network namespaces.
    Negotiation(NegotiationArgs),
    /// Time to process an I2 against the number of contexts that are there.
    ///
    /// Figure 10 of the LinShim6 paper and three decades more, on the core machine itself. A minute or
    /// two with a million contexts, and half a gigabyte.
    I2Cost(I2CostArgs),
    /// Time until the contexts of a site have left an ISP that failed, and the probes it took.
    ///
    /// On a virtual clock, so it takes seconds.
    IspLoss(IspLossArgs),
    /// Time until TCP and UDP go on after a silent failure, by the Send Timeout (as root, or simulated).
    ///
    /// Figure 9 of the LinShim6 paper and figures 2 to 4 of the empirical evaluation: the Application
    /// Recovery Time at a round trip of 80 +- 20 ms. The defaults are the papers' and take hours; add
    /// `--simulated` for the same in minutes, or choose fewer.
    Art(ArtArgs),
    /// Time until Moorline, the kernel's MPTCP and plain TCP go on after the same silent failure (as root).
    ///
    /// Transfers, messages and datagrams at several round-trip times, with what was lost and the lines of
    /// configuration that each takes. With the defaults it takes an hour or two.
    Peers(PeersArgs),
    /// Throughput with Moorline against the same path without, before and after a move (as root).
    ///
    /// Pairs of runs of iperf3, with the processor time of a packet. It wants a machine with nothing else to
    /// do, and takes some minutes.
    Throughput(ThroughputArgs),
    /// Time from the loss of a carrier to the first packet by the other uplink (as root).
    ///
    /// With the silence of the application and the packets that were lost.
    LocalEvent(LocalEventArgs),
    /// Faults of hosts and networks that nobody tuned: the gap of a program, with and without Moorline (as root).
    ///
    /// Independent routers, firewalls, NAT66, roaming, renumbering, restarts. It ends with a failure if a program was
    /// worse off with Moorline. With the defaults it takes some five minutes.
    Rough(RoughArgs),
    /// Silence and loss when a host under ILNP changes its locator, by hard and soft hand-offs (as root).
    Handoff(HandOffArgs),
    /// Contexts at a time over a day of traffic, and the memory they take.
    ///
    /// Figure 11 of the LinShim6 paper: for a capture or flow records, or for a day of some servers of a campus,
    /// made up. That day takes some ten seconds in a release build.
    StateCost(Box<StateCostArgs>),
    /// Goodput of a context while its host is flooded with I1s from sources made up (as root).
    ///
    /// Between two real daemons in network namespaces; 44 s with the default parameters.
    I1Flood(I1FloodArgs),
    /// Latency, entries and losses of a host by its ILNPv6 correspondents, real and made up (as root).
    ///
    /// The study of the correspondent cache (ILCC), figures 3 to 16, for its eleven tests, with and without an
    /// admission policy, and for both data planes. With the defaults it takes an hour and a half; `--ranks 0,5,10
    /// --seconds 10` five minutes.
    Ilcc(IlccArgs),
    /// Round trips and losses of an ILNP session under a flood of made-up correspondents (as root).
    ///
    /// Between two real daemons in network namespaces, and beside it the same without them, in turns; a minute and a
    /// half with the default parameters.
    IlnpFlood(IlnpFloodArgs),
}

/// Parameters of `i2-cost`.
#[derive(Clone, Debug, clap::Args)]
pub struct I2CostArgs {
    /// Most contexts; from one on, by powers of ten.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub most: u32,
    /// I2s timed for each point.
    #[arg(long, value_name = "N", default_value_t = I2Cost::default().samples, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub samples: u32,
}

impl I2CostArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> I2Cost {
        let decades = (0..).map_while(|decade| 10u32.checked_pow(decade));
        let contexts = decades.take_while(|contexts| *contexts <= self.most).collect();
        I2Cost { contexts, samples: self.samples, ..I2Cost::default() }
    }
}

/// Parameters of `isp-loss`.
#[derive(Clone, Debug, clap::Args)]
pub struct IspLossArgs {
    /// Contexts, each with a peer of its own.
    #[arg(long, value_name = "N", default_value_t = IspLoss::default().contexts, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub contexts: u32,
    /// Send Timeout of both sides.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    pub send_timeout: Duration,
    /// Round-trip time.
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = humantime::parse_duration)]
    pub round_trip: Duration,
}

impl IspLossArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> IspLoss {
        let Self { contexts, send_timeout, round_trip } = *self;
        IspLoss { contexts, send_timeout, round_trip, ..IspLoss::default() }
    }
}

/// Parameters of `negotiation`.
#[derive(Clone, Debug, clap::Args)]
pub struct NegotiationArgs {
    /// How addresses are secured: none, hba, hbacompat-BITS, cga-BITS.
    #[arg(long = "security", value_name = "LIST", value_delimiter = ',', default_value = "none,hba,hbacompat-1024,cga-384,cga-512,cga-1024,cga-2048", value_parser = parse_security)]
    pub securities: Vec<Security>,
    /// How many addresses each host has.
    #[arg(long, value_name = "LIST", default_value = "2,5,10", value_parser = parse_sizes)]
    pub sizes: Sizes,
    /// Contexts for each combination.
    #[arg(long, value_name = "N", default_value_t = Negotiation::default().runs)]
    pub runs: usize,
}

/// Parameters of `addr-cost`. The addresses follow from them; the times do not.
#[derive(Clone, Debug, clap::Args)]
pub struct AddrCostArgs {
    /// Times that two addresses are made with Sec 0 and 1.
    #[arg(long, value_name = "N", default_value_t = AddrCost::default().trials)]
    pub trials: usize,
    /// The same with Sec 2.
    #[arg(long, value_name = "N", default_value_t = AddrCost::default().sec_2_trials)]
    pub sec_2_trials: usize,
    /// Security parameters.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2", value_parser = moorline_addr::parse_sec)]
    pub secs: Vec<Sec>,
    /// Numbers of threads; `all` for as many as there are processors.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,all", value_parser = parse_threads)]
    pub threads: Vec<NonZeroUsize>,
    /// Numbers of addresses whose cost is compared, with Sec 1 on one thread; `none` for none.
    #[arg(long, value_name = "LIST", default_value = "2-10", value_parser = parse_sizes)]
    pub sizes: Sizes,
    /// Times for each of these numbers.
    #[arg(long, value_name = "N", default_value_t = AddrCost::default().size_trials)]
    pub size_trials: usize,
    /// Bits of the RSA key of the CGAs, 1024 to 4096.
    #[arg(long, value_name = "BITS", default_value_t = AddrCost::default().key_bits, value_parser = clap::value_parser!(u32).range(1024..=4096))]
    pub key_bits: u32,
    /// What the addresses follow from.
    #[arg(long, value_name = "N", default_value_t = AddrCost::default().seed)]
    pub seed: u64,
}

/// Numbers of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<usize>);

impl AddrCostArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> AddrCost {
        let mut threads = self.threads.clone();
        threads.dedup();
        AddrCost {
            trials: self.trials,
            sec_2_trials: self.sec_2_trials,
            secs: self.secs.clone(),
            threads,
            sizes: self.sizes.0.clone(),
            size_trials: self.size_trials,
            key_bits: self.key_bits,
            seed: self.seed,
        }
    }
}

impl NegotiationArgs {
    /// The experiment itself.
    #[must_use]
    pub fn experiment(&self) -> Negotiation {
        Negotiation {
            moorlined: None,
            securities: self.securities.clone(),
            sizes: self.sizes.0.clone(),
            runs: self.runs,
        }
    }
}

fn parse_security(text: &str) -> Result<Security, &'static str> {
    Security::of_name(text).ok_or("one of none, hba, hbacompat-BITS, cga-BITS")
}

fn parse_threads(text: &str) -> Result<NonZeroUsize, String> {
    match text {
        "all" => Ok(thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
        number => {
            number.parse().map_err(|_| format!("{number} is no number of threads: 1, 2, all"))
        }
    }
}

/// Numbers and ranges with commas between them.
fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let wrong = || format!("{text} is no list of numbers: write it like 2-10 or 2,5,10");
    if text == "none" {
        return Ok(Sizes(Vec::new()));
    }
    let mut sizes = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u8, u8) = from.parse().ok().zip(to.parse().ok()).ok_or_else(wrong)?;
        if from == 0 || from > to {
            return Err(wrong());
        }
        sizes.extend((from..=to).map(usize::from));
    }
    Ok(Sizes(sizes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Args, Command};
    use crate::experiment::{Art, HandOff, LocalEvent, Peers, Rough, StateCost, Throughput};
    use clap::Parser;

    fn run(line: &str) -> RunArgs {
        let args = Args::try_parse_from(line.split(' ')).unwrap();
        let Command::Run(run) = args.command else { panic!("{line}") };
        run
    }

    #[test]
    fn the_defaults_are_those_of_the_experiment() {
        let RunArgs { json, out, experiment } = run("moorline-lab run addr-cost");
        assert_eq!((json, out), (false, None));
        let ExperimentArgs::AddrCost(args) = experiment else { panic!() };
        let (given, default) = (args.experiment(), AddrCost::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let state_cost = run("moorline-lab run state-cost");
        let run = run("moorline-lab run negotiation");
        let ExperimentArgs::Negotiation(args) = run.experiment else { panic!() };
        let (given, default) = (args.experiment(), Negotiation::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let ExperimentArgs::StateCost(args) = state_cost.experiment else { panic!() };
        let (given, default) = (args.experiment(), StateCost::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let ExperimentArgs::I1Flood(args) = self::run("moorline-lab run i1-flood").experiment
        else {
            panic!()
        };
        let (given, default) = (args.experiment(), crate::experiment::FloodCost::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let ExperimentArgs::Ilcc(args) = self::run("moorline-lab run ilcc").experiment else {
            panic!()
        };
        let (given, default) = (args.experiment(), crate::experiment::IlccStudy::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let ExperimentArgs::IlnpFlood(args) = self::run("moorline-lab run ilnp-flood").experiment
        else {
            panic!()
        };
        let (given, default) = (args.experiment(), crate::experiment::IlnpFlood::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let ExperimentArgs::Art(args) = self::run("moorline-lab run art").experiment else {
            panic!()
        };
        let (given, default) = (args.experiment(), Art::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let run = self::run("moorline-lab run throughput");
        let ExperimentArgs::Throughput(args) = run.experiment else { panic!() };
        let (given, default) = (args.experiment(), Throughput::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let run = self::run("moorline-lab run local-event");
        let ExperimentArgs::LocalEvent(args) = run.experiment else { panic!() };
        let (given, default) = (args.experiment(), LocalEvent::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let run = self::run("moorline-lab run rough");
        let ExperimentArgs::Rough(args) = run.experiment else { panic!() };
        let (given, default) = (args.experiment(), Rough::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let run = self::run("moorline-lab run handoff");
        let ExperimentArgs::Handoff(args) = run.experiment else { panic!() };
        let (given, default) = (args.experiment(), HandOff::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
        let run = self::run("moorline-lab run peers");
        let ExperimentArgs::Peers(args) = run.experiment else { panic!() };
        let (given, default) = (args.experiment(), Peers::default());
        assert_eq!(format!("{given:?}"), format!("{default:?}"));
    }

    #[test]
    fn art_takes_what_the_documentation_shows() {
        let line = "moorline-lab run art --send-timeouts 1,2 --repetitions 3 \
                    --flows tcp,tcp-no-notice,udp-oneway,udp-bidir --json";
        let ExperimentArgs::Art(args) = run(line).experiment else { panic!() };
        let art = args.experiment();
        assert_eq!((art.send_timeouts.len(), art.repetitions, art.flows.len()), (2, 3, 4));
    }

    #[test]
    fn options_of_all_experiments_stand_anywhere() {
        for line in [
            "moorline-lab run --json --out here addr-cost",
            "moorline-lab run addr-cost --out here --json",
        ] {
            let args = run(line);
            assert!(args.json && args.out == Some(PathBuf::from("here")), "{line}");
        }
    }

    #[test]
    fn sizes_are_numbers_and_ranges() {
        assert_eq!(parse_sizes("2-4,10"), Ok(Sizes(vec![2, 3, 4, 10])));
        assert_eq!(parse_sizes("none"), Ok(Sizes(vec![])));
        for wrong in ["", "0-3", "4-2", "a", "2,", "2-", "1000"] {
            assert!(parse_sizes(wrong).is_err(), "{wrong}");
        }
    }
}
