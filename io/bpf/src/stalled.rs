use std::io::Read as _;

use libbpf_rs::{Iter, Link};
use moorline_types::UlidPair;

use crate::convert;
use crate::error::{Error, Result};
use crate::load;
use crate::plain::Plain as _;
use crate::skel::{self, tcp_iter, types};
use crate::tables::Table;

/// Lists the TCP sockets between watched ULIDs that wait for an acknowledgement.
///
/// A `bpf_iter` program looks through the sockets of the network namespace of whoever calls
/// [`StalledSockets::list`]. Left out are those that have asked to be told of ICMPv6 errors (`IPV6_RECVERR`)
/// and those that are not connected yet: they would take a notice for a failure.
pub struct StalledSockets {
    link: Link,
    wanted: Table<types::pair, u8>,
}

/// A socket that has sent something and has had no answer to it so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalledSocket {
    /// Its addresses.
    pub ulids: UlidPair,
    /// Its port.
    pub local_port: u16,
    /// The peer's.
    pub peer_port: u16,
    /// The oldest octet that is not acknowledged (RFC 9293 s3.3.1, `SND.UNA`).
    pub snd_una: u32,
    /// The next octet to be sent.
    pub snd_nxt: u32,
    /// Times that the timer has run out since the last acknowledgement.
    pub retransmits: u8,
    /// Times that the timer was doubled since then and not taken back.
    pub backoff: u8,
}

impl StalledSockets {
    /// Loads the program.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] also where the kernel has no iterator over TCP sockets or no BTF.
    pub fn open() -> Result<Self> {
        let object = load::load("tcp_iter", &skel::TCP_ITER.0, |_| None, &[], None)?;
        let wanted = Table::of(&object, "wanted")?;
        let program = object.progs_mut().find(|program| program.name() == PROGRAM);
        let link = program.ok_or(Error::Missing(PROGRAM))?.attach().map_err(Error::Load)?;
        Ok(Self { link, wanted })
    }

    /// Lists the sockets of this pair too, from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Table`].
    pub fn watch(&self, ulids: UlidPair) -> Result<()> {
        self.wanted.insert(&convert::ulids(ulids), &1)
    }

    /// Lists them no longer; not having listed them is no error.
    ///
    /// # Errors
    ///
    /// [`Error::Table`].
    pub fn unwatch(&self, ulids: UlidPair) -> Result<()> {
        self.wanted.remove(&convert::ulids(ulids))
    }

    /// Looks through all TCP sockets of the network namespace once, for all pairs; gives no more than 65,536.
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

/// Read at most in one go.
const MAX_OCTETS: u64 = 65_536 * size_of::<tcp_iter::types::stalled>() as u64;
/// The function in `bpf/tcp_iter.bpf.c`.
const PROGRAM: &str = "stalled_sockets";
