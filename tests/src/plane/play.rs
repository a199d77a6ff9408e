use std::collections::BTreeMap;

use moorline_datapath::shim6::{ContextEntry, Report, Update};
use moorline_plane::shim6::{Inbound, Outbound, Plane, Sender, Settings};
use moorline_types::{ContextId, Instant, Locator};

use super::case::{Case, Check, CountersText, Hook, Input, PathCountersText, Step, ulids};

/// Plays a case to a user-space plane.
///
/// # Errors
/// What came out otherwise than the case says, and at which step.
pub fn play(case: &Case) -> Result<(), String> {
    let mut plane = Plane::new(Settings::default());
    plane.set_triggers(case.triggers());
    for &local in &case.locals {
        plane.set_local(Locator(local));
    }
    for (index, step) in case.steps.iter().enumerate() {
        let outcome = match step {
            Step::Input { at, input } => on_input(&mut plane, input, Instant::from_nanos(*at)),
            Step::Check(check) => on_check(&mut plane, check),
        };
        outcome.map_err(|difference| format!("step {index}: {difference}"))?;
    }
    Ok(())
}

fn on_input(plane: &mut Plane, input: &Input, now: Instant) -> Result<(), String> {
    match input {
        Input::Upsert { upsert } => {
            plane.handle_update(&Update::Upsert(ContextEntry::from(upsert)), now);
        }
        Input::Heard { heard } => {
            let (context, at) = (ContextId(heard.context), Instant::from_nanos(heard.at));
            plane.handle_update(&Update::Heard { context, at }, now);
        }
        Input::Remove { remove } => {
            plane.handle_update(&Update::Remove { context: ContextId(remove.context) }, now);
        }
        Input::Rearm { rearm } => {
            plane.handle_update(&Update::Rearm { ulids: ulids(rearm.ulids) }, now);
        }
        Input::Policy { policy } => plane.set_triggers(policy.into()),
        Input::Tick { .. } => plane.handle_timeout(now),
        Input::Packet { packet, hook, gso, cgroup, mark, verdict, via, out } => {
            if gso.is_some_and(|segments| segments > 1) {
                return Err("super-packets are for the kernel alone".into());
            }
            let cgroups: Vec<u64> = cgroup.iter().copied().map(u64::from).collect();
            let mut bytes = hex::decode(packet).map_err(|error| error.to_string())?;
            let seen = match hook {
                Hook::UplinkEgress | Hook::MoorIngress => {
                    let sender = Sender { cgroups: &cgroups, mark: mark.unwrap_or(0) };
                    outbound(plane, &mut bytes, sender, now)
                }
                Hook::UplinkIngress => inbound(plane, &mut bytes, &cgroups, now),
            };
            let expected = (verdict.clone(), via.map(Locator));
            compare("verdict", &seen, &expected)?;
            compare("octets", &hex::encode(bytes), out.as_ref().unwrap_or(packet))?;
        }
    }
    Ok(())
}

fn outbound(
    plane: &mut Plane,
    packet: &mut Vec<u8>,
    sender: Sender<'_>,
    now: Instant,
) -> (String, Option<Locator>) {
    match plane.handle_outbound_of(packet, sender, now) {
        Outbound::Pass => ("pass".into(), None),
        Outbound::Send { source } => ("redirect".into(), Some(Locator(source))),
        Outbound::Drop(reason) => (format!("drop:{reason}"), None),
    }
}

fn inbound(
    plane: &mut Plane,
    packet: &mut Vec<u8>,
    cgroups: &[u64],
    now: Instant,
) -> (String, Option<Locator>) {
    let verdict = match plane.handle_inbound_of(packet, cgroups, now) {
        Inbound::Pass => "pass".into(),
        Inbound::Deliver => "deliver".into(),
        Inbound::Up => "up".into(),
        Inbound::Drop(reason) => format!("drop:{reason}"),
    };
    (verdict, None)
}

fn on_check(plane: &mut Plane, check: &Check) -> Result<(), String> {
    match check {
        Check::Reports(expected) => {
            let seen: Vec<_> = std::iter::from_fn(|| plane.poll_report()).collect();
            let expected: Vec<_> = expected.iter().map(|&report| Report::from(report)).collect();
            compare("reports", &seen, &expected)
        }
        Check::Counters(expected) => {
            let context = expected.context;
            let counters = plane.counters(ContextId(context)).ok_or("no such context")?;
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
            let seen = plane.path_counters(ContextId(context));
            let seen = seen.map(|seen| PathCountersText::new(context, seen));
            compare("path counters", &seen, &Some(*expected))
        }
        Check::Drops(expected) => {
            let seen: BTreeMap<_, _> =
                plane.drops().iter().map(|(reason, n)| (reason.to_string(), n)).collect();
            compare("drops", &seen, expected)
        }
    }
}

fn compare<T: PartialEq + std::fmt::Debug>(what: &str, seen: &T, said: &T) -> Result<(), String> {
    if seen == said { Ok(()) } else { Err(format!("{what}: {seen:?}, and not {said:?}")) }
}
