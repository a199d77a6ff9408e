//! An IPv6 host inside a program.
//!
//! The program has sockets of its own host: its own addresses, neighbors, routes and TCP connections, apart from those of the kernel. It
//! needs no privilege if its wire is a Unix stream, as QEMU and passt have it. See [`WireSpec`] for all wires.
//!
//! ```no_run
//! use moorline_net::{Builder, TcpListener, TcpStream};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! # async fn example() -> std::io::Result<()> {
//! let wire = "tap:moor0".parse().expect("a wire");
//! let host = Builder::new().open(&wire).await?.up()?;
//! println!("my address is {}", host.address().await);
//!
//! let mut stream = TcpStream::connect(&host, ("2001:db8::1".parse::<std::net::Ipv6Addr>().expect("an address"), 80)).await?;
//! stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
//! let mut answer = Vec::new();
//! stream.read_to_end(&mut answer).await?;
//!
//! let listener = TcpListener::bind(&host, (std::net::Ipv6Addr::UNSPECIFIED, 8080))?;
//! let (mut client, peer) = listener.accept().await?;
//! println!("{peer} is here");
//! client.write_all(b"hello\n").await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`TcpStream`] has tokio's `AsyncRead` and `AsyncWrite`, so that what works with tokio's own streams works here: `tokio::io::copy`,
//! `tokio::io::split`, hyper by `hyper_util::rt::TokioIo`. `axum::serve` takes a [`TcpListener`]. [`Resolver`] looks names up by the DNS
//! servers that routers advertise.
//!
//! With [`Builder::shim6`] and several wires, connections with peers that know Shim6 (RFC 5533) survive when a wire or its provider fails. The
//! program does nothing for that: a connection keeps its addresses, and its packets have others. The example `survive` shows it.
//! [`Shim6::ilnp`] adds ILNP (RFC 6740).
//!
//! ```no_run
//! # async fn example() -> std::io::Result<()> {
//! use moorline_net::{Builder, Shim6};
//!
//! let [one, other] = ["tap:isp1", "tap:isp2"].map(|wire| wire.parse().expect("a wire"));
//! let shim6 = Shim6::new().state("/var/lib/my-program".as_ref());
//! let host = Builder::new().open(&one).await?.open(&other).await?.shim6(shim6).up()?;
//! # Ok(())
//! # }
//! ```
//!
//! docs/stack.md says what the host does, and with which limits.
#![forbid(unsafe_code)]

mod builder;
mod carrier;
mod error;
mod host;
mod node;
mod ping;
#[cfg(feature = "dns")]
mod resolver;
mod shared;
mod shim6;
mod tcp;
mod udp;
mod waiting;

pub use builder::Builder;
pub use host::{Event, Host, Interface, mapped};
pub use moorline_ip::Mac;
pub use moorline_protected::{Config as Shim6Config, News};
pub use moorline_stack::address::Mode as AddressMode;
pub use moorline_stack::ip4::Config as Ipv4Config;
pub use moorline_stack::socket::Error;
pub use moorline_stack::stack::{EchoReply, Event as StackEvent, Netstat, WireId};
pub use moorline_stack::tcp::{Flow, State as TcpState};
pub use moorline_stack::udp::{Options as SendOptions, Received};
pub use moorline_wires::{Wire, WireSpec};
pub use ping::{Outcome, Pinger};
#[cfg(feature = "dns")]
pub use resolver::Resolver;
pub use shim6::Shim6;
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;
