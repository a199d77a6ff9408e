//! `tests/vectors/plane`, which `proto/plane` goes through too.

use std::collections::BTreeMap;

use moorline_datapath::shim6::{Report, Triggers};
use moorline_tests::plane::shim6::{Case, Check, CountersText, Input, PathCountersText};
use moorline_tests::plane::{Fate, Hook, Packet, Player, compare, play, play_all, play_changed};
use moorline_types::ContextId;

use super::can_run;
use super::harness::{Harness, Origin, Outcome};

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
    let mut kernel = Kernel(Harness::new(&Triggers::default()));
    let (played, _) = play_all("kernel", |case: &Case| {
        kernel.clear(case);
        play(&mut kernel, &case.steps).map(|()| 0)
    });
    assert!(played >= 40, "only {played} cases");
}

/// Each packet of each case, with another verdict than it has, and with another value of each octet that comes out.
#[test]
fn a_case_that_says_otherwise_of_any_packet_fails() {
    if !can_run("a_case_that_says_otherwise_of_any_packet_fails") {
        return;
    }
    let mut kernel = Kernel(Harness::new(&Triggers::default()));
    let (_, changes) = play_all("kernel", |case: &Case| {
        kernel.clear(case);
        play_changed(&mut kernel, &case.steps)
    });
    assert!(changes >= 10_000, "only {changes} changes");
}

struct Kernel(Harness);

impl Kernel {
    /// As the case finds it.
    fn clear(&mut self, case: &Case) {
        self.0.clear(&case.triggers());
        for &local in &case.locals {
            self.0.set_local(local);
        }
    }

    fn drops(&self) -> BTreeMap<String, u64> {
        let drops = self.0.plane.drops().unwrap();
        drops.into_iter().map(|(reason, count)| (reason.to_string(), count)).collect()
    }
}

impl Player for Kernel {
    type Input = Input;
    type Check = Check;

    fn packet(input: &Input) -> Option<&Packet> {
        input.packet()
    }

    fn update(&mut self, input: &Input, now: u64) -> Result<(), String> {
        self.0.set_now(now);
        match input {
            Input::Policy { policy } => self.0.plane.set_triggers(&policy.into()).unwrap(),
            Input::Tick { .. } => self.0.tick(),
            Input::Upsert { .. }
            | Input::Heard { .. }
            | Input::Remove { .. }
            | Input::Rearm { .. }
            | Input::Packet(_) => self.0.apply(&input.update().ok_or("no update")?),
        }
        Ok(())
    }

    fn run(&mut self, packet: &Packet, now: u64) -> Result<Fate, String> {
        self.0.set_now(now);
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
        let before = self.drops();
        let outcome = self.0.run_of(program, &packet.octets(), origin);
        let reasons = counted(&before, &self.drops());
        fate(packet.hook, outcome, &reasons, &["pass", "up", "deliver"])
    }

    fn check(&mut self, check: &Check) -> Result<(), String> {
        match check {
            Check::Reports(expected) => {
                let expected: Vec<_> =
                    expected.iter().map(|&report| Report::from(report)).collect();
                compare("reports", &self.0.reports(), &expected)
            }
            Check::Counters(expected) => {
                let context = expected.context;
                let counters = self.0.plane.counters(ContextId(context)).unwrap();
                compare("counters", &CountersText::new(context, &counters), expected)
            }
            Check::PathCounters(expected) => {
                let context = expected.context;
                let seen = self.0.plane.path_counters(ContextId(context)).unwrap();
                let seen = seen.map(|seen| PathCountersText::new(context, seen));
                compare("path counters", &seen, &Some(*expected))
            }
            Check::Drops(expected) => compare("drops", &self.drops(), expected),
        }
    }
}

/// The reasons that were counted meanwhile, each as often as it was.
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

/// The fate of a packet, of which a program has counted these reasons. `passed` are the verdicts that it may be if the stack gets the packet.
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
