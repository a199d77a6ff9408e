//! The example plans: each can be read and played, and shows what its text says.

use std::fs;
use std::path::Path;
use std::time::Duration;

use moorline_contexts::EventKind;

use crate::world::tests::{EXTENT_INTERVAL, run_measured};
use crate::{Outcome, Plan, run, trace};

fn plan(name: &str) -> Plan {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    Plan::from_toml(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn sound(name: &str, seed: u64) -> Outcome {
    let plan = plan(name);
    let outcome = run(seed, &plan);
    if !outcome.violations.is_empty() {
        panic!("{name}, seed {seed}: {:?}\n{}", outcome.violations, trace(seed, &plan));
    }
    outcome
}

#[test]
fn every_example_plan_is_played_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let mut names: Vec<_> = fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    let played = [
        "asymmetric.toml",
        "branch-offices.toml",
        "flapping-day.toml",
        "hostile.toml",
        "isp-failure.toml",
        "renumbering.toml",
    ];
    assert_eq!(names, played);
}

#[test]
fn a_dead_isp_is_left_before_the_send_timeout() {
    for seed in 0..8 {
        let outcome = sound("isp-failure.toml", seed);
        assert_eq!(outcome.workloads[0].intact, Some(true));
        let pause = outcome.workloads[0].longest_pause.expect("a pause");
        let length = pause.to - pause.from;
        assert!(length < Duration::from_secs(2), "{length:?}");
    }
}

#[test]
fn unidirectional_paths_are_found() {
    for seed in 0..4 {
        let outcome = sound("asymmetric.toml", seed);
        assert_eq!((outcome.recovered, outcome.unrecoverable), (2, 0), "seed {seed}");
    }
}

#[test]
fn a_transfer_outlives_all_the_addresses_it_began_with() {
    for seed in 0..4 {
        let outcome = sound("renumbering.toml", seed);
        assert_eq!(outcome.workloads[0].intact, Some(true), "seed {seed}");
        let moves = outcome
            .events
            .iter()
            .filter(|e| matches!(e.event.kind, EventKind::Moved { .. }))
            .count();
        assert!(moves >= 2, "seed {seed}: {:?}", outcome.events);
    }
}

#[test]
fn branch_offices_stay_in_touch() {
    for seed in 0..4 {
        let outcome = sound("branch-offices.toml", seed);
        assert_eq!(outcome.workloads[0].intact, Some(true), "seed {seed}");
        assert!(outcome.recovered >= 3, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn an_eavesdropper_who_can_forge_breaks_no_rule_of_safety() {
    for seed in 0..8 {
        sound("hostile.toml", seed);
    }
}

/// While uplinks flap for a day nothing grows, and after the end of the traffic nothing is left.
#[test]
fn a_day_of_flapping_leaks_nothing() {
    let (outcome, extents) = run_measured(1, &plan("flapping-day.toml"));
    assert_eq!(outcome.violations, []);
    assert!(outcome.recovered > 100, "{}", outcome.recovered);
    let left = |host| {
        let of_host = outcome.events.iter().filter(move |told| told.host == host);
        of_host.fold(0, |count, told| match told.event.kind {
            EventKind::Established { .. } => count + 1,
            EventKind::Removed { .. } => count - 1,
            EventKind::Initiated
            | EventKind::Renewed
            | EventKind::Failed { .. }
            | EventKind::StateChanged { .. }
            | EventKind::Moved { .. }
            | EventKind::Suspected { .. }
            | EventKind::Cleared { .. }
            | EventKind::Unanswered { .. }
            | EventKind::Congested { .. }
            | EventKind::Unreachable { .. } => count,
        })
    };
    assert_eq!([left(0), left(1)], [0, 0], "contexts that are left");
    let per_hour = usize::try_from(3600 / EXTENT_INTERVAL.as_secs()).expect("few");
    for extents in &extents {
        // Exploring needs more memory for a moment.
        let usual = |hours: std::ops::Range<usize>| {
            let mut of_hours = extents[hours.start * per_hour..hours.end * per_hour].to_vec();
            of_hours.sort_unstable();
            of_hours[of_hours.len() / 2]
        };
        assert!(usual(13..23) <= usual(3..13) * 21 / 20, "{extents:?}");
        let last = extents[extents.len() - 1];
        // The memory of paths, keys of peers and sources stays, up to its limits.
        assert!(last * 2 < usual(13..23), "{last} are left: {extents:?}");
    }
}
