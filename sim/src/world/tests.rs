//! Tests that each rule can be broken.

mod mutant;

use std::collections::BTreeSet;
use std::time::Duration;

use super::faults::{Faults, NoFaults};
use super::{World, errors};
use crate::outcome::{Outcome, Rule};
use mutant::Mutant;

use crate::plan::{Change, Direction, Kind, Pace, Plan, Port, What, Workload};

/// A network with all kinds of events: contexts, a silent failure, a killed core.
fn plan() -> Plan {
    let port = |host, uplink| Port { host, uplink };
    let seconds = Duration::from_secs;
    let workload = |uplink, kind| Workload {
        from: port(0, uplink),
        to: port(1, 0),
        start: Duration::ZERO,
        until: Some(seconds(60)),
        kind,
    };
    let pace = Pace { octets: 500, interval: Duration::from_millis(100) };
    let changes = [
        (15, What::Kill { host: 0 }),
        (16, What::Restart { host: 0 }),
        (20, What::Cut { uplink: port(0, 0), direction: Direction::Both }),
        (20, What::Cut { uplink: port(1, 0), direction: Direction::Both }),
    ];
    let mut plan = Plan::pair(seconds(2));
    plan.hosts[1].initiates = false;
    Plan {
        workloads: vec![
            workload(0, Kind::Datagrams { pace, both_ways: true }),
            workload(1, Kind::Datagrams { pace, both_ways: true }),
            workload(0, Kind::Stream { bytes: 100_000, pace: Some(pace) }),
        ],
        changes: changes.map(|(at, what)| Change { at: seconds(at), what }).into(),
        ..plan
    }
}

/// A host loses its contexts after they have moved, and does not ask for any.
#[test]
fn recovery_is_due_after_a_reboot_too() {
    let mut plan = plan();
    let at = Duration::from_secs(35);
    plan.changes.push(Change { at, what: What::Reboot { host: 1 } });
    plan.workloads.iter_mut().for_each(|workload| workload.until = Some(at * 3));
    let play = |faults: &dyn Faults| World::play_with(faults, 1, &plan, false).0;
    let outcome = play(&NoFaults);
    assert_eq!(outcome.violations, []);
    assert!(outcome.regained >= 3, "{outcome:?}");
    let broken = play(&Mutant::LosesI2bis).violations;
    assert!(broken.iter().any(|violation| violation.rule == Rule::Recovery), "{broken:?}");
}

fn broken_by(mutant: Option<Mutant>) -> BTreeSet<Rule> {
    let has_sessions = mutant == Some(Mutant::OwnsTwice);
    let mut plan = plan();
    if mutant == Some(Mutant::LosesRemovals) {
        // Contexts are removed once they have been idle for long enough.
        plan = Plan { is_full_length: true, duration: Duration::from_secs(3 * 3600), ..plan };
    }
    let plan = plan.with_ilnp(if has_sessions { u64::MAX } else { 0 });
    let faults: &dyn Faults = match &mutant {
        Some(mutant) => mutant,
        None => &NoFaults,
    };
    let (outcome, _) = World::play_with(faults, 1, &plan, false);
    outcome.violations.iter().map(|violation| violation.rule).collect()
}

#[test]
fn each_rule_is_broken_by_a_fault() {
    assert_eq!(broken_by(None), BTreeSet::new());
    let faults = [
        (Mutant::FlipsDelivered, Rule::DeliveredAsSent),
        (Mutant::FlipsUnmoved, Rule::Untouched),
        (Mutant::SwallowsOctet, Rule::StreamIntact),
        (Mutant::LosesProbes, Rule::Recovery),
        (Mutant::BelievesStranger, Rule::VerifiedLocator),
        (Mutant::MovesUnprobed, Rule::ProbedPair),
        (Mutant::StealsSource, Rule::OwnSource),
        (Mutant::OwnsTwice, Rule::OneOwner),
        (Mutant::GivesUpRouter, Rule::LiveUplink),
        (Mutant::MisleadsRoutes, Rule::RightUplink),
        (Mutant::LosesRoutes, Rule::KernelInStep),
        (Mutant::LosesRemovals, Rule::PlanesInStep),
        (Mutant::TakesI1, Rule::ValidI2),
        (Mutant::MakesUnwanted, Rule::WantedContext),
        (Mutant::RepeatsControl, Rule::ControlBound),
        (Mutant::SharesTag, Rule::UniqueTags),
        (Mutant::LogsError, Rule::NoErrorLog),
        (Mutant::Panics, Rule::NoPanic),
        (Mutant::FloodsQueue, Rule::Bounded),
        (Mutant::SleepsIn, Rule::TimersAdvance),
        (Mutant::DamagesControl, Rule::HonestDrops),
        (Mutant::CriesWolf, Rule::FalseAlarm),
        (Mutant::SpoilsStore, Rule::Restored),
        (Mutant::ClaimsProtection, Rule::Answered),
    ];
    for (mutant, rule) in faults {
        let broken = broken_by(Some(mutant));
        assert!(broken.contains(&rule), "{mutant:?} breaks {broken:?}");
    }
    let covered = faults.iter().map(|(_, rule)| *rule);
    // `own/tests.rs` has faults for these rules.
    let of_addresses = [Rule::OwnAddresses, Rule::LifetimesInStep];
    // `rules/tests.rs` has a test for this rule.
    let of_messages = [Rule::ProbeForm];
    let covered: BTreeSet<_> = covered.chain(of_addresses).chain(of_messages).collect();
    assert_eq!(covered, ALL.into_iter().collect(), "each rule has a fault");
}

/// All rules.
const ALL: [Rule; 27] = [
    Rule::ProbeForm,
    Rule::DeliveredAsSent,
    Rule::Untouched,
    Rule::StreamIntact,
    Rule::Recovery,
    Rule::Answered,
    Rule::VerifiedLocator,
    Rule::ProbedPair,
    Rule::OwnSource,
    Rule::OneOwner,
    Rule::LiveUplink,
    Rule::RightUplink,
    Rule::KernelInStep,
    Rule::PlanesInStep,
    Rule::OwnAddresses,
    Rule::LifetimesInStep,
    Rule::ValidI2,
    Rule::WantedContext,
    Rule::ControlBound,
    Rule::UniqueTags,
    Rule::NoErrorLog,
    Rule::NoPanic,
    Rule::Bounded,
    Rule::TimersAdvance,
    Rule::HonestDrops,
    Rule::FalseAlarm,
    Rule::Restored,
];

/// Plays a plan to its end. Returns the size of each host's state every [`EXTENT_INTERVAL`].
pub(crate) fn run_measured(seed: u64, plan: &Plan) -> (Outcome, Vec<Vec<usize>>) {
    errors::collecting(|| {
        let mut world = World::new(seed, plan, false);
        let mut extents = vec![Vec::new(); plan.hosts.len()];
        let end = std::mem::replace(&mut world.end, world.now);
        loop {
            world.go_on();
            for (sizes, node) in extents.iter_mut().zip(&world.nodes) {
                sizes.push(node.core.as_ref().map_or(0, |core| core.extent(world.now)));
            }
            if world.now >= end {
                return (world.finish().0, extents);
            }
            world.end = end.min(world.now + EXTENT_INTERVAL);
        }
    })
}

/// Time between two looks at the size of the hosts' state.
pub(crate) const EXTENT_INTERVAL: Duration = Duration::from_secs(600);
