//! What Neighbor Unreachability Detection has found out (RFC 4861 s7.3), and packets that wait for a neighbour who will not answer.

use crate::error::Error;
use crate::exchange::Bulletin;
use crate::handle::Netlink;
use crate::row::Row;
use std::net::Ipv6Addr;

/// A stream of neighbours that the kernel has given up: they have not answered, and packets that
/// have to go through them are lost.
///
/// Nothing is told when they answer again. The kernel asks again as soon as there is something to send.
pub struct Reachability(Bulletin);

/// A neighbour that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostNeighbor {
    /// Index of the interface.
    pub ifindex: u32,
    /// Address of the neighbour, for a router the one in the default route.
    pub address: Ipv6Addr,
}

impl Netlink {
    /// Starts listening to what the kernel finds out about neighbours, which are routers and others.
    ///
    /// # Errors
    /// No socket to be had.
    pub fn reachability(&self) -> Result<Reachability, Error> {
        Ok(Reachability(Bulletin::of(&[libc::RTNLGRP_NEIGH])?))
    }

    /// Gives up the neighbours on an interface that the kernel is still looking for, and gives how many
    /// these were. The packets that wait for them are dropped.
    ///
    /// When a link loses its carrier, the kernel forgets the router behind it, and what is sent until
    /// traffic has moved waits for the router to be found: three seconds. TCP sends no segment again
    /// while a copy of it waits in its own host.
    ///
    /// # Errors
    /// The kernel's table cannot be read, or it refuses.
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
    /// Waits for the next. Can be cancelled.
    //= rfc5534#3.2-1
    pub async fn next(&mut self) -> LostNeighbor {
        loop {
            match self.0.next().await.map(|(_, row)| read_lost(&row)) {
                Ok(Some(lost)) => return lost,
                Ok(None) => {}
                // ENOBUFS: one that is still needed is asked for again, and given up again.
                Err(error) => tracing::debug!(%error, "notices of neighbours were lost"),
            }
        }
    }
}

fn read_lost(row: &Row) -> Option<LostNeighbor> {
    let is_lost = row.kind == libc::RTM_NEWNEIGH
        && row.is_ipv6()
        && neighbor_state(row) & libc::NUD_FAILED != 0;
    let address = row.address(libc::NDA_DST).filter(|_| is_lost)?;
    Some(LostNeighbor { ifindex: row.header_u32(4), address })
}

/// What the kernel knows of a neighbour (`NUD_*`).
fn neighbor_state(neighbor: &Row) -> u16 {
    u16::from_ne_bytes([neighbor.byte(8), neighbor.byte(9)])
}
