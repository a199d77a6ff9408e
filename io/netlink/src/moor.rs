//! The veth pair that segments moved traffic before its header is inserted, and in the other direction merges it
//! after its header was taken out.

use crate::control::path;
use crate::error::Error;
use crate::ethtool::{Ethtool, GRO, decide, is_checksum};
use crate::handle::Netlink;
use crate::row::{INET6, Row};
use crate::settings::{LINK_ALIAS, LINK_GROUP, LINK_MTU, LINK_NAMES};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use std::fs;

/// The properties of a link that this module reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) ifindex: u32,
    pub(crate) name: String,
    pub(crate) group: Option<u32>,
    pub(crate) kind: Option<String>,
    /// Whether MTU, alias and the absence of addresses are those of our links.
    has_settings: bool,
    /// Whether the link is up and has no neighbour discovery.
    has_flags: bool,
}

impl Link {
    pub(crate) fn read(row: &Row) -> Option<Self> {
        Some(Self {
            ifindex: row.header_u32(4),
            name: row.text(libc::IFLA_IFNAME)?,
            group: row.u32(libc::IFLA_GROUP),
            kind: row.nested(libc::IFLA_LINKINFO).and_then(|info| info.text(libc::IFLA_INFO_KIND)),
            has_settings: has_settings(row),
            has_flags: row.header_u32(8) & FLAGS == FLAGS,
        })
    }

    /// Message about a link, without any change.
    pub(crate) fn row(ifindex: u32) -> Row {
        Row::new(libc::RTM_NEWLINK, &[0; 16]).at(4, ifindex.to_ne_bytes())
    }

    /// Whether a link with one of our names has our mark, which the kernel sets when it makes the link.
    pub(crate) fn is_ours(&self) -> bool {
        self.kind.as_deref() == Some("veth") && self.group == Some(LINK_GROUP)
    }
}

/// The index of the first link of our pair.
pub(crate) fn moor_ifindex() -> Result<u32, Error> {
    let [name, _] = LINK_NAMES;
    nix::net::if_::if_nametoindex(name).map_err(|_| Error::NoMoorLink(name))
}

/// The two ends of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoorLinks {
    /// Index of the link to which routes of moved pairs lead.
    pub moor0_ifindex: u32,
    /// Index of the link where the packets come out. A program of the data plane is on its ingress.
    pub moor1_ifindex: u32,
    /// Whether TCP segments that are sent to `moor1` come out of `moor0` merged.
    pub gathers: bool,
}

impl Netlink {
    /// Makes the pair, or takes over the one of an earlier process. The links have no neighbour discovery, no
    /// addresses of their own, no packets above the MTU, and are up. A link that is so already is left alone: the kernel
    /// walks all routes of the host for each change of a link.
    ///
    /// # Errors
    /// A link that is not ours has the name, or the kernel refuses.
    pub async fn ensure_moor(&self) -> Result<MoorLinks, Error> {
        let [name, _] = LINK_NAMES;
        let found = self.pair()?;
        if let Some(other) = found.iter().flatten().find(|link| !link.is_ours()) {
            return Err(Error::Conflict(other.name.clone()));
        }
        let [moor0, moor1] = match found {
            [Some(moor0), Some(moor1)] => [moor0, moor1],
            halves => {
                // One end was renamed or moved away, so a new pair is made.
                for link in halves.iter().flatten() {
                    self.remove(&Link::row(link.ifindex), format_args!("link {}", link.name))?;
                }
                self.create_pair()?
            }
        };
        self.set_up(&moor0)?;
        self.set_up(&moor1)?;
        let gathers = Ethtool::open(name).and_then(|ethtool| ethtool.is_active(GRO));
        let gathers = gathers.unwrap_or_default();
        let (moor0_ifindex, moor1_ifindex) = (moor0.ifindex, moor1.ifindex);
        Ok(MoorLinks { moor0_ifindex, moor1_ifindex, gathers })
    }

    /// Leaves the checksums of moved traffic to the uplinks, or not. They may be left if each uplink can compute any
    /// checksum. If some hardware computes only those of packets that it knows, the kernel computes them.
    ///
    /// # Errors
    /// The kernel refuses, or there is no pair yet.
    pub fn leave_checksums(&self, leave: bool) -> Result<(), Error> {
        let [name, _] = LINK_NAMES;
        let change = |ethtool: Ethtool| ethtool.change(|one| is_checksum(one).then_some(leave));
        let refused = format!("leave the checksums of {name} to the uplinks");
        Ethtool::open(name).and_then(change).map_err(Error::refused(refused))
    }

