use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};

use crate::socket::{raw_socket, send_by, set_option};

/// Makes addresses of this host known to the routers of a link before they have packets for them: Neighbor Discovery
/// the other way round (RFC 9131).
#[derive(Debug)]
pub struct NeighborSocket(OwnedFd);

/// What a router is to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Introduction {
    /// The interface.
    pub ifindex: u32,
    /// The router.
    pub router: Ipv6Addr,
    /// Our address.
    pub address: Ipv6Addr,
    /// Whether duplicate address detection still runs for it (RFC 4429).
    pub is_optimistic: bool,
}

impl NeighborSocket {
    /// Opens it.
    ///
    /// # Errors
    /// Without CAP_NET_RAW, or without IPv6.
    pub fn open() -> io::Result<Self> {
        let socket = raw_socket(libc::IPPROTO_ICMPV6)?;
        // RFC 4861 s7.1: anything less may come from another link.
        for option in [libc::IPV6_UNICAST_HOPS, libc::IPV6_MULTICAST_HOPS] {
            set_option(&socket, libc::IPPROTO_IPV6, option, &libc::c_int::from(u8::MAX))?;
        }
        set_option(&socket, libc::IPPROTO_ICMPV6, crate::icmp6::ICMP6_FILTER, &[u32::MAX; 8])?;
        Ok(Self(socket))
    }

    /// The router finds our link-layer address beside ours of IPv6, and keeps it; should we not know that of the
    /// router, the kernel asks for it by the way. `link_name` is the name of the interface.
    ///
    /// A Neighbor Solicitation does so at every router (RFC 4861 s7.2.3). One from an optimistic address is forbidden, so
    /// that is advertised instead, which routers have to be willing to learn from.
    ///
    /// # Errors
    /// Those of sendmsg(2): the address is not ours, or tentative; the router is not on the link; buffer full.
    pub fn introduce(&self, what: &Introduction, link_name: &str) -> io::Result<()> {
        // Nobody asks for addresses on links that have none.
        let Some(link) = link_address(&self.0, link_name)? else { return Ok(()) };
        let (message, to) = message(what, link);
        send_by(self.0.as_raw_fd(), &message, what.address, to, what.ifindex)
    }
}

/// RFC 4861 s4.3 and s4.4, RFC 9131 s4.1; the kernel fills in the checksum.
fn message(what: &Introduction, link: [u8; 6]) -> ([u8; 32], Ipv6Addr) {
    let (kind, target, option, to) = if what.is_optimistic {
        (ADVERTISEMENT, what.address, TARGET_LINK_ADDRESS, ALL_ROUTERS)
    } else {
        (SOLICITATION, what.router, SOURCE_LINK_ADDRESS, what.router)
    };
    let mut message = [0; 32];
    message[0] = kind;
    message[8..24].copy_from_slice(&target.octets());
    // In units of 8 octets.
    message[24..26].copy_from_slice(&[option, 1]);
    message[26..].copy_from_slice(&link);
    (message, to)
}

/// Of an interface with 48-bit addresses.
fn link_address(socket: &OwnedFd, name: &str) -> io::Result<Option<[u8; 6]>> {
    // SAFETY: all zeros is a value of this structure of integers and arrays.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: the request is live and of the type that goes with this number.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in the address, which is of this type whatever the kind of link.
    let address = unsafe { request.ifr_ifru.ifru_hwaddr };
    let octets = address.sa_data.first_chunk::<6>();
    let is_ethernet = address.sa_family == libc::ARPHRD_ETHER;
    Ok(octets.filter(|_| is_ethernet).map(|octets| octets.map(|octet| octet.to_ne_bytes()[0])))
}

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_ADDRESS: u8 = 1;
const TARGET_LINK_ADDRESS: u8 = 2;
/// RFC 4291 s2.7.1, link-local scope.
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: [u8; 6] = [2, 0x42, 0, 0, 0, 9];

    fn introduction(is_optimistic: bool) -> Introduction {
        let address = "2001:db8:a2::a".parse().expect("an address");
        let router = "fe80::1".parse().expect("an address");
        Introduction { ifindex: 3, router, address, is_optimistic }
    }

    #[test]
    fn a_router_is_solicited_from_an_address_that_is_ours_for_sure() {
        let what = introduction(false);
        let (message, to) = message(&what, LINK);
        assert_eq!(to, what.router);
        assert_eq!(message[..8], [135, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(message[8..24], what.router.octets());
        assert_eq!(message[24..], [1, 1, 2, 0x42, 0, 0, 0, 9]);
    }

    #[test]
    fn an_optimistic_address_is_advertised_to_all_routers_and_overrides_nothing() {
        let what = introduction(true);
        let (message, to) = message(&what, LINK);
        assert_eq!(to, ALL_ROUTERS);
        assert_eq!(message[..8], [136, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(message[8..24], what.address.octets());
        assert_eq!(message[24..], [2, 1, 2, 0x42, 0, 0, 0, 9]);
    }
}
