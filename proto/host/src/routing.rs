//! The host's links, and the routes and addresses that contexts and sessions need on them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_addresses::{
    HostView, MAX_SPECIFIC, MovedRoute, Mover, NextHop, Routes, SpecificRoute, Uplink,
};
use moorline_contexts::Contexts;
use moorline_datapath::ilnp::SessionEntry;
use moorline_datapath::shim6::ContextEntry;
use moorline_types::{Ilv, Instant, LocalRoutes, Locator, LocatorPair, Prefix, Ulid, UlidPair};

use crate::known::{KnownSession, KnownSessions};
use crate::node::{LocatorRule, Node, SessionAddresses};
use crate::path_mtus::{MIN_MTU, PathMtus};

/// Interfaces that carry the programs of each data plane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carriers {
    /// Interfaces with the programs of Shim6.
    pub shim6: BTreeSet<u32>,
    /// Interfaces with the programs of ILNP.
    pub ilnp: BTreeSet<u32>,
}

/// Links of the host, and its state on them for contexts and sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routing {
    /// The view without the addresses of sessions.
    pub(crate) view: HostView,
    /// Time when the view was taken.
    pub(crate) view_at: Option<Instant>,
    /// Time when an address last became usable.
    pub(crate) gained_at: Option<Instant>,
    /// Uplinks that moved traffic may be routed to.
    pub(crate) takes_moved: BTreeSet<u32>,
    /// `None` if all interfaces carry programs.
    pub(crate) carriers: Option<Carriers>,
    pub(crate) routes: Routes,
    pub(crate) path_mtus: PathMtus,
    /// Kept ULIDs: their addresses have left their uplinks.
    pub(crate) kept: BTreeSet<Ulid>,
    /// The sessions in the data plane of ILNP.
    pub(crate) sessions: KnownSessions,
    /// Interfaces without a default route, each with the number of sessions that had begun when the route went.
    bare_since: BTreeMap<u32, u64>,
    /// The node in the data plane of ILNP.
    pub(crate) node: Node,
    /// Whether the data plane of ILNP has not taken the node, so that it is told again.
    pub(crate) is_node_refused: bool,
    pub(crate) locator_rules: Vec<LocatorRule>,
    pub(crate) session_addresses: SessionAddresses,
}

impl Routing {
    /// Addresses that packets can leave from: packets back to them meet the data plane.
    pub(crate) fn usable(&self) -> Vec<Locator> {
        let uplinks = self.view.uplinks.iter();
        let addresses = uplinks.filter(|uplink| uplink.carrier && self.carries_shim6(uplink));
        let addresses = addresses.flat_map(|uplink| &uplink.addresses);
        let usable = addresses.filter(|own| own.flags.is_usable());
        usable.map(|own| Locator(own.address)).collect()
    }

    fn carries_shim6(&self, link: &Uplink) -> bool {
        self.carriers.as_ref().is_none_or(|carriers| carriers.shim6.contains(&link.ifindex))
    }

    /// Our addresses that reach a destination by their own link, for each destination. Nothing is known about a
    /// destination whose route leads by an interface outside these links, for example of a VPN, or by several
    /// interfaces. A neighbor on a link of ours without a default route is none on another link: no address of another
    /// link reaches it. A route by a link without a carrier leads nowhere. If the host has too many routes to know them
    /// all, none counts. Packets back to an address of a link without the programs of Shim6 would be lost, so no such
    /// address counts.
    pub(crate) fn local_routes(&self) -> LocalRoutes {
        self.routes_of(|link| self.carries_shim6(link))
    }

    /// The routes from addresses of the links that carry programs.
    fn routes_of(&self, carries: impl Fn(&Uplink) -> bool) -> LocalRoutes {
        let HostView { uplinks, specific, bare, .. } = &self.view;
        if specific.len() > MAX_SPECIFIC {
            return LocalRoutes::default();
        }
        let links: Vec<_> = uplinks.iter().chain(self.view.bare_in_use()).collect();
        let is_known = |way: Option<(u32, Option<Ipv6Addr>)>| {
            way.is_some_and(|(by, router)| {
                let is_it = |link: &Uplink| link.ifindex == by;
                let is_beside = |link: &Uplink| is_it(link) && link.has_neighbors;
                links.iter().any(|link| is_it(link))
                    || router.is_none() && bare.iter().any(is_beside)
            })
        };
        let own = |to: Prefix, routes: &[&SpecificRoute]| {
            let is_led = |link: &Uplink, own: Ipv6Addr| {
                let is_for = |from: Prefix| from.contains(own);
                let mut ours = routes.iter().filter(|route| route.source.is_none_or(is_for));
                let is_none = ours.clone().next().is_none();
                is_none || ours.any(|route| route.is_by(link.ifindex))
            };
            let links = links.iter().filter(|link| carries(link));
            let all = links.flat_map(|link| link.addresses.iter().map(move |own| (link, own)));
            let led = all.filter(|(link, own)| own.flags.is_usable() && is_led(link, own.address));
            (to, led.map(|(_, own)| Locator(own.address)).collect())
        };
        let specific: Vec<_> = self.view.specific_in_force().collect();
        let routes = specific.chunk_by(|one, other| one.destination == other.destination);
        let known = routes.filter(|routes| routes.iter().all(|route| is_known(route.way)));
        LocalRoutes(known.map(|routes| own(routes[0].destination, routes)).collect())
    }

