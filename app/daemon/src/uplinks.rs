use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use anyhow::Context as _;
use moorline_addresses::{HostView, Uplink};
use moorline_api::EventKind;
use moorline_host::{Node, Protocol};
use moorline_link::has_link_layer;
use moorline_netlink::{Change, ChangeKind, Netlink, Notice};

use crate::clock;
use crate::shell::Daemon;

/// Handling of changes of the uplinks.
impl Daemon {
    /// Handles a new view of the host.
    pub(crate) fn on_view(&mut self, mut view: HostView) {
        view.leave_alone(|name| self.config.uses(name));
        self.introductions.follow(&view);
        self.troubles.follow(&view);
        self.host.handle_view(view, clock::now());
    }

    /// Attaches the programs of a data plane to an interface.
    pub(crate) fn attach(&mut self, protocol: Protocol, ifindex: u32) -> anyhow::Result<()> {
        let uplink = Node::places(self.host.view()).find(|one| one.ifindex == ifindex);
        let name = uplink.map_or_else(|| ifindex.to_string(), |uplink| uplink.name.clone());
        match (protocol, &mut self.ilnp) {
            (Protocol::Shim6, _) => {
                let attached = self.datapath.attach_uplink(ifindex);
                attached.with_context(|| format!("programs on {name}"))
            }
            (Protocol::Ilnp, Some(ilnp)) => {
                ilnp.attach(ifindex).with_context(|| format!("programs of ILNP on {name}"))
            }
            (Protocol::Ilnp, None) => Ok(()),
        }
    }

    /// Detaches the programs of a data plane from an interface.
    pub(crate) fn detach(&mut self, protocol: Protocol, ifindex: u32) {
        match (protocol, &mut self.ilnp) {
            (Protocol::Shim6, _) => self.datapath.detach_uplink(ifindex),
            (Protocol::Ilnp, Some(ilnp)) => ilnp.datapath.detach_uplink(ifindex),
            (Protocol::Ilnp, None) => {}
        }
    }

    /// Writes our addresses to the data plane of Shim6.
    pub(crate) fn set_locals(&mut self, locals: &BTreeMap<Ipv6Addr, u32>) -> anyhow::Result<()> {
        let change = || {
            for address in self.locals.keys().filter(|address| !locals.contains_key(address)) {
                self.datapath.unset_local(*address)?;
            }
            for (address, ifindex) in locals {
                if self.locals.get(address) != Some(ifindex) {
                    self.datapath.set_local(*address, *ifindex)?;
                }
            }
            Ok::<_, moorline_bpf::Error>(())
        };
        change().context("our addresses in the data plane")?;
        self.locals.clone_from(locals);
        Ok(())
    }

    /// Decides who computes checksums of moved traffic, and to which uplinks moved traffic may be routed directly.
    pub(crate) fn follow_offloads(&mut self) {
        let uplinks = &self.host.view().uplinks;
        let sum: Vec<_> =
            uplinks.iter().filter(|uplink| Netlink::sums_anything(&uplink.name)).collect();
        if let Err(error) = self.netlink.leave_checksums(sum.len() == uplinks.len()) {
            tracing::warn!(%error, "moved traffic may be slower");
        }
        // The program redirects super-packets to `moor0`, which is Ethernet. And a packet may have an unfinished checksum
        // behind a header that the hardware does not know.
        let able = sum.into_iter().map(|uplink| uplink.ifindex);
        let takes_moved = able.filter(|one| has_link_layer(*one).unwrap_or_default()).collect();
        self.host.set_takes_moved(takes_moved);
    }

    /// Returns the changes of this notice, each with the name of its uplink. The uplink may be gone once the host has followed the view.
    pub(crate) fn named_changes(&self, notice: &Notice) -> Vec<(ChangeKind, String)> {
        let named = |change: &Change| {
            let views = [&notice.view, self.host.view()];
            let uplink = views.iter().find_map(|view| view.uplink(change.ifindex));
            let name = uplink.map_or_else(|| change.ifindex.to_string(), |one| one.name.clone());
            (change.kind, name)
        };
        notice.changes.iter().map(named).collect()
    }

    /// Logs changes of the uplinks and adds them to the journal. The host has followed the view.
    pub(crate) fn tell_changes(&self, changes: &[(ChangeKind, String)]) {
        for (change, name) in changes {
            let (kind, what) = uplink_event(*change);
            let where_to = if is_of_routes(*change) { self.where_new_go() } else { String::new() };
            self.tell_uplink(kind, name, &format!("{what}{where_to}"));
        }
    }

    /// Returns the end of a sentence that names the uplink of new connections.
    pub(crate) fn where_new_go(&self) -> String {
        new_go_to(self.host.uplink_for_new())
    }

    /// [`where_new_go`](Self::where_new_go) for an uplink that carries nothing.
    pub(crate) fn where_new_go_without(&self, failing: u32) -> String {
        match self.host.uplink_for_new() {
            Some(one) if one.ifindex == failing => {
                format!(", and {}", stay(self.host.view(), &one.name))
            }
            Some(_) | None => self.where_new_go(),
        }
    }
}

