//! Traffic generators that check each byte and log each arrival.

mod arrivals;
mod flood;
mod generator;
mod http;
pub mod ilnp;
mod pattern;
mod ping;
mod programs;
mod socket;
mod speed;
mod strangers;
mod tcp;
mod udp;
mod whole_way;

pub use arrivals::{Arrivals, Gap};
pub use flood::I1Flood;
pub(crate) use flood::LONGEST as LONGEST_FLOOD;
pub use generator::{Generator, Stream, Vary};
pub use http::HttpServer;
pub use pattern::Pattern;
pub use ping::{Ping, Pings};
pub use programs::{Curl, Iperf};
pub(crate) use socket::{datagram_sockets, receive_datagrams};
pub use speed::{Speed, Traffic};
pub(crate) use strangers::{Answers, STRANGER, make_up_source};
pub use tcp::{Carriage, Protocol, Sender, TcpOptions, TcpOutcome, TcpTransfer};
pub use udp::{Direction, UdpFlow, UdpOptions, UdpOutcome};
pub use whole_way::WholeWay;

use std::net::SocketAddrV6;
use std::time::{Duration, Instant};

use crate::netns::Namespace;

/// A namespace and an address in it, for a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The namespace.
    pub namespace: Namespace,
    /// The address.
    pub address: std::net::Ipv6Addr,
}

impl Endpoint {
    fn socket_address(&self, port: u16) -> SocketAddrV6 {
        SocketAddrV6::new(self.address, port, 0, 0)
    }
}

/// Spreads octets evenly over time. After a stall, the pacer catches up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    start: Instant,
    per_second: u64,
}

impl Pacer {
    pub(crate) fn start(per_second: u64) -> Self {
        Self { start: Instant::now(), per_second }
    }

    /// Number of further units that may be sent now, after `sent`.
    pub(crate) fn due(&self, sent: u64) -> u64 {
        let nanos = self.start.elapsed().as_nanos() * u128::from(self.per_second);
        let due = u64::try_from(nanos / NANOS_PER_SECOND).unwrap_or(u64::MAX);
        due.saturating_sub(sent)
    }

    /// Time to wait before more may be sent, after `sent`.
    fn wait(&self, sent: u64) -> Duration {
        let due = Duration::from_secs_f64(sent as f64 / self.per_second as f64);
        due.saturating_sub(self.start.elapsed())
    }
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;
