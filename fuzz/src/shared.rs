//! What targets of machines and data planes have in common.

use moorline_datapath::ilnp::{Socket, Sockets};
use moorline_types::IlvPair;

/// All that is polled: as many as `limit`, more than a step may ever bring, mean that it does not come to an end.
pub(crate) fn polled<T>(limit: usize, poll: impl FnMut() -> Option<T>) -> Vec<T> {
    let all: Vec<T> = std::iter::from_fn(poll).take(limit).collect();
    assert!(all.len() < limit, "a queue without end");
    all
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
