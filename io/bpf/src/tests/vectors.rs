//! The vectors in `tests/vectors/plane`, which `proto/plane` also passes.

use std::collections::BTreeMap;

use moorline_datapath::shim6::Triggers;
use moorline_tests::plane::shim6::Case;
use moorline_tests::plane::{Bench, Fate, Hook, Packet, drops, play, play_all, play_changed};
use moorline_types::Instant;

use super::can_run;
use super::harness::{Harness, Origin, Outcome};
use crate::Datapath;

/// Actions of `linux/pkt_cls.h`.
const TC_ACT_UNSPEC: i32 = -1;
pub(crate) const TC_ACT_SHOT: i32 = 2;
const TC_ACT_REDIRECT: i32 = 7;

//= rfc5533#8-1 rfc5533#8-2 rfc5533#8 rfc5533#11.1-1 rfc5533#11 rfc5533#11.1 rfc5533#12.1 rfc5533#12.2 rfc5534#4.1-3 (test)
//= rfc5534#6.4 (test)
#[test]
fn every_case_comes_out_as_it_says() {
    if !can_run("every_case_comes_out_as_it_says") {
        return;
    }
    let mut kernel = Harness::new(&Triggers::default());
    let (played, _) = play_all("kernel", |case: &Case| {
        clear(&mut kernel, case);
        play(&mut kernel, case)
    });
    assert!(played >= 40, "only {played} cases");
}

/// Each packet of each case is tried with another verdict, and with another value of each resulting octet.
#[test]
fn a_case_that_says_otherwise_of_any_packet_fails() {
    if !can_run("a_case_that_says_otherwise_of_any_packet_fails") {
        return;
    }
    let mut kernel = Harness::new(&Triggers::default());
    let (_, changes) = play_all("kernel", |case: &Case| {
        clear(&mut kernel, case);
        play_changed(&mut kernel, case)
    });
    assert!(changes >= 10_000, "only {changes} changes");
}

/// Sets the state that the case assumes.
fn clear(kernel: &mut Harness, case: &Case) {
    kernel.clear(&case.triggers());
    for &local in &case.locals {
        kernel.set_local(local);
    }
}

impl Bench for Harness {
    type Plane = Datapath;

    fn plane(&mut self) -> &mut Datapath {
        &mut self.plane
    }

    fn set_now(&mut self, now: Instant) {
        Self::set_now(self, now.as_nanos());
    }

    fn run(&mut self, packet: &Packet, _now: Instant) -> Result<Fate, String> {
        let program = match packet.hook {
            Hook::UplinkEgress => "uplink_egress",
            Hook::MoorIngress => "moor_ingress",
            Hook::UplinkIngress => "uplink_ingress",
        };
        let origin = Origin {
            segments: packet.gso.unwrap_or(0),
            cgroup: packet.cgroup.unwrap_or(0),
            mark: packet.mark.unwrap_or(0),
            ..Origin::default()
        };
        let before = drops(&self.plane)?;
        let outcome = self.run_of(program, &packet.octets(), origin);
        let reasons = counted(&before, &drops(&self.plane)?);
        fate(packet.hook, outcome, &reasons, &["pass", "up", "deliver"])
    }

    fn tick(&mut self, _now: Instant) {
        Self::tick(self);
    }
}

/// Reasons of drops that were counted in the meantime, each as often as it occurred.
pub(crate) fn counted(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> Vec<String> {
    let mut reasons = Vec::new();
    for (reason, count) in after {
        let old = before.get(reason).copied().unwrap_or(0);
        reasons.extend((old..*count).map(|_| reason.clone()));
    }
    reasons
}

/// Fate of a packet for which a program has counted these reasons. `passed` are the possible verdicts if the stack
/// gets the packet.
pub(crate) fn fate(
    hook: Hook,
    outcome: Outcome,
    reasons: &[String],
    passed: &[&str],
) -> Result<Fate, String> {
    let lost = match hook {
        // A redirection to no interface: the sender takes the packet for lost on the way.
        Hook::UplinkEgress | Hook::MoorIngress => TC_ACT_REDIRECT,
        Hook::UplinkIngress => TC_ACT_SHOT,
    };
    match (reasons, outcome.action) {
        ([], TC_ACT_UNSPEC) => {
            let verdicts = passed.iter().copied().map(str::to_owned).collect();
            Ok(Fate { verdicts, via: None, octets: Some(outcome.packet) })
        }
        ([], TC_ACT_REDIRECT) => {
            let source = outcome.packet[8..24].try_into().map(<[u8; 16]>::into);
            Ok(Fate { via: source.ok(), ..Fate::new("redirect", outcome.packet) })
        }
        ([reason], action) if action == lost => Ok(Fate::dropped(reason)),
        (reasons, action) => Err(format!("action {action} with drops {reasons:?}")),
    }
}