    /// [`local_routes`](Self::local_routes) for sessions. Sessions may use locators of links without a default route.
    /// These reach only destinations of specific routes.
    pub(crate) fn session_routes(&self) -> LocalRoutes {
        let mut routes = self.routes_of(|_| true);
        if !routes.0.is_empty() && self.view.bare_in_use().next().is_some() {
            let with_default = self.view.uplinks.iter().flat_map(|uplink| &uplink.addresses);
            let with_default = with_default.map(|own| Locator(own.address)).collect();
            routes.0.push((Prefix::ALL, with_default));
        }
        routes
    }

    /// Usable addresses that are deprecated.
    pub(crate) fn deprecated(&self) -> Vec<Locator> {
        let addresses = self.view.uplinks.iter().flat_map(|uplink| &uplink.addresses);
        let deprecated = addresses.filter(|own| own.flags.is_usable() && !own.preferred);
        deprecated.map(|own| Locator(own.address)).collect()
    }

    /// Addresses of ours that are ULIDs or locators of contexts and sessions, also of contexts that wait to be taken
    /// over, and the addresses to which peers may send: the [`told`](Self::told) ones, and those of [`named_on_bare`].
    pub(crate) fn in_use(&self, shim6: &Contexts) -> BTreeSet<Ipv6Addr> {
        let established = shim6.counts().map(|(class, _)| [class.ulid.0, class.local.0]);
        let of_session = |(_, known): (_, &KnownSession)| {
            [known.pair.local.address(), known.wire.local.address()]
        };
        let waiting = shim6.waiting();
        let of_waiting = waiting.ulids().map(|ulid| ulid.0);
        let of_waiting = of_waiting.chain(waiting.locators().map(|locator| locator.0));
        established
            .flatten()
            .chain(of_waiting)
            .chain(self.sessions.iter().flat_map(of_session))
            .chain(self.told())
            .chain(named_on_bare(&self.view, shim6))
            .collect()
    }

    /// The identifiers of sessions at each locator: a correspondent may send to each locator that it has been told,
    /// whatever locator the session sends from. Sessions that began after a link lost its default route do not count
    /// at its locators: otherwise a link would stay a place as long as any session exists.
    pub(crate) fn told(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.node.uplinks.iter().flat_map(move |(l64, ifindex)| {
            let count = self.bare_since.get(ifindex).copied().unwrap_or(u64::MAX);
            self.sessions.nids_of_first(count).map(move |nid| Ilv::new(*l64, nid).address())
        })
    }

    /// The [`told`](Self::told) addresses on links without a default route.
    pub(crate) fn told_on_bare(&self) -> BTreeSet<Ipv6Addr> {
        let is_bare = |own: &Ipv6Addr| self.bare_since.contains_key(&self.uplink_of_locator(*own));
        self.told().filter(is_bare).collect()
    }

    /// Notes since when links have no default route.
    pub(crate) fn note_bare(&mut self, view: &HostView) {
        let since = |link: &Uplink| {
            let before = self.bare_since.get(&link.ifindex).copied();
            (link.ifindex, before.unwrap_or(self.sessions.begun()))
        };
        self.bare_since = view.bare.iter().map(since).collect();
    }

    /// ULIDs that contexts and sessions need and no uplink has.
    pub(crate) fn ulids_to_keep(&self, shim6: &Contexts) -> BTreeSet<Ulid> {
        let of_contexts = shim6.counts().map(|(class, _)| class.ulid);
        let all = of_contexts.chain(shim6.waiting().ulids()).chain(self.session_ulids());
        all.filter(|ulid| !self.is_on_uplink(ulid.0)).collect()
    }

