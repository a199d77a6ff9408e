use std::collections::BTreeMap;

use moorline_datapath::shim6::Report;
use moorline_plane::shim6::{Outbound, Plane, Sender, Settings};
use moorline_types::{ContextId, Instant, Locator};

use super::{Case, Check, CountersText, Input, PathCountersText};
use crate::plane::{Fate, Hook, Packet, Player, compare};

/// The user-space plane of Shim6.
#[derive(Debug)]
pub struct UserPlane(Plane);

impl UserPlane {
    /// As a case finds it.
    #[must_use]
    pub fn new(case: &Case) -> Self {
        let mut plane = Plane::new(Settings::default());
        plane.set_triggers(case.triggers());
        for &local in &case.locals {
            plane.set_local(Locator(local));
        }
        Self(plane)
    }
}

impl Player for UserPlane {
    type Input = Input;
    type Check = Check;

    fn packet(input: &Input) -> Option<&Packet> {
        input.packet()
    }

    fn update(&mut self, input: &Input, now: u64) -> Result<(), String> {
        let now = Instant::from_nanos(now);
        match input {
            Input::Policy { policy } => self.0.set_triggers(policy.into()),
            Input::Tick { .. } => self.0.handle_timeout(now),
            Input::Upsert { .. }
            | Input::Heard { .. }
            | Input::Remove { .. }
            | Input::Rearm { .. }
            | Input::Packet(_) => {
                let update = input.update().ok_or("no update")?;
                self.0.handle_update(&update, now);
            }
        }
        Ok(())
    }

    fn run(&mut self, packet: &Packet, now: u64) -> Result<Fate, String> {
        if packet.gso.is_some_and(|segments| segments > 1) {
            return Err("super-packets are for the kernel alone".into());
        }
        let cgroups: Vec<u64> = packet.cgroup.iter().copied().map(u64::from).collect();
        let sender = Sender { cgroups: &cgroups, mark: packet.mark.unwrap_or(0) };
        let mut octets = packet.octets();
        let now = Instant::from_nanos(now);
        Ok(match packet.hook {
            Hook::UplinkEgress | Hook::MoorIngress => {
                let outbound = self.0.handle_outbound_of(&mut octets, sender, now);
                fate_out(outbound, octets)
            }
            Hook::UplinkIngress => {
                let inbound = self.0.handle_inbound_of(&mut octets, &cgroups, now);
                Fate::inbound(inbound, octets)
            }
        })
    }

    fn check(&mut self, check: &Check) -> Result<(), String> {
        match check {
            Check::Reports(expected) => {
                let seen: Vec<_> = std::iter::from_fn(|| self.0.poll_report()).collect();
                let expected: Vec<_> =
                    expected.iter().map(|&report| Report::from(report)).collect();
                compare("reports", &seen, &expected)
            }
            Check::Counters(expected) => {
                let context = expected.context;
                let counters = self.0.counters(ContextId(context)).ok_or("no such context")?;
                compare("counters", &CountersText::new(context, &counters), expected)
            }
            Check::PathCounters(expected) => {
                let context = expected.context;
                let seen = self.0.path_counters(ContextId(context));
                let seen = seen.map(|seen| PathCountersText::new(context, seen));
                compare("path counters", &seen, &Some(*expected))
            }
            Check::Drops(expected) => {
                let seen: BTreeMap<_, _> =
                    self.0.drops().iter().map(|(reason, n)| (reason.to_string(), n)).collect();
                compare("drops", &seen, expected)
            }
        }
    }
}

fn fate_out(outbound: Outbound, octets: Vec<u8>) -> Fate {
    match outbound {
        Outbound::Pass => Fate::new("pass", octets),
        Outbound::Send { source } => Fate { via: Some(source), ..Fate::new("redirect", octets) },
        Outbound::Drop(reason) => Fate::dropped(reason),
    }
}
