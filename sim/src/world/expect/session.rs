use moorline_ilnp::{SessionView, State};
use moorline_types::{IlvPair, Instant, Nonce, Ulid, UlidPair};

use super::World;
use crate::plain::PlainPath;
use crate::plan::Kind;
use crate::recovery::Expectation;
use crate::workload::{Running, Side};

impl World<'_> {
    /// Expectation for traffic to one side if a side has ILNP by the RFCs alone, and the other side has Moorline's
    /// ILNP.
    ///
    /// Traffic goes on if both ends have each other's nonces, neither waits for an acknowledgement, and the locators of
    /// each end carry packets in both directions. Nothing is promised after a Locator Update that has come after a
    /// newer one. Before the session nothing is promised: the session of another socket between the same identifiers
    /// may come first, and take its packets (decision 149). Nor is anything promised to a server of requests at
    /// Moorline's end of a session that has moved.
    pub(super) fn plain_expectation(
        &self,
        workload: &Running,
        session: Option<&SessionView>,
        last: Instant,
    ) -> Option<Expectation> {
        let is_plain = |side: &Side| self.nodes[workload.host(*side)].plain.is_some();
        let side = Side::BOTH.into_iter().find(is_plain)?;
        if !self.plan.hosts[workload.host(side.other())].ilnp {
            return None;
        }
        let one_way = self.network.longest_delay();
        let ulids = workload.ulids_of(side);
        let plain = self.nodes[workload.host(side)].plain.as_ref();
        let path = plain.and_then(|plain| plain.path(ulids));
        let works = |wire: UlidPair| self.works_both_ways(wire.as_locators());
        let (is_ready, wires) = match (session, path) {
            (Some(session), Some(path)) => {
                let [local, peer] = path.wire.map(|end| Ulid(end.into()));
                let wires = [session.wire.ulids(), UlidPair::new(local, peer)];
                (is_shared(session, &path), wires)
            }
            _ => (false, [ulids; 2]),
        };
        let is_cut = !wires.into_iter().all(works);
        // A datagram without a nonce is for a moved session only if a socket is connected (decision 071).
        let is_to_server =
            matches!(workload.plan.kind, Kind::Requests { .. }) && side == Side::From;
        let meets_socket = !is_to_server || wires[1] == ulids;
        // An older Locator Update that came after a newer one had no number to show its age.
        let is_outdated = self.told.is_outdated(IlvPair::of(ulids).nids());
        let goes_on = is_ready && meets_socket && !is_cut && !is_outdated;
        let promised = goes_on && !self.is_headless(workload) && self.plan.attack.is_none();
        let deadline = promised.then(|| self.now + one_way * 2);
        Some(Expectation {
            deadline: deadline.map(|at| at + self.backoff(workload, deadline, last)),
            patience: self.patience(workload.plan.kind),
            is_cut,
            is_lost: false,
            is_hopeless: !goes_on,
            settled: self.now + one_way,
        })
    }

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
        let is_black_hole = |session: &SessionView| {
            let wire = session.wire.ulids().as_locators();
            self.network.is_black_hole(wire.local.0, wire.peer.0)
        };
        let is_blind = sessions.iter().flatten().any(is_black_hole);
        let promised =
            goes_on && !self.is_headless(workload) && !is_blind && self.plan.attack.is_none();
        let delays = self.readiness_of_stacks(workload);
        let deadline = promised.then(|| self.now + one_way * 2 + delays);
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

/// Whether both ends have each other's nonces, and neither waits for an acknowledgement.
fn is_shared(session: &SessionView, path: &PlainPath) -> bool {
    let (ours, theirs) = session.nonces;
    session.state == State::Established
        && !session.awaits_acknowledgement
        && path.is_told
        && theirs == Some(Nonce::Short(path.own_nonce))
        && path.nonce.as_deref() == Some(ours.octets())
}
