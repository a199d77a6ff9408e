use std::collections::BTreeSet;
use std::time::Duration;

use moorline_types::{Instant, Locator, LocatorPair};

use super::regain::sends_alone;
use super::{World, u32_of};
use crate::bound::roaming_bound;
use crate::workload::{Running, Side};

/// Locators of a side, and locators of the other side that it knows.
struct View {
    /// Locators that the side can prove and send from.
    own: BTreeSet<Locator>,
    /// Whether the other side knows none of these.
    is_stranded: bool,
    /// Locators of the other side that this side knows.
    peer: BTreeSet<Locator>,
}

/// Contexts without a pair that both ends know.
impl World<'_> {
    /// Time at which traffic of a context must flow that has lost all its pairs, and has others that only one end
    /// knows. The other end learns them from an Update Request (RFC 5533 s10). Nothing is promised if neither end
    /// knows a present address of the other.
    pub(super) fn roamed_deadline(&self, workload: &Running) -> Option<Instant> {
        let views = [Side::From, Side::To].map(|side| self.roamed_view(workload, side));
        let [Some(from), Some(to)] = views else { return None };
        let both_ways = |local, peer| self.works_both_ways(LocatorPair::new(local, peer));
        let tells = |view: &View, other: &View| {
            let known = || view.peer.intersection(&other.own);
            view.is_stranded
                && view.own.iter().any(|&own| known().any(|&peer| both_ways(own, peer)))
        };
        if !tells(&from, &to) && !tells(&to, &from) {
            return None;
        }
        let all: Vec<_> = from
            .own
            .iter()
            .flat_map(|&own| to.own.iter().map(move |&peer| LocatorPair::new(own, peer)))
            .collect();
        let [working, _] = self.count_working(&all);
        let known = |one: &View, other: &View| one.own.len() * (one.peer.len() + other.own.len());
        let pairs = u32_of(known(&from, &to).max(known(&to, &from)));
        let conditions = self.conditions(workload, pairs, working, working);
        let deadline = self.now + roaming_bound(&conditions);
        let stays = |side: Side| self.ends_idle(workload, side).is_none_or(|end| end > deadline);
        Side::BOTH.into_iter().all(stays).then_some(deadline)
    }

    /// Time at which a side that sends only answers ends the context, because it has had no payload for so long (RFC
    /// 5533 s9). After that it tells the other side nothing.
    fn ends_idle(&self, workload: &Running, side: Side) -> Option<Instant> {
        if sends_alone(workload.plan.kind, side) {
            return None;
        }
        let last = workload.last_packet(side)?;
        let node = self.nodes.get(workload.host(side))?;
        let has_moved = node.established(workload.ulids_of(side))?.locators
            != workload.ulids_of(side).as_locators();
        Some(last + if has_moved { MOVED_IDLE } else { IDLE })
    }

    fn roamed_view(&self, workload: &Running, side: Side) -> Option<View> {
        let node = self.nodes.get(workload.host(side))?;
        let ulids = workload.ulids_of(side);
        let view = node.established(ulids)?;
        let proved = node.proof();
        proved.announcement_for(ulids.local)?;
        let usable: BTreeSet<_> = self.network.usable_of(workload.host(side)).collect();
        let proved = proved.locators_for(ulids.local);
        Some(View {
            own: proved.iter().filter(|own| usable.contains(own)).copied().collect(),
            is_stranded: !view.local_locators.iter().any(|own| usable.contains(own)),
            peer: view.peer_locators.iter().copied().collect(),
        })
    }
}

/// Time for which a host keeps a context without payload: 5 min. If payload has moved, TCP's own keepalives have time
/// to come.
const IDLE: Duration = Duration::from_secs(5 * 60);
const MOVED_IDLE: Duration = Duration::from_secs(2 * 3600 + 5 * 60);
