//! Links by name, and how ours are known.

use crate::attributes::{Row, attribute, read_text};
use crate::settings::LINK_ALIAS;

/// What we look at in a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) ifindex: u32,
    pub(crate) name: String,
    pub(crate) alias: Option<String>,
    pub(crate) kind: Option<String>,
}

impl Link {
    pub(crate) fn read(row: &Row) -> Option<Self> {
        let info = row.attribute(libc::IFLA_LINKINFO);
        Some(Self {
            ifindex: row.header_u32(4),
            name: row.text(libc::IFLA_IFNAME)?,
            alias: row.text(libc::IFLA_IFALIAS),
            kind: info.and_then(|info| attribute(info, IFLA_INFO_KIND)).map(read_text),
        })
    }

    pub(crate) fn is_veth(&self) -> bool {
        self.kind.as_deref() == Some("veth")
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.is_veth() && self.alias.as_deref() == Some(LINK_ALIAS)
    }
}

const IFLA_INFO_KIND: u16 = 1;
