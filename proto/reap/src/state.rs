/// State of a context: the knowledge of a host about its paths (RFC 5534 s6), and the Sta field of a probe.
pub use moorline_wire::ProbeState as State;

/// Inputs of the transition table: one for each table of RFC 5534 s6.1 to 6.9, and one of our own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Payload came in (s6.1). From here on the data plane runs the Keepalive Timer.
    PayloadReceived,
    /// A Shim6 control message other than Keepalive and Probe came in (s6.1).
    ControlReceived,
    /// A Shim6 control message other than Keepalive and Probe went out (s6.2). Outgoing payload is the task of the data
    /// plane.
    ControlSent,
    /// Keepalive Timer or Keepalive Interval ran out (s6.3).
    KeepaliveTimeout,
    /// Send Timer ran out (s6.4).
    SendTimeout,
    /// The next probe is due (s6.5).
    Retransmission,
    /// Keepalive came in (s6.6).
    KeepaliveReceived,
    /// Probe Exploring came in (s6.7).
    ProbeExploring,
    /// Probe InboundOk came in (s6.8).
    ProbeInboundOk,
    /// Probe Operational came in (s6.9).
    ProbeOperational,
    /// The host itself knows that the current pair is gone (s4.1, "tracking local information").
    PathGone,
}

/// Action on a timer, in the words of the RFC's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// "-": the timer stays as it is.
    Keep,
    /// START: the timer starts, if it was not running.
    Start,
    /// RESTART: the timer starts again.
    Restart,
    /// STOP: the timer stops.
    Stop,
}

/// Message to send, by the RFC's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Send {
    Nothing,
    Keepalive,
    /// A probe. Its Sta field is the state after the transition.
    Probe,
}

/// One cell of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) send: Send,
    pub(crate) send_timer: Act,
    pub(crate) keepalive_timer: Act,
    pub(crate) next: State,
}

/// The tables of RFC 5534 s6.1 to 6.9.
///
/// In Exploring the RFC has no timer run, so the cells that lead there stop both timers. The Keepalive Timer runs in
/// Operational only, so the cells that lead to InboundOk stop that timer.
//= rfc5534#6-1
pub(crate) const fn transition(state: State, input: Input) -> Transition {
    use Act::{Keep, Restart, Start, Stop};
    use State::{Exploring, InboundOk, Operational};
    match (input, state) {
        //= rfc5534#6.1
        (Input::PayloadReceived, Operational) => cell(Send::Nothing, Stop, Stop, Operational),
        (Input::ControlReceived, Operational) => cell(Send::Nothing, Stop, Start, Operational),
        (Input::KeepaliveReceived, Operational) => cell(Send::Nothing, Stop, Keep, Operational),
        (Input::PayloadReceived | Input::ControlReceived | Input::KeepaliveReceived, Exploring) => {
            cell(Send::Probe, Start, Keep, InboundOk)
        }
        (Input::PayloadReceived | Input::ControlReceived | Input::KeepaliveReceived, InboundOk) => {
            cell(Send::Nothing, Stop, Keep, InboundOk)
        }

        //= rfc5534#6.2
        (Input::ControlSent, Operational) => cell(Send::Nothing, Start, Stop, Operational),
        (Input::ControlSent, Exploring) => nothing(Exploring),
        (Input::ControlSent, InboundOk) => cell(Send::Nothing, Start, Keep, InboundOk),

        //= rfc5534#6.3
        (Input::KeepaliveTimeout, Operational) => cell(Send::Keepalive, Keep, Keep, Operational),
        (Input::KeepaliveTimeout, Exploring | InboundOk) => nothing(state),

        //= rfc5534#6.4
        (Input::SendTimeout | Input::PathGone, Operational) => {
            cell(Send::Probe, Stop, Stop, Exploring)
        }
        (Input::SendTimeout, InboundOk) => cell(Send::Probe, Stop, Stop, Exploring),
        (Input::SendTimeout, Exploring) => nothing(Exploring),
        (Input::PathGone, Exploring | InboundOk) => nothing(state),

        //= rfc5534#6.5
        (Input::Retransmission, Operational) => nothing(Operational),
        (Input::Retransmission, Exploring) => cell(Send::Probe, Keep, Keep, Exploring),
        (Input::Retransmission, InboundOk) => cell(Send::Probe, Start, Keep, InboundOk),

        //= rfc5534#6.7 rfc5534#6.8 rfc5534#6.9
        (Input::ProbeExploring, _) => cell(Send::Probe, Restart, Stop, InboundOk),
        (Input::ProbeInboundOk, _) => cell(Send::Probe, Restart, Stop, Operational),
        (Input::ProbeOperational, _) => cell(Send::Nothing, Stop, Start, Operational),
    }
}

const fn cell(send: Send, send_timer: Act, keepalive_timer: Act, next: State) -> Transition {
    Transition { send, send_timer, keepalive_timer, next }
}

/// The cell "-": nothing happens.
pub(crate) const fn nothing(state: State) -> Transition {
    cell(Send::Nothing, Act::Keep, Act::Keep, state)
}

#[cfg(test)]
mod tests;
