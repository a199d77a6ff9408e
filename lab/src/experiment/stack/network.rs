use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::ValueEnum;
use moorline_net::{Builder, Host};
use serde::Serialize;

use super::client::{Datagrams, Stream};
use super::server::{Server, Task};
use crate::lab::Lab;
use crate::netns::{Namespace, Worker};
use crate::processors::{Awake, of_two_hosts, on_processor};
use crate::topology::{HOSTS, SHARED_LINK, shared_address, shared_link};

/// The system of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum System {
    /// Linux, over a veth pair.
    Linux,
    /// The host stack in user space, over a TAP interface.
    Moorline,
}

/// The protocol above IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// The version of IP beneath.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// IPv6.
    Ipv6,
    /// IPv4, by v4-mapped addresses.
    Ipv4,
}

/// A client and a server for one trial each.
pub(super) struct Network {
    lab: Lab,
    processors: [usize; 2],
    _awake: Option<Awake>,
}

impl Network {
    pub(super) fn build() -> anyhow::Result<Self> {
        let lab = Lab::build(shared_link(1))?;
        for (host, address) in HOSTS.into_iter().zip(CABLE_IPV4) {
            let address = format!("{address}/24");
            lab.namespace(host)?.ip(&["addr", "add", &address, "dev", SHARED_LINK])?;
        }
        Ok(Self { lab, processors: of_two_hosts()?, _awake: Awake::keep() })
    }

    /// Runs the server's task, and `work` at the client. Returns both results: octets of the server, and what `work` gives.
    pub(super) fn run<T: Send>(
        &self,
        system: System,
        version: Version,
        protocol: Protocol,
        task: Task,
        work: impl AsyncFnOnce(&Client, Ipv6Addr) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<(Option<super::server::Received>, T)> {
        let [of_client, of_server] = self.processors;
        let client = self.lab.namespace(HOSTS[0])?;
        let (at, address) = match system {
            System::Linux => {
                let of_ip6 = shared_address(HOSTS[1], 0);
                (self.lab.namespace(HOSTS[1])?, version.choose(of_ip6, CABLE_IPV4[1]))
            }
            // The other end of the TAP interface is in the namespace of the client.
            System::Moorline => (client, version.choose(LINUX_END, TAP_IPV4)),
        };
        let server = on_processor(of_server, || serve(at, protocol, task))?;
        let result = on_processor(of_client, || {
            client.enter(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(async {
                    let client = Client::start(system, client).await?;
                    let result = work(&client, address).await;
                    client.end().await;
                    result
                })
            })
        })?;
        Ok((server.finish()?, result))
    }
}

fn serve(
    namespace: &Namespace,
    protocol: Protocol,
    task: Task,
) -> anyhow::Result<Worker<Option<super::server::Received>>> {
    let server = namespace.enter(|| Server::open(protocol))?;
    namespace.work("server", move |stop| server.run(task, stop))
}

/// The sockets of a system.
pub(super) enum Client {
    Linux,
    Moorline(Host),
}

impl Client {
    async fn start(system: System, namespace: &Namespace) -> anyhow::Result<Self> {
        if system == System::Linux {
            return Ok(Self::Linux);
        }
        let wire = format!("tap:{TAP}").parse().context("name of the interface")?;
        let ipv4 = HOST_IPV4.parse().map_err(|_| anyhow!("{HOST_IPV4} is no address of IPv4"))?;
        let host = Builder::new().ipv4(ipv4).open(&wire).await?;
        namespace.ip(&["link", "set", TAP, "addrgenmode", "none"])?;
        namespace.ip(&["link", "set", TAP, "up"])?;
        let address = format!("{LINUX_END}/64");
        namespace.ip(&["addr", "add", &address, "dev", TAP, "nodad"])?;
        let address = format!("{TAP_IPV4}/24");
        namespace.ip(&["addr", "add", &address, "dev", TAP])?;
        let host = host.optimistic(true).up()?;
        // Linux answers once the interface is up.
        let pinger = moorline_net::Pinger::new(&host)?;
        for sequence in 0..=u16::MAX {
            // At first the host has no address to send from.
            let _ = pinger.send(LINUX_END, sequence, &[]);
            if tokio::time::timeout(PATIENCE, pinger.recv()).await.is_ok() {
                break;
            }
            crate::interrupt::check()?;
        }
        Ok(Self::Moorline(host))
    }

    async fn end(self) {
        if let Self::Moorline(host) = self {
            host.shut_down().await;
        }
    }

    pub(super) async fn connect(&self, server: Ipv6Addr) -> anyhow::Result<Stream> {
        Ok(match self {
            Self::Linux => {
                let stream = tokio::net::TcpStream::connect((server, PORT)).await?;
                stream.set_nodelay(true)?;
                Stream::Linux(stream)
            }
            Self::Moorline(host) => {
                Stream::Moorline(moorline_net::TcpStream::connect(host, (server, PORT)).await?)
            }
        })
    }

    pub(super) async fn datagrams(&self, server: Ipv6Addr) -> anyhow::Result<Datagrams> {
        let any = (Ipv6Addr::UNSPECIFIED, 0);
        let server = (server, PORT).into();
        Ok(match self {
            Self::Linux => Datagrams::Linux(tokio::net::UdpSocket::bind(any).await?, server),
            Self::Moorline(host) => {
                Datagrams::Moorline(moorline_net::UdpSocket::bind(host, any)?, server)
            }
        })
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linux => "linux",
            Self::Moorline => "moorline",
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl Version {
    /// The address of this version, as IPv6 has it.
    const fn choose(self, of_ip6: Ipv6Addr, of_ip4: Ipv4Addr) -> Ipv6Addr {
        match self {
            Self::Ipv6 => of_ip6,
            Self::Ipv4 => of_ip4.to_ipv6_mapped(),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv6 => "ipv6",
            Self::Ipv4 => "ipv4",
        })
    }
}

/// Port of the server.
pub(super) const PORT: u16 = 7000;
/// Interface between the host stack and Linux.
const TAP: &str = "moor-tap";
/// Linux's address there.
const LINUX_END: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// IPv4 addresses of the two hosts at their cable.
const CABLE_IPV4: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
/// Linux's IPv4 address at the TAP interface.
const TAP_IPV4: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// IPv4 address of the host stack there.
const HOST_IPV4: &str = "198.51.100.2/24";
/// Time to wait for an answer to a ping.
const PATIENCE: Duration = Duration::from_millis(50);
