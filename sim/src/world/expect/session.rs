use moorline_ilnp::{SessionView, State};
use moorline_types::Instant;

use super::World;
use crate::node::Core;
use crate::recovery::Expectation;
use crate::workload::{Running, Side};

impl World<'_> {
    /// What is expected of traffic to one side where a side has an ILNP session, seen as [`Side::BOTH`] has them.
    ///
    /// ILNP follows locators that come and go, and does not look for paths. So traffic goes on where both ends have agreed on
    /// the session, and the locators that each end uses carry packets both ways. Nothing else is promised.
    pub(super) fn session_expectation(
        &self,
        workload: &Running,
        to: Side,
        sessions: &[Option<SessionView>; 2],
        last: Instant,
    ) -> Expectation {
        let one_way = self.network.longest_delay();
        let works = |session: &SessionView| {
            let wire = session.wire.ulids();
            let (local, peer) = (wire.local.as_locator(), wire.peer.as_locator());
            self.works(local, peer) && self.works(peer, local)
        };
        let is_agreed = |session: &SessionView| {
            session.state == State::Established && !session.awaits_acknowledgement
        };
        let goes_on = sessions.iter().all(|session| {
            session.as_ref().is_some_and(|session| is_agreed(session) && works(session))
        });
        let is_headless = Side::BOTH.into_iter().any(|side| {
            let node = &self.nodes[workload.host(side)];
            node.is_suspended || node.core.as_ref().is_some_and(Core::is_dead)
        });
        let is_attacked = self.plan.attack.is_some();
        let promised = goes_on && !is_headless && !is_attacked;
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
