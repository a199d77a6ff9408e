use crate::view::{Interfaces, is_uplink};
use moorline_addresses::{AddressFlags, DefaultRoute, Uplink, UplinkAddress};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// What is different between two views of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// An interface has become an uplink: all that it has is in the view.
    UplinkAdded {
        /// Index of the interface.
        ifindex: u32,
    },
    /// An interface is no uplink any more; what it lost was told before.
    UplinkLost {
        /// Index of the interface.
        ifindex: u32,
    },
    /// The link layer has stopped working: nothing can be sent.
    CarrierLost {
        /// Index of the interface.
        ifindex: u32,
    },
    /// The link layer works again.
    CarrierBack {
        /// Index of the interface.
        ifindex: u32,
    },
    /// There is a new address; not to be used before it is preferred.
    AddressAdded {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: UplinkAddress,
    },
    /// An address is gone: packets to it are not taken any more.
    AddressRemoved {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
    },
    /// An address can, or can no longer, be used for new traffic; in the latter case it is
    /// deprecated or a duplicate.
    AddressPreference {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
        /// Whether it can.
        preferred: bool,
    },
    /// Duplicate address detection has found that somebody else on the link has the address: it is
    /// on the interface, and of no use.
    AddressDuplicate {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
    },
    /// The last default route through the interface is gone.
    DefaultRouteLost {
        /// Index of the interface.
        ifindex: u32,
    },
    /// There is a default route through the interface again.
    DefaultRouteBack {
        /// Index of the interface.
        ifindex: u32,
    },
    /// Another router, or another order of them.
    GatewayChanged {
        /// Index of the interface.
        ifindex: u32,
        /// The router of the best default route.
        gateway: Option<Ipv6Addr>,
    },
    /// The MTU of the interface is another.
    MtuChanged {
        /// Index of the interface.
        ifindex: u32,
        /// Octets.
        mtu: u32,
    },
}

impl Interfaces {
    /// What has changed on interfaces that are uplinks now or were one, bad news first.
    pub(crate) fn changes_since(&self, before: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        let all: BTreeSet<u32> = before.all.keys().chain(self.all.keys()).copied().collect();
        for ifindex in all {
            let (old, new) = (before.all.get(&ifindex), self.all.get(&ifindex));
            match (old.filter(|one| is_uplink(one)), new.filter(|one| is_uplink(one))) {
                (None, None) => {}
                (None, Some(_)) => changes.push(Change::UplinkAdded { ifindex }),
                (Some(old), still) => {
                    let gone = Uplink {
                        carrier: false,
                        addresses: Vec::new(),
                        default_routes: Vec::new(),
                        gateway: None,
                        ..old.clone()
                    };
                    compare(old, new.unwrap_or(&gone), &mut changes);
                    if still.is_none() {
                        changes.push(Change::UplinkLost { ifindex });
                    }
                }
            }
        }
        changes.sort_by_key(is_good_news);
        changes
    }
}

//= rfc5534#3.2-2
fn compare(old: &Uplink, new: &Uplink, changes: &mut Vec<Change>) {
    let ifindex = old.ifindex;
    match (old.carrier, new.carrier) {
        (true, false) => changes.push(Change::CarrierLost { ifindex }),
        (false, true) => changes.push(Change::CarrierBack { ifindex }),
        _ => {}
    }
    compare_routes(ifindex, &old.default_routes, &new.default_routes, changes);
    compare_addresses(ifindex, &old.addresses, &new.addresses, changes);
    if old.mtu != new.mtu {
        changes.push(Change::MtuChanged { ifindex, mtu: new.mtu });
    }
}

fn compare_routes(
    ifindex: u32,
    old: &[DefaultRoute],
    new: &[DefaultRoute],
    changes: &mut Vec<Change>,
) {
    match (old.first(), new.first()) {
        (Some(_), None) => changes.push(Change::DefaultRouteLost { ifindex }),
        (None, Some(_)) => changes.push(Change::DefaultRouteBack { ifindex }),
        (Some(_), Some(best)) if old != new => {
            changes.push(Change::GatewayChanged { ifindex, gateway: best.gateway });
        }
        _ => {}
    }
}

//= rfc5534#3.1-1
fn compare_addresses(
    ifindex: u32,
    old: &[UplinkAddress],
    new: &[UplinkAddress],
    changes: &mut Vec<Change>,
) {
    for was in old {
        let address = was.address;
        match new.iter().find(|is| is.address == address) {
            None => changes.push(Change::AddressRemoved { ifindex, address }),
            Some(is) if is.preferred != was.preferred => {
                let preferred = is.preferred;
                changes.push(Change::AddressPreference { ifindex, address, preferred });
            }
            Some(_) => {}
        }
    }
    let is_duplicate = |one: &UplinkAddress| one.flags.contains(AddressFlags::DAD_FAILED);
    for is in new {
        let was = old.iter().find(|was| was.address == is.address);
        if was.is_none() {
            changes.push(Change::AddressAdded { ifindex, address: *is });
        }
        // Detection may be over by the time the new address is read.
        if is_duplicate(is) && !was.is_some_and(is_duplicate) {
            changes.push(Change::AddressDuplicate { ifindex, address: is.address });
        }
    }
}

/// What to act on at once comes first.
const fn is_good_news(change: &Change) -> bool {
    match change {
        Change::CarrierLost { .. }
        | Change::AddressRemoved { .. }
        | Change::DefaultRouteLost { .. }
        | Change::UplinkLost { .. }
        | Change::AddressDuplicate { .. }
        | Change::AddressPreference { preferred: false, .. } => false,
        Change::UplinkAdded { .. }
        | Change::CarrierBack { .. }
        | Change::AddressAdded { .. }
        | Change::AddressPreference { .. }
        | Change::DefaultRouteBack { .. }
        | Change::GatewayChanged { .. }
        | Change::MtuChanged { .. } => true,
    }
}

#[cfg(test)]
mod tests;
