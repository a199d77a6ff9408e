//! A stranger on a link advertises prefixes that lead nowhere, and the host has an address in each.

use std::time::Duration;

use super::KINDS;
use super::plan::{IlnpChange, IlnpPlan};
use super::pretended::{RTTS, WAYS, dead_isp, late};
use crate::tests::first_seed;

/// The stranger comes before the session and the second ISP, or after them.
const TIMES: [Duration; 2] = [Duration::from_micros(1), Duration::from_secs(4)];

fn misled(plan: &IlnpPlan, hosts: &[usize], at: Duration) -> IlnpPlan {
    let mut plan = plan.clone();
    let mislead = |host: &usize| (at, IlnpChange::Mislead { host: *host });
    plan.changes.splice(..0, hosts.iter().map(mislead));
    plan
}

#[test]
fn locators_that_lead_nowhere_keep_no_session_on_a_dead_isp() {
    let mut failures = Vec::new();
    for (rtt, way) in RTTS.into_iter().flat_map(|rtt| WAYS.map(|way| (rtt, way))) {
        for (seed, traffic) in (first_seed()..first_seed() + 3).zip(KINDS.into_iter().cycle()) {
            let plan = IlnpPlan { traffic, ..dead_isp(seed, rtt, way) };
            let usual = late(&plan);
            for (hosts, at) in
                [&[0][..], &[1], &[0, 1]].into_iter().flat_map(|h| TIMES.map(|t| (h, t)))
            {
                let is_late = late(&misled(&plan, hosts, at));
                if is_late > usual + Duration::from_millis(100) {
                    failures.push((seed, rtt, way, traffic, hosts, at, is_late, usual));
                }
            }
        }
    }
    let text: Vec<_> = failures.iter().map(|failure| format!("{failure:?}")).collect();
    assert!(failures.is_empty(), "{} runs:\n{}", text.len(), text.join("\n"));
}
