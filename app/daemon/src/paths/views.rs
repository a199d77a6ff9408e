use std::time::Duration;

use moorline_api::{ContextPaths, PathCounters, PathInfo, PathState};
use moorline_contexts::{ContextView, PathView};
use moorline_datapath::shim6::ContextPlane as _;
use moorline_types::{ContextId, LocatorPair};

use crate::clock;
use crate::events::{locator_pair, ulid_pair};
use crate::shell::Daemon;
use crate::views::ago;

impl Daemon {
    pub(super) fn paths_of(&self, context: &ContextView) -> ContextPaths {
        let current = context.established.as_ref().map(|established| established.locators);
        let views = self.host.shim6().paths(context.id);
        let spread = self.host.shim6().spread(context.id);
        ContextPaths {
            context: context.id.0,
            ulids: ulid_pair(context.ulids),
            pinned: self.host.shim6().pinned(context.id).is_some(),
            spread: spread.into_iter().flatten().map(locator_pair).collect(),
            counters: self.counters_of(context.id),
            heard_ms_ago: self.heard_ms_ago(context),
            paths: views.iter().map(|view| self.path_info(view, current)).collect(),
        }
    }

    fn counters_of(&self, id: ContextId) -> Option<PathCounters> {
        let counted = self.datapath.path_counters(id).ok().flatten()?;
        Some(PathCounters {
            received: counted.received,
            ce: counted.ce,
            ece: counted.ece,
            cwr: counted.cwr,
            segments: counted.segments,
            retransmissions: counted.retransmissions,
            rtt_us: counted.rtt.map(micros),
        })
    }

    /// A packet from before the last move says nothing of the current pair.
    fn heard_ms_ago(&self, context: &ContextView) -> Option<u64> {
        let since = context.established.as_ref()?.since;
        let last = self.datapath.counters(context.id).unwrap_or_default().last_rx;
        ago(last).filter(|_| last >= since)
    }

    fn path_info(&self, view: &PathView, current: Option<LocatorPair>) -> PathInfo {
        let now = clock::now();
        let is_fresh = view.answered.is_some_and(|at| now.since(at) <= FRESH);
        let state = if current == Some(view.pair) {
            PathState::Current
        } else if !view.is_usable {
            PathState::Unusable
        } else if view.is_pending {
            PathState::Probing
        } else if is_fresh {
            PathState::Answered
        } else {
            PathState::Untried
        };
        let uplink = self.host.view().uplink_of(view.pair.local.0).filter(|_| view.is_usable);
        PathInfo {
            local: view.pair.local.0,
            peer: view.pair.peer.0,
            uplink: uplink.map(|uplink| uplink.name.clone()),
            state,
            preference: view.preference.to_string().into(),
            answered_ms_ago: view.answered.map(|at| clock::millis(now.since(at))),
            probe_rtt_us: view.rtt.map(micros),
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// How long an answer says something of a pair that nothing is sent by.
const FRESH: Duration = Duration::from_secs(120);
