//! The veth pair in which moved traffic is cut into packets before its header goes in, and the other way put together
//! after its header was taken out.

use crate::conflicts::Conflict;
use crate::error::Error;
use crate::ethtool::{self, Offloads};
use crate::handle::{Netlink, settle};
use crate::journal::Record;
use crate::link::Link;
use crate::settings::LINK_ALIAS;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute,
    LinkFlags, LinkInfo, LinkMessage,
};
use std::fs;

/// The two ends of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoorLinks {
    /// Where routes of moved pairs lead.
    pub moor0_ifindex: u32,
    /// Where they come out; the data plane's program sits on its ingress.
    pub moor1_ifindex: u32,
    /// Whether segments of TCP that are sent to `moor1` come out of `moor0` put together.
    pub gathers: bool,
}

impl Netlink {
    /// Makes the pair, or takes over the one that an earlier process made: no neighbour discovery, no
    /// addresses of its own, no packets above the MTU, up.
    ///
    /// # Errors
    /// A link that is not ours has the name, or the kernel refuses.
    pub async fn ensure_moor(&self) -> Result<MoorLinks, Error> {
        let [name, peer] = self.settings.link_names.clone();
        let record = Record::Link { name: name.clone(), peer: peer.clone() };
        let found = self.pair(&name, &peer).await?;
        let recorded = self.is_recorded(&record);
        for link in found.iter().flatten() {
            if !(link.is_marked() || recorded && link.is_veth()) {
                return Err(Error::Conflict(Conflict::link(&link.name)));
            }
        }
        self.record(record)?;
        let [moor0, moor1] = match found {
            [Some(moor0), Some(moor1)] => [moor0.ifindex, moor1.ifindex],
            [half, other] => {
                // One end was renamed or moved away: a fresh pair.
                for link in [half, other].into_iter().flatten() {
                    self.delete_link(&link).await?;
                }
                self.create_pair(&name, &peer).await?
            }
        };
        // What leaves by moor0 gets a header that not all hardware knows; what leaves by moor1 has come in.
        let offloads = Offloads { gathers: true, leaves_checksums: false };
        self.set_up(moor0, &name, offloads).await?;
        let offloads = Offloads { gathers: false, leaves_checksums: true };
        self.set_up(moor1, &peer, offloads).await?;
        self.set_moor_ifindex(moor0);
        let gathers = ethtool::gathers(&name).unwrap_or_default();
        Ok(MoorLinks { moor0_ifindex: moor0, moor1_ifindex: moor1, gathers })
    }

    /// Leaves the checksums of moved traffic to the uplinks, or not: to be left, each of them has to sum whatever it is told
    /// to. There may be hardware that does so for the packets that it knows only: then the kernel sums.
    ///
    /// # Errors
    /// The kernel refuses, or there is no pair yet.
    pub fn leave_checksums(&self, leave: bool) -> Result<(), Error> {
        let [name, _] = &self.settings.link_names;
        ethtool::leave_checksums(name, leave).map_err(|source| Error::Refused {
            action: format!("leave the checksums of {name} to the uplinks"),
            source,
        })
    }

    /// Whether an uplink sums whatever it is told to, behind headers that it does not know too.
    #[must_use]
    pub fn sums_anything(uplink: &str) -> bool {
        ethtool::sums_anything(uplink).unwrap_or_default()
    }

    async fn create_pair(&self, name: &str, peer: &str) -> Result<[u32; 2], Error> {
        let mut other = LinkMessage::default();
        other.attributes.push(LinkAttribute::IfName(peer.to_owned()));
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        let message = RouteNetlinkMessage::NewLink(message);
        let made = self.exchange.change(message, NLM_F_CREATE | NLM_F_EXCL).await;
        made.map_err(|source| Error::Refused {
            action: format!("make the veth pair {name}, {peer}"),
            source,
        })?;
        match self.pair(name, peer).await? {
            [Some(moor0), Some(moor1)] => Ok([moor0.ifindex, moor1.ifindex]),
            _ => Err(Error::NoMoorLink(name.to_owned())),
        }
    }

    async fn set_up(&self, ifindex: u32, name: &str, offloads: Offloads) -> Result<(), Error> {
        let mut message = LinkMessage::default();
        message.header.index = ifindex;
        message.attributes.push(LinkAttribute::IfAlias(LINK_ALIAS.to_owned()));
        message.attributes.push(LinkAttribute::Mtu(self.settings.link_mtu));
        message.attributes.push(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![
            AfSpecInet6::AddrGenMode(In6AddrGenMode::None),
        ])]));
        self.set_link(message, name).await?;

        for (control, value) in SYSTEM_CONTROLS {
            let path = format!("/proc/sys/net/ipv6/conf/{name}/{control}");
            if let Err(error) = fs::write(&path, value) {
                // A sandbox with a read-only /proc: a nuisance, no more, as no router is on the link.
                tracing::debug!(path, %error, "cannot set");
            }
        }
        ethtool::set_offloads(name, offloads).map_err(|source| Error::Refused {
            action: format!("set the offloads of {name}"),
            source,
        })?;

        let mut message = LinkMessage::default();
        message.header.index = ifindex;
        message.header.flags = LinkFlags::Up | LinkFlags::Noarp;
        message.header.change_mask = LinkFlags::Up | LinkFlags::Noarp;
        self.set_link(message, name).await
    }

    async fn set_link(&self, message: LinkMessage, name: &str) -> Result<(), Error> {
        let made = self.exchange.change(RouteNetlinkMessage::SetLink(message), 0).await;
        made.map_err(|source| Error::Refused { action: format!("set up link {name}"), source })
    }

    /// True if it was there. Its peer goes with it.
    pub(crate) async fn delete_link(&self, link: &Link) -> Result<bool, Error> {
        let mut message = LinkMessage::default();
        message.header.index = link.ifindex;
        let made = self.exchange.change(RouteNetlinkMessage::DelLink(message), 0).await;
        self.set_moor_ifindex(0);
        settle(made, libc::ENODEV, || format!("remove link {}", link.name))
    }

    pub(crate) async fn pair(&self, name: &str, peer: &str) -> Result<[Option<Link>; 2], Error> {
        let links = self.links().await?;
        Ok([name, peer].map(|name| links.iter().find(|link| link.name == name).cloned()))
    }
}

/// Written for each end: router advertisements that reach it must not change the host's routes.
const SYSTEM_CONTROLS: [(&str, &str); 3] =
    [("accept_ra", "0"), ("autoconf", "0"), ("router_solicitations", "0")];
