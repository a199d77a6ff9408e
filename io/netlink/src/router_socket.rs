//! A raw ICMPv6 socket for Router Advertisements and Solicitations.

use crate::ndp::SOLICITATION;
use moorline_addresses::{ADVERTISEMENT, Envelope};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn6, recvmsg, sendmsg, setsockopt,
    sockopt,
};
use std::io;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(crate) struct RouterSocket {
    fd: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
}

impl RouterSocket {
    /// Needs CAP_NET_RAW. Every host is a member of the group that routers advertise to.
    pub(crate) fn open() -> io::Result<Self> {
        let fd = raw_socket()?;
        setsockopt(&fd, sockopt::Ipv6RecvPacketInfo, &true)?;
        setsockopt(&fd, sockopt::Ipv6RecvHopLimit, &true)?;
        pass_only(&fd, ADVERTISEMENT)?;
        // SAFETY: an `OwnedFd` stays open and the same for as long as it lives, and lives in here.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self { fd, buffer: vec![0; MAX_MESSAGE] })
    }

    /// Waits for a Router Advertisement, valid or not. Cancel safe.
    pub(crate) async fn receive(&mut self) -> io::Result<(Envelope, &[u8])> {
        let (envelope, length) = loop {
            let buffer = &mut self.buffer;
            let received = self.fd.async_io(Interest::READABLE, |fd| receive(fd, buffer)).await?;
            if let Some(received) = received {
                break received;
            }
        };
        Ok((envelope, self.buffer.get(..length).unwrap_or_default()))
    }

    /// Asks the routers on a link to advertise.
    pub(crate) fn solicit(&self, ifindex: u32) -> io::Result<()> {
        solicit(self.fd.get_ref(), ifindex)
    }
}

/// Asks once, from a socket of its own: for who does not stay to hear the answer.
pub(crate) fn solicit_once(ifindex: u32) -> io::Result<()> {
    solicit(&raw_socket()?, ifindex)
}

fn solicit(fd: &OwnedFd, ifindex: u32) -> io::Result<()> {
    let info = libc::in6_pktinfo {
        // The kernel takes the link-local address of the interface.
        ipi6_addr: libc::in6_addr { s6_addr: [0; 16] },
        ipi6_ifindex: ifindex,
    };
    // Routers ignore it with any other hop limit (RFC 4861 s6.1.1).
    let control = [ControlMessage::Ipv6PacketInfo(&info), ControlMessage::Ipv6HopLimit(&255)];
    let to = SockaddrIn6::from(SocketAddrV6::new(ALL_ROUTERS, 0, 0, ifindex));
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    sendmsg(fd.as_raw_fd(), &[io::IoSlice::new(&SOLICITATION)], &control, flags, Some(&to))?;
    Ok(())
}

/// `None` if the message is cut or lacks what the header has to say.
fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<Option<(Envelope, usize)>> {
    let mut space = nix::cmsg_space!(libc::in6_pktinfo, libc::c_int);
    let mut parts = [io::IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrIn6>(fd.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    if message.flags.contains(MsgFlags::MSG_TRUNC) {
        return Ok(None);
    }
    let (mut ifindex, mut hop_limit) = (None, None);
    for control in message.cmsgs()? {
        if let ControlMessageOwned::Ipv6PacketInfo(info) = control {
            ifindex = Some(info.ipi6_ifindex);
        } else if let ControlMessageOwned::Ipv6HopLimit(limit) = control {
            hop_limit = u8::try_from(limit).ok();
        }
    }
    let source = message.address.map(|address| address.ip());
    let envelope = ifindex.zip(hop_limit).zip(source);
    Ok(envelope.map(|((ifindex, hop_limit), source)| {
        (Envelope { ifindex, source, hop_limit }, message.bytes)
    }))
}

/// Has the kernel drop all other types before they wake us (RFC 3542 s3.2).
fn pass_only(fd: &OwnedFd, kind: u8) -> io::Result<()> {
    // A set bit blocks a type: struct icmp6_filter of linux/icmpv6.h.
    let mut filter = [u32::MAX; 8];
    filter[usize::from(kind >> 5)] &= !(1 << (kind & 31));
    let length = libc::socklen_t::try_from(size_of_val(&filter)).map_err(io::Error::other)?;
    // SAFETY: `filter` is a live array of the length that is passed.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_ICMPV6,
            ICMP6_FILTER,
            filter.as_ptr().cast(),
            length,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `nix` has no name for raw sockets of ICMPv6.
fn raw_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no pointers are involved; the result is checked before it is used.
    let fd = unsafe { libc::socket(libc::AF_INET6, kind, libc::IPPROTO_ICMPV6) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just returned by socket(2), is open, and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// RFC 4291 s2.7.1, link-local scope.
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// Longer than any link's MTU allows without fragments, which Neighbor Discovery forbids (RFC 6980).
const MAX_MESSAGE: usize = 9216;
/// Socket option of linux/icmpv6.h; `libc` has it for other systems only.
const ICMP6_FILTER: libc::c_int = 1;
