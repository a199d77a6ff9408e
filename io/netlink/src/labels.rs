//! Address labels (RFC 6724 s2.1): whose addresses new connections take.

use crate::error::Error;
use crate::handle::Netlink;
use crate::row::Row;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

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
        let present = self.labels()?;
        let mut is_changed = false;
        for label @ (ifindex, address) in wanted.difference(&present) {
            let action = format_args!("label {address} on interface {ifindex}");
            // Somebody else has labelled it, or the interface went.
            let nothing_to_do = [libc::EEXIST, libc::EINVAL];
            let flags = NLM_F_CREATE | NLM_F_EXCL;
            is_changed |= self.change(&label_row(*label), flags, &nothing_to_do, action)?;
        }
        for label in present.difference(wanted) {
            is_changed |= self.remove(&label_row(*label), label_text(*label))?;
        }
        Ok(is_changed)
    }

    /// The addresses that have our label, those of an earlier process too.
    pub(crate) fn labels(&self) -> Result<BTreeSet<(u32, Ipv6Addr)>, Error> {
        let rows = self.rows("address labels", &Row::ipv6(libc::RTM_GETADDRLABEL))?;
        let ours = rows.iter().filter(|row| {
            row.byte(2) == 128 && row.header_u32(4) != 0 && row.u32(IFAL_LABEL) == Some(LABEL)
        });
        Ok(ours.filter_map(|row| Some((row.header_u32(4), row.address(IFAL_ADDRESS)?))).collect())
    }
}

/// The message that gives the label.
pub(crate) fn label_row((ifindex, address): (u32, Ipv6Addr)) -> Row {
    Row::ipv6(libc::RTM_NEWADDRLABEL)
        .at(2, [128])
        .at(4, ifindex.to_ne_bytes())
        .with(IFAL_ADDRESS, address.octets())
        .with_u32(IFAL_LABEL, LABEL)
}

pub(crate) fn label_text((ifindex, address): (u32, Ipv6Addr)) -> String {
    format!("label of {address} on interface {ifindex}")
}

/// The mark of our labels, and one that no destination has: RFC 6724 s2.1 uses 0 to 13.
const LABEL: u32 = 5533;
const IFAL_ADDRESS: u16 = 1;
const IFAL_LABEL: u16 = 2;
