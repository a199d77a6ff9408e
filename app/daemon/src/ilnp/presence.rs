//! The addresses that sessions need on uplinks beside the host's own.
//!
//! A session keeps its identifier wherever it goes, so the host has to answer for that identifier in each of its
//! prefixes: routers ask for the address, and the kernel lets nobody send from one that is not there. Each is a
//! deprecated address of its own /128, which no new traffic takes, in the journal as all changes to the host.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use moorline_addresses::{HostView, Lifetimes};
use moorline_netlink::{AddressSpec, Netlink};
use moorline_types::{Ilv, Nid};

use super::locators::Node;

/// Addresses that are there for sessions alone, and the interfaces they are on.
#[derive(Debug, Default)]
pub(super) struct Presence {
    made: BTreeSet<(u32, Ipv6Addr)>,
    /// All global addresses of the uplinks when they were looked at last, ours included.
    seen: BTreeSet<Ipv6Addr>,
    /// Of sessions, when it was last put in order.
    nids: BTreeSet<Nid>,
}

impl Presence {
    /// Whether sessions of this identifier can go anywhere.
    pub(super) fn has(&self, nid: Nid) -> bool {
        self.nids.contains(&nid)
    }

    /// Whether an address is on an uplink for sessions alone.
    pub(super) fn has_made(&self, address: Ipv6Addr) -> bool {
        self.made.iter().any(|(_, made)| *made == address)
    }

    /// Takes them out of a view, and notes what is there.
    pub(super) fn leave_out(&mut self, view: &mut HostView) {
        self.seen.clear();
        for uplink in view.uplinks.iter_mut().chain(&mut view.candidates) {
            self.seen.extend(uplink.addresses.iter().map(|own| own.address));
            let made = &self.made;
            uplink.addresses.retain(|own| {
                own.prefix_len != HOST_LEN || !made.contains(&(uplink.ifindex, own.address))
            });
        }
    }

    /// Brings the host in step. What cannot be made is tried again with the next change.
    pub(super) async fn follow(&mut self, netlink: &Netlink, node: &Node, nids: &BTreeSet<Nid>) {
        self.nids.clone_from(nids);
        let wanted = wanted(node, nids);
        let is_own = |address: &Ipv6Addr| {
            self.seen.contains(address) && !self.made.iter().any(|(_, made)| made == address)
        };
        let missing: Vec<_> = wanted
            .iter()
            .filter(|(ifindex, address)| {
                let is_there =
                    self.made.contains(&(*ifindex, *address)) && self.seen.contains(address);
                !is_there && !is_own(address)
            })
            .copied()
            .collect();
        for (ifindex, address) in missing {
            let spec = AddressSpec {
                optimistic: true,
                lifetimes: Lifetimes { preferred: 0, valid: u32::MAX },
                ..AddressSpec::new(address, HOST_LEN)
            };
            match netlink.add_address_with(ifindex, spec).await {
                Ok(_) => {
                    self.made.insert((ifindex, address));
                    self.seen.insert(address);
                }
                Err(error) => tracing::warn!(%error, "an address for sessions"),
            }
        }
        for (ifindex, address) in self.made.difference(&wanted).copied().collect::<Vec<_>>() {
            self.remove(netlink, ifindex, address).await;
        }
    }

    /// What a run before has left, for its sessions: those that are not needed go when it is put in order.
    pub(super) fn take_over(netlink: &Netlink) -> Self {
        let made = netlink.made_hosts().into_iter().collect();
        Self { made, ..Self::default() }
    }

    /// Takes all of it away.
    pub(super) async fn clear(&mut self, netlink: &Netlink) {
        for (ifindex, address) in self.made.iter().copied().collect::<Vec<_>>() {
            self.remove(netlink, ifindex, address).await;
        }
    }

    async fn remove(&mut self, netlink: &Netlink, ifindex: u32, address: Ipv6Addr) {
        self.made.remove(&(ifindex, address));
        if let Err(error) = netlink.remove_address(ifindex, address, HOST_LEN).await {
            tracing::warn!(%error, "an address for sessions");
        }
    }
}

/// Each identifier that has sessions, at each locator.
fn wanted(node: &Node, nids: &BTreeSet<Nid>) -> BTreeSet<(u32, Ipv6Addr)> {
    let at = |(l64, ifindex): (&_, &u32)| {
        let (l64, ifindex) = (*l64, *ifindex);
        nids.iter().map(move |nid| (ifindex, Ilv::new(l64, *nid).address()))
    };
    node.uplinks.iter().flat_map(at).collect()
}

/// Of the prefix of an address that is alone in it.
const HOST_LEN: u8 = 128;
