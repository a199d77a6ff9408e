use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use anyhow::Context as _;
use moorline_addresses::HostView;
use moorline_api::EventKind;
use moorline_host::{Node, Protocol};
use moorline_link::has_link_layer;
use moorline_netlink::{Change, ChangeKind, Netlink, Notice};

use crate::clock;
use crate::shell::Daemon;

/// Following the uplinks.
impl Daemon {
    /// The host is different now.
    pub(crate) fn on_view(&mut self, mut view: HostView) {
        view.leave_alone(|name| self.config.uses(name));
        self.introductions.follow(&view);
        self.troubles.follow(&view);
        self.host.handle_view(view, clock::now());
    }

    /// Puts the programs of a data plane on an interface.
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

    /// Takes the programs of a data plane off an interface.
    pub(crate) fn detach(&mut self, protocol: Protocol, ifindex: u32) {
        match (protocol, &mut self.ilnp) {
            (Protocol::Shim6, _) => self.datapath.detach_uplink(ifindex),
            (Protocol::Ilnp, Some(ilnp)) => ilnp.datapath.detach_uplink(ifindex),
            (Protocol::Ilnp, None) => {}
        }
    }

    /// Tells the data plane of Shim6 our addresses.
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

    /// Who sums what of moved traffic, and which uplinks it may be routed to.
    pub(crate) fn follow_offloads(&mut self) {
        let uplinks = &self.host.view().uplinks;
        let sum: Vec<_> =
            uplinks.iter().filter(|uplink| Netlink::sums_anything(&uplink.name)).collect();
        if let Err(error) = self.netlink.leave_checksums(sum.len() == uplinks.len()) {
            tracing::warn!(%error, "moved traffic may be slower");
        }
        // What is to be segmented is redirected to `moor0`, which is Ethernet, and a checksum may be left to do behind a
        // header that the hardware does not know.
        let able = sum.into_iter().map(|uplink| uplink.ifindex);
        let takes_moved = able.filter(|one| has_link_layer(*one).unwrap_or_default()).collect();
        self.host.set_takes_moved(takes_moved);
    }

    /// The changes of this notice, each with the name of its uplink, which may be gone once the view is followed.
    pub(crate) fn named_changes(&self, notice: &Notice) -> Vec<(ChangeKind, String)> {
        let named = |change: &Change| {
            let views = [&notice.view, self.host.view()];
            let uplink = views.iter().find_map(|view| view.uplink(change.ifindex));
            let name = uplink.map_or_else(|| change.ifindex.to_string(), |one| one.name.clone());
            (change.kind, name)
        };
        notice.changes.iter().map(named).collect()
    }

    /// Logs what happened to the uplinks and gives it to those who listen. The host has followed the view.
    pub(crate) fn tell_changes(&self, changes: &[(ChangeKind, String)]) {
        for (change, name) in changes {
            let (kind, what) = uplink_event(*change);
            let where_to = match change {
                ChangeKind::CarrierLost | ChangeKind::CarrierBack => self.where_new_go(),
                ChangeKind::UplinkAdded
                | ChangeKind::UplinkLost
                | ChangeKind::AddressRemoved(_)
                | ChangeKind::AddressAdded(_)
                | ChangeKind::DefaultRouteLost
                | ChangeKind::DefaultRouteBack => String::new(),
            };
            self.tell_uplink(kind, name, &format!("{what}{where_to}"));
        }
    }

    /// Which uplink new connections take, to be appended to an event; empty if they take none.
    pub(crate) fn where_new_go(&self) -> String {
        let uplink = self.host.uplink_for_new();
        uplink.map_or_else(String::new, |one| format!(": new connections take {}", one.name))
    }
}

impl Daemon {
    /// Logs what has become of an uplink, and gives it to those who listen.
    pub(crate) fn tell_uplink(&self, kind: EventKind, name: &str, what: &str) {
        tracing::info!(uplink = name, "{what}");
        self.events.push(kind, |told| told.reason = Some(format!("{name}: {what}")));
    }
}

/// Kind and words for a change of an uplink.
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
