use std::time::Duration;

use moorline_contexts::EstablishedView;
use moorline_types::{Instant, LocatorPair, UlidPair};

use super::{LOOK, Occurrence, World};
use crate::bound::{Conditions, backoff_bound, recovery_bound};
use crate::log::since_start;
use crate::node::Core;
use crate::outcome::Rule;
use crate::plan::Kind;
use crate::recovery::{End, Expectation, Late, Watch};
use crate::workload::{Running, Side};

mod protected;
mod regain;
mod roam;
mod session;

/// Episodes: see [`crate::recovery`].
impl World<'_> {
    pub(super) fn begin_episodes(&mut self) {
        for index in 0..self.watches.len() {
            self.begin_episode(index);
        }
    }

    pub(super) fn begin_episode(&mut self, index: usize) {
        let Some(watch) = self.watches.get(index) else { return };
        let expectation = self.expectation(watch.workload, watch.to, watch.last());
        if let Some(watch) = self.watches.get_mut(index) {
            watch.begin(expectation, self.now);
        }
        self.shorten();
    }

    pub(super) fn end_episodes(&mut self) {
        for index in 0..self.watches.len() {
            self.end_episode(index);
        }
    }

    /// Expects nothing more of a complete stream.
    pub(super) fn forget_watches(&mut self, number: usize) {
        for index in 0..self.watches.len() {
            if self.watches[index].workload == number {
                self.end_episode(index);
            }
        }
        self.watches.retain(|watch| watch.workload != number);
        // The hosts hear less of each other from now on.
        let ulids = self.workloads[&number].ulids_of(Side::From);
        for index in 0..self.watches.len() {
            let other = &self.workloads[&self.watches[index].workload];
            if Side::BOTH.into_iter().any(|side| other.ulids_of(side) == ulids) {
                self.end_episode(index);
                self.begin_episode(index);
            }
        }
        self.shorten();
    }

    /// Notes that a host has a context. An attacker that overhears can make a cut path look good, by repeating its
    /// checks behind the cut, so payload may move there. So nothing is promised from now on, as for a context that
    /// existed at the beginning of the episode.
    pub(super) fn on_context(&mut self, host: usize, ulids: UlidPair) {
        if !self.plan.attack.is_some_and(|attack| attack.overhears) {
            return;
        }
        for index in 0..self.watches.len() {
            let Watch { workload: number, to, .. } = self.watches[index];
            let workload = &self.workloads[&number];
            let is_its = |side| (workload.host(side), workload.ulids_of(side)) == (host, ulids);
            if Side::BOTH.into_iter().any(is_its) {
                let late = self.watches[index].release(self.now);
                self.on_late(number, to, late);
            }
        }
    }

    pub(super) fn on_late(&mut self, number: usize, to: Side, late: Option<Late>) {
        let Some(Late { since, deadline, last }) = late else { return };
        let seconds = |at: Instant| since_start(at).as_secs_f64();
        self.check(false, Rule::Recovery, || {
            format!(
                "workload {number} to {to:?}: paths as they are since {:.3} s, due by {:.3} s, \
                 last arrival {:.3} s",
                seconds(since),
                seconds(deadline),
                seconds(last)
            )
        });
    }

    fn end_episode(&mut self, index: usize) {
        let now = self.now;
        let Some(watch) = self.watches.get_mut(index) else { return };
        let (number, to) = (watch.workload, watch.to);
        let (is_lost, took) = (watch.is_lost(), watch.took());
        let (late, end) = watch.end(now);
        self.outcome.regained += u32::from(is_lost && end == Some(End::Recovered));
        match end {
            Some(End::Recovered) => {
                self.outcome.recovered += 1;
                let longest = self.outcome.longest_recovery.max(took.unwrap_or_default());
                self.outcome.longest_recovery = longest;
            }
            Some(End::Unrecoverable) => self.outcome.unrecoverable += 1,
            Some(End::Unsettled) => self.outcome.unsettled += 1,
            None => {}
        }
        self.on_late(number, to, late);
    }

    /// Ends the run after the last change, once all promises are kept or their time is over.
    fn shorten(&mut self) {
        if self.changes_left > 0 || self.starts_left > 0 || self.plan.is_full_length {
            return;
        }
        let until = |watch: &Watch| {
            watch.deadline().unwrap_or(self.now) + watch.patience() * 2 + AFTERWARDS
        };
        let end = self.watches.iter().map(until).max().unwrap_or(self.now + AFTERWARDS);
        self.end = self.end.min(end.max(self.now));
        if !self.is_looking {
            self.is_looking = true;
            self.queue.push(self.now + LOOK, Occurrence::Look);
        }
    }

    fn expectation(&self, number: usize, to: Side, last: Instant) -> Expectation {
        let workload = &self.workloads[&number];
        let sessions = Side::BOTH
            .map(|side| self.nodes[workload.host(side)].session(workload.ulids_of(side), self.now));
        let session = sessions.iter().flatten().next();
        if let Some(expectation) = self.plain_expectation(workload, session, last) {
            return expectation;
        }
        if sessions.iter().any(Option::is_some) {
            return self.session_expectation(workload, to, &sessions, last);
        }
        let one_way = self.network.longest_delay();
        let patience = self.patience(workload.plan.kind);
        let views = [to.other(), to]
            .map(|side| self.nodes[workload.host(side)].established(workload.ulids_of(side)));
        let ulids = workload.ulids_of(to.other()).as_locators();
        let in_use = views[0].as_ref().map_or(ulids, |view| view.locators);
        let mut is_lost = false;
        let is_mutual = views.iter().all(Option::is_some) && self.is_mutual(workload);
        let deadline = match &views {
            [Some(sender), Some(receiver)] if is_mutual => {
                let protected = self.protected_deadline(workload, [sender, receiver]);
                let deadline = self.mutual_deadline(workload, [sender, receiver]);
                deadline.map(|at| protected.map_or(at, |sooner| sooner.min(at)))
            }
            // Only one side has the context: its traffic must not have moved, because the other side would not know
            // the tag.
            [sender, receiver] => {
                let is_plain = sender.as_ref().is_none_or(|view| view.locators == ulids)
                    && receiver.as_ref().is_none_or(|view| view.locators == ulids.reversed());
                // After a longer silence a host may doubt the path, and leave it.
                let is_suspect = views.iter().any(Option::is_some)
                    && self.now.since(last) > (gap(workload.plan.kind) + one_way) * 2;
                let stays = is_plain
                    && !is_suspect
                    && self.works_both_ways(ulids)
                    && !self.notices_loss(workload, &views, to);
                let plain = stays.then(|| self.now + one_way * 2);
                plain.or_else(|| {
                    let regained = self.regained_deadline(workload, to, &views);
                    is_lost = regained.is_some();
                    regained
                })
            }
        };
        let explores = Side::BOTH.into_iter().any(|side| self.explores(workload, side));
        let works = |view: &EstablishedView| self.works(view.locators);
        let is_broken = is_mutual && !views.iter().flatten().all(works);
        // The failure can first show by the next retransmission of a silent stream.
        let is_silent = self.now.since(progressed(workload, last)) > patience;
        let is_unnoticed = is_broken && !explores && is_silent;
        let unnoticed = self.backoff(workload, is_unnoticed.then_some(self.now), last);
        let delays = unnoticed + self.refused(workload) + self.readiness_of_stacks(workload);
        let deadline = deadline.map(|at| at + delays);
        // A host that finds a path reverts the backoff of its sockets. If payload takes a path that works, no host
        // finds another one.
        let reverts = is_mutual && self.plan.reverts_backoff && (is_broken || explores);
        let backoff = self.backoff(workload, deadline.filter(|_| !reverts), last);
        let overhears = self.plan.attack.is_some_and(|attack| attack.overhears);
        let is_at_mercy = views.iter().any(Option::is_some) && overhears;
        let is_blind = self.may_vanish(workload, to, &views);
        Expectation {
            deadline: deadline
                .map(|at| at + backoff)
                .filter(|_| !self.is_headless(workload) && !is_at_mercy && !is_blind),
            patience,
            is_cut: is_lost || !self.works(in_use),
            is_lost,
            is_hopeless: deadline.is_none() || is_blind,
            settled: self.now + one_way,
        }
    }

    /// Whether large packets may vanish on a pair that works otherwise: they do not fit into a link, and the errors about them do
    /// not come back. No host looks for such paths (RFC 4821), so nothing is promised.
    fn may_vanish(
        &self,
        workload: &Running,
        to: Side,
        views: &[Option<EstablishedView>; 2],
    ) -> bool {
        let kind = workload.plan.kind;
        let mut ways = [to.other(), to].into_iter().zip(views);
        ways.any(|(side, view)| {
            let ulids = workload.ulids_of(side).as_locators();
            let mut all = view.iter().flat_map(pairs).chain([ulids]);
            sends_large(kind, side)
                && all.any(|pair| self.network.is_black_hole(pair.local.0, pair.peer.0))
        })
    }

    /// Time for which a refused effect of kernel or data plane on one of the hosts may delay traffic.
    fn refused(&self, workload: &Running) -> Duration {
        let awaits_retry = Side::BOTH.into_iter().any(|side| {
            let core = self.nodes[workload.host(side)].core.as_ref();
            core.is_some_and(|core| core.host.awaits_retry())
        });
        if awaits_retry { RETRIED } else { Duration::ZERO }
    }

    /// Time until a host stack has its addresses again after its link has come up.
    fn readiness_of_stacks(&self, workload: &Running) -> Duration {
        let has_stack = Side::BOTH.into_iter().any(|side| self.is_stack(workload.host(side)));
        if has_stack { ADDRESSES_READY } else { Duration::ZERO }
    }

    /// Time after the deadline at which a stream may flow, because its retransmissions were backed off during the
    /// silence.
    fn backoff(
        &self,
        workload: &Running,
        silent_until: Option<Instant>,
        last: Instant,
    ) -> Duration {
        let Some(until) =
            silent_until.filter(|_| matches!(workload.plan.kind, Kind::Stream { .. }))
        else {
            return Duration::ZERO;
        };
        let silence = until.since(progressed(workload, last)) + Duration::from_secs(2);
        backoff_bound(silence, if self.network.is_lossy() { LOST_ROUNDS } else { 0 })
    }

    /// Whether this side is exploring.
    fn explores(&self, workload: &Running, side: Side) -> bool {
        self.troubles.contains_key(&(workload.host(side), workload.ulids_of(side)))
    }

    /// Whether both sides have the same context: each sends the tag that the other expects.
    fn is_mutual(&self, workload: &Running) -> bool {
        let tags =
            Side::BOTH.map(|side| self.rules.tags_of(workload.host(side), workload.ulids_of(side)));
        matches!(tags, [Some((a, to_b)), Some((b, to_a))] if (a, b) == (to_a, to_b))
    }

    /// Time at which traffic of a context that both ends have must flow, if a pair works in each direction.
    fn mutual_deadline(
        &self,
        workload: &Running,
        [sender, receiver]: [&EstablishedView; 2],
    ) -> Option<Instant> {
        // A locator that one side has not told the other, or that the other has not verified, does not help.
        let is_known = |pair: LocatorPair| {
            receiver.peer_locators.contains(&pair.local)
                && receiver.local_locators.contains(&pair.peer)
        };
        let known: Vec<_> = pairs(sender).filter(|&pair| is_known(pair)).collect();
        let [both_ways, one_direction] = self.count_working(&known);
        if one_direction == 0 {
            return self.roamed_deadline(workload);
        }
        let pairs = pairs(sender).count().max(pairs(receiver).count());
        let conditions = self.conditions(workload, u32_of(pairs), both_ways, one_direction);
        Some(self.now + recovery_bound(&conditions))
    }

    fn conditions(
        &self,
        workload: &Running,
        pairs: u32,
        both_ways: u32,
        one_direction: u32,
    ) -> Conditions {
        let exploring = Side::BOTH
            .iter()
            .filter_map(|&side| self.troubles.get(&(workload.host(side), workload.ulids_of(side))))
            .map(|&since| self.now.since(since))
            .max();
        let hosts = Side::BOTH.map(|side| &self.plan.hosts[workload.host(side)]);
        Conditions {
            send_timeout: hosts.iter().map(|host| host.send_timeout).max().unwrap_or_default(),
            one_way: self.network.longest_delay(),
            gap: gap(workload.plan.kind),
            report_delay: hosts.iter().map(|host| host.report_delay).max().unwrap_or_default(),
            pairs,
            both_ways,
            one_direction,
            exploring: exploring.unwrap_or_default(),
            losses: if self.network.is_lossy() { BAD_LUCK } else { 0 },
        }
    }

    fn patience(&self, kind: Kind) -> Duration {
        let one_way = self.network.longest_delay();
        match (kind, self.network.is_lossy()) {
            (Kind::Requests { pace } | Kind::Datagrams { pace, .. }, is_lossy) => {
                let fragments = u32_of(pace.octets.div_ceil(FITS_EVERY_LINK));
                let lost = if is_lossy { IN_A_ROW * fragments } else { 2 * fragments.min(2) };
                pace.interval * lost + one_way * 4
            }
            // Retransmissions come after 0.2 s, and then after twice as long each time.
            (Kind::Stream { .. }, false) => gap(kind) + one_way * 8 + Duration::from_secs(3),
            (Kind::Stream { .. }, true) => gap(kind) + one_way * 8 + Duration::from_secs(30),
        }
    }

    fn works(&self, pair: LocatorPair) -> bool {
        self.network.works(pair.local.0, pair.peer.0)
    }

    fn works_both_ways(&self, pair: LocatorPair) -> bool {
        self.works(pair) && self.works(pair.reversed())
    }

    /// Number of these pairs that work in both directions, and number that work in one direction and in the other:
    /// the smaller of the two.
    fn count_working(&self, pairs: &[LocatorPair]) -> [u32; 2] {
        let count = |works: &dyn Fn(LocatorPair) -> bool| {
            u32_of(pairs.iter().filter(|&&pair| works(pair)).count())
        };
        let one_direction =
            count(&|pair| self.works(pair)).min(count(&|pair| self.works(pair.reversed())));
        [count(&|pair| self.works_both_ways(pair)), one_direction]
    }

    /// Whether a host of a workload sleeps, has no socket after a restart, or has no core that is alive and stays alive.
    fn is_headless(&self, workload: &Running) -> bool {
        let is_headless = |side| {
            let node = &self.nodes[workload.host(side)];
            node.is_suspended || node.core.as_ref().is_some_and(Core::is_doomed)
        };
        !workload.application.has_sockets() || Side::BOTH.into_iter().any(is_headless)
    }
}

