//! Interfaces on which the kernel follows no router, because this host forwards.

use crate::attributes::Row;
use crate::control::Control;
use crate::error::Error;
use crate::handle::Netlink;
use crate::settings::Settings;
use crate::view::{AddressFlags, Interfaces};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// An interface without a default route whose Router Advertisements the kernel ignores: it forwards there, and
/// `accept_ra` is 1. When forwarding is switched on, the kernel removes the default routes of such interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeafLink {
    /// Index of the interface.
    pub ifindex: u32,
    /// Name of the interface.
    pub name: String,
    /// Whether it has a global address that ends: a router has been followed there.
    pub has_dynamic: bool,
    /// Its link-local addresses, which this host's own advertisements come from.
    pub link_locals: BTreeSet<Ipv6Addr>,
}

impl DeafLink {
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

impl Netlink {
    /// The interfaces that are up and work, have no default route, and are deaf to routers. Ports of a bridge are none.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub async fn deaf_links(&self) -> Result<Vec<DeafLink>, Error> {
        let links = self.link_rows().await?;
        let addresses = self.address_rows().await?;
        let routes = self.route_rows(Some(libc::RT_TABLE_MAIN)).await?;
        let mut found = candidates(&links, &addresses, &routes, &self.settings);
        found.retain(|one| is_deaf(&one.name));
        Ok(found)
    }
}

fn candidates(
    links: &[Row],
    addresses: &[Row],
    routes: &[Row],
    settings: &Settings,
) -> Vec<DeafLink> {
    let ports: BTreeSet<u32> = links
        .iter()
        .filter(|row| row.attribute(libc::IFLA_MASTER).is_some())
        .map(|row| row.header_u32(4))
        .collect();
    let all = Interfaces::read(links, addresses, routes, settings);
    let bare = all.0.into_values().filter(|one| {
        one.default_routes.is_empty() && one.carrier && !ports.contains(&one.ifindex)
    });
    bare.map(|one| DeafLink {
        ifindex: one.ifindex,
        has_dynamic: one.addresses.iter().any(|own| !own.flags.contains(AddressFlags::PERMANENT)),
        link_locals: addresses
            .iter()
            .filter(|row| row.header_u32(4) == one.ifindex)
            .filter_map(|row| row.address(libc::IFA_ADDRESS))
            .filter(Ipv6Addr::is_unicast_link_local)
            .collect(),
        name: one.name,
    })
    .collect()
}

fn is_deaf(name: &str) -> bool {
    let is = |control: &str, value: &str| {
        Control::new(name, control).read().is_ok_and(|found| found == value)
    };
    is("forwarding", "1") && is("accept_ra", "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_can_be_typed_for_an_interface_with_a_dot_too() {
        let link = |name: &str| DeafLink {
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
