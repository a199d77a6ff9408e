//! Sets and removes unbound routes, as [`moorline_addresses::Unbound`] decides.

use std::collections::BTreeSet;

use moorline_addresses::MovedRoute;
use moorline_types::Ulid;

use crate::clock;
use crate::shell::Daemon;

impl Daemon {
    /// Sets all due unbound routes at once, because each change makes every socket of the host look up its route again.
    pub(crate) async fn set_unbound(&mut self) {
        let (now, too_long) = (clock::now(), self.unbound.too_long().clone());
        self.learn_path_mtus(&too_long).await;
        let mut asked = Vec::new();
        for due in self.unbound.take_due(now, |mover| self.host.routes().get(mover).copied()) {
            let path_mtu = self.netlink.path_mtu(due.pair, None).await.unwrap_or_else(|error| {
                tracing::debug!(%error, "path MTU");
                None
            });
            asked.push((due, path_mtu));
        }
        let plan = self.unbound.plan(asked, now);
        let set = self.netlink.set_unbound(&plan.wanted).await;
        let set = set.inspect_err(|error| tracing::debug!(%error, "unbound routes")).ok();
        let gone = self.unbound.on_set(plan, set, now);
        self.remove_unbound(&gone).await;
    }

    /// Removes the unbound routes of these moved pairs, whose routes are gone.
    pub(crate) async fn forget_unbound(&mut self, routes: &[MovedRoute]) {
        let peers = self.unbound.forget(routes.iter().map(|route| route.ulids.peer));
        self.remove_unbound(&peers).await;
    }

    async fn remove_unbound(&self, peers: &BTreeSet<Ulid>) {
        if !peers.is_empty()
            && let Err(error) = self.netlink.remove_unbound(|peer| peers.contains(peer)).await
        {
            // The routes expire by themselves.
            tracing::warn!(%error, "unbound routes");
        }
    }

    /// Removes all unbound routes if the default routes of the host have changed, or if some unbound routes may be missing,
    /// as at a start. Also removes unbound routes to peers that have another route now. The next Packet Too Big sets the
    /// routes again.
    pub(crate) async fn follow_default_ways(&mut self) {
        let gone = self.unbound.follow_specific(&self.host.view().specific);
        self.remove_unbound(&gone).await;
        let ways = self.host.view().default_ways();
        if self.unbound.is_of(&ways) {
            return;
        }
        match self.netlink.remove_unbound(|_| true).await {
            Ok(()) => self.unbound.on_all_removed(ways),
            Err(error) => tracing::warn!(%error, "unbound routes"),
        }
    }
}
