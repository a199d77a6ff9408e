//! Interfaces on which the kernel follows no router, because this host forwards.

use crate::attributes::Row;
use crate::control::Control;
use moorline_addresses::{BareLink, Uplink};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// Reads from the kernel whether the interface is deaf now. No notice tells of a change of `accept_ra`.
#[must_use]
pub fn is_deaf(link: &BareLink) -> bool {
    let is = |control: &str, value: &str| {
        Control::new(&link.name, control).read().is_ok_and(|found| found == value)
    };
    is("forwarding", "1") && is("accept_ra", "1")
}

/// Picks the bare ones of all interfaces that are up.
pub(crate) fn bare_links<'a>(
    interfaces: impl Iterator<Item = &'a Uplink>,
    links: &[Row],
    addresses: &[Row],
) -> Vec<BareLink> {
    let ports: BTreeSet<u32> = links
        .iter()
        .filter(|row| row.attribute(libc::IFLA_MASTER).is_some())
        .map(|row| row.header_u32(4))
        .collect();
    let bare = interfaces.filter(|one| {
        one.default_routes.is_empty() && one.carrier && !ports.contains(&one.ifindex)
    });
    bare.map(|one| BareLink {
        ifindex: one.ifindex,
        addresses: one.addresses.clone(),
        link_locals: addresses
            .iter()
            .filter(|row| row.header_u32(4) == one.ifindex)
            .filter_map(|row| row.address(libc::IFA_ADDRESS))
            .filter(Ipv6Addr::is_unicast_link_local)
            .collect(),
        name: one.name.clone(),
    })
    .collect()
}
