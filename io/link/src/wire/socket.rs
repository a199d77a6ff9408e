use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// All frames of an interface, with the kernel's notes in front (`struct virtio_net_hdr`).
#[derive(Debug)]
pub(super) struct PacketSocket(OwnedFd);

/// Octets of the notes.
pub(super) const NOTES: usize = 10;

impl PacketSocket {
    pub(super) fn open(interface: &str) -> io::Result<Self> {
        let name = CString::new(interface)?;
        // SAFETY: `name` ends with a zero and lives across the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // Protocol zero hears nothing before it is bound: no frame of another interface.
        // SAFETY: no pointers are involved; the result is checked before it is used.
        let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just returned by socket(2), is open, and nobody else owns it.
        let socket = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        socket.set(libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        // What we send out of an interface is not to come back in.
        socket.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BUFFER)?;
        socket.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, BUFFER)?;
        socket.bind(index)?;
        Ok(socket)
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        let length = libc::socklen_t::try_from(size_of_val(&value)).map_err(io::Error::other)?;
        // SAFETY: `value` is a live integer of the length that is passed.
        let outcome = unsafe {
            let value: *const libc::c_int = &value;
            libc::setsockopt(self.0.as_raw_fd(), level, option, value.cast(), length)
        };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn bind(&self, index: libc::c_uint) -> io::Result<()> {
        let unsigned = |value: libc::c_int| u16::try_from(value).map_err(io::Error::other);
        let address = libc::sockaddr_ll {
            sll_family: unsigned(libc::AF_PACKET)?,
            sll_protocol: unsigned(libc::ETH_P_ALL)?.to_be(),
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
    pub(super) fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
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

    /// Sends; a frame that the interface does not take, as when it is down, is lost as on any cable.
    pub(super) fn send(&self, frame: &[u8]) {
        // SAFETY: `frame` is live and as long as is passed.
        unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
    }
}

/// Waits until one of them has a frame, or for so long.
pub(super) fn wait(sockets: &[PacketSocket; 2], limit: Duration) -> io::Result<()> {
    let mut waited = sockets.each_ref().map(|socket| libc::pollfd {
        fd: socket.0.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    let limit = libc::timespec {
        tv_sec: limit.as_secs().try_into().map_err(io::Error::other)?,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // SAFETY: `waited` is a live array of two, `limit` lives across the call, no mask is passed.
    let outcome = unsafe { libc::ppoll(waited.as_mut_ptr(), 2, &limit, std::ptr::null()) };
    let error = io::Error::last_os_error();
    if outcome >= 0 || error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// Makes this thread wake in time: a cable does not wait for a processor. What fails here costs
/// precision only.
pub(super) fn favour_this_thread() {
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
