//! | timer | armed by | disarmed by | when it runs out |
//! |---|---|---|---|
//! | `Retransmission` | entering Exploring or InboundOk; each probe sent there; a Probe InboundOk, for repetitions of the answer (decision 214) | entering Operational | in Operational the answer once more, up to three times; otherwise next probe on the next pair (payload that leaves draws others, see [`Machine::handle_send_expired`](crate::Machine::handle_send_expired)) |
//! | `Send` | control messages for which the tables of RFC 5534 s6 say START or RESTART | payload, keepalive, Probe Operational, entering Exploring | GOTO Exploring |
//! | `Keepalive` | Probe Operational or another control message received | payload received (from then on the data plane runs the timer), control message sent, leaving Operational, Keepalive Timeout passed | SEND Keepalive, again after an interval |
//! | `Standby` | each round of checks of the standby path | no other pair | the next round is due, or an unanswered check is sent again |
//! | `Trial` | a suspicion; the data plane's Send Timer | the current pair answers, payload (not after payload that may be anybody's), a keepalive of a peer without checks | next checks, or the verdict |
//! | `Answer` | a keepalive, or payload that may be anybody's, if the current pair has not answered lately; an Update Request | the current pair answers, payload (not after payload that may be anybody's), leaving Operational; for a request any message of Shim6 | the check is sent again; after the last check, or a request, a trial begins |
//! | `Comparison` | a suspicion; a check of the current pair gets lost; a long round-trip time; the end of the hold time of the preferred pair | leaving Operational, another current pair | next checks by both pairs, or the outcome |
//! | `Follow` | a probe of the peer asks for another pair, or the peer calls its locator of the current pair broken; the current pair has answered checks, or the context is new | an answer by the current pair | the pair is asked again; after the last question payload moves |
//! | `Switch` | a switch, each of its probes | the pair becomes current, or the switch is given up | next probe by the pair; after the last probe the switch is given up |
//! | `Paths` | the host wants pairs besides the current one | the host wants none | these pairs are checked again |
//! | `Ulids` | entering Exploring, or a move to a pair that is still to answer, while payload does not take the ULIDs; the first answer for a while, by another pair than the ULIDs | entering Operational, another move | that pair is asked once more, then payload takes the ULIDs; after an answer: the ULIDs are asked once more, then payload takes the pair that has answered |
//! | `Forget` | entering Operational; waits while `Send`, `Retransmission` or `Keepalive` runs | entering another state | records of probes are dropped |
//!
//! The data plane runs the Send and Keepalive Timers of payload, see [`Timers`].

pub use moorline_datapath::shim6::ReapTimers as Timers;
use moorline_types::Instant;

/// Timers of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The next probe is due (RFC 5534 s6.5).
    Retransmission,
    /// Send Timer, started by a control message (RFC 5534 s6.4).
    Send,
    /// Keepalive Interval, after a control message started the Keepalive Timer (RFC 5534 s6.3).
    Keepalive,
    /// Checks of the standby path, or their answers, are due.
    Standby,
    /// Checks of a suspected pair, or their answers, are due.
    Trial,
    /// The answer to a check of the current pair after a keepalive is due.
    Answer,
    /// Checks of two compared pairs, or their answers, are due.
    Comparison,
    /// A question by the current pair, or its answer, is due, before payload takes the pair that the peer wants.
    Follow,
    /// The next probe of a switch is due.
    Switch,
    /// Checks of the pairs that payload takes besides the current one are due.
    Paths,
    /// The time for an answer is over, before payload takes the ULIDs or leaves them.
    Ulids,
    /// Records of an exploration can be dropped.
    Forget,
}

/// When the timers of a machine run out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Deadlines {
    pub(crate) retransmission: Option<Instant>,
    pub(crate) send: Option<Instant>,
    pub(crate) keepalive: Option<Instant>,
    /// End of the Keepalive Timer itself. `keepalive` is the end of the running interval.
    pub(crate) keepalive_end: Option<Instant>,
    /// End of the time for an answer, before payload takes the ULIDs or leaves them.
    pub(crate) ulids: Option<Instant>,
    pub(crate) forget: Option<Instant>,
}

impl Deadlines {
    /// The earliest deadline. If `Send` and `Retransmission` run out together, `Send` comes first, because it decides
    /// the Sta field of the probe.
    pub(crate) fn next(&self) -> Option<(Instant, Timer)> {
        let running = [
            (self.send, Timer::Send),
            (self.retransmission, Timer::Retransmission),
            (self.keepalive, Timer::Keepalive),
            (self.ulids, Timer::Ulids),
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
