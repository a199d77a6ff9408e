use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use clap::CommandFactory as _;

use super::*;
use crate::cost::Security;
use crate::experiment::{
    AddrCost, Art, ArtFlow, HandOff, I2Cost, IlccStudy, Negotiation, PeerSystem, Peers, Rough,
    StateCost, Throughput, all,
};
use crate::rough::scenario::Scenario;
use crate::trace::Campus;

fn run(line: &str) -> RunArgs {
    let args = Args::try_parse_from(line.split(' ')).unwrap();
    let Command::Run(run) = args.command else { panic!("{line}") };
    run
}

#[test]
fn an_experiment_is_called_on_the_command_line_as_in_its_results() {
    let mut command = Args::command();
    let choices = command.find_subcommand_mut("run").unwrap().get_subcommands();
    let choices: Vec<_> = choices.map(|choice| choice.get_name().to_owned()).collect();
    let names: Vec<_> = all().iter().map(|experiment| experiment.card().name).collect();
    assert_eq!(choices, names);
    for name in names {
        let run = run(&format!("moorline-lab run {name}"));
        assert_eq!((run.json, run.out), (false, None));
        assert_eq!(run.experiment.experiment().card().name, name);
    }
}

#[test]
fn a_soak_takes_what_its_reports_and_the_makefile_say() {
    let soak = |line: &str| {
        let Command::Soak(soak) = Args::try_parse_from(line.split(' ')).unwrap().command else {
            panic!("{line}");
        };
        soak
    };
    let SoakArgs { soak: plain, json } = soak("moorline-lab soak");
    assert_eq!(
        (plain.seconds, plain.seed, plain.rate, plain.ilnp, json),
        (60, None, 1000, false, false)
    );
    let SoakArgs { soak: full, json } =
        soak("moorline-lab soak --seconds 3600 --seed 7 --ilnp --rate 50 --json");
    assert_eq!(
        (full.seconds, full.seed, full.rate, full.ilnp, json),
        (3600, Some(7), 50, true, true)
    );
    assert!(
        Args::try_parse_from(["moorline-lab", "soak", "--seconds", "9"]).is_err(),
        "no time for a cut"
    );
}

/// The defaults are those of the papers, as far as a small machine can follow.
#[test]
fn the_defaults_are_those_of_the_experiment() {
    let seconds = |list: &[u64]| list.iter().map(|s| Duration::from_secs(*s)).collect::<Vec<_>>();
    let AddrCost { trials, sec_2_trials, sizes, threads, .. } = AddrCost::default();
    assert_eq!((trials, sec_2_trials, sizes), (100, 2, (2..=10).collect()));
    let processors = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    assert_eq!(threads, [NonZeroUsize::MIN, processors]);
    let Negotiation { securities, sizes, runs } = Negotiation::default();
    assert_eq!((securities.len(), sizes, runs), (7, vec![2, 5, 10], 20));
    let I2Cost { contexts, securities, samples } = I2Cost::default();
    assert_eq!((contexts.len(), contexts[6], samples), (7, 1_000_000, 1000));
    assert_eq!(securities[2], Security::Cga { bits: 2048 });
    let Art { send_timeouts, repetitions, flows, standby, simulated, .. } = Art::default();
    assert_eq!(send_timeouts[..2], [200, 500].map(Duration::from_millis));
    assert_eq!(send_timeouts[2..], seconds(&(1..=15).collect::<Vec<_>>()));
    assert_eq!((repetitions, &flows[..], standby, simulated), (45, ArtFlow::ALL, true, false));
    let Peers { systems, send_timeout, limit, .. } = Peers::default();
    assert_eq!((&systems[..], vec![send_timeout, limit]), (PeerSystem::ALL, seconds(&[10, 30])));
    let HandOff { rtts, repetitions, .. } = HandOff::default();
    assert_eq!((rtts, repetitions), ([1, 20, 80].map(Duration::from_millis).into(), 10));
    assert_eq!(Rough::default().scenarios, Scenario::ALL);
    assert_eq!(Throughput::default().duration, Duration::from_secs(4));
    let IlccStudy { ranks, length, room, .. } = IlccStudy::default();
    assert_eq!((ranks, length), ((0..=10).collect(), Duration::from_secs(60)));
    assert_eq!(room, moorline_ilnp::consts::MAX_SESSIONS);
    let StateCost { collect, idle, trigger_age, campus, .. } = StateCost::default();
    assert_eq!(vec![collect, trigger_age], seconds(&[10, 60]));
    assert_eq!((idle, campus), (moorline_contexts::IDLE, Campus::default()));
}

#[test]
fn art_takes_what_the_documentation_shows() {
    let line = "moorline-lab run art --send-timeouts 1,2 --repetitions 3 \
                --flows tcp,tcp-no-notice,udp-oneway,udp-bidir --no-standby --json";
    let Choice::Art(art) = run(line).experiment else { panic!() };
    assert_eq!((art.send_timeouts.len(), art.repetitions, art.flows.len()), (2, 3, 4));
    assert!(!art.standby);
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
fn options_of_which_all_is_the_default_can_be_few() {
    let line = "moorline-lab run rough --scenarios nat66,dhcpv6";
    let Choice::Rough(rough) = run(line).experiment else { panic!() };
    assert_eq!(rough.scenarios, [Scenario::Nat66, Scenario::ManagedAddress]);
    let Choice::I2Cost(i2) = run("moorline-lab run i2-cost --most 99").experiment else { panic!() };
    assert_eq!(i2.contexts, [1, 10]);
}