/// Time of the last progress of a workload whose last packet arrived at `last`: a retransmission of a stream is no
/// progress.
fn progressed(workload: &Running, last: Instant) -> Instant {
    workload.application.progress().map_or(last, |progress| progress.min(last))
}

fn gap(kind: Kind) -> Duration {
    kind.pace().map(|pace| pace.interval).unwrap_or_default()
}

/// Pairs that a host may explore.
fn pairs(view: &EstablishedView) -> impl Iterator<Item = LocatorPair> + '_ {
    let peers = || view.peer_locators.iter();
    view.local_locators
        .iter()
        .flat_map(move |&local| peers().map(move |&peer| LocatorPair::new(local, peer)))
}

/// Whether this side sends packets for which a link may be too small.
fn sends_large(kind: Kind, side: Side) -> bool {
    match kind {
        Kind::Stream { .. } => side == Side::From,
        Kind::Requests { pace } | Kind::Datagrams { pace, .. } => pace.octets > FITS_EVERY_LINK,
    }
}

fn u32_of(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Whether payload is to arrive at both sides.
pub(super) const fn is_both_ways(kind: Kind) -> bool {
    matches!(kind, Kind::Requests { .. } | Kind::Datagrams { both_ways: true, .. })
}

/// Duration of traffic after the last deadline, to see that it goes on.
const AFTERWARDS: Duration = Duration::from_secs(5);
/// Number of probes in a row that may be lost within the bound, if packets are lost at random.
const BAD_LUCK: u32 = 3;
/// Number of retransmissions in a row that may be lost, or their acknowledgements, if packets are lost at random.
const LOST_ROUNDS: u32 = 5;
/// Time until a refused effect has been tried again, and again.
const RETRIED: Duration = Duration::from_secs(3);
/// Router Solicitation after up to a second, and detection of duplicates after up to a second, for one second, of the link-local and
/// then of the other addresses (RFC 4861 s10, RFC 4862 s5.4.2).
const ADDRESSES_READY: Duration = Duration::from_secs(5);
/// Octets of a datagram that fits into each link with all headers.
const FITS_EVERY_LINK: usize = 1200;
/// Number of datagrams lost in a row that chance explains, for each fragment of a datagram. Two datagrams are lost where both sides learn
/// the MTU of a path.
const IN_A_ROW: u32 = 12;
