//! Requests to the kernel about an interface, by its name.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use moorline_ip::Mac;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// Requests about one interface of this network namespace.
#[derive(Debug)]
pub(crate) struct Interface {
    socket: OwnedFd,
    name: String,
}

impl Interface {
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok(Self { socket, name: name.to_owned() })
    }

    /// Octets of the largest packet of the interface, without the Ethernet header.
    pub(crate) fn mtu(&self) -> io::Result<u32> {
        let answer = ask(&self.socket, libc::SIOCGIFMTU, request(&self.name))?;
        // SAFETY: after this request the kernel has filled in the MTU.
        let mtu = unsafe { answer.ifr_ifru.ifru_mtu };
        u32::try_from(mtu).map_err(io::Error::other)
    }

    /// Address of the interface; `None` if the interface has no framing of Ethernet.
    pub(crate) fn mac(&self) -> io::Result<Option<Mac>> {
        let answer = ask(&self.socket, libc::SIOCGIFHWADDR, request(&self.name))?;
        // SAFETY: after this request the kernel has filled in the address.
        let address = unsafe { answer.ifr_ifru.ifru_hwaddr };
        let octets = address.sa_data.first_chunk::<6>();
        let is_ethernet = address.sa_family == libc::ARPHRD_ETHER;
        let mac = octets.map(|octets| Mac(octets.map(|octet| octet.to_ne_bytes()[0])));
        Ok(mac.filter(|_| is_ethernet))
    }

    /// Brings the interface up if it is down. Only the change needs CAP_NET_ADMIN.
    pub(crate) fn bring_up(&self) -> io::Result<()> {
        let mut answer = ask(&self.socket, libc::SIOCGIFFLAGS, request(&self.name))?;
        // SAFETY: after this request the kernel has filled in the flags.
        let flags = unsafe { answer.ifr_ifru.ifru_flags };
        let up = libc::c_short::try_from(libc::IFF_UP).map_err(io::Error::other)?;
        if flags & up == 0 {
            answer.ifr_ifru.ifru_flags = flags | up;
            ask(&self.socket, libc::SIOCSIFFLAGS, answer)?;
        }
        Ok(())
    }
}

/// A request about the interface of this name.
pub(crate) fn request(name: &str) -> libc::ifreq {
    // SAFETY: all zeros is a value of this structure of integers, arrays of them, and a null pointer.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // The last octet stays zero, as it ends the name.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().take(room).zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    request
}

/// Makes a request that the kernel answers in place. `number` must be one of the requests with a `struct ifreq`.
pub(crate) fn ask(
    fd: &OwnedFd,
    number: libc::Ioctl,
    mut request: libc::ifreq,
) -> io::Result<libc::ifreq> {
    // SAFETY: the request is live and of the type that goes with these numbers, with a name that ends.
    let outcome = unsafe { libc::ioctl(fd.as_raw_fd(), number, &raw mut request) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(request) }
}
