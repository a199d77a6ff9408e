use crate::view::{Interfaces, is_uplink};
use moorline_addresses::{Uplink, UplinkAddress};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// A difference of an interface between two views of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index of the interface.
    pub ifindex: u32,
    /// The difference.
    pub kind: ChangeKind,
}

/// Kinds of differences of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The interface has become an uplink; the view contains its addresses and routes.
    UplinkAdded,
    /// The interface is no longer an uplink. Separate changes precede this one for what it has lost.
    UplinkLost,
    /// The link layer has stopped working: no packet can be sent.
    CarrierLost,
    /// The link layer works again.
    CarrierBack,
    /// There is a new address. It must not be used before it is preferred.
    AddressAdded(UplinkAddress),
    /// An address is gone: the host no longer accepts packets to it.
    AddressRemoved(Ipv6Addr),
    /// The last default route through the interface is gone.
    DefaultRouteLost,
    /// There is a default route through the interface again.
    DefaultRouteBack,
}

impl Interfaces {
    /// Changes on interfaces that are uplinks now or were uplinks before, losses first.
    pub(crate) fn changes_since(&self, before: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        let all: BTreeSet<u32> = before.all.keys().chain(self.all.keys()).copied().collect();
        for ifindex in all {
            let (old, new) = (before.all.get(&ifindex), self.all.get(&ifindex));
            let kinds = match (old.filter(|one| is_uplink(one)), new.filter(|one| is_uplink(one))) {
                (None, None) => Vec::new(),
                (None, Some(_)) => vec![ChangeKind::UplinkAdded],
                (Some(old), still) => {
                    let gone = Uplink { carrier: false, ..Uplink::new(ifindex, "") };
                    let mut kinds = compare(old, new.unwrap_or(&gone));
                    kinds.extend(still.is_none().then_some(ChangeKind::UplinkLost));
                    kinds
                }
            };
            changes.extend(kinds.into_iter().map(|kind| Change { ifindex, kind }));
        }
        changes.sort_by_key(|change| !change.kind.is_bad_news());
        changes
    }
}

impl ChangeKind {
    /// Whether the change is a loss, which calls for action at once.
    const fn is_bad_news(&self) -> bool {
        matches!(
            self,
            Self::CarrierLost | Self::AddressRemoved(_) | Self::DefaultRouteLost | Self::UplinkLost
        )
    }
}

//= rfc5534#3.2-2
fn compare(old: &Uplink, new: &Uplink) -> Vec<ChangeKind> {
    let mut kinds = Vec::new();
    if old.carrier != new.carrier {
        let is_back = new.carrier;
        kinds.push(if is_back { ChangeKind::CarrierBack } else { ChangeKind::CarrierLost });
    }
    match (old.default_routes.is_empty(), new.default_routes.is_empty()) {
        (false, true) => kinds.push(ChangeKind::DefaultRouteLost),
        (true, false) => kinds.push(ChangeKind::DefaultRouteBack),
        _ => {}
    }
    compare_addresses(&old.addresses, &new.addresses, &mut kinds);
    kinds
}

//= rfc5534#3.1-1
fn compare_addresses(old: &[UplinkAddress], new: &[UplinkAddress], kinds: &mut Vec<ChangeKind>) {
    let lacks = |all: &[UplinkAddress], one: &UplinkAddress| {
        all.iter().all(|other| other.address != one.address)
    };
    let gone = old.iter().filter(|was| lacks(new, was));
    kinds.extend(gone.map(|was| ChangeKind::AddressRemoved(was.address)));
    let added = new.iter().filter(|is| lacks(old, is));
    kinds.extend(added.map(|is| ChangeKind::AddressAdded(*is)));
}

#[cfg(test)]
mod tests;
