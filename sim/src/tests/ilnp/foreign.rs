//! Sessions with a node that knows RFC 6740 to 6744 alone.

use std::time::Duration;

use moorline_ilnp::NonceMode;

use super::plan::{IlnpChange, IlnpHost, IlnpOutcome, IlnpPlan, IlnpTraffic};
use super::world::run;
use super::{HARD_PAUSE, KINDS, SILENT, hard, soft};
use crate::rng::Rng;
use crate::tests::first_seed;

/// Makes the host with this index the node of the RFCs.
fn with_plain(place: usize, plan: IlnpPlan) -> IlnpPlan {
    let mut plan = plan;
    plan.hosts[place] = IlnpHost { plain: true, ..plan.hosts[place] };
    plan
}

/// All kinds of traffic, with the first or the second host as the node of the RFCs. A server without a connected
/// socket has no session with the node.
fn kinds_with_plain() -> impl Iterator<Item = (IlnpTraffic, usize)> {
    let all = KINDS.into_iter().flat_map(|traffic| [(traffic, 0), (traffic, 1)]);
    all.filter(|kind| *kind != (IlnpTraffic::Server, 0))
}

#[track_caller]
fn safe(plan: &IlnpPlan) -> IlnpOutcome {
    let outcome = run(plan);
    assert!(outcome.violations.is_empty(), "seed {}: {:?}", plan.seed, outcome.violations);
    outcome
}

fn sessions_of_moorline(outcome: &IlnpOutcome, plain: usize) -> usize {
    outcome.sessions[1 - plain]
}

/// Both hosts roam, one after the other, in a network that may lose packets. An attacker forges, and another node has
/// the identifier of the node elsewhere.
fn random_plan(seed: u64) -> (IlnpPlan, usize) {
    let mut rng = Rng::new(seed, 91);
    let kinds: Vec<_> = kinds_with_plain().collect();
    let (traffic, plain) = kinds[rng.index(kinds.len())];
    let mut plan = IlnpPlan::new(seed);
    plan.traffic = traffic;
    plan.loss = rng.pick(&[0, 0, 0, 10, 40]).unwrap_or(0);
    plan.jitter = Duration::from_millis(rng.pick(&[0, 0, 8]).unwrap_or(0));
    plan.core_delay = Duration::from_millis(rng.pick(&[0, 0, 5]).unwrap_or(0));
    (plan.forgeries, plan.namesakes) = (20, 5);
    if rng.below(4) == 0 {
        plan.hosts[plain].nonce = NonceMode::Always;
    }
    let (mut at, mut current, mut next) = (8000 + rng.below(2000), [0, 0], 1);
    for _ in 0..1 + rng.below(6) {
        let host = rng.index(2);
        // Half of the moves go back to where the host began.
        let to = if rng.below(2) == 0 && current[host] != 0 { 0 } else { next };
        next += u8::from(to == next);
        let change = if rng.below(2) == 0 { hard } else { soft };
        plan.changes.extend(change(at, host, current[host], to));
        current[host] = to;
        at += 4000 + rng.below(8000);
    }
    plan.duration = Duration::from_millis(at + 10_000);
    (with_plain(plain, plan), plain)
}

//= rfc6740#3.2.2-1 (test)
#[test]
fn payload_goes_on_after_each_move_of_either_and_our_nonce_stays_with_the_node() {
    for seed in first_seed()..first_seed() + SEEDS {
        let (plan, plain) = random_plan(seed);
        let outcome = safe(&plan);
        // One session may be with the namesake.
        let sessions = sessions_of_moorline(&outcome, plain);
        assert!((1..=2).contains(&sessions), "seed {seed}: {outcome:?}");
        let calm = plan.loss == 0;
        let longest =
            if calm { HARD_PAUSE + (plan.jitter + plan.core_delay) * 4 } else { LOSSY_PAUSE };
        assert!(outcome.longest_pause <= longest, "seed {seed}: {outcome:?} {plan:?}");
    }
}

