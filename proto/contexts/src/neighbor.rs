use alloc::vec::Vec;

use moorline_types::{Instant, Locator};

use crate::machine::Contexts;

impl Contexts {
    /// Packets from these addresses of ours cannot leave the link, as far as the host can tell: its
    /// Neighbor Unreachability Detection has given their router up. Contexts whose current pair begins
    /// at one explore at once.
    ///
    /// The addresses stay usable, to be tried last: nobody says when the router answers again, but a
    /// probe that comes through does.
    //= rfc5534#3.2-1
    pub fn handle_router_lost(&mut self, local: &[Locator], now: Instant) {
        let ids: Vec<_> = self.active.ids().collect();
        for id in ids {
            if let Some(active) = self.active.get_mut(&id)
                && local.contains(&active.reap.current_pair().local)
            {
                active.reap.handle_local_failure(now);
                self.drain_reap(id, now);
            }
        }
    }
}
