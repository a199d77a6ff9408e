//! The calls on sockets: those of [`Stack`], with what follows from them; and what ILNP wants to know about sockets.

use core::net::Ipv6Addr;

use moorline_datapath::ilnp::{Socket, Sockets};
use moorline_ip::ip6::{TCP, UDP};
use moorline_stack::Drop;
use moorline_stack::socket::{Error, Owner};
use moorline_stack::stack::{Netstat, Stack};
use moorline_stack::tcp::{self, Flow, ListenerId, TcpId};
use moorline_stack::udp::{self, UdpId};
use moorline_types::{IlvPair, Instant};

use crate::host::Host;

/// Calls that send something: the stack does them, and the host settles.
macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Host {
            $(
                #[doc = concat!("As [`Stack::", stringify!($name), "`].")]
                ///
                /// # Errors
                #[doc = concat!("As [`Stack::", stringify!($name), "`].")]
                pub fn $name(&mut self, $($argument: $type,)* now: Instant) -> $result {
                    self.with_stack(now, |stack| stack.$name($($argument,)* now))
                }
            )*
        }
    };
}

/// Calls that send nothing: the stack does them.
macro_rules! questions {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl Host {
            $(
                #[doc = concat!("As [`Stack::", stringify!($name), "`].")]
                ///
                /// # Errors
                #[doc = concat!("As [`Stack::", stringify!($name), "`].")]
                pub fn $name(&mut self, $($argument: $type),*) -> $result {
                    self.stack.$name($($argument),*)
                }
            )*
        }
    };
}

calls! {
    ping(destination: Ipv6Addr, name: (u16, u16), data: &[u8]) -> Result<(), Drop>;
    udp_send_to(socket: UdpId, payload: &[u8], to: Option<(Ipv6Addr, u16)>, options: udp::Options) -> Result<(), Error>;
    udp_connect(socket: UdpId, peer: (Ipv6Addr, u16)) -> Result<(), Error>;
    udp_close(socket: UdpId) -> Result<(), Error>;
    tcp_connect(peer: (Ipv6Addr, u16)) -> Result<TcpId, Error>;
    tcp_send(id: TcpId, octets: &[u8]) -> Result<usize, Error>;
    tcp_recv(id: TcpId, octets: &mut [u8]) -> Result<usize, Error>;
    tcp_shutdown(id: TcpId) -> Result<(), Error>;
    tcp_abort(id: TcpId) -> Result<(), Error>;
    tcp_close(id: TcpId) -> Result<(), Error>;
    tcp_unlisten(id: ListenerId) -> Result<(), Error>;
}

questions! {
    udp_bind(local: Option<Ipv6Addr>, port: Option<u16>) -> Result<UdpId, Error>;
    udp_recv(socket: UdpId) -> Result<udp::Received, Error>;
    udp_local(socket: UdpId) -> Result<(Option<Ipv6Addr>, u16), Error>;
    tcp_listen(local: Option<Ipv6Addr>, port: u16, backlog: usize) -> Result<ListenerId, Error>;
    tcp_accept(listener: ListenerId) -> Result<Option<TcpId>, Error>;
    tcp_flow(id: TcpId) -> Result<Flow, Error>;
    tcp_state(id: TcpId) -> Result<tcp::State, Error>;
}

impl Host {
    /// As [`Stack::netstat`]. Counters of contexts are in [`Host::planes`] and [`Host::protocols`].
    #[must_use]
    pub fn netstat(&self, now: Instant) -> Netstat {
        Stack::netstat(&self.stack, now)
    }
}

/// The sockets of the stack and the paths of its packets at a time, as the sessions of ILNP see them.
pub(crate) struct StackSockets<'a>(pub(crate) &'a Stack, pub(crate) Instant);

impl StackSockets<'_> {
    fn owner(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Owner {
        let local = (pair.local.address(), ports.0);
        let flow = Flow { local, peer: (pair.remote.address(), ports.1) };
        match protocol {
            TCP => self.0.tcp_owner(flow),
            UDP => self.0.udp_owner(flow),
            _ => Owner::None,
        }
    }
}

impl Sockets for StackSockets<'_> {
    fn kind(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> Socket {
        match self.owner(pair, protocol, ports) {
            Owner::None => Socket::None,
            Owner::Anyone | Owner::HalfConnection => Socket::Unconnected,
            Owner::Connection => Socket::Connected,
        }
    }

    fn has_connection(&self, pair: IlvPair, protocol: u8, ports: (u16, u16)) -> bool {
        matches!(self.owner(pair, protocol, ports), Owner::HalfConnection | Owner::Connection)
    }

    fn any_between(&self, pair: IlvPair) -> bool {
        self.0.has_connection(pair.local.address(), pair.remote.address())
    }

    fn path_mtu(&self, wire: IlvPair) -> Option<usize> {
        let mtu = self.0.path_mtu(wire.local.address(), wire.remote.address(), self.1);
        mtu.and_then(|mtu| usize::try_from(mtu).ok())
    }
}
