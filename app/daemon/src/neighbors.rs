use std::collections::BTreeMap;
use std::time::Duration;

use moorline_netlink::LostNeighbor;
use moorline_types::Instant;

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
    pub(crate) async fn on_lost_neighbor(&mut self, lost: LostNeighbor) {
        let uplink = self.host.view().uplink(lost.ifindex);
        let Some(uplink) = uplink.filter(|uplink| uplink.gateway == Some(lost.address)) else {
            return;
        };
        let now = clock::now();
        if !self.lost_routers.is_news(lost.ifindex, now) {
            return;
        }
        tracing::debug!(uplink = uplink.name, router = %lost.address, "the router does not answer");
        self.host.handle_router_lost(lost.ifindex, now);
        self.pump().await;
    }
}

/// Between two losses of the same router that are told: as long as the kernel looks for it.
const QUIET: Duration = Duration::from_secs(2);
