use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::sys::socket::sockopt::RcvBufForce;
use nix::sys::socket::{AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockaddrIn6};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A non-blocking raw IPv6 socket that tells the destination of what it receives.
#[derive(Debug)]
pub(crate) struct RawSocket(AsyncFd<OwnedFd>);

/// One datagram: octets behind the IPv6 header, and the addresses in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram {
    pub len: usize,
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
}

impl RawSocket {
    /// Opens a socket of this protocol; needs CAP_NET_RAW.
    pub(crate) fn open(protocol: i32) -> io::Result<Self> {
        let fd = raw_socket(protocol)?;
        nix::sys::socket::setsockopt(&fd, nix::sys::socket::sockopt::Ipv6RecvPacketInfo, &true)?;
        // SAFETY: an `OwnedFd` stays open and the same for as long as it lives, and lives in here.
        let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        Ok(Self(registered?))
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        self.0.get_ref()
    }

    /// Lets so many octets wait, as the kernel counts them: a multiple of what is in the packets.
    pub(crate) fn reserve(&self, octets: usize) -> io::Result<()> {
        Ok(nix::sys::socket::setsockopt(self.fd(), RcvBufForce, &octets)?)
    }

    /// Waits until there may be a datagram. Cancel safe.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        // Readiness stays until nothing is found.
        self.0.readable().await.map(drop)
    }

    /// The next datagram, if there is one; one that lacks its addresses or does not fit is skipped.
    pub(crate) fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Option<Datagram>> {
        loop {
            match self.0.try_io(Interest::READABLE, |fd| receive(fd, buffer)) {
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                received => return received,
            }
        }
    }

    /// Waits for a datagram; one that lacks its addresses or does not fit is skipped.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        loop {
            let received = self.0.async_io(Interest::READABLE, |fd| receive(fd, buffer)).await?;
            if let Some(datagram) = received {
                return Ok(datagram);
            }
        }
    }

    /// Sends out of an interface, or whichever the route says for 0. Fails at once if the socket's buffer is full.
    pub(crate) fn send(
        &self,
        octets: &[u8],
        source: Ipv6Addr,
        destination: Ipv6Addr,
        ifindex: u32,
    ) -> io::Result<()> {
        send_by(self.fd().as_raw_fd(), octets, source, destination, ifindex)
    }
}

/// Sends, or fails at once if the socket's buffer is full, or the source is none of our addresses.
pub(crate) fn send(
    fd: RawFd,
    octets: &[u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
) -> io::Result<()> {
    send_by(fd, octets, source, destination, 0)
}

/// The same out of an interface, or whichever the route says for 0.
pub(crate) fn send_by(
    fd: RawFd,
    octets: &[u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
    ifindex: u32,
) -> io::Result<()> {
    let info = libc::in6_pktinfo {
        ipi6_addr: libc::in6_addr { s6_addr: source.octets() },
        ipi6_ifindex: ifindex,
    };
    let control = [nix::sys::socket::ControlMessage::Ipv6PacketInfo(&info)];
    // For a raw socket the port is the protocol; zero leaves it as opened (raw(7)).
    let to = SockaddrIn6::from(std::net::SocketAddrV6::new(destination, 0, 0, 0));
    nix::sys::socket::sendmsg(
        fd,
        &[io::IoSlice::new(octets)],
        &control,
        MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        Some(&to),
    )?;
    Ok(())
}

/// Sets an option that `nix` has no name for.
pub(crate) fn set_option<T: Copy>(
    fd: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: `value` is live and of the length that is passed; the kernel only reads it.
    let outcome = unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, core::ptr::from_ref(value).cast(), len)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<Datagram>> {
    let mut space = nix::cmsg_space!(libc::in6_pktinfo);
    let mut parts = [io::IoSliceMut::new(buffer)];
    let message = nix::sys::socket::recvmsg::<SockaddrIn6>(
        fd.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::MSG_DONTWAIT,
    )?;
    if message.flags.contains(MsgFlags::MSG_TRUNC) {
        return Ok(None);
    }
    let destination = message.cmsgs()?.find_map(|control| {
        let ControlMessageOwned::Ipv6PacketInfo(info) = control else { return None };
        Some(Ipv6Addr::from(info.ipi6_addr.s6_addr))
    });
    let source = message.address.map(|address| address.ip());
    Ok(source.zip(destination).map(|(source, destination)| Datagram {
        len: message.bytes,
        source,
        destination,
    }))
}

/// `nix` knows raw sockets but only named protocols; 140 has no name.
pub(crate) fn raw_socket(protocol: i32) -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    // SAFETY: no pointers are involved; the result is checked before it is used.
    let fd = unsafe {
        libc::socket(AddressFamily::Inet6 as i32, libc::SOCK_RAW | flags.bits(), protocol)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just returned by socket(2), is open, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
