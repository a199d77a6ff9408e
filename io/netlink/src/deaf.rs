//! Interfaces on which the kernel follows no router, because this host forwards.

use crate::attributes::Row;
use crate::control::Control;
use crate::view::{AddressFlags, Uplink};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// An interface that is up and works, and has no default route. Ports of a bridge are none.
///
/// The interface is *deaf* while the host forwards there and `accept_ra` is 1: then the kernel ignores Router
/// Advertisements. When forwarding is switched on, the kernel removes the default routes of such interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BareLink {
    /// Index of the interface.
    pub ifindex: u32,
    /// Name of the interface.
    pub name: String,
    /// Whether it has a global address that ends: a router has been followed there.
    pub has_dynamic: bool,
    /// Its link-local addresses, which this host's own advertisements come from.
    pub link_locals: BTreeSet<Ipv6Addr>,
}

impl BareLink {
    /// Reads from the kernel whether the interface is deaf now. No notice tells of a change of `accept_ra`.
    #[must_use]
    pub fn is_deaf(&self) -> bool {
        let is = |control: &str, value: &str| {
            Control::new(&self.name, control).read().is_ok_and(|found| found == value)
        };
        is("forwarding", "1") && is("accept_ra", "1")
    }

    /// The controls and their values.
    #[must_use]
    pub fn evidence(&self) -> String {
        format!("{} = 1, accept_ra = 1", self.control("forwarding"))
    }

    /// The command that makes the kernel follow routers on this interface.
    #[must_use]
    pub fn remedy(&self) -> String {
        format!("sysctl -w {}=2", self.control("accept_ra"))
    }

    /// As `sysctl` takes it: with slashes where the name of the interface has a dot.
    fn control(&self, name: &str) -> String {
        let separator = if self.name.contains('.') { "/" } else { "." };
        ["net", "ipv6", "conf", &self.name, name].join(separator)
    }
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
        has_dynamic: one.addresses.iter().any(|own| !own.flags.contains(AddressFlags::PERMANENT)),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_can_be_typed_for_an_interface_with_a_dot_too() {
        let link = |name: &str| BareLink {
            ifindex: 2,
            name: name.to_owned(),
            has_dynamic: false,
            link_locals: BTreeSet::new(),
        };
        assert_eq!(link("wan0").remedy(), "sysctl -w net.ipv6.conf.wan0.accept_ra=2");
        assert_eq!(link("eth0.7").remedy(), "sysctl -w net/ipv6/conf/eth0.7/accept_ra=2");
        assert_eq!(link("wan0").evidence(), "net.ipv6.conf.wan0.forwarding = 1, accept_ra = 1");
    }
}
