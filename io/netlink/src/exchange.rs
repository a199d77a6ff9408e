//! Requests to the kernel with their answers, and unsolicited notices of the kernel.

use crate::error::Error;
use crate::row::{Row, align, read_text, read_u32};
use crate::settings::PROTOCOL;
use moorline_link::filter;
use netlink_packet_core::{
    Emitable, NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NLMSG_DONE,
    NLMSG_ERROR, NetlinkBuffer, NetlinkHeader,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket, AsyncSocketExt, Socket, SocketAddr, TokioSocket};
use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

/// A netlink socket for requests, one at a time. The kernel answers within the call that sends the request, so the
/// caller does not wait.
#[derive(Debug)]
pub(crate) struct Exchange {
    socket: Socket,
    /// Length in octets of the fixed header of a message, by its kind.
    fixed_len: fn(u16) -> usize,
    sequence: Mutex<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct Answer {
    rows: Vec<Row>,
    /// Requests that the kernel refused, by their index.
    pub(crate) refused: Vec<(usize, io::Error)>,
    is_interrupted: bool,
}

impl Exchange {
    /// Opens a socket of this protocol in the network namespace of the calling thread. `fixed_len` gives the length
    /// of the fixed header of a message, by its kind.
    pub(crate) fn open(protocol: isize, fixed_len: fn(u16) -> usize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_non_blocking(true)?;
        // Asks for texts in error messages. Old kernels do not have them.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        let _ = socket.set_netlink_get_strict_chk(true);
        Ok(Self { socket, fixed_len, sequence: Mutex::default() })
    }

    /// Makes a change, or asks for one object.
    pub(crate) fn ask(&self, request: &Row, flags: u16) -> io::Result<Vec<Row>> {
        self.answer(std::slice::from_ref(request), flags)?.whole()
    }

    /// Reads a whole table, again if it changed meanwhile.
    pub(crate) fn dump(&self, request: &Row) -> io::Result<Vec<Row>> {
        for _ in 0..DUMP_ATTEMPTS {
            match self.answer(std::slice::from_ref(request), NLM_F_DUMP) {
                Ok(answer) if answer.is_interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                answer => return answer?.whole(),
            }
        }
        Err(io::Error::other("it changes faster than it can be read"))
    }

    /// Sends up to [`Self::BATCH`] requests in one datagram. The kernel answers the last one, and those that it
    /// refuses. It executes each request, whatever the result of the others.
    pub(crate) fn answer(&self, requests: &[Row], flags: u16) -> io::Result<Answer> {
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        let (first, last) = (sequence.wrapping_add(1), requests.len().saturating_sub(1));
        let mut octets = Vec::new();
        for (place, request) in requests.iter().enumerate() {
            *sequence = sequence.wrapping_add(1);
            let answer = if place == last { NLM_F_ACK } else { 0 };
            append(&mut octets, request, NLM_F_REQUEST | flags | answer, *sequence)?;
        }
        self.socket.send(&octets, 0)?;

        let mut answer = Answer::default();
        loop {
            let (octets, _) = self.socket.recv_from_full()?;
            for message in messages(&octets) {
                // This message belongs to an earlier request that failed half-way.
                let place = usize::try_from(message.sequence_number().wrapping_sub(first));
                let Some(place) = place.ok().filter(|place| *place <= last) else { continue };
                answer.is_interrupted |= message.flags() & NLM_F_DUMP_INTR != 0;
                let kind = message.message_type();
                if kind != NLMSG_DONE && kind != NLMSG_ERROR {
                    let row = Row::split(kind, (self.fixed_len)(kind), message.payload());
                    answer.rows.extend(row);
                    continue;
                }
                answer.refused.extend(status(&message).err().map(|error| (place, error)));
                if place == last {
                    return Ok(answer);
                }
            }
        }
    }

    /// Number of requests in a datagram. The answers must fit the socket even if the kernel refuses all of them.
    pub(crate) const BATCH: usize = 64;
}

impl Answer {
    fn whole(self) -> io::Result<Vec<Row>> {
        match self.refused.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(self.rows),
        }
    }
}

/// A netlink socket for notices of the kernel about its tables.
pub(crate) struct Bulletin {
    socket: TokioSocket,
    /// Received notices, each with the port of the process that made the change.
    waiting: VecDeque<(u32, Row)>,
}

impl Bulletin {
    /// Subscribes to these groups (`RTNLGRP_*`), except to notices of routes that this program changes in tables of its
    /// own. Must be called inside a tokio runtime.
    pub(crate) fn of(groups: &[u32]) -> Result<Self, Error> {
        let open = || {
            let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
            socket.socket_mut().bind_auto()?;
            for group in groups {
                socket.socket_mut().add_membership(*group)?;
            }
            filter::attach(socket.socket_ref(), &mut without_own_routes())?;
            Ok(Self { socket, waiting: VecDeque::new() })
        };
        open().map_err(Error::refused("open a netlink socket"))
    }

