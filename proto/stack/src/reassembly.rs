//! Packets that come in fragments (RFC 8200 s4.5).
//!
//! Each fragment is checked by itself first. The ones that pass go to the datagram with their source, destination and
//! identification. A datagram is complete when its fragments cover it without a gap. A fragment that overlaps another
//! one makes the host refuse the datagram: its octets go at once, and the empty entry stays for the rest of the 60 s,
//! so the fragments that follow are refused too (RFC 5722 s4). A fragment that is a whole packet touches no datagram
//! (RFC 6946 s4).
//!
//! Fragments of IPv4 come as IPv6 fragments with v4-mapped addresses, and an IPv4 address counts as a /64 of its own.
//!
//! # Limits
//!
//! All datagrams together take [`MAX_MEMORY`] at most, with what the tables take, and a source has [`MAX_OF_SOURCE`]
//! datagrams at most. If a source begins one more, its oldest one goes. If the memory is full, the oldest datagram
//! goes of the /64 that takes the most memory above [`FAIR_SHARE`]; if no /64 takes more, the oldest datagram of all
//! goes. So a flood from some prefixes takes the room of others in no case, and a flood from everywhere leaves each
//! datagram a time of
//! [`MAX_MEMORY`] divided by the rate of the flood. That is 20 ms or more at 100,000 fragments of 1500 octets a second.

mod datagram;
mod incoming;
mod table;

use alloc::collections::VecDeque;
use core::time::Duration;

use moorline_ip::address::Scope;
use moorline_ip::{Header, PacketBuf};
use moorline_types::Instant;

use crate::chain::{Position, Verdict};
use crate::{Drop, Drops};
use datagram::Datagram;
use incoming::Incoming;
use table::{Key, Table};

/// The fragments of all datagrams that are not complete. `W` names an interface.
#[derive(Clone, Debug)]
pub struct Reassembly<W> {
    table: Table<W>,
    expired: VecDeque<Expired<W>>,
    drops: Drops,
}

/// How a fragment came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<W> {
    /// Interface. It is part of a link-local address (RFC 4007 s6).
    pub wire: W,
    /// Whether the frame had a multicast or broadcast address of the link.
    pub is_link_multicast: bool,
}

/// A packet that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The packet, without a Fragment header.
    pub packet: PacketBuf,
    /// Its header.
    pub header: Header,
    /// The place from which the walk through its headers goes on.
    pub position: Position,
}

/// A datagram whose time is over, and whose first fragment came in. Its source should get a Time Exceeded, code 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired<W> {
    /// The first fragment, as far as an error quotes it.
    pub quote: PacketBuf,
    /// How the first fragment came in.
    pub arrival: Arrival<W>,
}

impl<W> Default for Reassembly<W> {
    fn default() -> Self {
        Self { table: Table::default(), expired: VecDeque::new(), drops: Drops::default() }
    }
}

impl<W: Copy + Ord> Reassembly<W> {
    /// Takes in a fragment; `position` is that of its Fragment header. Returns the packet if the fragment completes one.
    ///
    /// # Errors
    /// A [`Verdict`] about the fragment.
    //= rfc8504#5.1-5 rfc8504#5.7.1-2
    //= rfc6946#4-1 rfc6946#4-2 rfc6946#4-3
    //= rfc8200#4.5-8 rfc8200#4.5-9 rfc8200#5-8
    pub fn handle_fragment(
        &mut self,
        packet: &[u8],
        header: &Header,
        position: Position,
        arrival: Arrival<W>,
        now: Instant,
    ) -> Result<Option<Whole>, Verdict> {
        self.handle_timeout(now);
        let fragment = Incoming::check(packet, header, position)?;
        // RFC 6946 s4: an atomic fragment is processed in isolation from any other fragments.
        if fragment.fields.is_atomic() {
            let whole = fragment.alone().map(Some);
            return whole.ok_or(Verdict::Discard(Drop::FragmentLength));
        }
        self.gather(&fragment, Key::of(header, &fragment, arrival.wire), arrival, now)
    }

