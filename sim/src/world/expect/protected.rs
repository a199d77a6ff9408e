use moorline_contexts::{EstablishedView, Readiness};
use moorline_types::Instant;

use super::regain::sends_alone;
use super::{World, pairs, u32_of};
use crate::bound::protected_bound;
use crate::workload::{Running, Side};

/// Contexts that a host called protected when their current pair was cut.
impl World<'_> {
    /// Cuts the current pair of each context that a host calls protected.
    pub(in crate::world) fn cut_protected(&mut self, host: usize) {
        let Self { nodes, network, cut, now, .. } = self;
        let Some(node) = nodes.get(host) else { return };
        node.with_contexts(|contexts| {
            for context in contexts.contexts() {
                if let Some(Readiness::Protected { by, .. }) = contexts.readiness(context.id, *now)
                    && let Some(established) = &context.established
                {
                    let current = established.locators;
                    network.cut_pair(current.local.0, current.peer.0);
                    cut.push((host, context.ulids, by));
                }
            }
        });
    }

    /// Time at which traffic of a context must flow that its sender called protected, if the other pair still works.
    /// A host that sends only answers notices nothing itself. The other end notices, and may not be protected. If
    /// payload takes another path back, the host goes on hearing it, and the other end notices.
    pub(super) fn protected_deadline(
        &self,
        workload: &Running,
        [sender, receiver]: [&EstablishedView; 2],
    ) -> Option<Instant> {
        if sender.locators != receiver.locators.reversed() {
            return None;
        }
        let is_cut = |side: &Side| {
            self.cut.iter().any(|&(host, ulids, by)| {
                (host, ulids) == (workload.host(*side), workload.ulids_of(*side))
                    && self.works_both_ways(by)
            })
        };
        let kind = workload.plan.kind;
        Side::BOTH.iter().filter(|side| sends_alone(kind, **side)).find(|side| is_cut(side))?;
        let pairs = u32_of(pairs(sender).count());
        Some(self.now + protected_bound(&self.conditions(workload, pairs, 1, 1)))
    }
}
