use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::Context as _;
use moorline_api::EventKind;
use moorline_bpf::has_link_layer;
use moorline_netlink::{ChangeKind, Netlink, Notice};

use crate::shell::Daemon;

/// Some interface does not carry the programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unattached;

impl fmt::Display for Unattached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not every uplink is in use")
    }
}

/// What comes of the uplinks.
impl Daemon {
    /// Programs on each uplink, and our addresses in the data plane's table.
    pub(crate) fn attach(&mut self) -> anyhow::Result<()> {
        let present: BTreeSet<_> =
            self.host.view().uplinks.iter().map(|uplink| uplink.ifindex).collect();
        let before = self.attached.clone();
        for ifindex in self.attached.extract_if(.., |ifindex| !present.contains(ifindex)) {
            self.datapath.detach_uplink(ifindex);
        }
        let uplinks = &self.host.view().uplinks;
        let mut done = attach_each(&mut self.attached, &present, |ifindex| {
            let named = |ifindex| uplinks.iter().find(|one| one.ifindex == ifindex);
            let name = named(ifindex).map_or("", |uplink| &uplink.name);
            self.datapath.attach_uplink(ifindex).with_context(|| format!("programs on {name}"))
        });
        if let Some(ilnp) = &mut self.ilnp {
            done = done.and(ilnp.attach(self.host.view()));
        }
        if self.attached != before {
            self.follow_offloads();
        }
        let addresses = self.host.view().uplinks.iter().flat_map(|uplink| {
            uplink.addresses.iter().map(|address| (address.address, uplink.ifindex))
        });
        let locals: BTreeMap<_, _> = addresses.collect();
        for address in self.locals.keys().filter(|address| !locals.contains_key(address)) {
            self.datapath.unset_local(*address)?;
        }
        for (address, ifindex) in &locals {
            if self.locals.get(address) != Some(ifindex) {
                self.datapath.set_local(*address, *ifindex)?;
            }
        }
        self.locals = locals;
        done.context(Unattached)
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

    /// Logs what happened to the uplinks and gives it to those who listen.
    pub(crate) fn tell_changes(&self, notice: &Notice) {
        for change in &notice.changes {
            let Some((kind, what)) = uplink_event(change.kind) else { continue };
            let ifindex = change.ifindex;
            let views = [&notice.view, self.host.view()];
            let uplink = views.iter().find_map(|view| view.uplink(ifindex));
            let name = uplink.map_or_else(|| ifindex.to_string(), |uplink| uplink.name.clone());
            tracing::info!(uplink = name, "{what}");
            self.events.push(kind, |told| told.reason = Some(format!("{name}: {what}")));
        }
    }
}

/// Attaches programs to those of these interfaces that carry none. One that takes none keeps no other from its programs. Result: the last error.
pub(crate) fn attach_each(
    attached: &mut BTreeSet<u32>,
    wanted: &BTreeSet<u32>,
    mut attach: impl FnMut(u32) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut done = Ok(());
    for ifindex in wanted.difference(&attached.clone()).copied() {
        match attach(ifindex) {
            Ok(()) => drop(attached.insert(ifindex)),
            Err(error) => done = Err(error),
        }
    }
    done
}

/// Kind and words for a change that people should hear of.
fn uplink_event(change: ChangeKind) -> Option<(EventKind, &'static str)> {
    Some(match change {
        ChangeKind::UplinkAdded => (EventKind::UplinkUp, "is an uplink"),
        ChangeKind::UplinkLost => (EventKind::UplinkDown, "is no uplink any more"),
        ChangeKind::CarrierLost => (EventKind::UplinkDown, "carrier lost"),
        ChangeKind::CarrierBack => (EventKind::UplinkUp, "carrier back"),
        ChangeKind::AddressRemoved(_) => (EventKind::LocatorsChanged, "address removed"),
        ChangeKind::AddressAdded(_) => (EventKind::LocatorsChanged, "address added"),
        ChangeKind::DefaultRouteLost => (EventKind::UplinkDown, "default route lost"),
        ChangeKind::DefaultRouteBack => (EventKind::UplinkUp, "default route back"),
        _ => return None,
    })
}
