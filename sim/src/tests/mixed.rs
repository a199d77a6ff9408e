//! Hosts that speak ILNP beside Shim6, in made-up networks.

use crate::{Outcome, random_mixed_plan, run, run_many, trace};

#[test]
fn no_rule_is_broken_where_hosts_speak_both_protocols() {
    let total = run_many(0..SEEDS, random_mixed_plan, |_, outcome| outcome.violations.is_empty());
    if let Some(seed) = total.first_failing {
        panic!("{total:?}\n{}", trace(seed, &random_mixed_plan(seed)));
    }
    assert!(total.recovered > 0 && total.seeds == SEEDS, "{total:?}");
}

/// Sessions take over from contexts, and contexts that have moved keep their pairs, in many runs.
#[test]
fn both_protocols_have_pairs_in_the_same_runs() {
    let has_contexts = |outcome: &Outcome| !outcome.events.is_empty();
    let (mut with_contexts, mut without) = (0, 0);
    run_many(0..200, random_mixed_plan, |_, outcome| {
        *(if has_contexts(outcome) { &mut with_contexts } else { &mut without }) += 1;
        true
    });
    assert!(with_contexts > 20 && without > 20, "{with_contexts} {without}");
}

fn sound(seeds: &[u64]) {
    for &seed in seeds {
        let plan = random_mixed_plan(seed);
        assert_eq!(run(seed, &plan).violations, [], "seed {seed}\n{}", trace(seed, &plan));
    }
}

/// A Confirm of a handshake that had lost against another came once more, and took the place of the session.
#[test]
fn an_old_confirm_takes_the_place_of_no_session() {
    sound(&[5691, 5891]);
}

/// The peer had forgotten a session that had moved, and took its packets for traffic of the addresses on the wire.
#[test]
fn addresses_for_sessions_alone_have_no_contexts() {
    sound(&[3326]);
}

const SEEDS: u64 = 1000;