    /// Whether an uplink can compute any checksum, also behind headers that it does not know.
    #[must_use]
    pub fn sums_anything(uplink: &str) -> bool {
        let is_active = |ethtool: Ethtool| ethtool.is_active("tx-checksum-ip-generic");
        Ethtool::open(uplink).and_then(is_active).unwrap_or_default()
    }

    fn create_pair(&self) -> Result<[Link; 2], Error> {
        let [name, peer] = LINK_NAMES;
        let end = |name: &str| {
            Link::row(0).with(libc::IFLA_IFNAME, name).with_u32(libc::IFLA_GROUP, LINK_GROUP)
        };
        let info = Row::default()
            .with(libc::IFLA_INFO_KIND, "veth")
            .with(libc::IFLA_INFO_DATA, Row::default().with(VETH_INFO_PEER, end(peer)));
        let pair = end(name).with(libc::IFLA_LINKINFO, info);
        let action = format_args!("make the veth pair {name}, {peer}");
        self.change(&pair, NLM_F_CREATE | NLM_F_EXCL, &[], action)?;
        match self.pair()? {
            [Some(moor0), Some(moor1)] => Ok([moor0, moor1]),
            _ => Err(Error::NoMoorLink(name)),
        }
    }

    fn set_up(&self, link: &Link) -> Result<(), Error> {
        let name = link.name.as_str();
        let set = |row: Row| {
            let action = format_args!("set up link {name}");
            self.change(&row.of_kind(libc::RTM_SETLINK), 0, &[], action)
        };
        if !link.has_settings {
            set(settings(link.ifindex))?;
        }
        for control in OFF {
            let path = path(name, control);
            if let Err(error) = fs::write(&path, "0") {
                // The process is in a sandbox with a read-only /proc. This does little harm, as there is no router on
                // the link.
                tracing::debug!(path = %path.display(), %error, "cannot set");
            }
        }
        let change =
            |ethtool: Ethtool| ethtool.change(|feature| decide(name == LINK_NAMES[0], feature));
        let refused = format!("set the offloads of {name}");
        Ethtool::open(name).and_then(change).map_err(Error::refused(refused))?;

        if !link.has_flags {
            // The flags, and the mask of those to set.
            let flags = FLAGS.to_ne_bytes();
            set(Link::row(link.ifindex).at(8, flags).at(12, flags))?;
        }
        Ok(())
    }

    /// The links with our names.
    pub(crate) fn pair(&self) -> Result<[Option<Link>; 2], Error> {
        let links = self.links()?;
        Ok(LINK_NAMES.map(|name| links.iter().find(|link| link.name == name).cloned()))
    }
}

/// Message about a link with the settings of our links.
fn settings(ifindex: u32) -> Row {
    let no_addresses = Row::default().with(IFLA_INET6_ADDR_GEN_MODE, [IN6_ADDR_GEN_MODE_NONE]);
    let of_families = Row::default().with(u16::from(INET6), no_addresses);
    Link::row(ifindex)
        .with(libc::IFLA_IFALIAS, LINK_ALIAS)
        .with_u32(libc::IFLA_MTU, LINK_MTU)
        .with(libc::IFLA_AF_SPEC, of_families)
}

/// Whether a link has the settings of our links.
fn has_settings(row: &Row) -> bool {
    let inet6 = row.nested(libc::IFLA_AF_SPEC).and_then(|all| all.nested(u16::from(INET6)));
    let addresses = inet6.and_then(|inet6| inet6.u8(IFLA_INET6_ADDR_GEN_MODE));
    row.u32(libc::IFLA_MTU) == Some(LINK_MTU)
        && row.text(libc::IFLA_IFALIAS).as_deref() == Some(LINK_ALIAS)
        && addresses == Some(IN6_ADDR_GEN_MODE_NONE)
}

/// System controls that are off at both ends: if a Router Advertisement reached the pair, it must not change the
/// host's routes.
const OFF: [&str; 3] = ["accept_ra", "autoconf", "router_solicitations"];
/// Flags of our links: up, without neighbour discovery.
const FLAGS: u32 = (libc::IFF_UP | libc::IFF_NOARP).cast_unsigned();
/// From linux/veth.h and linux/if_link.h.
const VETH_INFO_PEER: u16 = 1;
const IFLA_INET6_ADDR_GEN_MODE: u16 = 8;
const IN6_ADDR_GEN_MODE_NONE: u8 = 1;
