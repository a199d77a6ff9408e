//! Results of Neighbor Unreachability Detection (RFC 4861 s7.3), and packets that wait for a neighbour that will not
//! answer.

use crate::error::Error;
use crate::exchange::Bulletin;
use crate::handle::Netlink;
use crate::row::Row;
use std::net::Ipv6Addr;

/// A stream of neighbours that the kernel has given up, and of neighbours that answer. Packets that must go through a
/// neighbour that was given up are lost. The kernel asks it again as soon as there is a packet to send.
pub struct Reachability(Bulletin);

/// A neighbour that has answered the kernel, or has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Whether the kernel has given the neighbour up. Otherwise the neighbour is REACHABLE.
    pub is_lost: bool,
    /// Index of the interface.
    pub ifindex: u32,
    /// Address of the neighbour; for a router, the address in the default route.
    pub address: Ipv6Addr,
}

impl Netlink {
    /// Starts to listen to the kernel's findings about neighbours, which are routers and others.
    ///
    /// # Errors
    /// No socket can be opened.
    pub fn reachability(&self) -> Result<Reachability, Error> {
        Ok(Reachability(Bulletin::of(&[libc::RTNLGRP_NEIGH])?))
    }

    /// Gives up the neighbours on an interface that the kernel is still looking for, and drops the packets that wait
    /// for them. Returns the number of these neighbours.
    ///
    /// When a link loses its carrier, the kernel forgets the router behind it. Packets that are sent before traffic
    /// has moved wait for the router to be found: three seconds. TCP does not send a segment again while a copy of it
    /// waits in its own host.
    ///
    /// # Errors
    /// The kernel's table cannot be read, or the kernel refuses.
    pub async fn give_up_neighbors(&self, ifindex: u32) -> Result<usize, Error> {
        let rows = self.rows("neighbours", &Row::ipv6(libc::RTM_GETNEIGH))?;
        let mut count = 0;
        for row in rows.iter().filter(|row| row.header_u32(4) == ifindex) {
            let Some(address) = row.address(libc::NDA_DST) else { continue };
            if neighbor_state(row) & libc::NUD_INCOMPLETE != 0 {
                let neighbor = Row::ipv6(libc::RTM_NEWNEIGH)
                    .at(4, ifindex.to_ne_bytes())
                    .with(libc::NDA_DST, address.octets());
                let what = format_args!("neighbour {address} on interface {ifindex}");
                count += usize::from(self.remove(&neighbor, what)?);
            }
        }
        Ok(count)
    }
}

impl Reachability {
    /// Waits for the next neighbour that is lost or answers. Can be cancelled.
    //= rfc5534#3.2-1
    pub async fn next(&mut self) -> Neighbor {
        loop {
            match self.0.next().await.map(|(_, row)| read_neighbor(&row)) {
                Ok(Some(neighbor)) => return neighbor,
                Ok(None) => {}
                // ENOBUFS: if a lost neighbour is still needed, the kernel asks for it again, and gives it up again.
                Err(error) => tracing::debug!(%error, "notices of neighbours were lost"),
            }
        }
    }
}

fn read_neighbor(row: &Row) -> Option<Neighbor> {
    let is_in = |states: u16| neighbor_state(row) & states != 0;
    let is_news = row.kind == libc::RTM_NEWNEIGH
        && row.is_ipv6()
        && is_in(libc::NUD_FAILED | libc::NUD_REACHABLE);
    let address = row.address(libc::NDA_DST).filter(|_| is_news)?;
    Some(Neighbor { is_lost: is_in(libc::NUD_FAILED), ifindex: row.header_u32(4), address })
}

/// State of a neighbour in the kernel (`NUD_*`).
fn neighbor_state(neighbor: &Row) -> u16 {
    u16::from_ne_bytes([neighbor.byte(8), neighbor.byte(9)])
}
