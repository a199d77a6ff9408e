use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;

use moorline_ip::{PacketBuf, ethernet};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::cut::{Cutter, complete, prepare};
use crate::vnet::{self, Kind, Notes};
use crate::wire::Counts;
use crate::{MAX_FRAME, packet};

/// A descriptor that gives and takes one frame a call, with [`Notes`] in front: a TAP interface, or a socket of the family AF_PACKET.
#[derive(Debug)]
pub(crate) struct Device {
    fd: AsyncFd<OwnedFd>,
    buffer: Box<[u8]>,
    /// Frame of which a part has not been received yet.
    cutter: Option<Cutter>,
    takes_super_segments: bool,
}

impl Device {
    /// Takes a descriptor that does not block. Must be called inside a tokio runtime.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        // SAFETY: an `OwnedFd` stays open and the same for as long as it lives, and lives in the result.
        let fd = unsafe { AsyncFd::register_with_interest(fd, interest) }?;
        // One octet more than the largest frame: a longer one fills the buffer.
        let buffer = vec![0; vnet::LEN + MAX_FRAME + 1].into();
        Ok(Self { fd, buffer, cutter: None, takes_super_segments: false })
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        self.fd.get_ref()
    }

    pub(crate) fn set_super_segments(&mut self, takes: bool) {
        self.takes_super_segments = takes;
    }

    /// Waits until there may be a frame. Cancel safe.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        if self.cutter.is_some() {
            return Ok(());
        }
        // The descriptor stays ready until a read finds nothing.
        self.fd.readable().await.map(drop)
    }

    /// Waits until there may be room for a frame. Cancel safe.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.fd.writable().await.map(drop)
    }

    /// Waits until there may be a frame, or room for one. Cancel safe.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        if self.cutter.is_some() {
            return Ok(());
        }
        self.fd.ready(Interest::READABLE | Interest::WRITABLE).await.map(drop)
    }

    pub(crate) fn try_recv(&mut self, counts: &mut Counts) -> io::Result<Option<PacketBuf>> {
        loop {
            if let Some(segment) = self.cutter.as_mut().and_then(Cutter::next_segment) {
                return Ok(Some(segment));
            }
            self.cutter = None;
            let buffer = &mut *self.buffer;
            let read = |fd: &OwnedFd| Ok(rustix::io::read(fd, &mut *buffer)?);
            let len = match self.fd.try_io(Interest::READABLE, read) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if is_for_now(&error) && !packet::is_gone(self.fd())? => continue,
                Err(error) => return Err(error),
            };
            if let Some(frame) = self.take(len, counts) {
                return Ok(Some(frame));
            }
        }
    }

    /// Takes the frame in the buffer, with `len` octets of notes and frame.
    fn take(&mut self, len: usize, counts: &mut Counts) -> Option<PacketBuf> {
        let (notes, frame) = self.buffer.get_mut(..len)?.split_at_mut_checked(vnet::LEN)?;
        if frame.len() > MAX_FRAME {
            counts.too_long += 1;
            return None;
        }
        if frame.len() < ethernet::LEN {
            counts.too_short += 1;
            return None;
        }
        let Ok(notes) = Notes::parse(notes) else {
            counts.not_understood += 1;
            return None;
        };
        if let Some(segmentation) = notes.segmentation
            && !(self.takes_super_segments && segmentation.kind != Kind::Udp)
        {
            self.cutter = Cutter::new(frame, notes);
            counts.not_understood += u64::from(self.cutter.is_none());
            return None;
        }
        let is_complete = notes.checksum.is_none_or(|partial| complete(frame, partial));
        counts.not_understood += u64::from(!is_complete);
        is_complete.then(|| PacketBuf::copy_of(frame))
    }

    /// Sends a frame.
    pub(crate) fn try_send(&self, frame: &[u8]) -> io::Result<Sent> {
        self.try_send_with(Notes::default(), frame)
    }

    /// Sends a TCP segment that Linux cuts to segments with `size` octets of payload.
    pub(crate) fn try_send_super(&self, frame: &mut [u8], size: u16) -> io::Result<Sent> {
        let notes = prepare(frame, size).ok_or(io::ErrorKind::InvalidInput)?;
        self.try_send_with(notes, frame)
    }

    fn try_send_with(&self, notes: Notes, frame: &[u8]) -> io::Result<Sent> {
        let notes = notes.octets();
        let parts = [IoSlice::new(&notes), IoSlice::new(frame)];
        let write = |fd: &OwnedFd| Ok(rustix::io::writev(fd, &parts)?);
        match self.fd.try_io(Interest::WRITABLE, write) {
            Ok(_) => Ok(Sent::Whole),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Sent::NoRoom),
            Err(error) if is_for_now(&error) => Ok(Sent::Lost),
            Err(error) => Err(error),
        }
    }
}

/// Outcome of an attempt to send a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The frame is on its way.
    Whole,
    /// The frame is lost.
    Lost,
    /// There is no room yet.
    NoRoom,
}

/// Whether the next call may succeed: the interface is down, its queue is full, or it takes no frames of this size. A frame is lost
/// then, as on any cable.
fn is_for_now(error: &io::Error) -> bool {
    let lost = [Errno::NETDOWN, Errno::IO, Errno::NOBUFS, Errno::MSGSIZE, Errno::INTR];
    Errno::from_io_error(error).is_some_and(|errno| lost.contains(&errno))
}
