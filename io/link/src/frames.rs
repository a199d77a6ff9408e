//! Frames of an interface, many with one call: for generators of load and for what stands under it.

pub(crate) mod socket;

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, sendmmsg};

use socket::{FrameSocket, wait};

/// Sends frames out of an interface, past its queueing discipline. Stays on the thread that opened it.
#[derive(Debug)]
pub struct FrameSender {
    socket: FrameSocket,
    headers: MultiHeaders<()>,
}

impl FrameSender {
    /// Of an interface of this network namespace.
    ///
    /// # Errors
    /// There is no such interface, or no CAP_NET_RAW.
    pub fn open(interface: &str) -> io::Result<Self> {
        let headers = MultiHeaders::preallocate(Self::BATCH, None);
        Ok(Self { socket: FrameSocket::sender(interface)?, headers })
    }

    /// Sends up to [`Self::BATCH`] frames, each from its Ethernet header on. How many the interface took: the
    /// rest did not find room.
    ///
    /// # Errors
    /// The interface is gone or takes no frames of this size.
    pub fn send<F: AsRef<[u8]>>(&mut self, frames: &[F]) -> io::Result<usize> {
        let parts: Vec<_> = frames.iter().map(|frame| [IoSlice::new(frame.as_ref())]).collect();
        let to = [None::<()>; Self::BATCH];
        let fd = self.socket.fd().as_raw_fd();
        match sendmmsg(fd, &mut self.headers, &parts, to, [], MsgFlags::MSG_DONTWAIT) {
            Ok(sent) => Ok(sent.count()),
            // Its queue is full, or it is down just now.
            Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::EINTR | Errno::ENETDOWN) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Most frames of a call.
    pub const BATCH: usize = 64;
}

/// IPv6 frames that come in by an interface.
#[derive(Debug)]
pub struct FrameReceiver(FrameSocket);

impl FrameReceiver {
    /// Of an interface of this network namespace. About so many small frames wait to be received; others are
    /// dropped and counted, as by a network adapter whose ring is full.
    ///
    /// # Errors
    /// There is no such interface, or no CAP_NET_RAW.
    pub fn open(interface: &str, waiting: u16) -> io::Result<Self> {
        let octets = i32::from(waiting) * SMALL_FRAME / 2;
        Ok(Self(FrameSocket::receiver(interface, libc::ETH_P_IPV6, octets)?))
    }

    /// The next frame from its Ethernet header on, if one is there; what does not fit is cut off.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.0.receive(buffer)
    }

    /// Sends one; what the interface does not take is lost.
    pub fn send(&self, frame: &[u8]) {
        self.0.send(frame);
    }

    /// Waits until a frame is there, or for so long.
    ///
    /// # Errors
    /// The socket cannot be waited for.
    pub fn wait(&self, limit: Duration) -> io::Result<()> {
        wait([&self.0], limit)
    }

    /// Frames that came, and those of them that were dropped, since this was last asked.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn statistics(&self) -> io::Result<(u64, u64)> {
        self.0.statistics()
    }
}

/// What the kernel counts for a frame of less than 128 octets: its room and `struct sk_buff`. It doubles
/// what it is told.
const SMALL_FRAME: i32 = 768;
