//! TCP connections (RFC 9293), behind a trait.
//!
//! An [`Engine`] knows flows and segments, and nothing beneath: the stack gives it the segments for the host, and puts
//! headers of IPv6 in front of the segments that come out. [`smol::SmolEngine`] runs the state machine of `smoltcp`.
//!
//! An engine may hand out a *super-segment*: one header with more payload than a segment may have on the path. [`cut`] makes
//! segments of it at the last moment, with the MSS of the path at that time. So a connection follows the path's MTU although
//! the ends agree on an MSS once only (RFC 9293 s3.7.1).
//!
//! IPv4 connections have v4-mapped addresses here. The checksum of their segments is the same as with IPv4: the pseudo-headers have
//! equal sums.

mod cut;
mod segment;
pub mod smol;
mod spares;

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::net::Ipv6Addr;
use core::num::NonZeroU16;
use core::time::Duration;

use moorline_ip::icmp::Cause;
use moorline_ip::{Header, PacketBuf};
use moorline_types::Instant;

use crate::socket::Error;
use crate::{Drop, Drops};

pub use cut::{Segments, cut};
pub use segment::{
    Flags, Segment, Seq, SynOptions, clamp_mss, fill_checksum, is_checksum_right, reset_for,
};
pub use spares::{LARGEST, MAX_SPARES, Spares};

/// Name of a connection. No two connections of a host ever have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TcpId(u64);

/// Name of a listener. No two listeners of a host ever have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(u64);

/// Addresses and ports of a connection, as this host sees them. Flows between two addresses are neighbors in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Address and port of this host.
    pub local: (Ipv6Addr, u16),
    /// Address and port of the peer.
    pub peer: (Ipv6Addr, u16),
}

impl Ord for Flow {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |flow: &Self| (flow.local.0, flow.peer.0, flow.local.1, flow.peer.1);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Flow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// State of a connection (RFC 9293 s3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// There is no connection any more.
    Closed,
    /// The host has sent a SYN.
    SynSent,
    /// The host has sent and received a SYN.
    SynReceived,
    /// Both ends may send.
    Established,
    /// The host has sent a FIN.
    FinWait1,
    /// The peer has acknowledged the FIN of the host.
    FinWait2,
    /// The peer has sent a FIN.
    CloseWait,
    /// Both ends have sent a FIN at once.
    Closing,
    /// The host has sent its FIN after the peer's.
    LastAck,
    /// Both directions are closed; the host still answers copies of the last segments.
    TimeWait,
}

impl State {
    /// Whether the peer has sent its FIN.
    #[must_use]
    pub const fn has_fin(self) -> bool {
        matches!(self, Self::CloseWait | Self::Closing | Self::LastAck | Self::TimeWait)
    }
}

/// Something that the owner of a connection or the stack wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// [`Engine::accept`] has a connection.
    Acceptable(ListenerId),
    /// A connection of [`Engine::connect`] is established.
    Established(TcpId),
    /// [`Engine::recv`] has octets or the end of the stream.
    Readable(TcpId),
    /// [`Engine::send`] has room again, after it had too little.
    Writable(TcpId),
    /// The peer has acknowledged new octets, so packets reach it (RFC 4861 s7.3.1).
    Reachable(Flow),
    /// The connection is over. The error is `None` if both ends have closed it in order.
    Closed(TcpId, Option<Error>),
}

/// A segment, or super-segment, to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Address of this host.
    pub source: Ipv6Addr,
    /// Address of the peer.
    pub destination: Ipv6Addr,
    /// TCP header and payload, with room in front. The checksum is zero: [`cut`] or the wire writes it.
    pub segment: PacketBuf,
    /// The MSS of the connection: octets of options and payload that the peer takes in one segment (RFC 6691). The stack takes
    /// the lesser of this and the MSS of the path.
    pub mss: u16,
}

impl Outgoing {
    /// Octets of payload of each segment but the last, if the super-segment is cut for this MSS of the path. `None` for a segment that is short
    /// enough.
    #[must_use]
    pub fn segment_size(&self, mss: u16) -> Option<NonZeroU16> {
        let parsed = Segment::parse(&self.segment).ok()?;
        let options = u16::try_from(parsed.options.len()).ok()?;
        let size = NonZeroU16::new(mss.min(self.mss).saturating_sub(options))?;
        (parsed.payload.len() > usize::from(size.get())).then_some(size)
    }

    /// The segments of at most `mss` octets of options and payload, and of at most what the peer takes.
    //= rfc8201#5.4-2 rfc8201#5.4-4 rfc8201#5.4-5
    #[must_use]
    pub fn into_segments(self, mss: u16) -> Segments {
        cut(self.segment, mss.min(self.mss), self.source, self.destination)
    }
}

/// The MSS towards a peer, if `mss` is the one of IPv6: the header of IPv4 has 20 octets less (RFC 9293 s3.7.1).
#[must_use]
pub fn mss_to(peer: Ipv6Addr, mss: u16) -> u16 {
    if peer.to_ipv4_mapped().is_some() { mss.saturating_add(20) } else { mss }
}

/// All TCP connections of a host.
pub trait Engine {
    /// Accepts connections to an address, or to all addresses. Up to `backlog` connections wait for [`Self::accept`].
    ///
    /// # Errors
    /// [`Error::AddrInUse`], [`Error::Invalid`], [`Error::NoBuffers`].
    fn listen(
        &mut self,
        local: Option<Ipv6Addr>,
        port: u16,
        backlog: usize,
    ) -> Result<ListenerId, Error>;

