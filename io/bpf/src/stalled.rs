use std::io::Read as _;

use libbpf_rs::{Iter, Link};
use moorline_types::UlidPair;

use crate::convert;
use crate::error::{Error, Result};
use crate::load;
use crate::plain::Plain as _;
use crate::skel::{self, tcp_iter, types};
use crate::tables::Table;

/// Lists the TCP sockets between watched ULIDs that wait for an acknowledgement, or for a path to send by.
///
/// A `bpf_iter` program looks through the sockets in the network namespace of the caller of [`StalledSockets::list`].
/// It leaves out sockets that have asked for ICMPv6 errors (`IPV6_RECVERR`) and sockets that are not connected yet:
/// these would take a notice for a failure. A socket that has data to send, has nothing in flight, and has doubled its
/// timer could not send, because the host had no route or the peer no window.
pub struct StalledSockets {
    link: Link,
    wanted: Table<types::pair, u8>,
}

/// A socket that has sent data and has had no answer so far, or that could not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalledSocket {
    /// Addresses of the socket.
    pub ulids: UlidPair,
    /// Local port.
    pub local_port: u16,
    /// Port of the peer.
    pub peer_port: u16,
    /// The oldest octet without an acknowledgement (RFC 9293 s3.3.1, `SND.UNA`).
    pub snd_una: u32,
    /// The next octet to send.
    pub snd_nxt: u32,
    /// Number of expirations of the timer since the last acknowledgement.
    pub retransmits: u8,
    /// Number of doublings of the timer since then that were not taken back.
    pub backoff: u8,
}

impl StalledSocket {
    /// Whether the socket had nothing in flight, and could not send.
    #[must_use]
    pub const fn is_unsent(&self) -> bool {
        self.snd_una == self.snd_nxt
    }
}

impl StalledSockets {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// [`Error::Load`], also if the kernel has no iterator over TCP sockets, or no BTF.
    pub fn open() -> Result<Self> {
        let object = load::load("tcp_iter", &skel::TCP_ITER.0, |_| None, &[], None)?;
        let wanted = Table::of(&object, "wanted")?;
        let program = object.progs_mut().find(|program| program.name() == PROGRAM);
        let link = program.ok_or(Error::Missing(PROGRAM))?.attach().map_err(Error::Load)?;
        Ok(Self { link, wanted })
    }

    /// Makes [`Self::list`] include the sockets of this pair from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Table`].
    pub fn watch(&self, ulids: UlidPair) -> Result<()> {
        self.wanted.insert(&convert::ulids(ulids), &WANTED)
    }

    /// Makes [`Self::list`] include the sockets of this pair, and have those send that could not send before, as far as the
    /// peer's window lets them.
    ///
    /// # Errors
    ///
    /// [`Error::Table`].
    pub fn watch_and_send(&self, ulids: UlidPair) -> Result<()> {
        self.wanted.insert(&convert::ulids(ulids), &WANTED_SENDING)
    }

    /// Makes [`Self::list`] leave out the sockets of this pair from now on. No error if they were not included.
    ///
    /// # Errors
    ///
    /// [`Error::Table`].
    pub fn unwatch(&self, ulids: UlidPair) -> Result<()> {
        self.wanted.remove(&convert::ulids(ulids))
    }

    /// Looks through all TCP sockets of the network namespace once, for all pairs. Returns 65,536 sockets at most.
    ///
    /// # Errors
    ///
    /// [`Error::Table`].
    pub fn list(&self) -> Result<Vec<StalledSocket>> {
        let failed = |source| Error::Table { action: "list", table: "TCP sockets", source };
        let mut octets = Vec::new();
        let iter = Iter::new(&self.link).map_err(failed)?;
        iter.take(MAX_OCTETS).read_to_end(&mut octets).map_err(|error| failed(error.into()))?;
        let records = octets.chunks_exact(size_of::<tcp_iter::types::stalled>());
        Ok(records.filter_map(tcp_iter::types::stalled::from_octets).map(socket).collect())
    }
}

fn socket(raw: tcp_iter::types::stalled) -> StalledSocket {
    let address = |address: tcp_iter::types::address| types::address { word: address.word };
    let pair = types::pair { local: address(raw.ulids.local), peer: address(raw.ulids.peer) };
    StalledSocket {
        ulids: convert::ulids_back(pair),
        local_port: raw.local_port,
        peer_port: raw.peer_port,
        snd_una: raw.snd_una,
        snd_nxt: raw.snd_nxt,
        retransmits: raw.retransmits,
        backoff: raw.backoff,
    }
}

/// Values of the table, as in `bpf/tcp_iter.bpf.c`.
const WANTED: u8 = 1;
const WANTED_SENDING: u8 = 2;
/// Largest number of octets that one list reads.
const MAX_OCTETS: u64 = 65_536 * size_of::<tcp_iter::types::stalled>() as u64;
/// Name of the function in `bpf/tcp_iter.bpf.c`.
const PROGRAM: &str = "stalled_sockets";
