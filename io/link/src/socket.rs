use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use moorline_wire::ip6::ICMPV6;
use nix::sys::socket::sockopt::{Ipv6RecvHopLimit, Ipv6RecvPacketInfo, RcvBufForce};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn6, recvmsg, sendmsg, setsockopt,
};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A non-blocking raw IPv6 socket that also returns the destination of received packets.
#[derive(Debug)]
pub(crate) struct RawSocket(AsyncFd<OwnedFd>);

/// A datagram: its length without the IPv6 header, and fields of that header.
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    /// Octets behind the IPv6 header.
    pub len: usize,
    /// Source of its IPv6 header.
    pub source: Ipv6Addr,
    /// Destination of its IPv6 header.
    pub destination: Ipv6Addr,
    /// Index of the interface by which the datagram came in.
    pub ifindex: u32,
    /// Hop limit of its IPv6 header.
    pub hop_limit: u8,
}

impl RawSocket {
    /// Opens a socket of this protocol; needs CAP_NET_RAW.
    pub(crate) fn open(protocol: u8) -> io::Result<Self> {
        let fd = raw_socket(protocol)?;
        setsockopt(&fd, Ipv6RecvPacketInfo, &true)?;
        setsockopt(&fd, Ipv6RecvHopLimit, &true)?;
        Ok(Self(readable(fd)?))
    }

    /// Opens an ICMPv6 socket that receives only these types.
    pub(crate) fn icmp6(kinds: &[u8]) -> io::Result<Self> {
        let socket = Self::open(ICMPV6)?;
        pass_only(socket.fd(), kinds)?;
        Ok(socket)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        self.0.get_ref()
    }

    /// Sets the octets that may wait, as the kernel counts them: a multiple of the octets of the packets.
    pub(crate) fn reserve(&self, octets: usize) -> io::Result<()> {
        Ok(setsockopt(self.fd(), RcvBufForce, &octets)?)
    }

    /// Waits until there may be a datagram. Cancel safe.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        // The socket stays ready until a read finds nothing.
        self.0.readable().await.map(drop)
    }

    /// Returns the next datagram, if there is one. Skips a datagram that lacks its addresses or does not fit the
    /// buffer.
    pub(crate) fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Option<Datagram>> {
        loop {
            match self.0.try_io(Interest::READABLE, |fd| receive(fd, buffer)) {
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                received => return received,
            }
        }
    }

    /// Waits for a datagram. Skips a datagram that lacks its addresses or does not fit the buffer.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Datagram> {
        loop {
            let received = self.0.async_io(Interest::READABLE, |fd| receive(fd, buffer)).await?;
            if let Some(datagram) = received {
                return Ok(datagram);
            }
        }
    }
}

/// Sends by this interface; 0: by the interface of the route. Fails at once if the socket's buffer is full, or if the
/// source is not an address of ours.
pub(crate) fn send(
    fd: &OwnedFd,
    octets: &[u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
    ifindex: u32,
) -> io::Result<()> {
    let source = libc::in6_addr { s6_addr: source.octets() };
    let info = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: ifindex };
    let control = [ControlMessage::Ipv6PacketInfo(&info)];
    // For a raw socket, the port is the protocol. Zero keeps the one with which it was opened (raw(7)).
    let to = SockaddrIn6::from(SocketAddrV6::new(destination, 0, 0, 0));
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg(fd.as_raw_fd(), &[io::IoSlice::new(octets)], &control, flags, Some(&to))?;
    Ok(())
}

/// Makes the kernel drop all other ICMPv6 types before they wake the process (RFC 3542 s3.2).
pub(crate) fn pass_only(fd: &OwnedFd, kinds: &[u8]) -> io::Result<()> {
    // A set bit blocks a type: struct icmp6_filter of linux/icmpv6.h.
    let mut filter = [u32::MAX; 8];
    for kind in kinds {
        filter[usize::from(kind >> 5)] &= !(1 << (kind & 31));
    }
    set_option(fd, libc::IPPROTO_ICMPV6, ICMP6_FILTER, &filter)
}

/// Sets an option for which `nix` has no name.
pub(crate) fn set_option<T: Copy>(
    fd: &impl AsFd,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
    // SAFETY: `value` is live and of the length that is passed; the kernel only reads it.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            core::ptr::from_ref(value).cast(),
            len,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Registers a descriptor with the runtime, to wait until it is readable.
pub(crate) fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open and the same for as long as it lives, and lives in the result.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<Datagram>> {
    let mut space = nix::cmsg_space!(libc::in6_pktinfo, libc::c_int);
    let mut parts = [io::IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrIn6>(fd.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    if message.flags.contains(MsgFlags::MSG_TRUNC) {
        return Ok(None);
    }
    let (mut arrival, mut hop_limit) = (None, None);
    for control in message.cmsgs()? {
        if let ControlMessageOwned::Ipv6PacketInfo(info) = control {
            arrival = Some(info);
        } else if let ControlMessageOwned::Ipv6HopLimit(limit) = control {
            hop_limit = u8::try_from(limit).ok();
        }
    }
    let told = message.address.zip(arrival).zip(hop_limit);
    Ok(told.map(|((source, arrival), hop_limit)| Datagram {
        len: message.bytes,
        source: source.ip(),
        destination: Ipv6Addr::from(arrival.ipi6_addr.s6_addr),
        ifindex: arrival.ipi6_ifindex,
        hop_limit,
    }))
}

/// Opens a socket of any protocol; needs CAP_NET_RAW.
pub(crate) fn raw_socket(protocol: u8) -> io::Result<OwnedFd> {
    let protocol = NonZeroU32::new(protocol.into()).map(Protocol::from_raw);
    Ok(socket_with(AddressFamily::INET6, SocketType::RAW, FLAGS, protocol)?)
}

/// Protocol for which the kernel takes sent data for whole packets, with their header (ipv6(7), raw(7)).
pub(crate) const WHOLE: u8 = 255;
/// Flags of all our sockets.
pub(crate) const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
/// Socket option of linux/icmpv6.h; `libc` has it for other systems only.
const ICMP6_FILTER: libc::c_int = 1;
