//! Address pairs of the host's connected sockets (`sock_diag`).

use crate::error::Error;
use crate::exchange::Exchange;
use crate::row::{INET6, Row, read_address};
use moorline_types::{Ulid, UlidPair};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use std::collections::BTreeSet;
use std::io;

/// The address pairs of all connected TCP and UDP sockets in the network namespace of the calling thread. A UDP
/// socket that is not connected has no peer, and does not count. The call does not wait.
///
/// # Errors
/// The kernel was built without `sock_diag`.
pub fn connected_pairs() -> Result<BTreeSet<UlidPair>, Error> {
    read().map_err(|source| Error::Read { what: "sockets", source })
}

fn read() -> io::Result<BTreeSet<UlidPair>> {
    let exchange = Exchange::open(NETLINK_SOCK_DIAG, |_| SOCKET_LEN)?;
    let mut pairs = BTreeSet::new();
    for protocol in [TCP, UDP] {
        // `struct inet_diag_req_v2`
        let mut request = [0; 56];
        request[..2].copy_from_slice(&[INET6, protocol]);
        request[4..8].copy_from_slice(&STATES.to_ne_bytes());
        let rows = exchange.dump(&Row::new(SOCK_DIAG_BY_FAMILY, &request))?;
        pairs.extend(rows.iter().filter_map(read_pair));
    }
    Ok(pairs)
}

fn read_pair(row: &Row) -> Option<UlidPair> {
    let address = |at| row.header(at).and_then(read_address).map(Ulid);
    Some(UlidPair::new(address(ADDRESSES_AT)?, address(ADDRESSES_AT + 16)?))
}

/// Octets of a `struct inet_diag_msg`.
const SOCKET_LEN: usize = 72;
/// Offset of the addresses in it, behind family, state, timer, retransmissions and the two ports.
const ADDRESSES_AT: usize = 8;
/// Protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// All states of a connection (`TCP_ESTABLISHED` to `TCP_NEW_SYN_RECV`) except TIME_WAIT, CLOSE and LISTEN. A
/// connected UDP socket is in the first one.
const STATES: u32 = 0x1ffe & !(1 << 6 | 1 << 7 | 1 << 10);
