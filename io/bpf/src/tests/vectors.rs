//! `tests/vectors/plane`, which `proto/plane` goes through too.

use std::collections::BTreeMap;
use std::fmt::Debug;

use moorline_datapath::shim6::{ContextEntry, Report, Triggers, Update};
use moorline_tests::plane::{
    Case, Check, CountersText, Hook, Input, PathCountersText, Step, cases,
};
use moorline_types::{ContextId, Instant, Ulid, UlidPair};

use super::can_run;
use super::harness::{Harness, Origin, Outcome};

/// Actions of `linux/pkt_cls.h`.
const TC_ACT_UNSPEC: i32 = -1;
const TC_ACT_SHOT: i32 = 2;
const TC_ACT_REDIRECT: i32 = 7;

//= rfc5533#8-1 rfc5533#8-2 rfc5533#8 rfc5533#11.1-1 rfc5533#11 rfc5533#11.1 rfc5533#12.1 rfc5533#12.2 rfc5534#4.1-3 (test)
//= rfc5534#6.4 (test)
#[test]
fn every_case_comes_out_as_it_says() {
    if !can_run("every_case_comes_out_as_it_says") {
        return;
    }
    let mut harness = Harness::new(&Triggers::default());
    let mut played = 0;
    let mut failures = Vec::new();
    for (file, case) in cases() {
        if !case.planes.iter().any(|plane| plane == "kernel") {
            continue;
        }
        played += 1;
        if let Err(difference) = play(&mut harness, &case) {
            failures.push(format!("{file}: {}: {difference}", case.name));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(played >= 40, "only {played} cases");
}

fn play(harness: &mut Harness, case: &Case) -> Result<(), String> {
    harness.clear(&case.triggers());
    for &local in &case.locals {
        harness.set_local(local);
    }
    for (index, step) in case.steps.iter().enumerate() {
        let outcome = match step {
            Step::Input { at, input } => {
                harness.set_now(*at);
                on_input(harness, input)
            }
            Step::Check(check) => on_check(harness, check),
        };
        outcome.map_err(|difference| format!("step {index}: {difference}"))?;
    }
    Ok(())
}

fn on_input(harness: &mut Harness, input: &Input) -> Result<(), String> {
    match input {
        Input::Upsert { upsert } => harness.apply(&Update::Upsert(ContextEntry::from(upsert))),
        Input::Heard { heard } => harness.apply(&Update::Heard {
            context: ContextId(heard.context),
            at: Instant::from_nanos(heard.at),
        }),
        Input::Remove { remove } => {
            harness.apply(&Update::Remove { context: ContextId(remove.context) });
        }
        Input::Rearm { rearm } => {
            let [local, peer] = rearm.ulids;
            harness.apply(&Update::Rearm { ulids: UlidPair::new(Ulid(local), Ulid(peer)) });
        }
        Input::Policy { policy } => {
            harness.plane.set_triggers(&policy.into()).unwrap();
        }
        Input::Tick { .. } => harness.tick(),
        Input::Packet { packet, hook, gso, cgroup, mark, verdict, via, out } => {
            let octets = hex::decode(packet).map_err(|error| error.to_string())?;
            let before = drops(harness);
            let origin = Origin {
                segments: gso.unwrap_or(0),
                cgroup: cgroup.unwrap_or(0),
                mark: mark.unwrap_or(0),
                ..Origin::default()
            };
            let outcome = harness.run_of(program(*hook), &octets, origin);
            check_drop(verdict, &before, &drops(harness))?;
            check_action(*hook, verdict, &outcome)?;
            // Of what is dropped, nobody sees the octets.
            if !verdict.starts_with("drop") {
                compare("octets", &hex::encode(&outcome.packet), out.as_ref().unwrap_or(packet))?;
            }
            if let Some(via) = via {
                compare("source", &outcome.packet[8..24], &via.octets()[..])?;
            }
        }
    }
    Ok(())
}

fn program(hook: Hook) -> &'static str {
    match hook {
        Hook::UplinkEgress => "uplink_egress",
        Hook::MoorIngress => "moor_ingress",
        Hook::UplinkIngress => "uplink_ingress",
    }
}

fn check_action(hook: Hook, verdict: &str, outcome: &Outcome) -> Result<(), String> {
    let action = match (verdict, hook) {
        ("pass" | "up" | "deliver", _) => TC_ACT_UNSPEC,
        ("redirect", _) => TC_ACT_REDIRECT,
        // A redirection to no interface: the sender takes the packet for lost on the way.
        (_, Hook::UplinkEgress | Hook::MoorIngress) => TC_ACT_REDIRECT,
        (_, Hook::UplinkIngress) => TC_ACT_SHOT,
    };
    compare("action", &outcome.action, &action)
}

/// A drop counts its reason, once; anything else counts none.
fn check_drop(
    verdict: &str,
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> Result<(), String> {
    let mut said = before.clone();
    if let Some(reason) = verdict.strip_prefix("drop:") {
        *said.entry(reason.to_owned()).or_default() += 1;
    }
    compare("drops", after, &said)
}

fn drops(harness: &Harness) -> BTreeMap<String, u64> {
    let drops = harness.plane.drops().unwrap();
    drops.into_iter().map(|(reason, count)| (reason.to_string(), count)).collect()
}

fn on_check(harness: &Harness, check: &Check) -> Result<(), String> {
    match check {
        Check::Reports(expected) => {
            let expected: Vec<_> = expected.iter().map(|&report| Report::from(report)).collect();
            compare("reports", &harness.reports(), &expected)
        }
        Check::Counters(expected) => {
            let context = expected.context;
            let counters = harness.plane.counters(ContextId(context)).unwrap();
            let seen = CountersText {
                context,
                tx_packets: counters.tx_packets,
                tx_bytes: counters.tx_bytes,
                rx_packets: counters.rx_packets,
                rx_bytes: counters.rx_bytes,
                last_tx: counters.last_tx.as_nanos(),
                last_rx: counters.last_rx.as_nanos(),
            };
            compare("counters", &seen, expected)
        }
        Check::PathCounters(expected) => {
            let context = expected.context;
            let seen = harness.plane.path_counters(ContextId(context)).unwrap();
            let seen = seen.map(|seen| PathCountersText::new(context, seen));
            compare("path counters", &seen, &Some(*expected))
        }
        Check::Drops(expected) => compare("drops", &drops(harness), expected),
    }
}

fn compare<T: PartialEq + Debug + ?Sized>(what: &str, seen: &T, said: &T) -> Result<(), String> {
    if seen == said { Ok(()) } else { Err(format!("{what}: {seen:?}, and not {said:?}")) }
}