impl Daemon {
    /// Logs a change of an uplink and adds it to the journal.
    pub(crate) fn tell_uplink(&self, kind: EventKind, name: &str, what: &str) {
        tracing::info!(uplink = name, "{what}");
        self.events.push(kind, |told| told.reason = Some(format!("{name}: {what}")));
    }
}

/// Returns the end of a sentence that names the uplink of new connections; empty if there is no such uplink, or if it has no
/// carrier.
fn new_go_to(uplink: Option<&Uplink>) -> String {
    let uplink = uplink.filter(|one| one.carrier);
    uplink.map_or_else(String::new, |one| format!(": new connections take {}", one.name))
}

/// Says that new connections take an uplink that carries nothing, and why.
pub(crate) fn stay(view: &HostView, name: &str) -> String {
    let first = view.default_ways().first().map(|(_, route)| route.metric);
    let why = if first.is_some_and(|metric| metric <= 1) {
        format!(
            "its default route has metric 1, so no other route comes before it. Give the default route of {name} a \
             larger metric"
        )
    } else {
        "no other uplink has a default route for all sources".to_owned()
    };
    format!("new connections take {name} all the same: {why}")
}

/// Whether new connections may take another uplink after this change. With its carrier an uplink loses its default route,
/// and gets it back later than the carrier, with the next Router Advertisement. So the last of these events names the
/// uplink.
const fn is_of_routes(change: ChangeKind) -> bool {
    match change {
        ChangeKind::UplinkAdded
        | ChangeKind::UplinkLost
        | ChangeKind::CarrierLost
        | ChangeKind::CarrierBack
        | ChangeKind::DefaultRouteLost
        | ChangeKind::DefaultRouteBack => true,
        ChangeKind::AddressRemoved(_) | ChangeKind::AddressAdded(_) => false,
    }
}

/// Returns event kind and text of a change of an uplink.
const fn uplink_event(change: ChangeKind) -> (EventKind, &'static str) {
    match change {
        ChangeKind::UplinkAdded => (EventKind::UplinkUp, "is an uplink"),
        ChangeKind::UplinkLost => (EventKind::UplinkDown, "is no uplink any more"),
        ChangeKind::CarrierLost => (EventKind::UplinkDown, "carrier lost"),
        ChangeKind::CarrierBack => (EventKind::UplinkUp, "carrier back"),
        ChangeKind::AddressRemoved(_) => (EventKind::LocatorsChanged, "address removed"),
        ChangeKind::AddressAdded(_) => (EventKind::LocatorsChanged, "address added"),
        ChangeKind::DefaultRouteLost => (EventKind::UplinkDown, "default route lost"),
        ChangeKind::DefaultRouteBack => (EventKind::UplinkUp, "default route back"),
    }
}

#[cfg(test)]
mod tests {
    use moorline_addresses::{AddressFlags, Lifetimes, UplinkAddress};

    use super::*;

    /// An address says nothing about the uplink of new connections, and hosts get many.
    #[test]
    fn the_uplink_of_new_connections_is_said_with_each_carrier_and_each_default_route() {
        let own = UplinkAddress::new(
            Ipv6Addr::LOCALHOST,
            128,
            AddressFlags::PERMANENT,
            Lifetimes::FOREVER,
        );
        let routes = [
            ChangeKind::CarrierLost,
            ChangeKind::CarrierBack,
            ChangeKind::DefaultRouteLost,
            ChangeKind::DefaultRouteBack,
        ];
        assert!(routes.into_iter().all(is_of_routes));
        let addresses =
            [ChangeKind::AddressAdded(own), ChangeKind::AddressRemoved(Ipv6Addr::LOCALHOST)];
        assert!(!addresses.into_iter().any(is_of_routes));
    }

    /// Without any carrier the kernel still has a default route.
    #[test]
    fn no_uplink_without_carrier_is_said_to_take_new_connections() {
        let told = |carrier| new_go_to(Some(&Uplink { carrier, ..Uplink::new(1, "isp1") }));
        assert_eq!([told(true), told(false)], [": new connections take isp1", ""]);
    }

    #[test]
    fn it_is_said_why_new_connections_take_an_uplink_that_carries_nothing() {
        let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let told = |metric| {
            let mut uplink = Uplink::new(1, "isp1").reached(router, [Ipv6Addr::LOCALHOST]);
            uplink.default_routes[0].metric = metric;
            stay(&HostView { uplinks: [uplink].into(), ..HostView::default() }, "isp1")
        };
        let first = told(1);
        assert!(
            first.starts_with(
                "new connections take isp1 all the same: its default route has metric 1"
            ),
            "{first}"
        );
        let alone = told(1024);
        assert!(alone.ends_with("no other uplink has a default route for all sources"), "{alone}");
    }
}
