use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::socket::set_option;

/// Frames of an interface (AF_PACKET).
#[derive(Debug)]
pub(crate) struct FrameSocket(OwnedFd);

/// Octets of the kernel's notes in front of a frame (`struct virtio_net_hdr`).
pub(crate) const NOTES: usize = 10;

impl FrameSocket {
    /// All frames of an interface, with the kernel's notes in front.
    pub(crate) fn with_notes(interface: &str) -> io::Result<Self> {
        let socket = Self::unbound()?;
        socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        socket.receive_up_to(BUFFER)?;
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
        socket.bind(interface, libc::ETH_P_ALL)?;
        Ok(socket)
    }

    /// The frames of a protocol that come in by an interface, of which so many octets may wait, as the kernel
    /// counts them.
    pub(crate) fn receiver(
        interface: &str,
        protocol: libc::c_int,
        waiting: libc::c_int,
    ) -> io::Result<Self> {
        let socket = Self::unbound()?;
        socket.receive_up_to(waiting)?;
        socket.bind(interface, protocol)?;
        Ok(socket)
    }

    /// Hears nothing, and passes queueing by.
    pub(crate) fn sender(interface: &str) -> io::Result<Self> {
        let socket = Self::unbound()?;
        socket.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
        socket.bind(interface, 0)?;
        Ok(socket)
    }

    fn unbound() -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Protocol zero hears nothing before it is bound: no frame of another interface.
        // SAFETY: no pointers are involved; the result is checked before it is used.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just returned by socket(2), is open, and nobody else owns it.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        // What we send out of an interface is not to come back in.
        socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        Ok(socket)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.0
    }

    fn receive_up_to(&self, waiting: libc::c_int) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, waiting)
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        set_option(&self.0, level, option, &value)
    }

    fn bind(&self, interface: &str, protocol: libc::c_int) -> io::Result<()> {
        let name = CString::new(interface)?;
        // SAFETY: `name` ends with a zero and lives across the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
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

    /// The next frame, if one is there.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            // SAFETY: `buffer` is live, writable and as long as is passed.
            let length = unsafe {
                libc::recv(self.0.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0)
            };
            if let Ok(length) = usize::try_from(length) {
                return Ok(Some(length));
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN) => return Ok(None),
                // Told once when the interface goes down; it may come up again.
                Some(libc::ENETDOWN | libc::EINTR) => {}
                _ => return Err(error),
            }
        }
    }

    /// Frames that came and those of them that found the queue full, since this was last asked.
    pub(crate) fn statistics(&self) -> io::Result<(u64, u64)> {
        let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length =
            libc::socklen_t::try_from(size_of_val(&counts)).map_err(io::Error::other)?;
        // SAFETY: `counts` is a live, writable structure of the length that is passed.
        let outcome = unsafe {
            let counts: *mut libc::tpacket_stats = &mut counts;
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                counts.cast(),
                &mut length,
            )
        };
        if outcome == 0 {
            Ok((counts.tp_packets.into(), counts.tp_drops.into()))
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Sends; a frame that the interface does not take, as when it is down, is lost as on any cable.
    pub(crate) fn send(&self, frame: &[u8]) {
        // SAFETY: `frame` is live and as long as is passed.
        unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
    }
}

/// Waits until one of them has a frame, or for so long.
pub(crate) fn wait<const N: usize>(sockets: [&FrameSocket; N], limit: Duration) -> io::Result<()> {
    let mut waited = sockets.map(|socket| libc::pollfd {
        fd: socket.0.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let limit = libc::timespec {
        tv_sec: limit.as_secs().try_into().map_err(io::Error::other)?,
        tv_nsec: limit.subsec_nanos().into(),
    };
    let count = libc::nfds_t::try_from(N).map_err(io::Error::other)?;
    // SAFETY: `waited` is a live array of N, `limit` lives across the call, no mask is passed.
    let outcome = unsafe { libc::ppoll(waited.as_mut_ptr(), count, &limit, std::ptr::null()) };
    let error = io::Error::last_os_error();
    if outcome >= 0 || error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// Makes this thread wake in time: a cable does not wait for a processor. What fails here costs
/// precision only.
pub(crate) fn favour_this_thread() {
    // SAFETY: no pointers are involved; both concern the calling thread alone.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, FAVOURED);
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

/// Of linux/if_packet.h.
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// Octets that the kernel may keep for us.
const BUFFER: libc::c_int = 32 << 20;
/// Niceness.
const FAVOURED: libc::c_int = -15;
