//! Requests to the kernel, one at a time, and their answers.

use crate::attributes::{Row, align, attribute, read_text};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR,
    NetlinkBuffer, NetlinkHeader, NetlinkMessage,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use std::io;
use tokio::sync::Mutex;

/// A netlink socket for requests.
#[derive(Debug)]
pub(crate) struct Exchange {
    inner: Mutex<Inner>,
}

struct Inner {
    socket: TokioSocket,
    sequence: u32,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Exchange {
    /// A socket in the network namespace of the calling thread.
    pub(crate) fn open() -> io::Result<Self> {
        Self::of_protocol(NETLINK_ROUTE)
    }

    /// One that answers all requests with an error: it is for questions about sockets.
    #[cfg(test)]
    pub(crate) fn refusing() -> io::Result<Self> {
        Self::of_protocol(netlink_sys::protocols::NETLINK_SOCK_DIAG)
    }

    fn of_protocol(protocol: isize) -> io::Result<Self> {
        let mut socket = TokioSocket::new(protocol)?;
        socket.socket_mut().bind_auto()?;
        socket.socket_ref().connect(&SocketAddr::new(0, 0))?;
        // What an error message can say beyond its number; old kernels do without.
        let _ = socket.socket_ref().set_ext_ack(true);
        let _ = socket.socket_ref().set_cap_ack(true);
        let _ = socket.socket_ref().set_netlink_get_strict_chk(true);
        Ok(Self { inner: Mutex::new(Inner { socket, sequence: 0 }) })
    }

    /// Makes a change and waits for the kernel's answer.
    pub(crate) async fn change(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut inner = self.inner.lock().await;
        inner.ask(message, flags | NLM_F_ACK).await.map(drop)
    }

    /// Makes changes together, each of them whatever becomes of the others. What the kernel refused, by its place.
    pub(crate) async fn change_all(
        &self,
        messages: Vec<RouteNetlinkMessage>,
        flags: u16,
    ) -> io::Result<Vec<(usize, io::Error)>> {
        let mut inner = self.inner.lock().await;
        let mut refused = Vec::new();
        let mut messages = messages.into_iter().peekable();
        let mut made = 0;
        while messages.peek().is_some() {
            let batch: Vec<_> = messages.by_ref().take(BATCH).collect();
            let count = batch.len();
            let of_batch = inner.tell(batch, flags).await?;
            refused.extend(of_batch.into_iter().map(|(place, error)| (made + place, error)));
            made += count;
        }
        Ok(refused)
    }

    /// Asks for one thing.
    pub(crate) async fn get(&self, message: RouteNetlinkMessage) -> io::Result<Vec<Row>> {
        let mut inner = self.inner.lock().await;
        inner.ask(message, NLM_F_ACK).await.map(|answer| answer.rows)
    }

    /// Reads a whole table, again if it changed underneath.
    pub(crate) async fn dump(&self, message: RouteNetlinkMessage) -> io::Result<Vec<Row>> {
        let mut inner = self.inner.lock().await;
        for _ in 0..DUMP_ATTEMPTS {
            match inner.ask(message.clone(), NLM_F_DUMP).await {
                Ok(Answer { rows, interrupted: false }) => return Ok(rows),
                Ok(Answer { interrupted: true, .. }) => {}
                // A filter on a table that has never had a route: it is empty.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(Vec::new()),
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("it changes faster than it can be read"))
    }
}

struct Answer {
    rows: Vec<Row>,
    interrupted: bool,
}

impl Inner {
    async fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Answer> {
        let octets = self.request(message, flags);
        self.socket.send(&octets).await?;

        let mut answer = Answer { rows: Vec::new(), interrupted: false };
        loop {
            let (octets, _) = self.socket.recv_from_full().await?;
            if self.take(&octets, &mut answer)? {
                return Ok(answer);
            }
        }
    }

    /// Sends requests in one datagram, of which the kernel answers the last, and those that it refuses.
    async fn tell(
        &mut self,
        batch: Vec<RouteNetlinkMessage>,
        flags: u16,
    ) -> io::Result<Vec<(usize, io::Error)>> {
        let (first, last) = (self.sequence.wrapping_add(1), batch.len().saturating_sub(1));
        let mut octets = Vec::new();
        for (place, message) in batch.into_iter().enumerate() {
            let answer = if place == last { NLM_F_ACK } else { 0 };
            octets.extend(self.request(message, flags | answer));
            octets.resize(align(octets.len()), 0);
        }
        self.socket.send(&octets).await?;

        let mut refused = Vec::new();
        loop {
            let (octets, _) = self.socket.recv_from_full().await?;
            for message in messages(&octets) {
                let place = usize::try_from(message.sequence_number().wrapping_sub(first));
                let Some(place) = place.ok().filter(|place| *place <= last) else { continue };
                refused.extend(status(&message).err().map(|error| (place, error)));
                if place == last {
                    return Ok(refused);
                }
            }
        }
    }

    /// The octets of the next request.
    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> Vec<u8> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, message.into());
        message.finalize();
        let mut octets = vec![0; message.buffer_len()];
        message.serialize(&mut octets);
        octets
    }

    /// Adds the messages of one datagram to the answer; true when it is complete.
    fn take(&self, octets: &[u8], answer: &mut Answer) -> io::Result<bool> {
        for message in messages(octets) {
            // An answer to a request that was given up half-way is not ours.
            if message.sequence_number() != self.sequence {
                continue;
            }
            answer.interrupted |= message.flags() & NLM_F_DUMP_INTR != 0;
            match message.message_type() {
                NLMSG_DONE => return status(&message).map(|()| true),
                NLMSG_ERROR => return status(&message).map(|()| true),
                kind => answer.rows.extend(Row::parse(kind, message.payload())),
            }
        }
        Ok(false)
    }
}

/// The messages of a datagram.
pub(crate) fn messages(mut octets: &[u8]) -> impl Iterator<Item = NetlinkBuffer<&[u8]>> {
    std::iter::from_fn(move || {
        let message = NetlinkBuffer::new_checked(octets).ok()?;
        let length = usize::try_from(message.length()).ok()?;
        let this = NetlinkBuffer::new(octets.get(..length)?);
        octets = octets.get(align(length)..).unwrap_or_default();
        Some(this)
    })
}

/// What an error or end-of-dump message says: its number and, from newer kernels, a sentence.
fn status(message: &NetlinkBuffer<&[u8]>) -> io::Result<()> {
    let payload = message.payload();
    let code = payload.first_chunk().map_or(0, |chunk| i32::from_ne_bytes(*chunk));
    if code >= 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(-code);
    if message.flags() & NLM_F_ACK_TLVS != 0 && message.message_type() == NLMSG_ERROR {
        // Capped acknowledgements repeat only the header of the request.
        let told = payload.get(4 + NETLINK_HEADER..).unwrap_or_default();
        if let Some(sentence) = attribute(told, NLMSGERR_ATTR_MSG) {
            tracing::debug!(%error, reason = read_text(sentence), "netlink request refused");
        }
    }
    Err(error)
}

const NETLINK_HEADER: usize = 16;
const NLMSGERR_ATTR_MSG: u16 = 1;
/// Dumps started before a table is called unreadable.
const DUMP_ATTEMPTS: usize = 8;
/// Changes in a datagram: their answers have to find room in the socket even if the kernel refuses all of them.
const BATCH: usize = 64;
