//! Each input in each state, seen from outside: the machine does what the tables say.

use super::*;
use crate::state::{Act, Input, Send, Transition, nothing, transition};

const INPUTS: [Input; 11] = [
    Input::PayloadReceived,
    Input::ControlReceived,
    Input::ControlSent,
    Input::KeepaliveTimeout,
    Input::SendTimeout,
    Input::Retransmission,
    Input::KeepaliveReceived,
    Input::ProbeExploring,
    Input::ProbeInboundOk,
    Input::ProbeOperational,
    Input::PathGone,
];

/// A report of the last probe that the machine sent, if it sent any.
fn proof(machine: &Machine) -> Vec<Report> {
    machine.exploration.as_ref().map(|e| e.records.sent_reports(1)).unwrap_or_default()
}

fn feed(machine: &mut Machine, input: Input, now: Instant) {
    let proof = proof(machine);
    match input {
        Input::PayloadReceived => machine.handle_payload(now, now),
        Input::ControlReceived => machine.handle_control(now),
        Input::ControlSent => machine.handle_control_sent(now),
        Input::KeepaliveTimeout => machine.handle_keepalive_due(now),
        Input::SendTimeout => machine.handle_send_expired(now, now),
        Input::Retransmission => {
            if let Some((at, Timer::Retransmission)) = machine.poll_timeout() {
                machine.handle_timeout(at);
            }
        }
        Input::KeepaliveReceived => machine.handle_keepalive(now).unwrap(),
        Input::ProbeExploring => {
            deliver(machine, ba(2, 2), State::Exploring, 1, &proof, now).unwrap();
        }
        Input::ProbeInboundOk => {
            deliver(machine, ba(2, 2), State::InboundOk, 2, &proof, now).unwrap();
        }
        Input::ProbeOperational if machine.state == State::Operational => {
            deliver(machine, ba(2, 2), State::Operational, 3, &[], now).unwrap();
        }
        Input::ProbeOperational => {
            deliver(machine, ba(2, 2), State::Operational, 3, &proof, now).unwrap();
        }
        Input::PathGone => machine.handle_local_failure(now),
    }
}

fn deadlines(machine: &Machine) -> (Option<Instant>, Option<Instant>) {
    machine.exploration.as_ref().map_or((None, None), |e| (e.deadlines.send, e.deadlines.keepalive))
}

//= rfc5534#6-1 rfc5534#6.1-1 (test)
#[test]
fn inputs_do_what_the_tables_say() {
    for state in State::ALL.iter().copied() {
        for input in INPUTS {
            check(machine_in(state), input);
        }
    }
}

/// The same test with running timers, for which START and RESTART differ.
#[test]
fn inputs_do_what_the_tables_say_while_timers_run() {
    let mut keepalive = machine();
    deliver(&mut keepalive, ba(2, 2), State::Operational, 9, &[], at(15_000)).unwrap();
    let mut send = machine();
    deliver(&mut send, ba(2, 2), State::InboundOk, 9, &[], at(15_000)).unwrap();
    drain(&mut send);
    assert_ne!(deadlines(&keepalive).1, None);
    assert_ne!(deadlines(&send).0, None);
    for input in INPUTS {
        check(copy(&keepalive), input);
        check(copy(&send), input);
    }
}

/// Another machine in the same state, reached in the same way.
fn copy(machine: &Machine) -> Machine {
    let (send, _) = deadlines(machine);
    let state = if send.is_some() { State::InboundOk } else { State::Operational };
    let mut copy = super::machine();
    deliver(&mut copy, ba(2, 2), state, 9, &[], at(15_000)).unwrap();
    drain(&mut copy);
    copy
}

/// The cell of the tables. Exception: where a cell would send a Probe InboundOk without a report, the machine stays in
/// Exploring and sends a probe on the first such input.
fn expected(state: State, input: Input) -> Transition {
    match (state, input) {
        (
            State::Exploring,
            Input::PayloadReceived | Input::ControlReceived | Input::KeepaliveReceived,
        ) => Transition { send: Send::Probe, ..nothing(State::Exploring) },
        _ => transition(state, input),
    }
}

fn check(mut machine: Machine, input: Input) {
    let state = machine.state();
    let now = at(15_100);
    let cell = expected(state, input);
    let (send, keepalive) = deadlines(&machine);
    feed(&mut machine, input, now);
    let name = alloc::format!("{input:?} in {state:?}");
    assert_eq!(machine.state(), cell.next, "{name}");

    let (transmits, events) = drain(&mut machine);
    let sent: Vec<_> = transmits
        .iter()
        .map(|t| match &t.message {
            Message::Keepalive => None,
            Message::Probe(probe) => Some(probe.state),
        })
        .collect();
    match cell.send {
        Send::Nothing => assert!(sent.is_empty(), "{name}: {sent:?}"),
        Send::Keepalive => assert_eq!(sent, [None], "{name}"),
        Send::Probe => assert_eq!(sent, [Some(cell.next)], "{name}"),
    }
    let changes = events.iter().filter(|e| matches!(e, Event::StateChanged { .. })).count();
    assert_eq!(changes, usize::from(cell.next != state), "{name}: {events:?}");

    let (new_send, new_keepalive) = deadlines(&machine);
    // The Retransmission comes a little later than the other inputs.
    let soon = |deadline: Option<Instant>, from: Duration| {
        deadline.is_some_and(|at| at >= now + from && at <= now + from + ms(1_000))
    };
    match cell.send_timer {
        Act::Keep => assert_eq!(new_send, send, "{name}"),
        Act::Start if send.is_some() => assert_eq!(new_send, send, "{name}"),
        Act::Start | Act::Restart => assert!(soon(new_send, ms(15_000)), "{name}: {new_send:?}"),
        Act::Stop => assert_eq!(new_send, None, "{name}"),
    }
    match cell.keepalive_timer {
        Act::Keep => assert_eq!(new_keepalive, keepalive, "{name}"),
        Act::Start if keepalive.is_some() => assert_eq!(new_keepalive, keepalive, "{name}"),
        Act::Start | Act::Restart => assert!(soon(new_keepalive, ms(5_000)), "{name}"),
        Act::Stop => assert_eq!(new_keepalive, None, "{name}"),
    }
    match machine.state() {
        State::Operational => {
            assert_ne!(machine.poll_timeout().map(|t| t.1), Some(Timer::Retransmission))
        }
        State::Exploring | State::InboundOk => {
            let e = machine.exploration.as_ref().unwrap();
            assert!(
                e.deadlines.retransmission.is_some(),
                "{name}: nothing would ever happen again"
            );
        }
    }
}
