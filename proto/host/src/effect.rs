use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

use moorline_addresses::{Action, DefaultRoute, Note, RouteStep};
use moorline_cga::LocalAddresses;
use moorline_contexts as shim6;
use moorline_datapath as datapath;
use moorline_ilnp as ilnp;
use moorline_types::{Ulid, UlidPair};

use crate::node::Node;

/// An action for the executor of a host. The executor reports each action by
/// [`Host::handle_done`](crate::Host::handle_done) or [`Host::handle_failed`](crate::Host::handle_failed) before it
/// asks for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Tell the data plane of Shim6.
    UpdateContext(datapath::shim6::Update),
    /// Tell the data plane of ILNP.
    UpdateSession(datapath::ilnp::Update),
    /// Tell the data plane of ILNP the identifiers and locators of this node.
    SetNode(Node),
    /// Change the kernel's routes of moved pairs.
    Route(RouteStep),
    /// Read the kernel's routes of moved pairs, and give them to [`Host::handle_routes`](crate::Host::handle_routes).
    AskRoutes,
    /// Drop the packets that wait for a neighbour on this interface: TCP sends none of them again as long as they wait.
    GiveUpNeighbors {
        /// Index of the interface.
        ifindex: u32,
    },
    /// Have all sockets look their routes up again.
    FlushCachedRoutes,
    /// Keep a ULID, whose address has left its uplink, an address of the host.
    KeepUlid(Ulid),
    /// Remove an address that [`KeepUlid`](Self::KeepUlid) has kept.
    ReleaseUlid(Ulid),
    /// Look for interfaces on which the kernel ignores Router Advertisements because the host forwards.
    AskForwarding,
    /// Bring the rules by source address in step with [`Host::view`](crate::Host::view).
    FollowRules,
    /// Write the parameters of all addresses of [`Host::addressing`](crate::Host::addressing) to disk.
    SaveAddresses,
    /// Change an address of the host's own, or ask routers for prefixes.
    ChangeAddress(Action),
    /// Have new connections prefer the host's own addresses to these, by interface.
    Outrank(BTreeSet<(u32, Ipv6Addr)>),
    /// Put the programs of a data plane on an interface.
    Attach {
        /// Protocol of the programs.
        protocol: Protocol,
        /// Index of the interface.
        ifindex: u32,
    },
    /// Take the programs of a data plane off an interface, if the interface is still there.
    Detach {
        /// Protocol of the programs.
        protocol: Protocol,
        /// Index of the interface.
        ifindex: u32,
    },
    /// End the programs of the run before, because the programs of this run are on all uplinks.
    RemoveStale,
    /// Find out which uplinks moved traffic may be routed to, and report them by
    /// [`Host::set_takes_moved`](crate::Host::set_takes_moved).
    AskOffloads,
    /// Tell the data plane of Shim6 the addresses of this host, each with its interface.
    SetLocals(BTreeMap<Ipv6Addr, u32>),
    /// Make a new proof of these addresses, and give it to [`Host::set_proof`](crate::Host::set_proof).
    Sign(LocalAddresses),
    /// Send an Echo Request from an uplink to a host, with this nonce as its data, and report the answer by
    /// [`Host::handle_echo`](crate::Host::handle_echo).
    AskTarget {
        /// Index of the interface.
        ifindex: u32,
        /// An address of the uplink.
        source: Ipv6Addr,
        /// The host.
        target: Ipv6Addr,
        /// Data of the request, which the answer repeats.
        nonce: u64,
    },
    /// Put this default route by this interface before the default routes of uplinks that carry nothing, and remove
    /// any other such route. The route lasts for [`DefaultRoute::PREFERRED_LIFETIME`].
    PreferRoute(Option<(u32, DefaultRoute)>),
    /// Apply the rules about paths to the present uplinks.
    FollowPathRules,
    /// Bring the routes that are copies of default and specific routes in step with these.
    FollowDefaultRoutes,
    /// Add an address for sessions to an uplink, deprecated and with a prefix of 128 bits.
    AddSessionAddress(SessionAddress),
    /// Remove an address for sessions.
    RemoveSessionAddress(SessionAddress),
    /// Tell the routers of an uplink that the host has this address.
    Introduce {
        /// Index of the interface; 0 for the uplink that has the address.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
    },
    /// Send a control packet of protocol 140.
    SendShim6 {
        /// The packet and its locators.
        transmit: shim6::Transmit,
        /// Index of the interface that the packet has to leave by; 0 if the route decides.
        ifindex: u32,
    },
    /// Send a control packet of ILNP, which is ICMPv6.
    SendIlnp {
        /// The packet.
        transmit: ilnp::Transmit,
        /// Index of the interface that the packet has to leave by; 0 if the route decides.
        ifindex: u32,
    },
    /// Have TCP between these ULIDs resend segments that may be lost, with this MTU.
    NotifyTcp {
        /// The addresses that sockets see.
        ulids: UlidPair,
        /// MTU of TCP's present route, octets; `None` if the pair has no route.
        mtu: Option<u32>,
    },
    /// Tell people about an address that the host makes.
    TellAddress(Note),
    /// Tell people about a context.
    TellContext(shim6::Event),
    /// Tell people about a session.
    TellSession(ilnp::Event),
    /// Ask the sockets of the host for ILNP, and report each answer by [`Host::answer`](crate::Host::answer). The
    /// list is never empty.
    AskSockets(Vec<ilnp::Question>),
    /// Find out whether a socket needs a quiet context, and report it by
    /// [`Contexts::handle_usage`](crate::Contexts::handle_usage).
    AskUsage(shim6::Question),
}

impl Effect {
    /// Whether the effect has a data plane forget something. The data plane may refuse, and is told again.
    #[must_use]
    pub const fn is_removal(&self) -> bool {
        matches!(
            self,
            Self::UpdateContext(
                datapath::shim6::Update::Remove { .. } | datapath::shim6::Update::Rearm { .. }
            ) | Self::UpdateSession(datapath::ilnp::Update::Remove { .. })
        )
    }
}

/// A protocol that has a data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Shim6.
    Shim6,
    /// ILNP.
    Ilnp,
}

/// An address that an uplink has for sessions alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionAddress {
    /// Index of the interface.
    pub ifindex: u32,
    /// The address.
    pub address: Ipv6Addr,
}

impl SessionAddress {
    /// Prefix length of the address, bits.
    pub const PREFIX_LEN: u8 = 128;
}
