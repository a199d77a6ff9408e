use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_netlink::Neighbor;
use moorline_types::Instant;

use crate::clock;
use crate::shell::Daemon;

/// Time of the last loss of each router, by interface and address.
#[derive(Debug, Default)]
pub(crate) struct LostRouters(BTreeMap<(u32, Ipv6Addr), Instant>);

impl LostRouters {
    /// Records a loss. Returns whether the loss is news. Reason: after the daemon drops the packets that wait for a router,
    /// the kernel reports the loss once more.
    ///
    /// A loss that is no news does not extend the quiet time. A kernel that resolves a router in less than [`QUIET`] reports
    /// losses repeatedly, and contexts that began meanwhile must learn of one.
    fn is_news(&mut self, router: (u32, Ipv6Addr), now: Instant) -> bool {
        self.0.retain(|_, at| now.since(*at) < QUIET);
        let is_news = !self.0.contains_key(&router);
        self.0.entry(router).or_insert(now);
        is_news
    }
}

impl Daemon {
    /// Handles a neighbour that is lost or answers. If the router of an uplink is lost, the addresses of the uplink cannot
    /// be used for now.
    pub(crate) async fn on_neighbor(&mut self, neighbor: Neighbor) {
        let uplink = self.host.view().uplink(neighbor.ifindex);
        let Some(uplink) = uplink.filter(|uplink| uplink.gateway == Some(neighbor.address)) else {
            return;
        };
        let (lost, now) = (neighbor, clock::now());
        if !neighbor.is_lost {
            if self.host.handle_router_found(neighbor.ifindex, now) {
                self.pump().await;
            }
            return;
        }
        if !self.lost_routers.is_news((lost.ifindex, lost.address), now) {
            return;
        }
        tracing::debug!(uplink = uplink.name, router = %lost.address, "the router does not answer");
        self.host.handle_router_lost(lost.ifindex, now);
        self.pump().await;
    }
}

/// Shortest time between two reported losses of one router: the time of the kernel's resolution.
const QUIET: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_router_is_told_lost_again_although_the_kernel_tells_all_the_time() {
        let router = |number| (1, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number));
        let (mut lost, start) = (LostRouters::default(), Instant::from_nanos(1));
        let mut told = Vec::new();
        for half_seconds in 0..9 {
            let now = start + Duration::from_millis(500) * half_seconds;
            told.push(lost.is_news(router(1), now));
        }
        let expected = [true, false, false, false, true, false, false, false, true];
        assert_eq!(told, expected);
        assert!(lost.is_news(router(2), start + Duration::from_millis(4500)), "another router");
    }
}
