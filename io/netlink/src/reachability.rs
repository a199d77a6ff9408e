//! What Neighbor Unreachability Detection has found out (RFC 4861 s7.3).

use crate::attributes::Row;
use crate::error::Error;
use crate::exchange::messages;
use crate::handle::Netlink;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket, AsyncSocketExt, TokioSocket};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::Ipv6Addr;

/// A stream of neighbours that the kernel has given up: they have not answered, and packets that
/// have to go through them are lost.
///
/// Nothing is told when they answer again. The kernel asks again as soon as there is something to send.
pub struct Reachability {
    kernel: TokioSocket,
    waiting: VecDeque<LostNeighbor>,
}

/// A neighbour that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostNeighbor {
    /// Index of the interface.
    pub ifindex: u32,
    /// Address of the neighbour, for a router the one in the default route.
    pub address: Ipv6Addr,
}

impl fmt::Debug for Reachability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reachability").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl Netlink {
    /// Starts listening to what the kernel finds out about neighbours, which are routers and others.
    ///
    /// # Errors
    /// No socket to be had.
    pub fn reachability(&self) -> Result<Reachability, Error> {
        Ok(Reachability { kernel: subscribe().map_err(Error::Open)?, waiting: VecDeque::new() })
    }
}

impl Reachability {
    /// Waits for the next. Can be cancelled.
    //= rfc5534#3.2-1
    pub async fn next(&mut self) -> LostNeighbor {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return next;
            }
            match self.kernel.recv_from_full().await {
                Ok((octets, _)) => self.waiting.extend(messages(&octets).filter_map(|message| {
                    let row = Row::parse(message.message_type(), message.payload())?;
                    read_lost(&row)
                })),
                // ENOBUFS: one that is still needed is asked for again, and given up again.
                Err(error) => tracing::debug!(%error, "notices of neighbours were lost"),
            }
        }
    }
}

fn read_lost(row: &Row) -> Option<LostNeighbor> {
    let state = u16::from_ne_bytes([row.byte(8), row.byte(9)]);
    let is_lost = row.kind == libc::RTM_NEWNEIGH
        && i32::from(row.byte(0)) == libc::AF_INET6
        && state & libc::NUD_FAILED != 0;
    let address = row.address(libc::NDA_DST).filter(|_| is_lost)?;
    Some(LostNeighbor { ifindex: row.header_u32(4), address })
}

fn subscribe() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind_auto()?;
    socket.socket_mut().add_membership(libc::RTNLGRP_NEIGH)?;
    Ok(socket)
}
