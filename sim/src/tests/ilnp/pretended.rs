//! A host off the path sends packets in the name of both ends, and so says that a dead path works.

use std::time::Duration;

use moorline_ilnp::NonceMode;

use super::plan::{IlnpChange, IlnpHost, IlnpOutcome, IlnpPlan, Pretended};
use super::{KINDS, plan, run};
use crate::rng::Rng;
use crate::tests::first_seed;

pub(super) const RTTS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(160)];
/// Packets a second to each address of each host.
const RATES: [u32; 2] = [50, 2000];
const PRETENDED: [Pretended; 3] = [Pretended::Echoes, Pretended::Ports, Pretended::Syns];
/// How a session carries its nonce. Datagrams of a session that has moved have it, segments do not.
pub(super) const WAYS: [(NonceMode, bool); 3] =
    [(NonceMode::Economy, true), (NonceMode::Economy, false), (NonceMode::Always, true)];

/// Both hosts have the same two ISPs. The one in use fails silently after about 10 s. If the hosts prefer none, the
/// session has not moved until then.
pub(super) fn dead_isp(
    seed: u64,
    rtt: Duration,
    (nonce, prefers_none): (NonceMode, bool),
) -> IlnpPlan {
    let mut plan = plan(seed, 20);
    plan.delay = rtt / 2;
    plan.hosts = [IlnpHost { prefers_none, nonce, ..plan.hosts[0] }; 2];
    plan.changes = gains();
    let used = u8::from(!prefers_none);
    let cut = IlnpChange::CutIsp { locator: used, from: &[0, 1] };
    let at = Duration::from_secs(8) + Rng::new(seed, 211).duration(Duration::from_secs(3));
    plan.changes.push((at, cut));
    plan
}

/// Both hosts get a second locator.
fn gains() -> Vec<(Duration, IlnpChange)> {
    [0, 1].map(|host| (Duration::from_secs(2), IlnpChange::Gain { host, locator: 1 })).into()
}

fn played(plan: &IlnpPlan) -> IlnpOutcome {
    let outcome = run(plan);
    assert!(outcome.violations.is_empty(), "seed {}: {:?}", plan.seed, outcome.violations);
    outcome
}

/// Time from the failure until packets arrive at both ends again.
pub(super) fn late(plan: &IlnpPlan) -> Duration {
    let at = plan.changes.last().expect("the cut").0;
    let outcome = played(plan);
    let is_over = outcome.pause_at_end < Duration::from_secs(1);
    let end = if is_over { outcome.longest_pause_at } else { plan.duration };
    assert!(end > at, "seed {}: a pause before the cut", plan.seed);
    end.saturating_sub(at)
}

#[test]
fn packets_with_the_addresses_do_not_keep_a_session_on_a_dead_isp() {
    let mut failures = Vec::new();
    for (rtt, way) in RTTS.into_iter().flat_map(|rtt| WAYS.map(|way| (rtt, way))) {
        for (seed, traffic) in (first_seed()..first_seed() + 3).zip(KINDS.into_iter().cycle()) {
            let plan = IlnpPlan { traffic, ..dead_isp(seed, rtt, way) };
            let usual = late(&plan);
            for rate in RATES {
                for kind in PRETENDED {
                    let attacked =
                        late(&IlnpPlan { pretended: Some((kind, rate)), ..plan.clone() });
                    if attacked > usual + Duration::from_millis(100) {
                        failures.push((seed, rtt, way, traffic, rate, kind, attacked, usual));
                    }
                }
            }
        }
    }
    let text: Vec<_> = failures.iter().map(|failure| format!("{failure:?}")).collect();
    assert!(failures.is_empty(), "{} runs:\n{}", text.len(), text.join("\n"));
}

/// Both directions lose 2 % of the packets, and their queues fill and empty: nothing has failed. The attacker adds
/// less than one message a second, both hosts together.
#[test]
fn full_queues_and_loss_and_an_attacker_move_no_session_in_an_hour() {
    const HOUR: u64 = 3600;
    for (seed, traffic) in (first_seed()..).zip(KINDS) {
        for pretended in PRETENDED.map(|kind| Some((kind, 20))) {
            let plan = IlnpPlan {
                traffic,
                pretended,
                loss: 20,
                delay: Duration::from_millis(20),
                queue: Duration::from_millis(250),
                interval: Duration::from_millis(300),
                changes: gains(),
                hosts: [IlnpHost { prefers_none: true, ..IlnpHost::default() }; 2],
                ..plan(seed, HOUR)
            };
            let outcome = played(&plan);
            let quiet = played(&IlnpPlan { pretended: None, ..plan });
            assert_eq!(outcome.moves, 0, "{traffic:?} {pretended:?}, seed {seed}");
            let more = outcome.updates.saturating_sub(quiet.updates);
            assert!(more <= HOUR, "{traffic:?} {pretended:?}: {more} messages more");
        }
    }
}