    fn gather(
        &mut self,
        fragment: &Incoming<'_>,
        key: Key<W>,
        arrival: Arrival<W>,
        now: Instant,
    ) -> Result<Option<Whole>, Verdict> {
        let serial = self.table.find(&key).unwrap_or_else(|| self.open(key, now));
        let added = self.table.change(serial, |datagram| datagram.add(fragment, arrival));
        match added.unwrap_or(Err(Drop::FragmentLimit)) {
            Ok(true) => {
                let datagram = self.table.remove(serial);
                let whole = datagram.ok_or(Drop::FragmentLimit).and_then(|it| it.whole());
                whole.map(Some).map_err(Verdict::Discard)
            }
            Ok(false) => {
                self.make_room();
                Ok(None)
            }
            Err(reason) => {
                self.make_room();
                Err(Verdict::Discard(reason))
            }
        }
    }

    /// Begins a datagram. If its source has too many, the oldest one goes.
    fn open(&mut self, key: Key<W>, now: Instant) -> u64 {
        let (count, oldest) = self.table.of_source(key.source);
        if let Some(oldest) = oldest.filter(|_| count >= MAX_OF_SOURCE) {
            self.evict(oldest);
        }
        self.table.insert(Datagram::new(key, now + TIMEOUT))
    }

    fn make_room(&mut self) {
        while self.table.memory() > MAX_MEMORY
            && let Some(victim) = self.table.victim()
        {
            self.evict(victim);
        }
    }

    fn evict(&mut self, serial: u64) {
        self.table.remove(serial);
        self.drops.count(Drop::FragmentLimit);
    }

    /// Gives up the datagrams whose time is over.
    //= rfc8200#4.5-10 rfc8200#4.5-11
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((serial, deadline)) = self.table.oldest()
            && deadline <= now
        {
            if let Some(datagram) = self.table.remove(serial) {
                self.on_expired(&datagram);
            }
        }
    }

    /// A refused datagram has been counted before, and nobody hears of it.
    //= rfc8200#4.5-12
    fn on_expired(&mut self, datagram: &Datagram<W>) {
        if datagram.is_refused() {
            return;
        }
        self.drops.count(Drop::FragmentTimeout);
        // RFC 8200 s4.5: if the first fragment has been received, a Time Exceeded should be sent to its source.
        if let Some(expired) = datagram.expired().filter(|_| self.expired.len() < MAX_EXPIRED) {
            self.expired.push_back(expired);
        }
    }

    /// The next datagram about which an error is due. The answer changes with each fragment and timeout.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Expired<W>> {
        self.expired.pop_front()
    }

    /// Time at which the oldest datagram is given up.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.table.oldest().map(|(_, deadline)| deadline)
    }

    /// Datagrams that went without a fragment of theirs at hand: for lack of time or room.
    #[must_use]
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Octets that the datagrams take now.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.table.memory()
    }

    /// Number of datagrams that are not complete, refused ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<W: Copy> Key<W> {
    fn of(header: &Header, fragment: &Incoming<'_>, wire: W) -> Self {
        let is_local =
            [header.source, header.destination].iter().any(|it| Scope::of(*it) <= Scope::LINK);
        Self {
            source: header.source,
            destination: header.destination,
            identification: fragment.fields.identification,
            zone: is_local.then_some(wire),
        }
    }
}

/// Time for which a datagram waits for its fragments, from the first one that arrives (RFC 8200 s4.5).
//= rfc8200#4.5-10
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// Octets that all datagrams take at most: octets of fragments, allocations, and entries of tables.
pub const MAX_MEMORY: usize = 4 << 20;
/// Octets that the datagrams of a /64 may take before it counts as greedy: four datagrams of 64 KB.
pub const FAIR_SHARE: usize = MAX_MEMORY / 16;
/// Datagrams of one source, at most.
pub const MAX_OF_SOURCE: usize = 64;
/// Ranges of octets with gaps between them that a datagram has at most. The longest datagram has 54 fragments at
/// the least MTU of IPv6, so it needs no more in any order.
pub const MAX_RANGES: usize = 64;
/// Errors that wait for [`Reassembly::poll_output`], at most. No more errors than about that are sent at once.
pub const MAX_EXPIRED: usize = 64;

#[cfg(test)]
mod tests;
