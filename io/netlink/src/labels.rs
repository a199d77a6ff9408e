//! Address labels (RFC 6724 s2.1): they decide which addresses new connections take.

use crate::error::Error;
use crate::handle::Netlink;
use crate::row::Row;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

impl Netlink {
    /// Gives our label to these addresses, each on its interface, and to no others. No destination has that label, so
    /// source selection prefers each other address of the interface (RFC 6724 s5 rule 6). The addresses themselves do
    /// not change. If somebody else has labelled such an address, that label stays.
    ///
    /// True if a label was changed.
    ///
    /// # Errors
    /// The kernel's table cannot be read, or the kernel refuses.
    pub async fn ensure_labels(&self, wanted: &BTreeSet<(u32, Ipv6Addr)>) -> Result<bool, Error> {
        let present = self.labelled(LABEL)?;
        let mut is_changed = false;
        for label in wanted.difference(&present) {
            // Somebody else has labelled the address, or the interface is gone.
            is_changed |= self.add_label(*label, LABEL, &[libc::EEXIST, libc::EINVAL])?;
        }
        for label in present.difference(wanted) {
            is_changed |= self.remove(&label_row(*label, LABEL), label_text(*label))?;
        }
        Ok(is_changed)
    }

    /// The addresses that have this label of ours, also those of an earlier process.
    pub(crate) fn labelled(&self, label: u32) -> Result<BTreeSet<Labelled>, Error> {
        let rows = self.rows("address labels", &Row::ipv6(libc::RTM_GETADDRLABEL))?;
        let ours = rows.iter().filter(|row| {
            row.byte(2) == 128 && row.header_u32(4) != 0 && row.u32(IFAL_LABEL) == Some(label)
        });
        Ok(ours.filter_map(|row| Some((row.header_u32(4), row.address(IFAL_ADDRESS)?))).collect())
    }

    /// Gives an address a label. False if the kernel answers with one of these errors.
    pub(crate) fn add_label(
        &self,
        at: Labelled,
        label: u32,
        nothing_to_do: &[i32],
    ) -> Result<bool, Error> {
        let (ifindex, address) = at;
        let action = format_args!("label {address} on interface {ifindex}");
        self.change(&label_row(at, label), NLM_F_CREATE | NLM_F_EXCL, nothing_to_do, action)
    }
}

/// An address with a label, and the index of its interface.
pub(crate) type Labelled = (u32, Ipv6Addr);

/// Message that gives an address a label.
pub(crate) fn label_row((ifindex, address): Labelled, label: u32) -> Row {
    Row::ipv6(libc::RTM_NEWADDRLABEL)
        .at(2, [128])
        .at(4, ifindex.to_ne_bytes())
        .with(IFAL_ADDRESS, address.octets())
        .with_u32(IFAL_LABEL, label)
}

pub(crate) fn label_text((ifindex, address): Labelled) -> String {
    format!("label of {address} on interface {ifindex}")
}

/// Our label, and the mark of our labels. No destination has it: RFC 6724 s2.1 uses 0 to 13.
pub(crate) const LABEL: u32 = 5533;
/// Label of [`NOBODY`] on an interface on which we allow optimistic addresses: the mark of that control.
pub(crate) const LENT: u32 = 5534;
/// A link-local address that an interface has only for a moment.
pub(crate) const NOBODY: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0x6d6f, 0x6f72);
const IFAL_ADDRESS: u16 = 1;
const IFAL_LABEL: u16 = 2;