    /// Local addresses of sessions, as sockets see them.
    pub(crate) fn session_ulids(&self) -> impl Iterator<Item = Ulid> + '_ {
        self.sessions.iter().map(|(_, known)| Ulid(known.pair.local.address()))
    }

    /// Whether neither an uplink nor `moor0` has this ULID.
    pub(crate) fn is_nowhere(&self, ulid: Ulid) -> bool {
        !self.kept.contains(&ulid) && !self.is_on_uplink(ulid.0)
    }

    /// Whether the host keeps a ULID as an address although no uplink has it.
    pub(crate) fn is_only_kept(&self, ulid: Ulid) -> bool {
        self.kept.contains(&ulid) && !self.is_on_uplink(ulid.0)
    }

    /// Whether an uplink, or a link in use that has lost its default route, has this address, also for sessions alone.
    pub(crate) fn is_on_uplink(&self, address: Ipv6Addr) -> bool {
        self.link_of(address).is_some() || self.session_addresses.has(address)
    }

    /// The uplink with this address, or the link in use that has lost its default route.
    fn link_of(&self, address: Ipv6Addr) -> Option<&Uplink> {
        let bare = || self.view.bare_in_use().find(|link| link.has(address));
        self.view.uplink_of(address).or_else(bare)
    }

    /// The next hop of moved packets with these locators. A neighbor needs no router. `None` if the packets are not
    /// to be routed directly: there is no router, no carrier, or the uplink lacks an ability of the segmentation
    /// path.
    fn next_hop(&self, wire: LocatorPair) -> Option<NextHop> {
        let uplink = self.link_of(wire.local.0)?;
        let is_able = uplink.carrier && self.takes_moved.contains(&uplink.ifindex);
        let specific = self.view.specific_hop(uplink, wire.local.0, wire.peer.0);
        specific.or_else(|| uplink.next_hop(wire.local.0)).filter(|_| is_able)
    }

    /// The next hop of packets with this ULID as source, for sockets that are bound to its uplink. The carrier does
    /// not matter: without a carrier the kernel sends nothing there.
    fn own_hop(&self, ulid: Ulid) -> Option<NextHop> {
        let uplink = self.view.uplink_of(ulid.0)?;
        uplink.next_hop(ulid.0).filter(|_| self.takes_moved.contains(&uplink.ifindex))
    }

    /// MTU of the uplink of packets with this source, if there is one now.
    fn uplink_mtu(&self, source: Ipv6Addr) -> Option<u32> {
        let all = || Node::places(&self.view).chain(&self.view.candidates);
        let of_locator = || {
            let ifindex = self.uplink_of_locator(source);
            all().find(|uplink| uplink.ifindex == ifindex)
        };
        let uplink = self.link_of(source).or_else(of_locator)?;
        Some(uplink.mtu.max(MIN_MTU))
    }

    /// The interface of ILNP packets with this source; 0 if the routing table decides.
    pub(crate) fn uplink_of_locator(&self, source: Ipv6Addr) -> u32 {
        self.node.uplinks.get(&Ilv::of(source).l64).copied().unwrap_or(0)
    }

    /// The interface of packets with this source.
    pub(crate) fn ifindex_of(&self, source: Ipv6Addr) -> Option<u32> {
        let uplink = self.view.uplink_of(source).map(|uplink| uplink.ifindex);
        uplink.or_else(|| Some(self.uplink_of_locator(source)).filter(|ifindex| *ifindex != 0))
    }

    /// The interface that a control message has to leave by; 0 if none. If its addresses are the ULIDs of a moved
    /// context, their route is for payload, and may lead to another interface.
    pub(crate) fn ifindex_to_force(&self, locators: LocatorPair) -> u32 {
        let ulids = UlidPair::new(Ulid(locators.local.0), Ulid(locators.peer.0));
        if !self.routes.is_direct(ulids) {
            return 0;
        }
        self.link_of(locators.local.0).map_or(0, |link| link.ifindex)
    }

    /// The route of a moved context.
    pub(crate) fn route_of_context(&self, entry: &ContextEntry) -> MovedRoute {
        let told = self.path_mtus.of(Mover::Context(entry.id), entry.current.pair);
        let paths = entry.all_paths();
        let uplinks = paths.map(|path| self.uplink_mtu(path.pair.local.0).unwrap_or(MIN_MTU));
        let path_mtu = uplinks.chain(told).min().unwrap_or(MIN_MTU);
        MovedRoute {
            ulids: entry.ulids,
            mtu: path_mtu.saturating_sub(entry.overhead().into()),
            bare_tcp_mtu: None,
            direct: self.next_hop(entry.current.pair),
            own: self.own_hop(entry.ulids.local),
        }
    }

    /// The route of a session that has moved, or whose packets always have a nonce.
    pub(crate) fn route_of_session(&self, entry: &SessionEntry) -> MovedRoute {
        let wire = entry.wire_pair();
        let locators = wire.ulids().as_locators();
        let told = self.path_mtus.of(Mover::Session(entry.id), locators);
        let mtu = self.uplink_mtu(wire.local.address()).unwrap_or(MIN_MTU);
        let path_mtu = mtu.min(told.unwrap_or(u32::MAX));
        let is_tcp_bare = entry.maps_tcp && !entry.always && self.is_tcp_whole(entry);
        let ulids = entry.pair.ulids();
        MovedRoute {
            ulids,
            mtu: path_mtu.saturating_sub(entry.overhead()),
            bare_tcp_mtu: is_tcp_bare.then_some(path_mtu),
            direct: self.next_hop(locators),
            own: self.own_hop(ulids.local),
        }
    }

    /// Whether no TCP segment got lost with the locators before. A segment that the correspondent maps needs no nonce
    /// (decision 075), so a smaller MTU only helps segments that TCP has to send again: the smaller MTU tells TCP so
    /// (decision 081).
    fn is_tcp_whole(&self, entry: &SessionEntry) -> bool {
        match self.sessions.get(entry.id) {
            Some(known) if known.wire == entry.wire_pair() => {
                let route = self.routes.get(Mover::Session(entry.id));
                route.is_none_or(|route| route.is_tcp_bare())
            }
            _ => !self.leaves_what_is_lost(entry),
        }
    }

    /// Whether a session leaves a lost locator, of this host or of the correspondent.
    pub(crate) fn leaves_what_is_lost(&self, entry: &SessionEntry) -> bool {
        let Some(KnownSession { wire, .. }) = self.sessions.get(entry.id) else { return false };
        *wire != entry.wire_pair()
            && (!self.node.uplinks.contains_key(&wire.local.l64)
                || !entry.remote.contains(&wire.remote.l64))
    }

    /// Whether the packets of a session go by other locators than before.
    pub(crate) fn changes(&self, entry: &SessionEntry) -> bool {
        self.sessions.get(entry.id).is_none_or(|known| known.wire != entry.wire_pair())
    }

    /// Octets that the header or nonce may add to packets of `mover` on the wire.
    pub(crate) fn overhead_of(&self, shim6: &Contexts, mover: Mover) -> Option<u32> {
        match mover {
            Mover::Context(id) => shim6.entry_of(id).map(|entry| entry.overhead().into()),
            Mover::Session(id) => self.sessions.get(id).map(|known| known.overhead),
        }
    }

    /// The locators of the packets of `mover`.
    pub(crate) fn path_of(&self, shim6: &Contexts, mover: Mover) -> Option<LocatorPair> {
        match mover {
            Mover::Context(id) => Some(shim6.context(id)?.established?.locators),
            Mover::Session(id) => {
                self.sessions.get(id).map(|known| known.wire.ulids().as_locators())
            }
        }
    }

    /// The route that `mover` should have, if it has another now.
    pub(crate) fn other_route(
        &self,
        routes: &Routes,
        shim6: &Contexts,
        mover: Mover,
    ) -> Option<MovedRoute> {
        let now = routes.get(mover)?;
        let direct = self.next_hop(self.path_of(shim6, mover)?);
        let route = MovedRoute { direct, own: self.own_hop(now.ulids.local), ..*now };
        (route != *now).then_some(route)
    }

    /// The route of `mover` with the MTU of its present path, as long as the path has uplinks.
    pub(crate) fn route_as_wide(&self, shim6: &Contexts, mover: Mover) -> Option<MovedRoute> {
        let route = *self.routes.get(mover)?;
        let path = self.path_of(shim6, mover)?;
        let uplink_mtu = match mover {
            Mover::Context(id) => {
                let entry = shim6.entry_of(id)?;
                entry.all_paths().map(|path| self.uplink_mtu(path.pair.local.0)).min().flatten()?
            }
            Mover::Session(_) => self.uplink_mtu(path.local.0)?,
        };
        let told = self.path_mtus.of(mover, path);
        let path_mtu = uplink_mtu.min(told.unwrap_or(u32::MAX));
        let mtu = path_mtu.saturating_sub(self.overhead_of(shim6, mover)?);
        let bare_tcp_mtu = route.bare_tcp_mtu.map(|_| path_mtu);
        Some(MovedRoute { mtu, bare_tcp_mtu, ..route })
    }
}

/// Addresses on links without a default route that peers of contexts have been told. A peer may send to each of them.
pub(crate) fn named_on_bare(view: &HostView, shim6: &Contexts) -> impl Iterator<Item = Ipv6Addr> {
    let own = view.bare.iter().flat_map(|link| &link.addresses).map(|own| own.address);
    own.filter(|own| shim6.is_named(Locator(*own)))
}
