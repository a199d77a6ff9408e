//! Frames of an interface, many with one call: for load generators, and for nodes that must bear load.

use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::{MsgFlags, MultiHeaders, getsockopt, recv, send, sendmmsg};
use nix::{getsockopt_impl, sockopt_impl};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketType, socket_with};

use crate::socket::{FLAGS, set_option};
use crate::tap::PACKET_IGNORE_OUTGOING;

/// Sends frames by an interface, past its queueing discipline. Stays on the thread that opened it.
#[derive(Debug)]
pub struct FrameSender {
    socket: FrameSocket,
    headers: MultiHeaders<()>,
}

impl FrameSender {
    /// Opens a sender on an interface of this network namespace.
    ///
    /// # Errors
    /// There is no such interface, or CAP_NET_RAW is missing.
    pub fn open(interface: &str) -> io::Result<Self> {
        let headers = MultiHeaders::preallocate(Self::BATCH, None);
        Ok(Self { socket: FrameSocket::sender(interface)?, headers })
    }

    /// Sends up to [`Self::BATCH`] frames, each from its Ethernet header on. Returns how many the interface took;
    /// there was no room for the others.
    ///
    /// # Errors
    /// The interface is gone, or takes no frames of this size.
    pub fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) -> io::Result<usize> {
        let parts: Vec<_> = frames.iter().map(|frame| [IoSlice::new(frame.as_ref())]).collect();
        let to = [None::<()>; Self::BATCH];
        let fd = self.socket.0.as_raw_fd();
        match sendmmsg(fd, &mut self.headers, &parts, to, [], MsgFlags::MSG_DONTWAIT) {
            Ok(sent) => Ok(sent.count()),
            // The queue of the interface is full, or the interface is down at the moment.
            Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Largest number of frames in a call.
    pub const BATCH: usize = 64;
}

/// Socket for the frames of an interface (AF_PACKET).
#[derive(Debug)]
pub struct FrameSocket(OwnedFd);

/// Octets of the kernel's notes in front of a frame (`struct virtio_net_hdr`).
pub(crate) const NOTES: usize = 10;

impl FrameSocket {
    /// Opens a receiver for the IPv6 frames that come in by an interface of this network namespace. About `waiting`
    /// small frames can wait. Others are dropped and counted, as by a network adapter with a full ring.
    ///
    /// # Errors
    /// There is no such interface, or CAP_NET_RAW is missing.
    pub fn receiver(interface: &str, waiting: u16) -> io::Result<Self> {
        let socket = Self::unbound()?;
        let octets = i32::from(waiting) * SMALL_FRAME / 2;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, octets)?;
        socket.bind(interface, libc::ETH_P_IPV6)?;
        Ok(socket)
    }

    /// Opens a socket for all frames of an interface, with the kernel's notes in front.
    pub(crate) fn with_notes(interface: &str) -> io::Result<Self> {
        let socket = Self::unbound()?;
        socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER)?;
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
        socket.bind(interface, libc::ETH_P_ALL)?;
        Ok(socket)
    }

    /// Opens a socket that receives nothing, and sends past the queueing discipline.
    fn sender(interface: &str) -> io::Result<Self> {
        let socket = Self::unbound()?;
        socket.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
        socket.bind(interface, 0)?;
        Ok(socket)
    }

    fn unbound() -> io::Result<Self> {
        // With protocol zero, the socket receives nothing before it is bound: no frames of other interfaces.
        let socket = Self(socket_with(AddressFamily::PACKET, SocketType::RAW, FLAGS, None)?);
        // Frames that we send by an interface must not come back in.
        socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        Ok(socket)
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        set_option(&self.0, level, option, &value)
    }

    fn bind(&self, interface: &str, protocol: libc::c_int) -> io::Result<()> {
        let index = if_nametoindex(interface)?;
        let unsigned = |value: libc::c_int| u16::try_from(value).map_err(io::Error::other);
        let address = libc::sockaddr_ll {
            sll_family: unsigned(libc::AF_PACKET)?,
            sll_protocol: unsigned(protocol)?.to_be(),
            sll_ifindex: index.try_into().map_err(io::Error::other)?,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        let length = libc::socklen_t::try_from(size_of_val(&address)).map_err(io::Error::other)?;
        // SAFETY: `address` is a live sockaddr_ll of the length that is passed.
        let outcome = unsafe {
            let address: *const libc::sockaddr_ll = &address;
            libc::bind(self.0.as_raw_fd(), address.cast(), length)
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Returns the next frame from its Ethernet header on, if there is one. Octets that do not fit the buffer are cut
    /// off.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match recv(self.0.as_raw_fd(), buffer, MsgFlags::empty()) {
                Ok(length) => return Ok(Some(length)),
                Err(Errno::EAGAIN) => return Ok(None),
                // The error comes once when the interface goes down. The interface may come up again.
                Err(Errno::ENETDOWN | Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until there is a frame, or for `limit`.
    ///
    /// # Errors
    /// The socket cannot be polled.
    pub fn wait(&self, limit: Duration) -> io::Result<()> {
        wait([self], limit)
    }

    /// Numbers of frames that came, and of those that found the queue full, since the last call.
    ///
    /// # Errors
    /// The kernel does not return the numbers.
    pub fn statistics(&self) -> io::Result<(u64, u64)> {
        let counts = getsockopt(&self.0, PacketStatistics)?;
        Ok((counts.tp_packets.into(), counts.tp_drops.into()))
    }

    /// Sends a frame. If the interface does not take it, as when it is down, the frame is lost as on any cable.
    pub fn send(&self, frame: &[u8]) {
        let _ = send(self.0.as_raw_fd(), frame, MsgFlags::empty());
    }
}

sockopt_impl!(
    PacketStatistics,
    GetOnly,
    libc::SOL_PACKET,
    libc::PACKET_STATISTICS,
    libc::tpacket_stats
);

/// Waits until one of the sockets has a frame, or for `limit`.
pub(crate) fn wait<const N: usize>(sockets: [&FrameSocket; N], limit: Duration) -> io::Result<()> {
    let mut waited = sockets.map(|socket| PollFd::new(&socket.0, PollFlags::IN));
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut waited, Some(&limit)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Gives this thread a high priority, so that it wakes in time: a cable does not wait for a processor. A failure here
/// costs only precision.
pub(crate) fn favour_this_thread() {
    let _ = rustix::process::setpriority_process(None, FAVOURED);
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// From linux/if_packet.h.
const PACKET_VNET_HDR: libc::c_int = 15;
/// Octets that the kernel may keep for a socket.
const BUFFER: libc::c_int = 32 << 20;
/// Octets that the kernel counts for a frame of less than 128 octets: its room and `struct sk_buff`. The kernel
/// doubles the number that it gets.
const SMALL_FRAME: i32 = 768;
/// Nice value of the favoured thread.
const FAVOURED: i32 = -15;
