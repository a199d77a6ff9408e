use moorline_ilnp::{SessionView, State};
use moorline_types::Instant;

use super::World;
use crate::recovery::Expectation;
use crate::workload::{Running, Side};

impl World<'_> {
    /// Expectation for traffic to one side if a side has an ILNP session; `sessions` is in the order of
    /// [`Side::BOTH`].
    ///
    /// Traffic goes on if both ends have agreed on the session, and the locators of each end carry packets in both
    /// directions. Nothing else is promised: a session finds another path only while it is in use, and with a
    /// correspondent that answers (decision 148).
    pub(super) fn session_expectation(
        &self,
        workload: &Running,
        to: Side,
        sessions: &[Option<SessionView>; 2],
        last: Instant,
    ) -> Expectation {
        let one_way = self.network.longest_delay();
        let works =
            |session: &SessionView| self.works_both_ways(session.wire.ulids().as_locators());
        let is_agreed = |session: &SessionView| {
            session.state == State::Established && !session.awaits_acknowledgement
        };
        let goes_on = sessions.iter().all(|session| {
            session.as_ref().is_some_and(|session| is_agreed(session) && works(session))
        });
        let promised = goes_on && !self.is_headless(workload) && self.plan.attack.is_none();
        let deadline = promised.then(|| self.now + one_way * 2);
        let sender = &sessions[usize::from(to == Side::From)];
        Expectation {
            deadline: deadline.map(|at| at + self.backoff(workload, deadline, last)),
            patience: self.patience(workload.plan.kind),
            is_cut: !sender.as_ref().is_some_and(works),
            is_lost: false,
            is_hopeless: !goes_on,
            settled: self.now + one_way,
        }
    }
}
