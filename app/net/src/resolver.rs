//! Names, by the DNS servers that routers advertise.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::io::{AsyncRead, AsyncWrite};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use hickory_resolver::Resolver as Hickory;
use hickory_resolver::config::{LookupIpStrategy, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::iocompat::AsyncIoTokioAsStd;
use hickory_resolver::net::runtime::{
    DnsTcpStream, DnsUdpSocket, RuntimeProvider, Spawn, TokioTime,
};
use hickory_resolver::proto::rr::Name;

use crate::{Host, TcpStream, UdpSocket, mapped};

/// Looks up names from a host, through its own sockets. Answers are kept for as long as their TTLs say.
//= rfc8504#7-1
#[derive(Clone)]
pub struct Resolver {
    host: Host,
    hickory: Hickory<Sockets>,
}

impl Resolver {
    /// Makes a resolver of the DNS servers and search domains that the routers of the host advertise now (RFC 8106). When they change, the
    /// host has an [`Event::Stack`](crate::Event::Stack) with `DnsChanged`.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: no router has advertised a server.
    pub fn new(host: &Host) -> io::Result<Self> {
        let (servers, domains) = host.shared().look(|state, now| {
            (state.node.stack().dns_servers(now), state.node.stack().search_domains(now))
        });
        if servers.is_empty() {
            let text = "no router advertises a DNS server, so give an address instead of a name";
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let domains = domains.iter().filter_map(|domain| Name::from_utf8(domain).ok());
        Self::build(host, domains.collect(), &servers)
    }

    /// Makes a resolver of these servers.
    ///
    /// # Errors
    /// The resolver does not take the settings.
    pub fn with_servers(host: &Host, servers: &[Ipv6Addr]) -> io::Result<Self> {
        Self::build(host, Vec::new(), servers)
    }

    fn build(host: &Host, domains: Vec<Name>, servers: &[Ipv6Addr]) -> io::Result<Self> {
        let servers = servers.iter().map(|one| NameServerConfig::udp_and_tcp(IpAddr::V6(*one)));
        let config = ResolverConfig::from_parts(None, domains, servers.collect());
        let mut builder = Hickory::builder_with_config(config, Sockets(host.clone()));
        builder.options_mut().ip_strategy = LookupIpStrategy::Ipv6Only;
        Ok(Self { host: host.clone(), hickory: builder.build().map_err(other)? })
    }

    /// The addresses of a name, the best first (RFC 6724). The name may be an address itself.
    ///
    /// # Errors
    /// The name does not exist, or no server has answered.
    pub async fn lookup(&self, name: &str) -> io::Result<Vec<Ipv6Addr>> {
        if let Ok(address) = name.parse() {
            return Ok(vec![mapped(address)]);
        }
        let found = self.hickory.lookup_ip(name).await.map_err(other)?;
        let mut addresses: Vec<Ipv6Addr> = found
            .iter()
            .filter_map(|address| match address {
                IpAddr::V6(address) => Some(address),
                IpAddr::V4(_) => None,
            })
            .collect();
        self.host.shared().with(|state, now| {
            state.node.call(now, |stack| stack.order_destinations(&mut addresses, now));
        });
        Ok(addresses)
    }

    /// Connects to a name. The next address has its turn if one fails, and at the latest after 250 ms (RFC 8305 s5); the first connection
    /// wins.
    ///
    /// # Errors
    /// As [`Self::lookup`], and the error of the last address if there is no connection.
    pub async fn connect(&self, name: &str, port: u16) -> io::Result<TcpStream> {
        let mut addresses = self.lookup(name).await?.into_iter();
        let mut attempts = FuturesUnordered::new();
        let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address"));
        loop {
            if let Some(address) = addresses.next() {
                attempts.push(TcpStream::connect(&self.host, (address, port)));
            } else if attempts.is_empty() {
                return Err(last);
            }
            let is_last = addresses.as_slice().is_empty();
            let next = async {
                if is_last {
                    std::future::pending().await
                } else {
                    tokio::time::sleep(STAGGER).await
                }
            };
            tokio::select! {
                Some(result) = attempts.next() => match result {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                },
                () = next => {}
            }
        }
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("host", &self.host).finish_non_exhaustive()
    }
}

fn other(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// The sockets of the host, for the resolver.
#[derive(Clone)]
struct Sockets(Host);

/// Runs tasks of the resolver.
#[derive(Clone)]
struct Tasks;

impl Spawn for Tasks {
    fn spawn_bg(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(future);
    }
}

type Boxed<T> = Pin<Box<dyn Send + Future<Output = io::Result<T>>>>;

impl RuntimeProvider for Sockets {
    type Handle = Tasks;
    type Timer = TokioTime;
    type Udp = UdpSocket;
    type Tcp = Stream;

    fn create_handle(&self) -> Tasks {
        Tasks
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        _local: Option<SocketAddr>,
        timeout: Option<Duration>,
    ) -> Boxed<Self::Tcp> {
        let host = self.0.clone();
        Box::pin(async move {
            let connected = TcpStream::connect(&host, server);
            let timeout = timeout.unwrap_or(CONNECT_TIMEOUT);
            Ok(Stream(AsyncIoTokioAsStd(tokio::time::timeout(timeout, connected).await??)))
        })
    }

    fn bind_udp(&self, local: SocketAddr, _server: SocketAddr) -> Boxed<UdpSocket> {
        let bound = UdpSocket::bind(&self.0, local);
        Box::pin(std::future::ready(bound))
    }
}

/// A connection with the traits of the `futures` crate, as the resolver wants it.
struct Stream(AsyncIoTokioAsStd<TcpStream>);

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, octets)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(context)
    }
}

impl DnsTcpStream for Stream {
    type Time = TokioTime;
}

impl DnsUdpSocket for UdpSocket {
    type Time = TokioTime;

    fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        Self::poll_recv_from(self, context, buffer)
    }

    fn poll_send_to(
        &self,
        _context: &mut Context<'_>,
        payload: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(self.send_to(payload, to))
    }
}

/// Time after which the next address has its turn (RFC 8305 s8).
const STAGGER: Duration = Duration::from_millis(250);
/// Time that a connection to a DNS server may take, if the resolver does not say one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
