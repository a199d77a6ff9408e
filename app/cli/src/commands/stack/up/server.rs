use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
#[cfg(feature = "dns")]
use std::net::IpAddr;
use std::net::Ipv6Addr;

#[cfg(feature = "dns")]
use moorline_net::Resolver;
#[cfg(not(feature = "dns"))]
use moorline_net::mapped;
use moorline_net::{Host, TcpStream};
use serde_json::{Value, json};

use super::super::tell;

/// A host, and the connections that no client has taken yet. Tasks of one thread share it.
pub(super) struct Server {
    pub(super) host: Host,
    accepted: RefCell<BTreeMap<u64, TcpStream>>,
    next: Cell<u64>,
}

impl Server {
    pub(super) fn new(host: Host) -> Self {
        Self { host, accepted: RefCell::default(), next: Cell::new(1) }
    }

    /// The addresses of a name, the best first.
    #[cfg(feature = "dns")]
    pub(super) async fn lookup(&self, name: &str) -> io::Result<Vec<Ipv6Addr>> {
        Resolver::new(&self.host)?.lookup(name).await
    }

    /// Connects to an address or a name.
    #[cfg(feature = "dns")]
    pub(super) async fn connect(&self, to: &str, port: u16) -> io::Result<TcpStream> {
        match to.parse::<IpAddr>() {
            Ok(address) => TcpStream::connect(&self.host, (address, port)).await,
            Err(_) => Resolver::new(&self.host)?.connect(to, port).await,
        }
    }

    #[cfg(not(feature = "dns"))]
    pub(super) async fn lookup(&self, name: &str) -> io::Result<Vec<Ipv6Addr>> {
        Ok(vec![address(name)?])
    }

    #[cfg(not(feature = "dns"))]
    pub(super) async fn connect(&self, to: &str, port: u16) -> io::Result<TcpStream> {
        TcpStream::connect(&self.host, (address(to)?, port)).await
    }

    /// Keeps an accepted connection until a client takes it. Returns its number.
    pub(super) fn keep(&self, stream: TcpStream) -> u64 {
        let number = self.next.get();
        self.next.set(number + 1);
        self.accepted.borrow_mut().insert(number, stream);
        number
    }

    /// Takes a connection that was kept.
    pub(super) fn take(&self, number: u64) -> Option<TcpStream> {
        self.accepted.borrow_mut().remove(&number)
    }

    /// Whether no client has taken the connection yet.
    pub(super) fn is_kept(&self, number: u64) -> bool {
        self.accepted.borrow().contains_key(&number)
    }

    /// The state of the host, for clients.
    pub(super) fn show(&self) -> Value {
        let mut shown = tell::netstat(&self.host.netstat());
        shown["interfaces"] = self.host.interfaces().iter().map(tell::interface).collect();
        shown["contexts"] = self.host.contexts().iter().map(tell::context).collect();
        shown["sessions"] = self.host.sessions().iter().map(tell::session).collect();
        let connections = self.host.connections().into_iter().map(|(flow, state)| {
            json!({
                "local": flow.local.0,
                "local_port": flow.local.1,
                "peer": flow.peer.0,
                "peer_port": flow.peer.1,
                "state": format!("{state:?}"),
            })
        });
        shown["connections"] = connections.collect();
        let sockets = self.host.udp_sockets().into_iter();
        shown["udp"] =
            sockets.map(|(address, port)| json!({ "address": address, "port": port })).collect();
        shown
    }
}

#[cfg(not(feature = "dns"))]
fn address(name: &str) -> io::Result<Ipv6Addr> {
    name.parse().map(mapped).map_err(|_| {
        let text = format!("{name} is no address, and this moorline was built without DNS");
        io::Error::new(io::ErrorKind::Unsupported, text)
    })
}
