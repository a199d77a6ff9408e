use std::io;

use moorline_ip::{Mac, PacketBuf};

use crate::cut::{Cutter, prepare};
use crate::device::{Device, Sent};
use crate::interface::Interface;
use crate::stream::Stream;
use crate::{MAX_FRAME, WireSpec, packet, tap};

/// An open wire. Frames begin with the Ethernet header.
///
/// A program that must not stand still receives with [`Wire::try_recv`] until there is nothing, sends with [`Wire::try_send`], and waits for
/// [`Wire::readable`], or for [`Wire::ready`] if frames wait for room, or for its next timer. If two programs on one wire both wait in [`Wire::send`] and do not receive, each waits for
/// the other.
#[derive(Debug)]
pub struct Wire {
    link: Link,
    mtu: u32,
    mac: Mac,
    counts: Counts,
}

/// Numbers of frames since the wire was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames that were received whole.
    pub received: u64,
    /// Frames that were sent. A large segment counts as one.
    pub sent: u64,
    /// Dropped on arrival: shorter than the Ethernet header.
    pub too_short: u64,
    /// Dropped on arrival: longer than [`MAX_FRAME`].
    pub too_long: u64,
    /// Dropped on arrival: notes of the kernel that do not fit the frame or that are unknown.
    pub not_understood: u64,
    /// Not sent: the interface is down, its queue is full, or it takes no frames of this size.
    pub lost: u64,
}

#[derive(Debug)]
enum Link {
    Tap(Device),
    Packet(Device, String),
    Stream(Box<Stream>),
}

impl Wire {
    /// Opens a wire of this network namespace. `unix-listen:` waits here for the other program.
    ///
    /// # Errors
    /// The kernel refuses: there is no such interface or socket, another program uses it, or CAP_NET_ADMIN (TAP) or CAP_NET_RAW
    /// (AF_PACKET) is missing. [`io::ErrorKind::InvalidInput`]: the interface has no framing of Ethernet.
    pub async fn open(spec: &WireSpec) -> io::Result<Self> {
        match spec {
            WireSpec::Tap(name) => Self::open_tap(name),
            WireSpec::Packet(name) => Self::open_packet(name),
            WireSpec::Unix(path) => Self::of_stream(Stream::connect(path).await?),
            WireSpec::UnixListen(path) => Self::of_stream(Stream::listen(path).await?),
        }
    }

