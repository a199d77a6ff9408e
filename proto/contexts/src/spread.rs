//! Contexts whose payload takes several pairs at once.

use alloc::vec::Vec;

use moorline_datapath::shim6::MAX_PATHS;
use moorline_types::{ContextId, Instant, LocatorPair};

use crate::machine::Contexts;
use crate::rules::Preference;
use crate::steer::Refusal;

impl Contexts {
    /// Sets whether the payload of a context takes all its pairs at once. The packet mark selects a pair, and flows
    /// without a mark are spread over all pairs. Every pair has to keep answering checks.
    ///
    /// # Errors
    /// There is no such context.
    pub fn set_spread(
        &mut self,
        id: ContextId,
        spreads: bool,
        now: Instant,
    ) -> Result<(), Refusal> {
        if self.active.get(&id).is_none() {
            return Err(Refusal::NoContext(id));
        }
        self.notes.entry(id).or_default().is_spread = spreads;
        self.refresh_paths(id, now);
        self.drain_reap(id, now);
        Ok(())
    }

    /// Sets whether new contexts are spread.
    pub fn set_spread_default(&mut self, spreads: bool) {
        self.steering.spreads_new = spreads;
    }

    /// The pairs that payload of a context takes besides the current one. The packet mark counts them from 1.
    #[must_use]
    pub fn spread(&self, id: ContextId) -> Option<Vec<LocatorPair>> {
        let active = self.active.get(&id).filter(|_| self.is_spread(id))?;
        Some(active.reap.paths())
    }

    fn is_spread(&self, id: ContextId) -> bool {
        self.notes.get(&id).is_some_and(|notes| notes.is_spread)
    }

    /// Sets the pairs that payload takes besides the current one.
    pub(crate) fn refresh_paths(&mut self, id: ContextId, now: Instant) {
        let views = if self.is_spread(id) { self.paths(id) } else { Vec::new() };
        let Some(active) = self.active.get_mut(&id) else { return };
        let current = active.reap.current_pair();
        let others = views.iter().filter(|view| {
            view.is_usable && view.preference != Preference::Avoid && view.pair != current
        });
        let mut pairs: Vec<_> = others.map(|view| view.pair).collect();
        // A pair that shares no end with the current one is the best additional path.
        pairs.sort_by_key(|pair| (pair.shared_ends(current), *pair));
        pairs.truncate(MAX_PATHS);
        active.reap.handle_paths(&pairs, now);
    }
}
