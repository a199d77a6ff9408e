//! The vectors in `tests/vectors/plane/ilnp`, which `proto/plane` also passes.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use moorline_datapath::Plane as _;
use moorline_datapath::ilnp::{ChecksumMode, Update, Wanted};
use moorline_tests::plane::ilnp::Case;
use moorline_tests::plane::{Bench, Fate, Hook, Packet, drops, play, play_all, play_changed};
use moorline_types::{Instant, L64, SessionId};

use super::harness::{Harness, at};
use crate::ilnp::{IlnpDatapath, IlnpSettings};
use crate::tests::can_run;
use crate::tests::harness::IFINDEX;
use crate::tests::vectors::{TC_ACT_SHOT, counted, fate};

//= rfc6744#2-1 rfc6744#2-5 rfc6744#2-6 rfc6744#3-1 rfc6744#4-2 rfc6744#6-1 rfc6744#6-3 rfc6744#6-4 (test)
//= rfc6744#7-1 rfc6744#7-3 rfc6744#7-5 rfc6744#8-1 (test)
//= rfc6741#5.4-1 rfc6741#5.4-2 (test)
#[test]
fn every_case_of_ilnp_comes_out_as_it_says() {
    if !can_run("every_case_of_ilnp_comes_out_as_it_says") {
        return;
    }
    let mut kernel = Kernel::default();
    let (played, _) = play_all("kernel", |case: &Case| {
        kernel.clear(case);
        play(&mut kernel, case)
    });
    assert!(played >= 80, "only {played} cases");
}

/// Each packet of each case is tried with another verdict, and with another value of each resulting octet.
#[test]
fn a_case_of_ilnp_that_says_otherwise_of_any_packet_fails() {
    if !can_run("a_case_of_ilnp_that_says_otherwise_of_any_packet_fails") {
        return;
    }
    let mut kernel = Kernel::default();
    let (_, changes) = play_all("kernel", |case: &Case| {
        kernel.clear(case);
        play_changed(&mut kernel, case)
    });
    assert!(changes >= 30_000, "only {changes} changes");
}

/// The programs that were loaded for the last case, with their settings.
#[derive(Default)]
struct Kernel {
    loaded: Option<((Wanted, ChecksumMode), Harness)>,
    locators: Vec<L64>,
    addresses: BTreeSet<Ipv6Addr>,
}

impl Kernel {
    fn harness(&mut self) -> &mut Harness {
        &mut self.loaded.as_mut().expect("loaded for the case").1
    }

    /// Sets the state that the case assumes. Loading the programs takes longer than most cases.
    fn clear(&mut self, case: &Case) {
        if self.loaded.as_ref().is_none_or(|(settings, _)| *settings != case.settings()) {
            // The thread must leave the namespace before it enters another one.
            *self = Self::default();
            let (wanted, checksum) = case.settings();
            let settings = IlnpSettings {
                max_sessions: MAX_SESSIONS,
                wanted,
                checksum,
                ..IlnpSettings::default()
            };
            self.loaded = Some((case.settings(), Harness::bare(&settings)));
        }
        let old = std::mem::replace(&mut self.locators, case.locators().collect());
        let new = self.locators.clone();
        let harness = self.harness();
        for session in (0..MAX_SESSIONS).map(SessionId) {
            harness.plane.apply(&Update::Remove { session }, Instant::ZERO).unwrap();
        }
        harness.clear();
        old.into_iter().for_each(|l64| harness.plane.unset_locator(l64).unwrap());
        new.into_iter().for_each(|l64| harness.plane.set_locator(l64, IFINDEX).unwrap());
        harness.plane.set_nids(&case.nids().collect()).unwrap();
        self.open_sockets(case);
    }

    fn open_sockets(&mut self, case: &Case) {
        let ends = case.sockets.iter().flat_map(|socket| [Some(socket.local), socket.peer]);
        let addresses: BTreeSet<_> = ends
            .flatten()
            .map(|(address, _)| address)
            .filter(|address| !address.is_unspecified())
            .collect();
        let new: Vec<_> = addresses.difference(&self.addresses).copied().collect();
        self.addresses.extend(&new);
        let harness = self.harness();
        if !new.is_empty() {
            harness.add_addresses(new);
        }
        harness.close_sockets();
        for socket in &case.sockets {
            let (address, port) = socket.local;
            let ours = at(address, port);
            match socket.peer {
                Some((peer, port)) => harness.connect(socket.protocol, ours, at(peer, port)),
                None => harness.listen(socket.protocol, ours),
            }
        }
    }
}

impl Bench for Kernel {
    type Plane = IlnpDatapath;

    fn plane(&mut self) -> &mut IlnpDatapath {
        &mut self.harness().plane
    }

    fn set_now(&mut self, now: Instant) {
        self.harness().set_now(now.as_nanos());
    }

    fn run(&mut self, packet: &Packet, _now: Instant) -> Result<Fate, String> {
        let (program, passed) = match packet.hook {
            Hook::UplinkEgress => ("ilnp_egress", ["pass", "send"]),
            Hook::MoorIngress => ("ilnp_moor_ingress", ["pass", "send"]),
            Hook::UplinkIngress => ("ilnp_ingress", ["pass", "deliver"]),
        };
        let harness = self.harness();
        let before = drops(&harness.plane)?;
        let segment = packet.segment.unwrap_or(0);
        let outcome = harness.run_segments(program, &packet.octets(), segment);
        let mut controls = harness.controls();
        let reasons = counted(&before, &drops(&harness.plane)?);
        match (controls.pop(), outcome.action) {
            (None, _) => fate(packet.hook, outcome, &reasons, &passed),
            (Some(octets), TC_ACT_SHOT) if reasons.is_empty() => Ok(Fate::new("up", octets)),
            (Some(_), action) => Err(format!("up with action {action} and drops {reasons:?}")),
        }
    }
}

/// Number of slots, more than the cases use.
const MAX_SESSIONS: u32 = 32;
