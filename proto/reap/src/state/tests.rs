//! The tables of RFC 5534 s6.1 to 6.9, written a second time in the RFC's own words.

use alloc::format;
use alloc::string::String;

use super::{Act, Input, Send, State, transition};

/// Table, then its cells under Operational, Exploring, InboundOk.
const TABLES: &[(Input, [&str; 3])] = &[
    // START Keepalive is the task of the data plane, so the machine's own timer stops.
    (
        Input::PayloadReceived,
        [
            "STOP Send, STOP Keepalive",
            "SEND Probe InboundOk, START Send, GOTO InboundOk",
            "STOP Send",
        ],
    ),
    (
        Input::ControlReceived,
        [
            "STOP Send, START Keepalive",
            "SEND Probe InboundOk, START Send, GOTO InboundOk",
            "STOP Send",
        ],
    ),
    (Input::ControlSent, ["START Send, STOP Keepalive", "-", "START Send"]),
    (Input::KeepaliveTimeout, ["SEND Keepalive", "-", "-"]),
    (
        Input::SendTimeout,
        [
            "SEND Probe Exploring, STOP Send, STOP Keepalive, GOTO Exploring",
            "-",
            "SEND Probe Exploring, STOP Send, STOP Keepalive, GOTO Exploring",
        ],
    ),
    (Input::Retransmission, ["-", "SEND Probe Exploring", "SEND Probe InboundOk, START Send"]),
    (
        Input::KeepaliveReceived,
        ["STOP Send", "SEND Probe InboundOk, START Send, GOTO InboundOk", "STOP Send"],
    ),
    (
        Input::ProbeExploring,
        [
            "SEND Probe InboundOk, RESTART Send, STOP Keepalive, GOTO InboundOk",
            "SEND Probe InboundOk, RESTART Send, STOP Keepalive, GOTO InboundOk",
            "SEND Probe InboundOk, RESTART Send, STOP Keepalive",
        ],
    ),
    (
        Input::ProbeInboundOk,
        [
            "SEND Probe Operational, RESTART Send, STOP Keepalive",
            "SEND Probe Operational, RESTART Send, STOP Keepalive, GOTO Operational",
            "SEND Probe Operational, RESTART Send, STOP Keepalive, GOTO Operational",
        ],
    ),
    (
        Input::ProbeOperational,
        [
            "STOP Send, START Keepalive",
            "STOP Send, START Keepalive, GOTO Operational",
            "STOP Send, START Keepalive, GOTO Operational",
        ],
    ),
    (
        Input::PathGone,
        ["SEND Probe Exploring, STOP Send, STOP Keepalive, GOTO Exploring", "-", "-"],
    ),
];

//= rfc5534#6-1 rfc5534#6.1 rfc5534#6.2 rfc5534#6.3 rfc5534#6.4 rfc5534#6.5 rfc5534#6.6 (test)
//= rfc5534#6.7 rfc5534#6.8 rfc5534#6.9 (test)
#[test]
fn every_cell_is_as_in_the_rfc() {
    for (input, cells) in TABLES {
        for (state, expected) in State::ALL.iter().zip(cells) {
            assert_eq!(&render(*state, *input), expected, "{input:?} in {state:?}");
        }
    }
}

#[test]
fn the_tables_cover_every_input() {
    // A new input must be added to TABLES: until this match lists it, the code does not compile.
    let row = |input: Input| match input {
        Input::PayloadReceived => 0,
        Input::ControlReceived => 1,
        Input::ControlSent => 2,
        Input::KeepaliveTimeout => 3,
        Input::SendTimeout => 4,
        Input::Retransmission => 5,
        Input::KeepaliveReceived => 6,
        Input::ProbeExploring => 7,
        Input::ProbeInboundOk => 8,
        Input::ProbeOperational => 9,
        Input::PathGone => 10,
    };
    for (index, (input, _)) in TABLES.iter().enumerate() {
        assert_eq!(row(*input), index);
    }
    assert_eq!(TABLES.len(), 11);
}

fn render(state: State, input: Input) -> String {
    let cell = transition(state, input);
    let name = |state| match state {
        State::Operational => "Operational",
        State::Exploring => "Exploring",
        State::InboundOk => "InboundOk",
    };
    let act = |act, timer| match act {
        Act::Keep => String::new(),
        Act::Start => format!("START {timer}"),
        Act::Restart => format!("RESTART {timer}"),
        Act::Stop => format!("STOP {timer}"),
    };
    let parts = [
        match cell.send {
            Send::Nothing => String::new(),
            Send::Keepalive => String::from("SEND Keepalive"),
            Send::Probe => format!("SEND Probe {}", name(cell.next)),
        },
        act(cell.send_timer, "Send"),
        act(cell.keepalive_timer, "Keepalive"),
        if cell.next == state { String::new() } else { format!("GOTO {}", name(cell.next)) },
    ];
    let text =
        parts.into_iter().filter(|p| !p.is_empty()).collect::<alloc::vec::Vec<_>>().join(", ");
    if text.is_empty() { String::from("-") } else { text }
}
