use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use moorline_ip::{PacketBuf, ethernet};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

use crate::MAX_FRAME;
use crate::device::Sent;
use crate::wire::Counts;

/// Frames over a Unix stream, each with its length in front as four octets, most significant first.
#[derive(Debug)]
pub(crate) struct Stream {
    stream: UnixStream,
    place: Place,
    incoming: Incoming,
    /// Octets that did not fit into the stream yet: at most the rest of one frame, or of one large segment.
    outgoing: VecDeque<u8>,
}

/// How the wire comes by a stream.
#[derive(Debug)]
enum Place {
    Connect(PathBuf),
    /// The other end is in this process, and there is no second one.
    Pair,
    Listen(Listener),
}

/// A socket in the file system, removed when it is no longer needed.
#[derive(Debug)]
struct Listener {
    listener: UnixListener,
    path: PathBuf,
}

/// Octets from the stream that are not a whole frame yet.
#[derive(Debug)]
struct Incoming {
    octets: Box<[u8]>,
    /// Octets `start..end` are not taken yet.
    start: usize,
    end: usize,
}

impl Stream {
    /// Connects to a socket.
    pub(crate) async fn connect(path: &Path) -> io::Result<Self> {
        Self::at(Place::Connect(path.to_owned())).await
    }

    /// Waits for another program to connect. A socket at `path` that no program listens to is replaced.
    pub(crate) async fn listen(path: &Path) -> io::Result<Self> {
        Self::at(Place::Listen(Listener::bind(path).await?)).await
    }

    async fn at(place: Place) -> io::Result<Self> {
        let stream = place.open().await?;
        Ok(Self::new(stream, place))
    }

    fn new(stream: UnixStream, place: Place) -> Self {
        Self { stream, place, incoming: Incoming::new(), outgoing: VecDeque::new() }
    }

    /// Makes both ends of a stream.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Self::new(one, Place::Pair), Self::new(other, Place::Pair)))
    }

    /// Begins anew with another stream, when the stream has ended.
    pub(crate) async fn reconnect(&mut self) -> io::Result<()> {
        self.stream = self.place.open().await?;
        self.incoming = Incoming::new();
        self.outgoing.clear();
        Ok(())
    }

    /// Waits until there may be a frame, and meanwhile writes octets that wait for room. Cancel safe.
    pub(crate) async fn readable(&mut self) -> io::Result<()> {
        while !self.incoming.has_frame() {
            if self.outgoing.is_empty() {
                return self.stream.readable().await;
            }
            let ready = self.stream.ready(Interest::READABLE | Interest::WRITABLE).await?;
            if ready.is_readable() {
                break;
            }
            self.flush()?;
        }
        Ok(())
    }

    /// Waits until there may be room for a frame. Cancel safe.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.stream.writable().await
    }

    /// Waits until there may be a frame, or room for one. Cancel safe.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        if self.incoming.has_frame() {
            return Ok(());
        }
        self.stream.ready(Interest::READABLE | Interest::WRITABLE).await.map(drop)
    }

    pub(crate) fn try_recv(&mut self, counts: &mut Counts) -> io::Result<Option<PacketBuf>> {
        loop {
            if let Some(frame) = self.incoming.take()? {
                if frame.len() >= ethernet::LEN {
                    return Ok(Some(frame));
                }
                counts.too_short += 1;
                continue;
            }
            let room = self.incoming.room();
            match self.stream.try_read(room) {
                Ok(0) => return Err(ended()),
                Ok(len) => self.incoming.end += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_end(&error) => return Err(ended()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends frames as one piece.
    pub(crate) fn try_send<F: Deref<Target = [u8]>>(&mut self, frames: &[F]) -> io::Result<Sent> {
        self.flush()?;
        if !self.outgoing.is_empty() {
            return Ok(Sent::NoRoom);
        }
        for frame in frames {
            let len = u32::try_from(frame.len()).map_err(io::Error::other)?;
            self.outgoing.extend(len.to_be_bytes());
            self.outgoing.extend(&**frame);
        }
        self.flush()?;
        Ok(Sent::Whole)
    }

    /// Writes octets that wait for room, as far as there is room.
    fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            let stream = &self.stream;
            let part = self.outgoing.as_slices().0;
            match stream.try_io(Interest::WRITABLE, || send(stream, part)) {
                Ok(len) => drop(self.outgoing.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_end(&error) => return Err(ended()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Writes without the signal SIGPIPE.
fn send(stream: &UnixStream, octets: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(stream, octets, rustix::net::SendFlags::NOSIGNAL)?)
}

/// Whether the other end has closed the stream. If it had not read all octets, the stream is reset.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn ended() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the program at the other end of the wire has closed it",
    )
}

impl Place {
    async fn open(&self) -> io::Result<UnixStream> {
        match self {
            Self::Connect(path) => UnixStream::connect(path).await.map_err(|error| {
                let text = format!("cannot connect to {}: {error}", path.display());
                io::Error::new(error.kind(), text)
            }),
            Self::Listen(Listener { listener, .. }) => Ok(listener.accept().await?.0),
            Self::Pair => Err(ended()),
        }
    }
}

impl Listener {
    async fn bind(path: &Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path).await?;
                UnixListener::bind(path)
            }
            outcome => outcome,
        };
        let listener = listener.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen at {}: {error}", path.display()))
        })?;
        Ok(Self { listener, path: path.to_owned() })
    }
}

/// Removes a socket that no program listens to. Any other file stays.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path)?.file_type().is_socket();
    let is_stale = match UnixStream::connect(path).await {
        Ok(_) => false,
        Err(error) => error.kind() == io::ErrorKind::ConnectionRefused,
    };
    if is_socket && is_stale {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Another program may have removed the socket before.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Incoming {
    fn new() -> Self {
        Self { octets: vec![0; ROOM].into(), start: 0, end: 0 }
    }

    /// The length of the next frame, if its four octets are there.
    fn len(&self) -> Option<usize> {
        let len = self.octets[self.start..self.end].first_chunk::<LENGTH>()?;
        Some(usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX))
    }

    fn has_frame(&self) -> bool {
        let present = self.end - self.start;
        self.len().is_some_and(|len| len > MAX_FRAME || present >= LENGTH + len)
    }

    /// Takes the next frame, if all of it is there.
    fn take(&mut self) -> io::Result<Option<PacketBuf>> {
        let Some(len) = self.len() else { return Ok(None) };
        if len > MAX_FRAME {
            // The next length cannot be found behind a wrong one.
            let text = format!("a frame of {len} octets on the wire, more than {MAX_FRAME}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let from = self.start + LENGTH;
        if self.end < from + len {
            return Ok(None);
        }
        self.start = from + len;
        Ok(Some(PacketBuf::copy_of(&self.octets[from..from + len])))
    }

    /// Room for more octets; there is always some when no whole frame waits.
    fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.octets.len() - self.start < LENGTH + MAX_FRAME {
            self.octets.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.octets[self.end..]
    }
}

/// Octets of a length.
const LENGTH: usize = 4;
/// Octets that are read at once: the largest frame and more, so that a partial frame seldom moves.
const ROOM: usize = 4 * (LENGTH + MAX_FRAME);

#[cfg(test)]
mod tests;
