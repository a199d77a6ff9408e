//! Address labels (RFC 6724 s2.1): whose addresses new connections take.

use crate::attributes::Row;
use crate::error::Error;
use crate::handle::{Netlink, settle};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::addrlabel::{AddrLabelAttribute, AddrLabelMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

impl Netlink {
    /// Gives our label to these addresses, each on its interface, and to no others. The label is that of no
    /// destination, so source selection prefers any other address of the interface to them (RFC 6724 s5 rule 6).
    /// The addresses themselves do not change. A label that somebody else has given to such an address stays.
    ///
    /// True if something was changed.
    ///
    /// # Errors
    /// The kernel's table cannot be read, or the kernel refuses.
    pub async fn ensure_labels(&self, wanted: &BTreeSet<(u32, Ipv6Addr)>) -> Result<bool, Error> {
        let present = self.labels().await?;
        let mut is_changed = false;
        for (ifindex, address) in wanted.difference(&present) {
            let message = RouteNetlinkMessage::NewAddrLabel(message(*ifindex, Some(*address)));
            let made = self.exchange.change(message, NLM_F_CREATE | NLM_F_EXCL).await;
            let made = match made {
                // The interface went.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                made => made,
            };
            is_changed |=
                settle(made, libc::EEXIST, || format!("label {address} on interface {ifindex}"))?;
        }
        for (ifindex, address) in present.difference(wanted) {
            is_changed |= self.delete_label(*ifindex, *address).await?;
        }
        Ok(is_changed)
    }

    /// The addresses that have our label, those of an earlier process too.
    pub(crate) async fn labels(&self) -> Result<BTreeSet<(u32, Ipv6Addr)>, Error> {
        let message = RouteNetlinkMessage::GetAddrLabel(message(0, None));
        let rows = self.dump("address labels", message).await?;
        Ok(rows.iter().filter_map(read).collect())
    }

    /// True if it was there.
    pub(crate) async fn delete_label(
        &self,
        ifindex: u32,
        address: Ipv6Addr,
    ) -> Result<bool, Error> {
        let message = RouteNetlinkMessage::DelAddrLabel(message(ifindex, Some(address)));
        let made = self.exchange.change(message, 0).await;
        settle(made, libc::ESRCH, || format!("take the label of {address} on interface {ifindex}"))
    }
}

/// None of the address for the question for all.
fn message(ifindex: u32, address: Option<Ipv6Addr>) -> AddrLabelMessage {
    let mut message = AddrLabelMessage::default();
    message.header.family = AddressFamily::Inet6;
    if let Some(address) = address {
        message.header.index = ifindex;
        message.header.prefix_len = 128;
        message.attributes.push(AddrLabelAttribute::Address(IpAddr::V6(address)));
        message.attributes.push(AddrLabelAttribute::Label(LABEL));
    }
    message
}

fn read(row: &Row) -> Option<(u32, Ipv6Addr)> {
    let is_ours =
        row.byte(2) == 128 && row.header_u32(4) != 0 && row.u32(IFAL_LABEL) == Some(LABEL);
    Some((row.header_u32(4), row.address(IFAL_ADDRESS)?)).filter(|_| is_ours)
}

/// The mark of our labels, and one that no destination has: RFC 6724 s2.1 uses 0 to 13.
const LABEL: u32 = 5533;
const IFAL_ADDRESS: u16 = 1;
const IFAL_LABEL: u16 = 2;
