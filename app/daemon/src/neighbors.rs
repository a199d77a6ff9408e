use std::collections::BTreeMap;
use std::time::Duration;

use moorline_netlink::LostNeighbor;
use moorline_types::{Instant, Locator};

use crate::clock;
use crate::shell::Daemon;

/// When the router of an uplink was found lost.
#[derive(Debug, Default)]
pub(crate) struct LostRouters(BTreeMap<u32, Instant>);

impl LostRouters {
    /// Notes a loss. Whether it is news: to give up what waits for a router has the kernel tell of the loss once more.
    fn is_news(&mut self, ifindex: u32, now: Instant) -> bool {
        self.0.retain(|_, at| now.since(*at) < QUIET);
        self.0.insert(ifindex, now).is_none()
    }
}

impl Daemon {
    /// The kernel has given up a neighbour. If that is the router of an uplink, its addresses are of
    /// no use for now.
    //= rfc5534#3.2-1
    pub(crate) async fn on_lost_neighbor(&mut self, lost: LostNeighbor) {
        let uplink = self.view.uplink(lost.ifindex);
        let Some(uplink) = uplink.filter(|uplink| uplink.gateway == Some(lost.address)) else {
            return;
        };
        let now = clock::now();
        if !self.lost_routers.is_news(lost.ifindex, now) {
            return;
        }
        tracing::debug!(uplink = uplink.name, router = %lost.address, "the router does not answer");
        let local: Vec<_> = uplink.addresses.iter().map(|own| Locator(own.address)).collect();
        self.host.shim6_mut().handle_router_lost(&local, now);
        self.pump().await;
        self.free_moved(lost.ifindex, &local).await;
    }

    /// A socket that has found its route before it had a source address keeps the route by that uplink, although the pair has
    /// moved. What it sends waits there for the router, three seconds, and TCP sends none of it again as long as it waits.
    async fn free_moved(&self, ifindex: u32, local: &[Locator]) {
        let moved = self.routes.all();
        if !moved.iter().any(|route| local.contains(&route.ulids.local.as_locator())) {
            return;
        }
        if let Err(error) = self.netlink.flush_cached_routes().await {
            tracing::debug!(%error, "cached routes by a router that is lost");
        }
        if let Err(error) = self.netlink.give_up_neighbors(ifindex).await {
            tracing::debug!(%error, "neighbours of an uplink whose router is lost");
        }
    }
}

/// Between two losses of the same router that are told: as long as the kernel looks for it.
const QUIET: Duration = Duration::from_secs(2);
