use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::config::*;
use crate::event::Event;
use crate::message::{Message, Probe, Report, Transmit};
use crate::timers::Timer;
use moorline_types::DropReason;
use moorline_types::Locator;

mod appendix_a;
mod checks;
mod compare;
mod compare_corners;
mod detection;
mod exploration;
mod follow;
mod foreign;
mod forged;
mod heard;
mod home;
mod monitor;
mod net;
mod one_way;
mod pair;
mod paths;
mod payload;
mod probes;
mod proof;
mod properties;
mod rfc_peer;
mod roaming;
mod room;
mod switch;
mod table;
mod third;
mod trials;
mod unmoved;

/// Locator of a host by one of its ISPs.
fn locator(host: u16, isp: u16) -> Locator {
    Locator::from(core::net::Ipv6Addr::new(0x2001, 0xdb8, isp, 0, 0, 0, 0, host))
}

const A: u16 = 0xa;
const B: u16 = 0xb;

/// The pair from A's ISP `a` to B's ISP `b`, seen from A.
fn ab(a: u16, b: u16) -> LocatorPair {
    LocatorPair::new(locator(A, a), locator(B, b))
}

/// The pair from B's ISP `b` to A's ISP `a`, seen from B.
fn ba(b: u16, a: u16) -> LocatorPair {
    turn(ab(a, b))
}

fn turn(pair: LocatorPair) -> LocatorPair {
    LocatorPair::new(pair.peer, pair.local)
}

fn at(millis: u64) -> Instant {
    Instant::from_nanos(1_000_000_000 + millis * 1_000_000)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Machine {
    fn set_candidates(
        &mut self,
        local: impl Into<Locators>,
        peer: impl Into<Locators>,
        now: Instant,
    ) {
        self.handle_candidates(local, peer, &[], &[], now);
    }
}

/// The machine of host A. A and its peer B have two ISPs each, and use the first of each.
fn machine() -> Machine {
    let mut machine = Machine::new(Config::default(), ab(1, 1), [1; 16], at(0));
    machine.set_candidates([locator(A, 1), locator(A, 2)], [locator(B, 1), locator(B, 2)], at(0));
    machine
}

/// A machine in `state` at `at(15_000)`, with all outputs drained.
fn machine_in(state: State) -> Machine {
    let mut machine = machine();
    match state {
        State::Operational => {}
        State::Exploring => machine.handle_send_expired(at(0), at(15_000)),
        State::InboundOk => {
            deliver(&mut machine, ba(2, 2), State::Exploring, 0xb0b, &[], at(15_000)).unwrap();
        }
    }
    drain(&mut machine);
    assert_eq!(machine.state(), state);
    machine
}

/// Delivers a probe of the peer, sent by the pair `sent_by` as the peer sees it.
fn deliver(
    machine: &mut Machine,
    sent_by: LocatorPair,
    state: State,
    nonce: u32,
    received: &[Report],
    now: Instant,
) -> Result<(), DropReason> {
    let own = Report { src: sent_by.local, dst: sent_by.peer, nonce, data: 0 };
    machine.handle_probe(
        turn(sent_by),
        &Probe { state, sent: [own].into(), received: received.into() },
        now,
    )
}

fn drain(machine: &mut Machine) -> (Vec<Transmit>, Vec<Event>) {
    let transmits = core::iter::from_fn(|| machine.poll_transmit()).collect();
    let events = core::iter::from_fn(|| machine.poll_event()).collect();
    (transmits, events)
}

/// The only waiting message, which is a probe.
fn only_probe(machine: &mut Machine) -> (LocatorPair, Probe) {
    let (mut transmits, _) = drain(machine);
    assert_eq!(transmits.len(), 1, "{transmits:?}");
    match transmits.remove(0) {
        Transmit { pair, message: Message::Probe(probe) } => (pair, probe),
        other => panic!("not a probe: {other:?}"),
    }
}

/// Runs all timers up to `until`, and gives the sent messages with their times.
fn run(machine: &mut Machine, until: Instant) -> Vec<(Instant, Transmit)> {
    let mut log = Vec::new();
    while let Some((next, _)) = machine.poll_timeout().filter(|&(next, _)| next <= until) {
        machine.handle_timeout(next);
        log.extend(drain(machine).0.into_iter().map(|t| (next, t)));
    }
    log
}
