use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use moorline_contexts::ContextView;
use moorline_ilnp::SessionView;
use moorline_ip::Mac;
use moorline_protected::News;
use moorline_stack::address::State as AddressState;
use moorline_stack::stack::{self, Netstat, WireId};
use moorline_stack::tcp::{Flow, State as TcpState};
use moorline_wires::Counts;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::shared::{Shared, State};

/// A host in this process. Clones are the same host.
///
/// The host ends when [`Host::shut_down`] is called, or when the last clone and the last socket are dropped. Connections that are
/// open then are reset.
#[derive(Clone)]
pub struct Host(Arc<Owner>);

/// The last one ends the host.
struct Owner(Arc<Shared>);

/// An interface of a host, and what went through it.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Number of the wire.
    pub wire: WireId,
    /// Name of the wire, for people.
    pub name: String,
    /// Link-layer address.
    pub mac: Mac,
    /// Octets of the largest packet.
    pub mtu: u32,
    /// Whether there is another end.
    pub is_up: bool,
    /// Numbers of frames.
    pub counts: Counts,
    /// Frames of the host that found no room.
    pub lost: u64,
}

/// Something that happened at a host.
#[derive(Clone, Debug)]
pub enum Event {
    /// At the stack. Events of sockets are not among these.
    Stack(stack::Event),
    /// Something happened to contexts of Shim6, to sessions of ILNP, or to the addresses of a host with Shim6.
    Shim6(News),
    /// The addresses could not be saved. The host uses no new ones before it can save them: it tries again in ten seconds.
    Unsaved(Arc<io::Error>),
    /// The other end of a wire has come or gone.
    Link {
        /// The wire.
        wire: WireId,
        /// Whether there is another end now.
        is_up: bool,
    },
    /// A wire has failed. The host does not use it any more.
    Failed {
        /// The wire.
        wire: WireId,
        /// The reason.
        error: Arc<io::Error>,
    },
}

impl Host {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(Arc::new(Owner(shared)))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.0
    }

    /// Waits until the host has an IPv6 address for other links than its own. Returns at once if there is one.
    pub async fn address(&self) -> Ipv6Addr {
        let mut events = self.events();
        loop {
            let mut addresses = self.addresses().into_iter();
            if let Some(address) = addresses.find(|address| address.to_ipv4_mapped().is_none()) {
                return address;
            }
            match events.recv().await {
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                // Impossible: `self` has the sender.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// The addresses for other links that new connections may have. An IPv4 address is v4-mapped.
    #[must_use]
    pub fn addresses(&self) -> Vec<Ipv6Addr> {
        let rows = self.netstat().addresses.into_iter();
        let usable = rows.filter(|row| {
            matches!(row.state, AddressState::Preferred | AddressState::Optimistic)
                && !row.address.is_unicast_link_local()
        });
        usable.map(|row| row.address).collect()
    }

    /// Begins to receive events. A receiver that is more than 1,024 events behind misses the oldest ones.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.shared().events.subscribe()
    }

    /// State of the host, for people.
    #[must_use]
    pub fn netstat(&self) -> Netstat {
        self.shared().look(|state, now| state.node.stack().netstat(now))
    }

    /// The contexts of Shim6, in the order of their numbers; empty without Shim6.
    #[must_use]
    pub fn contexts(&self) -> Vec<ContextView> {
        self.shared().look(|state, _| {
            let host = state.node.protected().into_iter();
            host.flat_map(|host| host.protocols().shim6().contexts()).collect()
        })
    }

    /// The sessions of ILNP, in the order of their numbers; empty without ILNP. The nonces in the views
    /// are secrets: a node that knows them can send in the names of both ends.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionView> {
        self.shared().look(|state, now| {
            let sessions = state.node.protected().and_then(|host| host.protocols().ilnp());
            sessions.into_iter().flat_map(|sessions| sessions.sessions(now)).collect()
        })
    }

    /// A sentence for people, if the file of the addresses of the last run was damaged.
    #[must_use]
    pub fn damage(&self) -> Option<&str> {
        self.shared().damage.as_deref()
    }

    /// The interfaces.
    #[must_use]
    pub fn interfaces(&self) -> Vec<Interface> {
        self.shared()
            .look(|state, _| state.ports.iter().map(|port| port.interface.clone()).collect())
    }

    /// The TCP connections of the host, with their states. Connections that the program has dropped stay until they are over.
    #[must_use]
    pub fn connections(&self) -> Vec<(Flow, TcpState)> {
        self.shared().look(|state, _| state.node.stack().tcp_connections())
    }

    /// Addresses and ports of the UDP sockets of this program. The address is `None` if a socket has all of them.
    #[must_use]
    pub fn udp_sockets(&self) -> Vec<(Option<Ipv6Addr>, u16)> {
        self.shared().look(|state, _| {
            let ids = state.waiting.udp.keys();
            ids.filter_map(|id| state.node.stack().udp_local(*id).ok()).collect()
        })
    }

    /// Ends the host: resets its connections, ends its sessions, and waits until its last frames are on the wires, as far as those take them. Sockets that
    /// are still there work no more.
    pub async fn shut_down(self) {
        self.0.end();
        self.shared().end.closed().await;
    }
}

impl Owner {
    fn end(&self) {
        self.0.with(|state, now| {
            let State { node, waiting, .. } = state;
            for id in waiting.tcp.keys() {
                // The connection may be over already.
                let _ = node.call(now, |stack| stack.tcp_abort(*id, now));
            }
            node.end_sessions(now);
        });
        self.0.end.send_replace(true);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("interfaces", &self.interfaces()).finish_non_exhaustive()
    }
}

/// The IPv6 address and the port. An IPv4 address is v4-mapped.
pub(crate) fn v6(address: SocketAddr) -> (Ipv6Addr, u16) {
    (mapped(address.ip()), address.port())
}

/// The same of an address to bind to: `::` and `0.0.0.0` stand for all addresses of the host.
pub(crate) fn local(address: SocketAddr) -> (Option<Ipv6Addr>, u16) {
    let (ip, port) = v6(address);
    ((!address.ip().is_unspecified()).then_some(ip), port)
}

/// The address as sockets of the host have it: an IPv4 address is v4-mapped (RFC 4291 s2.5.5.2).
#[must_use]
pub const fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V6(ip) => ip,
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
    }
}