    /// Makes a wire with both ends in this process. It has the form of a Unix stream.
    ///
    /// # Errors
    /// The kernel gives no socket, or no random numbers.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = Stream::pair()?;
        Ok((Self::of_stream(one)?, Self::of_stream(other)?))
    }

    fn open_tap(name: &str) -> io::Result<Self> {
        let device = Device::new(tap::open_tap(name)?)?;
        let mtu = Interface::new(name)?.mtu()?;
        Ok(Self { link: Link::Tap(device), mtu, mac: random_mac()?, counts: Counts::default() })
    }

    fn open_packet(name: &str) -> io::Result<Self> {
        let interface = Interface::new(name)?;
        let of =
            |error: io::Error| io::Error::new(error.kind(), format!("interface {name}: {error}"));
        let mac = interface.mac().map_err(of)?.ok_or_else(|| {
            let text = format!("interface {name} has no framing of Ethernet");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let device = Device::new(packet::open_packet(name, mac)?)?;
        let link = Link::Packet(device, name.to_owned());
        Ok(Self { link, mtu: interface.mtu()?, mac, counts: Counts::default() })
    }

    fn of_stream(stream: Stream) -> io::Result<Self> {
        let link = Link::Stream(Box::new(stream));
        Ok(Self { link, mtu: STREAM_MTU, mac: random_mac()?, counts: Counts::default() })
    }

    /// Octets of the largest packet of the link, without the Ethernet header. For a Unix stream 1500: neither QEMU nor passt says
    /// another value.
    #[must_use]
    pub const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// An address for the host: the interface's own for `packet:`, a random one that is locally administered for the others. The
    /// interface of a TAP wire belongs to the other end, and so does its address.
    #[must_use]
    pub const fn mac(&self) -> Mac {
        self.mac
    }

    /// Numbers of frames since the wire was opened.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes another address for the host. `packet:` receives the frames for that address and for groups only, and for an address that is
    /// not the interface's own it makes the interface receive all frames.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn set_mac(&mut self, mac: Mac) -> io::Result<()> {
        if let Link::Packet(device, name) = &self.link
            && mac != self.mac
        {
            packet::accept(device.fd(), mac)?;
            packet::listen_to_all(device.fd(), name)?;
        }
        self.mac = mac;
        Ok(())
    }

    /// Says whether [`Wire::recv`] may return TCP segments of up to 64 KB, longer than the MTU. At first it may not. Segments of a
    /// Unix stream are never that long.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_super_segments(&mut self, takes: bool) -> io::Result<()> {
        match &mut self.link {
            Link::Tap(device) => {
                tap::set_super_segments(device.fd(), takes)?;
                device.set_super_segments(takes);
            }
            Link::Packet(device, _) => device.set_super_segments(takes),
            Link::Stream(_) => {}
        }
        Ok(())
    }

    /// Waits until there may be a frame. Cancel safe.
    ///
    /// # Errors
    /// The wire has ended.
    pub async fn readable(&mut self) -> io::Result<()> {
        match &mut self.link {
            Link::Tap(device) | Link::Packet(device, _) => device.readable().await,
            Link::Stream(stream) => stream.readable().await,
        }
    }

    /// Waits until there may be room for a frame. Cancel safe.
    ///
    /// # Errors
    /// The wire has ended.
    pub async fn writable(&self) -> io::Result<()> {
        match &self.link {
            Link::Tap(device) | Link::Packet(device, _) => device.writable().await,
            Link::Stream(stream) => stream.writable().await,
        }
    }

    /// Waits until there may be a frame, or room for one: for a program with frames for which [`Wire::try_send`] had no room. If it
    /// waited for room alone, two such programs on one wire would wait for each other. Cancel safe.
    ///
    /// # Errors
    /// The wire has ended.
    pub async fn ready(&self) -> io::Result<()> {
        match &self.link {
            Link::Tap(device) | Link::Packet(device, _) => device.ready().await,
            Link::Stream(stream) => stream.ready().await,
        }
    }

    /// Returns the next frame, if there is one. The checksums of its upper layer are complete.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`]: the other end of a Unix stream has closed it; [`Wire::reconnect`] waits for another one.
    /// [`io::ErrorKind::InvalidData`]: a length on a Unix stream is more than [`MAX_FRAME`]. Others: the interface is gone.
    pub fn try_recv(&mut self) -> io::Result<Option<PacketBuf>> {
        let frame = match &mut self.link {
            Link::Tap(device) | Link::Packet(device, _) => device.try_recv(&mut self.counts)?,
            Link::Stream(stream) => stream.try_recv(&mut self.counts)?,
        };
        self.counts.received += u64::from(frame.is_some());
        Ok(frame)
    }

    /// Waits for the next frame. Cancel safe.
    ///
    /// # Errors
    /// See [`Wire::try_recv`].
    pub async fn recv(&mut self) -> io::Result<PacketBuf> {
        loop {
            if let Some(frame) = self.try_recv()? {
                return Ok(frame);
            }
            self.readable().await?;
        }
    }

    /// Sends a frame. Returns `false` if there is no room; [`Wire::writable`] waits for room. A frame that the interface does not take, as when
    /// it is down, is lost and counted.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: the frame is longer than [`MAX_FRAME`]. Others: the wire has ended.
    pub fn try_send(&mut self, frame: &[u8]) -> io::Result<bool> {
        check(frame)?;
        let sent = match &mut self.link {
            Link::Tap(device) | Link::Packet(device, _) => device.try_send(frame)?,
            Link::Stream(stream) => stream.try_send(&[frame])?,
        };
        Ok(self.counts.note(sent))
    }

    /// Sends a TCP segment that is to be cut to segments with `size` octets of payload: by Linux, or here for a Unix stream. The
    /// checksum of the frame need not be complete; its field is overwritten.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: the frame is no TCP segment over IPv6 or IPv4, or `size` is zero. Others as [`Wire::try_send`].
    pub fn try_send_super(&mut self, frame: &mut [u8], size: u16) -> io::Result<bool> {
        check(frame)?;
        let sent = match &mut self.link {
            Link::Tap(device) | Link::Packet(device, _) => device.try_send_super(frame, size)?,
            Link::Stream(stream) => stream.try_send(&cut(frame, size)?)?,
        };
        Ok(self.counts.note(sent))
    }

    /// Sends a frame, and waits for room. Cancel safe: the frame is sent whole or not at all.
    ///
    /// # Errors
    /// See [`Wire::try_send`].
    pub async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        while !self.try_send(frame)? {
            self.writable().await?;
        }
        Ok(())
    }

    /// Waits for another program at a Unix stream whose other end has closed it.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`]: the wire is no Unix stream. Others: no program listens at the path.
    pub async fn reconnect(&mut self) -> io::Result<()> {
        match &mut self.link {
            Link::Stream(stream) => stream.reconnect().await,
            Link::Tap(_) | Link::Packet(..) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl Counts {
    /// Counts a frame. Returns `false` if there was no room for it.
    fn note(&mut self, sent: Sent) -> bool {
        match sent {
            Sent::Whole => self.sent += 1,
            Sent::Lost => self.lost += 1,
            Sent::NoRoom => return false,
        }
        true
    }
}

/// Cuts a TCP segment into frames.
fn cut(frame: &mut [u8], size: u16) -> io::Result<Vec<PacketBuf>> {
    let notes = prepare(frame, size).ok_or(io::ErrorKind::InvalidInput)?;
    let cutter = Cutter::new(frame, notes);
    let mut cutter = cutter.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(std::iter::from_fn(|| cutter.next_segment()).collect())
}

fn check(frame: &[u8]) -> io::Result<()> {
    if frame.len() > MAX_FRAME { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
}

/// A random unicast address that is locally administered (IEEE 802 s8.4).
fn random_mac() -> io::Result<Mac> {
    let mut octets = [0; 6];
    getrandom::fill(&mut octets)?;
    octets[0] = octets[0] & !1 | 2;
    Ok(Mac(octets))
}

/// Octets of the largest packet of a Unix stream: those of Ethernet (RFC 2464 s2).
const STREAM_MTU: u32 = 1500;