/// An ISP of the other host drops packets silently. The node cannot notice, and is told.
#[test]
fn a_session_leaves_a_locator_of_moorline_that_fails_without_a_word() {
    for (traffic, plain) in kinds_with_plain() {
        let host = 1 - plain;
        let changes = vec![
            (Duration::from_secs(8), IlnpChange::Gain { host, locator: 1 }),
            (Duration::from_secs(20), IlnpChange::Cut { host, locator: 1 }),
        ];
        let plan =
            IlnpPlan { traffic, changes, duration: Duration::from_secs(120), ..IlnpPlan::new(1) };
        let outcome = safe(&with_plain(plain, plan));
        assert!(outcome.longest_pause <= SILENT, "{traffic:?} {plain}: {outcome:?}");
        assert!(
            outcome.sent - outcome.received < outcome.sent / 6,
            "{traffic:?} {plain}: {outcome:?}"
        );
    }
}

/// The node restarts with another nonce, at the same addresses.
#[test]
fn a_node_that_begins_anew_is_taken_back_within_two_seconds() {
    for (traffic, plain) in kinds_with_plain() {
        for ms in 0..20 {
            let at = Duration::from_millis(20_000 + 77 * ms);
            let changes = vec![(at, IlnpChange::BeginAnew { host: plain })];
            let plan = IlnpPlan {
                traffic,
                changes,
                duration: Duration::from_secs(60),
                ..IlnpPlan::new(ms)
            };
            let outcome = safe(&with_plain(plain, plan));
            assert_eq!(sessions_of_moorline(&outcome, plain), 1);
            assert!(outcome.longest_pause <= BEGUN_ANEW, "{traffic:?} {plain}: {outcome:?}");
        }
    }
}

/// The node moves. Then its new locator dies, and the node restarts with its first locator and another nonce.
#[test]
fn a_node_that_begins_anew_at_its_first_locator_is_taken_back_when_its_new_one_is_dead() {
    for (traffic, plain) in kinds_with_plain() {
        let at = Duration::from_secs(20);
        let changes = vec![
            (Duration::from_secs(8), IlnpChange::Gain { host: plain, locator: 1 }),
            (at, IlnpChange::LoseUpdate { host: plain }),
            (at, IlnpChange::Lose { host: plain, locator: 1 }),
            (at, IlnpChange::BeginAnew { host: plain }),
        ];
        let duration = Duration::from_secs(60);
        let plan = IlnpPlan { traffic, changes, duration, ..IlnpPlan::new(1) };
        let outcome = safe(&with_plain(plain, plan));
        assert_eq!(sessions_of_moorline(&outcome, plain), 1);
        assert!(outcome.longest_pause <= ASKED, "{traffic:?} {plain}: {outcome:?}");
    }
}

/// The node restarts without ILNP, where it was or at its first locator, and its errors get lost.
#[test]
fn a_node_that_comes_back_without_ilnp_has_classic_ipv6() {
    for ((traffic, plain), moves) in
        kinds_with_plain().flat_map(|kind| [(kind, false), (kind, true)])
    {
        let at = Duration::from_secs(20);
        let mut changes = vec![(at, IlnpChange::Classic { host: plain })];
        if moves {
            let gain = IlnpChange::Gain { host: plain, locator: 1 };
            changes.insert(0, (Duration::from_secs(8), gain));
            changes.push((at, IlnpChange::Lose { host: plain, locator: 1 }));
        }
        let duration = Duration::from_secs(60);
        let plan = IlnpPlan { traffic, changes, duration, ..IlnpPlan::new(1) };
        let outcome = safe(&with_plain(plain, plan));
        assert_eq!(sessions_of_moorline(&outcome, plain), 0);
        assert!(outcome.longest_pause <= ASKED * 2, "{traffic:?} {plain} {moves}: {outcome:?}");
    }
}

const SEEDS: u64 = 300;
/// A report of use, a question by the locators in use, and Echo Requests.
const ASKED: Duration = Duration::from_secs(12);
const LOSSY_PAUSE: Duration = Duration::from_secs(8);
const BEGUN_ANEW: Duration = Duration::from_secs(2);
