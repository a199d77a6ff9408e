use moorline_netlink::LostNeighbor;
use moorline_types::Locator;

use crate::clock;
use crate::shell::Daemon;

impl Daemon {
    /// The kernel has given up a neighbour. If that is the router of an uplink, its addresses are of
    /// no use for now.
    //= rfc5534#3.2-1
    pub(crate) fn on_lost_neighbor(&mut self, lost: LostNeighbor) {
        let uplink = self.view.uplink(lost.ifindex);
        let Some(uplink) = uplink.filter(|uplink| uplink.gateway == Some(lost.address)) else {
            return;
        };
        tracing::debug!(uplink = uplink.name, router = %lost.address, "the router does not answer");
        let local: Vec<_> = uplink.addresses.iter().map(|own| Locator(own.address)).collect();
        self.host.shim6_mut().handle_router_lost(&local, clock::now());
    }
}
