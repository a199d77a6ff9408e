//! Which addresses the host's sockets are connected between (`sock_diag`).

use crate::error::Error;
use crate::exchange::messages;
use crate::handle::Netlink;
use moorline_types::{Ulid, UlidPair};
use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{AsyncSocket, AsyncSocketExt, Socket, SocketAddr, TokioSocket};
use std::collections::BTreeSet;
use std::io;

impl Netlink {
    /// The address pairs of all connected TCP and UDP sockets in this network namespace. A UDP socket
    /// that is not connected names nobody, and is not in it.
    ///
    /// # Errors
    /// The kernel cannot say: it was built without `sock_diag`.
    pub async fn connected_pairs(&self) -> Result<BTreeSet<UlidPair>, Error> {
        let mut pairs = BTreeSet::new();
        for protocol in [libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
            let read = dump(u8::try_from(protocol).unwrap_or_default(), &mut pairs).await;
            read.map_err(|source| Error::Read { what: "sockets", source })?;
        }
        Ok(pairs)
    }
}

async fn dump(protocol: u8, pairs: &mut BTreeSet<UlidPair>) -> io::Result<()> {
    let mut socket = TokioSocket::new(NETLINK_SOCK_DIAG)?;
    socket.socket_mut().bind_auto()?;
    socket.socket_ref().connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(protocol)).await?;
    loop {
        let (octets, _) = socket.recv_from_full().await?;
        if take_pairs(&octets, pairs)? {
            return Ok(());
        }
    }
}

/// As [`Netlink::connected_pairs`], for callers that cannot wait: the kernel answers before a question has been
/// sent. Of the network namespace of the calling thread.
///
/// # Errors
/// The kernel cannot say: it was built without `sock_diag`.
pub fn connected_pairs_now() -> Result<BTreeSet<UlidPair>, Error> {
    let mut pairs = BTreeSet::new();
    for protocol in [libc::IPPROTO_TCP, libc::IPPROTO_UDP] {
        let read = dump_now(u8::try_from(protocol).unwrap_or_default(), &mut pairs);
        read.map_err(|source| Error::Read { what: "sockets", source })?;
    }
    Ok(pairs)
}

fn dump_now(protocol: u8, pairs: &mut BTreeSet<UlidPair>) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.set_non_blocking(true)?;
    socket.send(&request(protocol), 0)?;
    loop {
        let (octets, _) = socket.recv_from_full()?;
        if take_pairs(&octets, pairs)? {
            return Ok(());
        }
    }
}

/// Takes what a datagram of a dump says. Whether it was the last.
fn take_pairs(octets: &[u8], pairs: &mut BTreeSet<UlidPair>) -> io::Result<bool> {
    for message in messages(octets) {
        match message.message_type() {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = message.payload().first_chunk().map_or(0, |c| i32::from_ne_bytes(*c));
                return Err(io::Error::from_raw_os_error(-code));
            }
            _ => pairs.extend(read_pair(message.payload())),
        }
    }
    Ok(false)
}

/// `struct nlmsghdr` and `struct inet_diag_req_v2`: all of them in these states.
fn request(protocol: u8) -> [u8; REQUEST_LEN] {
    let mut request = [0; REQUEST_LEN];
    let length = u32::try_from(REQUEST_LEN).unwrap_or_default();
    request[..4].copy_from_slice(&length.to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    request[16] = u8::try_from(libc::AF_INET6).unwrap_or_default();
    request[17] = protocol;
    request[20..24].copy_from_slice(&STATES.to_ne_bytes());
    request
}

/// From a `struct inet_diag_msg`.
fn read_pair(message: &[u8]) -> Option<UlidPair> {
    let addresses = message.get(ADDRESSES_AT..)?;
    let (&source, rest) = addresses.split_first_chunk::<16>()?;
    let &destination = rest.first_chunk::<16>()?;
    Some(UlidPair::new(Ulid::from(source), Ulid::from(destination)))
}

const REQUEST_LEN: usize = 72;
/// Behind family, state, timer, retransmissions and the two ports.
const ADDRESSES_AT: usize = 8;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// All states of a connection (`TCP_ESTABLISHED` to `TCP_NEW_SYN_RECV`) but TIME_WAIT, CLOSE and LISTEN.
/// A connected UDP socket is in the first.
const STATES: u32 = 0x1ffe & !(1 << 6 | 1 << 7 | 1 << 10);
