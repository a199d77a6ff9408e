//! What targets of machines and data planes have in common.

use std::net::Ipv6Addr;

use moorline_datapath::ilnp::Socket;
use moorline_datapath::ilnp::Sockets;
use moorline_types::IlvPair;

/// All that is polled: as many as `limit`, more than a step may ever bring, mean that it does not come to an end.
pub(crate) fn polled<T>(limit: usize, poll: impl FnMut() -> Option<T>) -> Vec<T> {
    let all: Vec<T> = std::iter::from_fn(poll).take(limit).collect();
    assert!(all.len() < limit, "a queue without end");
    all
}

/// A packet with the payload right behind its header.
pub(crate) fn ipv6(
    next_header: u8,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(payload.len()).unwrap_or(u16::MAX).to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend(source.octets());
    packet.extend(destination.octets());
    packet.extend(payload);
    packet
}

/// The same socket for all packets of ILNP.
pub(crate) struct OneSocket(pub(crate) Socket);

impl Sockets for OneSocket {
    fn kind(&self, _pair: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        self.0
    }

    fn any_between(&self, _pair: IlvPair) -> bool {
        self.0 == Socket::Connected
    }
}