    /// Waits for the next notice. Returns it with the port of the process that made the change. Can be cancelled.
    ///
    /// # Errors
    /// `ENOBUFS`: the kernel had more notices than the socket could hold.
    pub(crate) async fn next(&mut self) -> io::Result<(u32, Row)> {
        loop {
            if let Some(next) = self.waiting.pop_front() {
                return Ok(next);
            }
            let (octets, _) = self.socket.recv_from_full().await?;
            self.waiting.extend(messages(&octets).filter_map(|message| {
                let row = Row::parse(message.message_type(), message.payload())?;
                Some((message.port_number(), row))
            }));
        }
    }
}

/// Program of a packet filter that drops notices of the routes that this program sets and removes, outside the main table.
/// Thousands of them would fill the socket, and other notices would be lost. Notices of the kernel's own removals pass.
const fn without_own_routes() -> [libc::sock_filter; 11] {
    const fn load(size: u32, at: u32) -> libc::sock_filter {
        filter::instruction(libc::BPF_LD | size | libc::BPF_ABS, at, 0, 0)
    }
    const fn is(value: u32, jt: u8, jf: u8) -> libc::sock_filter {
        filter::instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, jt, jf)
    }
    // Loads read the network's order of octets, and the header of a notice has the host's.
    const NEW: u32 = u16::from_be_bytes(libc::RTM_NEWROUTE.to_ne_bytes()) as u32;
    const GONE: u32 = u16::from_be_bytes(libc::RTM_DELROUTE.to_ne_bytes()) as u32;
    [
        load(libc::BPF_H, TYPE_AT),
        is(NEW, 1, 0),
        is(GONE, 0, 7),
        load(libc::BPF_B, ROUTE_PROTOCOL_AT),
        is(PROTOCOL as u32, 0, 5),
        load(libc::BPF_B, ROUTE_TABLE_AT),
        is(libc::RT_TABLE_MAIN as u32, 3, 0),
        load(libc::BPF_W, PORT_AT),
        is(0, 1, 0),
        filter::instruction(libc::BPF_RET | libc::BPF_K, filter::NONE, 0, 0),
        filter::instruction(libc::BPF_RET | libc::BPF_K, filter::ALL, 0, 0),
    ]
}

/// Offsets in a notice of a route: in its `nlmsghdr`, and in the `rtmsg` behind it.
const TYPE_AT: u32 = 4;
const PORT_AT: u32 = 12;
const ROUTE_TABLE_AT: u32 = 20;
const ROUTE_PROTOCOL_AT: u32 = 21;

/// Appends a request to the others in the datagram.
fn append(octets: &mut Vec<u8>, request: &Row, flags: u16, sequence: u32) -> io::Result<()> {
    let start = octets.len();
    let mut header = NetlinkHeader::default();
    let length = header.buffer_len() + request.as_ref().len();
    header.length = u32::try_from(length).map_err(io::Error::other)?;
    header.message_type = request.kind;
    header.flags = flags;
    header.sequence_number = sequence;
    octets.resize(start + header.buffer_len(), 0);
    header.emit(&mut octets[start..]);
    octets.extend(request.as_ref());
    octets.resize(align(octets.len()), 0);
    Ok(())
}

/// Iterates over the messages of a datagram.
fn messages(mut octets: &[u8]) -> impl Iterator<Item = NetlinkBuffer<&[u8]>> {
    std::iter::from_fn(move || {
        let message = NetlinkBuffer::new_checked(octets).ok()?;
        let length = usize::try_from(message.length()).ok()?;
        let this = NetlinkBuffer::new(octets.get(..length)?);
        octets = octets.get(align(length)..).unwrap_or_default();
        Some(this)
    })
}

/// Status in an error or end-of-dump message: its number and, from newer kernels, a text.
fn status(message: &NetlinkBuffer<&[u8]>) -> io::Result<()> {
    let payload = message.payload();
    let code = read_u32(payload).unwrap_or_default().cast_signed();
    if code >= 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(-code);
    if message.flags() & NLM_F_ACK_TLVS != 0 && message.message_type() == NLMSG_ERROR {
        // Capped acknowledgements repeat only the header of the request.
        let told = Row::split(NLMSG_ERROR, 4 + NetlinkHeader::default().buffer_len(), payload);
        if let Some(sentence) = told.as_ref().and_then(|told| told.attribute(NLMSGERR_ATTR_MSG)) {
            tracing::debug!(%error, reason = read_text(sentence), "netlink request refused");
        }
    }
    Err(error)
}

const NLMSGERR_ATTR_MSG: u16 = 1;
/// Number of dumps that are started before a table counts as unreadable.
const DUMP_ATTEMPTS: usize = 8;
