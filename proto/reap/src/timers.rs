//! | timer | armed by | disarmed by | when it runs out |
//! |---|---|---|---|
//! | `Retransmission` | entering Exploring or InboundOk; each probe sent there | entering Operational | next probe on the next pair |
//! | `Send` | control messages that the tables of RFC 5534 s6 say START or RESTART for | payload, keepalive, Probe Operational, entering Exploring | GOTO Exploring |
//! | `Keepalive` | Probe Operational or another control message received | payload received (the data plane counts from there), control message sent, leaving Operational, Keepalive Timeout passed | SEND Keepalive, again after an interval |
//! | `Standby` | each round of checks of the standby pair | no other pair | the next round is due; an unanswered check is sent again |
//! | `Trial` | a suspicion; the data plane's Send Timer | the current pair answers, payload, a keepalive of a peer without checks | next checks, or the verdict |
//! | `Answer` | a keepalive, if the current pair has not answered lately | the current pair answers, payload, leaving Operational | the check is sent again; after the last one a trial begins |
//! | `Comparison` | a suspicion, a check of the current pair that gets lost, its round-trip time; hold time of a pair left as worse | leaving Operational, another current pair | next checks by both pairs, or the outcome |
//! | `Follow` | a probe of the peer's that asks for another pair, if the current one has answered checks | an answer by the current pair | the pair is asked again; after the last time payload moves |
//! | `Switch` | a switch, each of its probes | the pair becomes current, or is given up | next probe by the pair; after the last one it is given up |
//! | `Paths` | pairs wanted besides the current one | none wanted | they are checked again |
//! | `Forget` | entering Operational, if no other timer runs | entering another state | records of probes are dropped |
//!
//! Payload's own Send and Keepalive Timers run in the data plane, see [`Timers`].

pub use moorline_datapath::shim6::ReapTimers as Timers;
use moorline_types::Instant;

/// Timers of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// Time to send the next probe (RFC 5534 s6.5).
    Retransmission,
    /// Send Timer, where a control message started it (RFC 5534 s6.4).
    Send,
    /// Keepalive Interval, where a control message started the Keepalive Timer (RFC 5534 s6.3).
    Keepalive,
    /// Checks of the standby pair are due, or their answers.
    Standby,
    /// Checks of a suspected pair are due, or their answers.
    Trial,
    /// The answer to a check of the current pair is due, which a keepalive gave rise to.
    Answer,
    /// Checks of two pairs that are compared are due, or their answers.
    Comparison,
    /// The current pair is to be asked, or its answer is due, before payload goes where the peer wants it.
    Follow,
    /// Time for the next probe by the pair that is to be current.
    Switch,
    /// Pairs that are used besides the current one are to be checked.
    Paths,
    /// Records of an exploration are of no use any more.
    Forget,
}

/// When the timers of a machine run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    pub(crate) retransmission: Option<Instant>,
    pub(crate) send: Option<Instant>,
    pub(crate) keepalive: Option<Instant>,
    /// The Keepalive Timer proper; `keepalive` is its interval.
    pub(crate) keepalive_end: Option<Instant>,
    pub(crate) forget: Option<Instant>,
}

impl Deadlines {
    /// The earliest, `Send` before `Retransmission` if they run out together: it decides the Sta
    /// field of the probe.
    pub(crate) fn next(&self) -> Option<(Instant, Timer)> {
        let running = [
            (self.send, Timer::Send),
            (self.retransmission, Timer::Retransmission),
            (self.keepalive, Timer::Keepalive),
        ];
        let next = running
            .into_iter()
            .filter_map(|(at, timer)| Some((at?, timer)))
            .min_by_key(|&(at, _)| at);
        next.or_else(|| Some((self.forget?, Timer::Forget)))
    }

    pub(crate) fn stop_keepalive(&mut self) {
        self.keepalive = None;
        self.keepalive_end = None;
    }
}
