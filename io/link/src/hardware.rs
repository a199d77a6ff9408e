use std::io;
use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketType, netdevice, socket};

/// Whether packets of an interface of this network namespace begin with an Ethernet header.
///
/// # Errors
/// There is no such interface.
pub fn has_link_layer(ifindex: u32) -> io::Result<bool> {
    let kind = hardware(ifindex)?.sa_family;
    Ok(kind == libc::ARPHRD_ETHER || kind == libc::ARPHRD_LOOPBACK)
}

/// The link-layer address of an interface; `None` if the link is not Ethernet.
pub(crate) fn ethernet_address(ifindex: u32) -> io::Result<Option<[u8; 6]>> {
    let address = hardware(ifindex)?;
    let octets = address.sa_data.first_chunk::<6>();
    let is_ethernet = address.sa_family == libc::ARPHRD_ETHER;
    Ok(octets.filter(|_| is_ethernet).map(|octets| octets.map(|octet| octet.to_ne_bytes()[0])))
}

/// The `ARPHRD_` number and the address of an interface.
fn hardware(ifindex: u32) -> io::Result<libc::sockaddr> {
    let socket = socket(AddressFamily::INET6, SocketType::DGRAM, None)?;
    let name = netdevice::index_to_name(&socket, ifindex)?;
    // SAFETY: all zeros is a value of this structure of integers, arrays of them, and a null pointer.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // The last octet stays zero, as it ends the name.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    // SAFETY: the request is live and of the type that goes with this number, with a name that ends.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in the address, which is of this type whatever the kind of link.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr })
}
