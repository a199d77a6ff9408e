//! Packets that wait for a neighbour who will not answer.

use crate::attributes::Row;
use crate::error::Error;
use crate::handle::{Netlink, settle};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::Ipv6Addr;

impl Netlink {
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
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet6;
        let rows = self.dump("neighbours", RouteNetlinkMessage::GetNeighbour(message)).await?;
        let mut count = 0;
        for address in rows.iter().filter_map(|row| looked_for(row, ifindex)) {
            let gone = RouteNetlinkMessage::DelNeighbour(neighbor(ifindex, address));
            let made = self.exchange.change(gone, 0).await;
            let given_up =
                settle(made, libc::ENOENT, || format!("give up {address} on interface {ifindex}"))?;
            count += usize::from(given_up);
        }
        Ok(count)
    }
}

/// The address of a neighbour on the interface who has not been found yet.
fn looked_for(row: &Row, ifindex: u32) -> Option<Ipv6Addr> {
    let state = u16::from_ne_bytes([row.byte(8), row.byte(9)]);
    let is_it = row.header_u32(4) == ifindex && state & libc::NUD_INCOMPLETE != 0;
    row.address(libc::NDA_DST).filter(|_| is_it)
}

fn neighbor(ifindex: u32, address: Ipv6Addr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.ifindex = ifindex;
    let destination = NeighbourAddress::Inet6(address);
    message.attributes.push(NeighbourAttribute::Destination(destination));
    message
}
