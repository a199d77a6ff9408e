use moorline_contexts::EstablishedView;
use moorline_types::Instant;

use super::{World, pairs, u32_of};
use crate::bound::loss_bound;
use crate::plan::Kind;
use crate::workload::{Running, Side};

/// Contexts that one side has lost, or has again with other tags, and that the other side still uses.
impl World<'_> {
    /// Time at which traffic to `to` must flow, if the two ends do not have the same context. `views` are those of
    /// sender and receiver. Nothing is promised if RFC 5533 gives no way to notice: the host with the context sends
    /// nothing by itself, or still hears untouched packets of its peer and has no reason for doubt.
    pub(super) fn regained_deadline(
        &self,
        workload: &Running,
        to: Side,
        views: &[Option<EstablishedView>; 2],
    ) -> Option<Instant> {
        // Later traffic may change what a host hears.
        if self.starts_left > 0 {
            return None;
        }
        [to.other(), to]
            .into_iter()
            .zip(views)
            .filter_map(|(side, view)| self.deadline_by(workload, side, view.as_ref()?))
            .min()
    }

    /// The deadline by what this side, which has the context, must notice.
    fn deadline_by(
        &self,
        workload: &Running,
        holder: Side,
        view: &EstablishedView,
    ) -> Option<Instant> {
        let loser = self.nodes.get(workload.host(holder.other()))?;
        let ulids = workload.ulids_of(holder);
        loser.with_contexts(|_| ())?;
        let proof = loser.proof();
        let is_there = proof.addresses().present.contains(&ulids.peer.as_locator())
            || proof.announcement_for(ulids.peer).is_some();
        if !is_there || !sends_alone(workload.plan.kind, holder) {
            return None;
        }
        let theirs = proof.locators_for(ulids.peer);
        let known: Vec<_> = pairs(view).filter(|pair| theirs.contains(&pair.peer)).collect();
        let [both_ways, one_direction] = self.count_working(&known);
        let has_moved = view.locators != ulids.as_locators();
        let is_answered = has_moved && self.works_both_ways(view.locators);
        if both_ways == 0 || !is_answered && self.hears(workload, holder, has_moved) {
            return None;
        }
        let pairs = pairs(view).count().max(view.local_locators.len() * theirs.len());
        let conditions = self.conditions(workload, u32_of(pairs), both_ways, one_direction);
        Some(self.now + loss_bound(&conditions, is_answered))
    }

    /// Whether a side that has the context alone may leave the ULIDs, perhaps for a pair that has failed since its
    /// check. The side explores, and an answer to a probe may be under way. Or its Send Timer runs out, because it
    /// sends and hears nothing, or because packets in a row get lost.
    pub(super) fn notices_loss(
        &self,
        workload: &Running,
        views: &[Option<EstablishedView>; 2],
        to: Side,
    ) -> bool {
        let kind = workload.plan.kind;
        let silence = self.patience(kind);
        let notices = |side: Side| {
            let send_timeout = self.plan.hosts[workload.host(side)].send_timeout;
            self.explores(workload, side)
                || self.network.is_lossy() && send_timeout < silence
                || sends_alone(kind, side) && !self.hears(workload, side, false)
        };
        let mut sides = [to.other(), to].into_iter().zip(views);
        sides.any(|(side, view)| view.is_some() && notices(side))
    }

    /// Whether untouched packets of the peer come in, of any workload between the two ULIDs that goes on.
    fn hears(&self, workload: &Running, holder: Side, has_moved: bool) -> bool {
        let ulids = workload.ulids_of(holder);
        let forth = self.works(ulids.as_locators());
        let comes = |other: &Running| {
            Side::BOTH.into_iter().any(|side| {
                let is_between = other.ulids_of(side) == ulids;
                let kind = other.plan.kind;
                let answers = forth && !has_moved && is_answered(kind);
                let goes_on = !other.application.is_finished();
                is_between && goes_on && (sends_alone(kind, side.other()) || answers)
            })
        };
        self.works(ulids.reversed().as_locators()) && self.workloads.values().any(comes)
    }
}

/// Whether this side sends even if it receives nothing.
pub(super) fn sends_alone(kind: Kind, side: Side) -> bool {
    side == Side::From || matches!(kind, Kind::Datagrams { both_ways: true, .. })
}

/// Whether the other side answers packets: streams are acknowledged.
const fn is_answered(kind: Kind) -> bool {
    !matches!(kind, Kind::Datagrams { both_ways: false, .. })
}