    /// Ends a listener. Connections that nobody has accepted are reset.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    fn unlisten(&mut self, id: ListenerId) -> Result<(), Error>;

    /// Opens a connection.
    ///
    /// # Errors
    /// [`Error::AddrInUse`] if the flow exists, [`Error::Invalid`], [`Error::NoBuffers`].
    fn connect(
        &mut self,
        local: (Ipv6Addr, u16),
        peer: (Ipv6Addr, u16),
        now: Instant,
    ) -> Result<TcpId, Error>;

    /// Takes an established connection off the queue of a listener, `None` if there is none.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    fn accept(&mut self, id: ListenerId) -> Result<Option<TcpId>, Error>;

    /// Queues octets, and returns how many.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] without room or before the connection is established; [`Error::Closed`] after
    /// [`Self::shutdown`]; the reason for which the connection ended; [`Error::BadHandle`].
    fn send(&mut self, id: TcpId, octets: &[u8]) -> Result<usize, Error>;

    /// Takes octets that came in, and returns how many. Zero is the end of the stream.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]; the reason for which the connection ended, behind the octets that came before;
    /// [`Error::BadHandle`].
    fn recv(&mut self, id: TcpId, octets: &mut [u8]) -> Result<usize, Error>;

    /// Sends a FIN behind the queued octets. The connection still receives.
    ///
    /// # Errors
    /// [`Error::BadHandle`]; [`Error::NotConnected`] before the connection is established.
    fn shutdown(&mut self, id: TcpId) -> Result<(), Error>;

    /// Ends the connection with an RST. The name stays until [`Self::close`].
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    fn abort(&mut self, id: TcpId) -> Result<(), Error>;

    /// Gives up the name. The connection sends what is queued and closes in order; if octets were not read, it is
    /// reset (RFC 9293 s3.6.1).
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    fn close(&mut self, id: TcpId) -> Result<(), Error>;

    /// Whether segments wait until they are full while others are unacknowledged (RFC 9293 s3.7.4). They do at first.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    fn set_nagle(&mut self, id: TcpId, is_on: bool) -> Result<(), Error>;

    /// Sets the time after which a silent connection is probed; `None` ends the probes (RFC 9293 s3.8.4).
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    fn set_keep_alive(&mut self, id: TcpId, interval: Option<Duration>) -> Result<(), Error>;

    /// State of a connection.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    fn state(&self, id: TcpId) -> Result<State, Error>;

    /// Addresses and ports of a connection, also after its end.
    ///
    /// # Errors
    /// [`Error::BadHandle`].
    fn flow(&self, id: TcpId) -> Result<Flow, Error>;

    /// All connections with their states: also half-open ones, those in TIME-WAIT, and those whose names were given up.
    fn all(&self) -> Vec<(Flow, State)>;

    /// Whether [`Self::connect`] could open this flow.
    fn is_free(&self, flow: Flow) -> bool;

    /// Sets the MSS that SYNs announce: the MTU of the link less 60 octets (RFC 9293 s3.7.1).
    fn set_mss(&mut self, mss: u16);

    /// Handles a segment for the host: TCP header and payload. The caller has checked the checksum. The engine may use the
    /// segment and the room in front of it.
    ///
    /// # Errors
    /// [`Drop::NoSocket`] if nothing takes the segment, which is unchanged then: the host sends [`reset_for`] it. For another reason,
    /// the engine has queued the answer itself, if there is one.
    fn handle_segment(
        &mut self,
        header: &Header,
        segment: &mut PacketBuf,
        now: Instant,
    ) -> Result<(), Drop>;

    /// Handles an ICMPv6 error that quotes a segment of the host with this sequence number. Errors are soft for a synchronized
    /// connection (RFC 5927 s5.2). Any error ends a connection in SYN-SENT: a program waits, and may have another address to try
    /// (RFC 5461 s4.2). A hard error ends a half-open connection of a listener (RFC 9293 s3.9.2.2); nobody waits for
    /// it, so after a soft one the SYN-ACK is sent again.
    ///
    /// # Errors
    /// [`Drop::ForeignError`] if the segment is not one that waits for its acknowledgment (RFC 5927 s4.1).
    fn handle_error(
        &mut self,
        flow: Flow,
        cause: Cause,
        sequence: Seq,
        now: Instant,
    ) -> Result<(), Drop>;

    /// Tells that the packets of a flow take another path now. The engine retransmits the first segment that is not acknowledged at
    /// once: also a SYN, a SYN-ACK or a FIN.
    ///
    /// # Errors
    /// [`Error::NotConnected`] if the flow does not exist.
    fn handle_move(&mut self, flow: Flow, now: Instant) -> Result<(), Error>;

    /// The next segment to send. The answer changes after any other call.
    #[must_use]
    fn poll_segment(&mut self, now: Instant) -> Option<Outgoing>;

    /// The next event. The answer changes after any other call.
    #[must_use]
    fn poll_event(&mut self) -> Option<Event>;

    /// Time at which [`Self::handle_timeout`] has something to do. The answer changes after any other call.
    #[must_use]
    fn poll_timeout(&self) -> Option<Instant>;

    /// Handles that time has passed.
    fn handle_timeout(&mut self, now: Instant);

    /// Drops that no call has returned: half-open connections that made room or got no answer.
    fn drops(&self) -> &Drops;
}
