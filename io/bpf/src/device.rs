//! What kind of packets an interface has.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType, netdevice};

use crate::error::{Error, Result};

/// Whether packets of the interface begin with an Ethernet header at the tc hooks.
///
/// # Errors
///
/// [`Error::Attach`]: there is no such interface.
pub fn has_link_layer(ifindex: u32) -> Result<bool> {
    look(ifindex).map_err(|source| Error::Attach { action: "find", ifindex, source: source.into() })
}

fn look(ifindex: u32) -> io::Result<bool> {
    let socket = rustix::net::socket(AddressFamily::INET6, SocketType::DGRAM, None)?;
    let name = netdevice::index_to_name(&socket, ifindex)?;
    let hardware = hardware_type(&socket, &name)?;
    Ok(hardware == libc::ARPHRD_ETHER || hardware == libc::ARPHRD_LOOPBACK)
}

/// The `ARPHRD_` number.
fn hardware_type(socket: &OwnedFd, name: &str) -> io::Result<u16> {
    // SAFETY: all zeros is a valid ifreq: integers, arrays of them, and a null pointer.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // The last octet stays zero: it ends the name.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the request is a live ifreq with a terminated name, which is what this ioctl wants; it writes
    // within it only.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so this member of the union is the one that was written.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr }.sa_family)
}
