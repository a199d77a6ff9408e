//! A correspondent names the locator of a third party, and acknowledges what it does not see (RFC 9000 s21.5.3 has the
//! attack; decision 192).

use std::time::Duration;

use super::plan::{IlnpChange, IlnpHost, IlnpOutcome, IlnpPlan, IlnpTraffic};
use super::{KINDS, run};

/// The first host pretends from the eighth second on. `plain`: the second host knows RFC 6740 to 6744 alone, so it
/// follows each Locator Update with the right nonce.
fn flooded(traffic: IlnpTraffic, plain: bool, seed: u64) -> IlnpOutcome {
    let mut plan = IlnpPlan { traffic, ..IlnpPlan::new(seed) };
    plan.hosts[1] = IlnpHost { plain, ..plan.hosts[1] };
    plan.changes = vec![(Duration::from_secs(8), IlnpChange::Pretend { host: 0 })];
    run(&plan)
}

/// Shows what the attack draws from a host without the rule of decision 192. The pretender itself asks what has become of
/// the answers, which counts as sent.
#[test]
fn a_third_party_gets_many_times_what_came_from_a_node_that_follows_each_locator_update() {
    let outcome = flooded(IlnpTraffic::Segments, true, 1);
    let (sent, got) = (outcome.pretender_sent, outcome.third_party_got);
    assert!(got > 5 * sent, "{got} octets for {sent}");
}

#[test]
fn a_third_party_gets_no_more_than_three_times_what_a_correspondent_sends() {
    for traffic in KINDS {
        for seed in 0..10 {
            let outcome = flooded(traffic, false, seed);
            let (sent, got) = (outcome.pretender_sent, outcome.third_party_got);
            assert!(sent > 10_000, "{traffic:?} {seed}: {sent} octets of the attacker");
            assert!(got > 0, "{traffic:?} {seed}: the Locator Update was not taken");
            assert!(got <= 3 * sent, "{traffic:?} {seed}: {got} octets for {sent}");
            assert_eq!(outcome.sessions[1], 1, "{traffic:?} {seed}: the session goes on");
        }
    }
}
