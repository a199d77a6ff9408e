//! Measures the octets that a context takes in the daemon's memory: `cargo test -p moorline-lab --lib -- --ignored
//! --nocapture octets_of_a_context`.

use std::time::Duration;

use moorline_contexts::Transmit;
use moorline_datapath::shim6::Report;
use moorline_types::{ContextId, ContextTag};
use moorline_wire::{Message, Options, Packet, Probe, ProbeReport, ProbeState};

use super::{Peers, Responder, Security};

/// The peer's answer to a probe of a standby path.
fn answer(check: &Transmit, tag: ContextTag) -> Option<Vec<u8>> {
    let pair = check.locators;
    let packet = Packet::parse(&check.octets, pair.local.0, pair.peer.0).ok()?;
    let Message::Probe(probe) = packet.message().ok()? else { return None };
    let own = ProbeReport { src: pair.peer, dst: pair.local, nonce: 1, data: 0 };
    let answer = Probe {
        receiver_tag: tag,
        state: ProbeState::Operational,
        sent: vec![own],
        received: probe.sent,
        options: Options::default(),
    };
    Some(Message::Probe(answer).octets())
}

/// Reports payload from the peer, so that standby paths are due, and answers their probes. Gives the number of probes.
fn check_standby(responder: &mut Responder, context: ContextId, tag: ContextTag) -> usize {
    responder.now = responder.now + Duration::from_millis(50);
    let now = responder.now;
    responder.host.handle_report(Report::Received { context, at: now }, now);
    let mut checks = Vec::new();
    while let Some(check) = responder.host.poll_transmit() {
        checks.push(check);
    }
    responder.now = responder.now + Duration::from_millis(20);
    let answers = checks
        .iter()
        .filter_map(|check| Some(responder.handle(&answer(check, tag)?, check.locators)));
    answers.count()
}

#[test]
#[ignore = "a measurement, for which nothing else may use the process's memory"]
fn octets_of_a_context() {
    let mut responder = Responder::new(CONTEXTS + 1).expect("a responder");
    let peers = Peers::new(Security::Hba).expect("peers");
    let establish = |responder: &mut Responder, number| {
        responder.establish(&peers.peer(number).expect("a peer")).expect("a context")
    };
    establish(&mut responder, CONTEXTS);
    // Allocated before the measurement, because this memory does not belong to the contexts.
    let mut ours = vec![(ContextId(0), ContextTag::from_bits(1)); CONTEXTS as usize];
    let before = resident();
    (0..CONTEXTS).for_each(|number| {
        establish(&mut responder, number);
    });
    let octets = || (resident() - before) / u64::from(CONTEXTS);
    println!("{CONTEXTS} contexts: {} octets each", octets());
    assert!(octets() <= GOAL);
    let snapshot = responder.host.snapshot().map(|context| (context.id, context.local_tag));
    ours.iter_mut().zip(snapshot).for_each(|(place, context)| *place = context);
    let checks: usize = ours.iter().map(|&(id, tag)| check_standby(&mut responder, id, tag)).sum();
    println!("after {checks} answers to checks: {} octets each", octets());
    assert_eq!(checks, 2 * ours.len());
    assert!(octets() <= GOAL, "timers and what pairs share are in it");
}

/// Resident memory of this process in octets.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    let kib = line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number");
    kib * 1024
}

const CONTEXTS: u32 = 100_000;
const GOAL: u64 = 512;
