//! Link-layer addresses of the neighbors on a wire, and whether the neighbors are reachable (RFC 4861 s7.2, s7.3, RFC 7048).
//!
//! [`Neighbors`] holds one entry for each neighbor. An entry is INCOMPLETE until an answer tells its link-layer address. Then
//! it moves between the other states:
//!
//! ```text
//!   send        ┌────────────┐ NA, NS, RA, Redirect   ┌───────┐ send   ┌───────┐ 5 s   ┌───────┐ 3 NS    ┌─────────────┐
//! ─────────────>│ INCOMPLETE │ ─────────────────────> │ STALE │ ─────> │ DELAY │ ────> │ PROBE │ ──────> │ UNREACHABLE │
//!               └────────────┘                        └───────┘        └───────┘       └───────┘         └─────────────┘
//!        3 NS: removed │                                  ^ ReachableTime   │ solicited NA, or progress     │
//!                      v                                  │  ┌───────────┐  │ of an upper layer             │
//!                 Unreachable                             └──│ REACHABLE │<─┴───────────────────────────────┘
//!                                                            └───────────┘
//! ```
//!
//! In the state UNREACHABLE, packets still go to the last link-layer address, and solicitations are multicast and become
//! rarer. A router that has died so stays known as unreachable. If its entry were deleted, a host could not tell
//! the router from a router that has never been tried, and RFC 4191 counts the latter as reachable.
//!
//! REACHABLE has no timer: the host looks at the time when it uses the entry (RFC 4861 s7.3.3 allows this). The other timers are:
//!
//! | timer | armed by | disarmed by | does |
//! |---|---|---|---|
//! | retransmission in INCOMPLETE | first packet | link-layer address | solicits again; after [`MAX_MULTICAST_SOLICIT`] removes the entry |
//! | delay | first packet in STALE | confirmation, new link-layer address | goes to PROBE |
//! | retransmission in PROBE | delay | confirmation, new link-layer address | solicits again; after [`MAX_UNICAST_SOLICIT`] goes to UNREACHABLE |
//! | backoff in UNREACHABLE | PROBE, packet | confirmation, new link-layer address | solicits again if the entry is in use |
//!
//! Strangers can make the host create entries. So the table is bounded, and entries in use stay: the host has sent a
//! packet to the neighbor in the last [`IN_USE`], and the neighbor has proven that it exists (RFC 6583 s7.1) or is one of the
//! few routers of the host. An answer to a solicitation is no use. A newcomer pushes out, in this order: the oldest entry that the host has never used, the oldest that has been idle for longer
//! than [`IN_USE`], and the oldest that has not proven that its neighbor exists. If there is none of these, the newcomer is
//! refused with [`Drop::NeighborLimit`]. Solicitations for unknown neighbors have a rate ([`SOLICIT_RATE`]).

mod budget;
mod entry;
mod output;
mod solicit;
mod table;
mod times;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::is_unicast;
use moorline_ip::nd::NeighborAdvertisement;
use moorline_ip::{Mac, PacketBuf};
use moorline_types::Instant;
use rand_chacha::ChaCha20Rng;

use crate::{Drop, Drops};
use budget::Budget;
use entry::{Context, Entry};
use solicit::Fate;
use table::Table;
use times::Times;

pub use budget::{SOLICIT_BURST, SOLICIT_RATE};
pub use output::{Neighbor, Output, State};
pub use table::IN_USE;
pub use times::{MAX_RETRANS_TIMER, REACHABLE_TIME, RETRANS_TIMER};

/// The neighbors on one wire.
///
/// After each call, the caller takes the outputs from [`Self::poll_output`].
#[derive(Debug)]
pub struct Neighbors {
    table: Table,
    /// The routers of the host on this wire. The caller bounds their number.
    routers: BTreeSet<Ipv6Addr>,
    /// Those of `routers` whose address resolution has failed, with the time of the failure or of the last question.
    silent: BTreeMap<Ipv6Addr, Instant>,
    times: Times,
    budget: Budget,
    outputs: VecDeque<Output>,
    drops: Drops,
}

impl Neighbors {
    /// Creates an empty table with the times of RFC 4861 s10.
    #[must_use]
    pub fn new(random: ChaCha20Rng) -> Self {
        Self {
            table: Table::default(),
            routers: BTreeSet::new(),
            silent: BTreeMap::new(),
            budget: Budget::new(),
            times: Times::new(random),
            outputs: VecDeque::new(),
            drops: Drops::default(),
        }
    }

    /// Takes the times of a Router Advertisement (RFC 4861 s6.3.4): time for which a confirmation holds, and time between
    /// solicitations. Zero leaves a time as it is.
    pub fn set_times(&mut self, reachable_time: Duration, retrans_timer: Duration) {
        self.times.set(reachable_time, retrans_timer);
    }

    /// Sends a packet by way of a next hop on the wire. If the link-layer address is not known, the packet waits for it.
    /// The group of a multicast next hop needs no entry.
    ///
    /// # Errors
    /// [`Drop::NeighborLimit`].
    pub fn send(
        &mut self,
        next_hop: Ipv6Addr,
        mut packet: PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        if next_hop.is_multicast() {
            self.outputs.push_back(Output::Send { mac: Mac::of_group(next_hop), packet });
            return Ok(());
        }
        let mut send = |entry: &mut Entry, context: &mut Context<'_>| {
            entry.on_packet(core::mem::take(&mut packet), context);
        };
        self.update_or_insert(next_hop, now, &mut send)
    }

    /// The station of a reachable neighbor to which a packet can go at once, because no output waits; `None` if
    /// [`Self::send`] has to do it. The packet counts as a use.
    pub fn station(&mut self, next_hop: Ipv6Addr, now: Instant) -> Option<Mac> {
        if !self.outputs.is_empty() {
            return None;
        }
        self.table.use_reachable(next_hop, now)
    }

    /// Sends the answer to a solicitation to the neighbor that asked. As [`Self::send`], but the answer does not count as a use of
    /// the entry: otherwise everybody could make entries that the host keeps.
    ///
    /// # Errors
    /// [`Drop::NeighborLimit`].
    pub fn answer(
        &mut self,
        neighbor: Ipv6Addr,
        mut packet: PacketBuf,
        now: Instant,
    ) -> Result<(), Drop> {
        if neighbor.is_multicast() {
            return self.send(neighbor, packet, now);
        }
        let mut answer = |entry: &mut Entry, context: &mut Context<'_>| {
            entry.on_answer(core::mem::take(&mut packet), context);
        };
        self.update_or_insert(neighbor, now, &mut answer)
    }

    /// Takes note of whether the host has this neighbor as a router. While the host uses a router, its entry stays.
    pub fn keep_router(&mut self, router: Ipv6Addr, is_kept: bool, now: Instant) {
        if is_kept {
            self.routers.insert(router);
        } else {
            self.routers.remove(&router);
            self.silent.remove(&router);
        }
        self.update(router, now, |entry, _| entry.is_kept = is_kept);
    }

    /// Takes the source and the Source Link-Layer Address option of a Neighbor Solicitation for one of our addresses.
    ///
    /// # Errors
    /// [`Drop::BadSource`], [`Drop::Malformed`] for a group as link-layer address, [`Drop::NeighborLimit`].
    pub fn handle_solicitation(
        &mut self,
        source: Ipv6Addr,
        mac: Mac,
        now: Instant,
    ) -> Result<(), Drop> {
        self.learn(source, Some(mac), false, now)
    }

    /// Handles a Neighbor Advertisement with its Target Link-Layer Address option.
    ///
    /// # Errors
    /// [`Drop::UnknownNeighbor`] without an entry, [`Drop::AdvertisementValue`] if RFC 4861 s7.2.5 ignores the message, or
    /// [`Drop::Malformed`] for a group as link-layer address. Then the entry is unchanged.
    //= rfc4861#7.2.5-1
    pub fn handle_advertisement(
        &mut self,
        advertisement: &NeighborAdvertisement,
        mac: Option<Mac>,
        now: Instant,
    ) -> Result<(), Drop> {
        check_link_layer(mac)?;
        let handle = |entry: &mut Entry, context: &mut Context<'_>| {
            entry.on_advertisement(advertisement, mac, context)
        };
        // RFC 4861 s7.2.5: "If no entry exists, the advertisement SHOULD be silently discarded."
        self.update(advertisement.target, now, handle).unwrap_or(Err(Drop::UnknownNeighbor))?;
        self.silent.remove(&advertisement.target);
        Ok(())
    }

    /// Takes the source and the Source Link-Layer Address option of a Router Advertisement (RFC 4861 s6.3.4).
    ///
    /// # Errors
    /// As [`Self::handle_solicitation`].
    //= rfc4861#6.3.4-11 rfc4861#6.3.4-12
    pub fn handle_router(
        &mut self,
        source: Ipv6Addr,
        mac: Option<Mac>,
        now: Instant,
    ) -> Result<(), Drop> {
        self.learn(source, mac, true, now)
    }

    /// Takes the target and the Target Link-Layer Address option of a Redirect (RFC 4861 s8.3). The target is a router if it is
    /// not the destination.
    ///
    /// # Errors
    /// As [`Self::handle_solicitation`].
    //= rfc4861#8.3-6
    pub fn handle_redirect(
        &mut self,
        target: Ipv6Addr,
        mac: Option<Mac>,
        is_router: bool,
        now: Instant,
    ) -> Result<(), Drop> {
        self.learn(target, mac, is_router, now)
    }

    /// Takes the word of an upper layer that packets reach the neighbor (RFC 4861 s7.3.1). It has no effect on a neighbor
    /// without link-layer address.
    pub fn confirm(&mut self, neighbor: Ipv6Addr, now: Instant) {
        self.update(neighbor, now, Entry::on_progress);
    }

    /// Asks an unreachable router whether it is back, because the host would use it if it were reachable. The host asks at
    /// most once in [`PROBE_INTERVAL`] (RFC 4191 s3.5).
    pub fn probe(&mut self, router: Ipv6Addr, now: Instant) {
        let asked = self.silent.get_mut(&router).filter(|at| now.since(**at) >= PROBE_INTERVAL);
        let Some(asked) = asked else {
            self.update(router, now, Entry::on_probe);
            return;
        };
        *asked = now;
        // A full table refuses the question; the next one comes in a minute.
        let _ = self.update_or_insert(router, now, &mut Entry::on_question);
    }

    /// Asks a neighbor that has never answered whether it exists, without a packet for it. Only a neighbor whose link-layer
    /// address is known is asked, and within the rate of solicitations.
    pub fn verify(&mut self, neighbor: Ipv6Addr, now: Instant) {
        self.update(neighbor, now, Entry::on_verify);
    }

    /// Whether the neighbor has shown that it exists, or carries traffic of the host, and is not known as unreachable.
    #[must_use]
    pub fn is_trusted(&self, neighbor: Ipv6Addr, now: Instant) -> bool {
        self.table.get(neighbor).is_some_and(|entry| {
            let is_used = entry.used.is_some_and(|at| now.since(at) < IN_USE);
            (entry.is_proven || is_used && !entry.is_incomplete())
                && entry.state(now) != State::Unreachable
        })
    }

    /// Whether the neighbor is reachable; `None` if it has no entry. A neighbor without link-layer address is suspect, so
    /// it is not reachable (RFC 4861 s6.3.6).
    #[must_use]
    pub fn is_reachable(&self, neighbor: Ipv6Addr, now: Instant) -> Option<bool> {
        let state = self.state(neighbor, now)?;
        Some(!matches!(state, State::Incomplete | State::Unreachable))
    }

    /// State of a neighbor; `None` if it has no entry. A router of the host without link-layer address that did not answer stays
    /// [`State::Unreachable`] until it answers or sends a message: otherwise the host would take it for one that it has never tried.
    #[must_use]
    pub fn state(&self, neighbor: Ipv6Addr, now: Instant) -> Option<State> {
        if self.silent.contains_key(&neighbor) {
            return Some(State::Unreachable);
        }
        self.table.get(neighbor).map(|entry| entry.state(now))
    }

    /// Removes a neighbor. Packets that wait for its link-layer address go with it.
    pub fn remove(&mut self, neighbor: Ipv6Addr) {
        for _ in self.table.remove(neighbor).into_iter().flat_map(Entry::into_packets) {
            self.drops.count(Drop::NeighborUnreachable);
        }
    }

    /// Removes all neighbors and pending outputs, because the link is down.
    pub fn clear(&mut self) {
        let table = core::mem::take(&mut self.table);
        for _ in table.into_entries().flat_map(Entry::into_packets) {
            self.drops.count(Drop::NeighborUnreachable);
        }
        self.outputs.clear();
        self.silent.clear();
    }

    /// The neighbors, by address.
    pub fn iter(&self, now: Instant) -> impl Iterator<Item = Neighbor> + '_ {
        self.table.iter().map(move |(address, entry)| entry.shown(address, now))
    }

    /// The next action, if there is one. New actions arise from each other function with a time.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Time at which [`Self::handle_timeout`] has something to do. Each other function can change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.table.next_timer()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(neighbor) = self.table.due(now) {
            if self.update(neighbor, now, Entry::on_timer) == Some(Fate::Failed) {
                self.on_failure(neighbor, now);
            }
        }
    }

    /// Drops that no caller saw.
    #[must_use]
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Removes a neighbor whose address resolution has failed.
    //= rfc4861#7.3.3-1
    fn on_failure(&mut self, neighbor: Ipv6Addr, now: Instant) {
        if self.routers.contains(&neighbor) {
            self.silent.insert(neighbor, now);
        }
        let packets: alloc::vec::Vec<_> = self
            .table
            .remove(neighbor)
            .map(|entry| entry.into_packets().collect())
            .unwrap_or_default();
        for _ in &packets {
            self.drops.count(Drop::NeighborUnreachable);
        }
        self.outputs.push_back(Output::Unreachable { neighbor, packets });
    }

    /// Takes what a message other than a Neighbor Advertisement tells about its sender or target.
    //= rfc4861#6.3.4-13 rfc4861#6.3.4-14 rfc4861#7.2-1 rfc4861#7.2.3-3 rfc4861#7.2.3-5
    //= rfc4861#7.2.3-6 rfc4861#7.2.3-7 rfc4861#7.3.1-2 rfc4861#8.3-3
    fn learn(
        &mut self,
        neighbor: Ipv6Addr,
        mac: Option<Mac>,
        is_router: bool,
        now: Instant,
    ) -> Result<(), Drop> {
        // RFC 4861 s7.2.3: for the unspecified address, "the node MUST NOT create or update the Neighbor Cache entry".
        if !is_unicast(neighbor) {
            return Err(Drop::BadSource);
        }
        check_link_layer(mac)?;
        if mac.is_some() {
            self.silent.remove(&neighbor);
        }
        let learn = |entry: &mut Entry, context: &mut Context<'_>| {
            // RFC 4861 s7.2.3, s8.3: other messages leave the IsRouter flag of an existing entry as it is.
            entry.is_router |= is_router;
            if let Some(mac) = mac {
                entry.on_link_layer(mac, context);
            }
        };
        match (self.update(neighbor, now, learn), mac) {
            (None, Some(mac)) => self.insert(neighbor, Entry::stale(mac, is_router, now), now),
            (Some(()), _) | (None, None) => Ok(()),
        }
    }

    fn update<R>(
        &mut self,
        neighbor: Ipv6Addr,
        now: Instant,
        change: impl FnOnce(&mut Entry, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let share = QUEUES_OCTETS / self.table.incomplete().max(1);
        let mut context = Context {
            neighbor,
            now,
            queue_octets: share.min(MAX_QUEUE_OCTETS),
            times: &mut self.times,
            budget: &mut self.budget,
            outputs: &mut self.outputs,
            drops: &mut self.drops,
        };
        self.table.update(neighbor, |entry| change(entry, &mut context))
    }

    fn update_or_insert(
        &mut self,
        neighbor: Ipv6Addr,
        now: Instant,
        change: &mut impl FnMut(&mut Entry, &mut Context<'_>),
    ) -> Result<(), Drop> {
        if self.update(neighbor, now, &mut *change).is_none() {
            self.insert(neighbor, Entry::incomplete(now), now)?;
            self.update(neighbor, now, change);
        }
        Ok(())
    }

    fn insert(&mut self, neighbor: Ipv6Addr, mut entry: Entry, now: Instant) -> Result<(), Drop> {
        entry.is_kept = self.routers.contains(&neighbor);
        let evicted = self.table.insert(neighbor, entry, now)?;
        for _ in 0..evicted {
            self.drops.count(Drop::NeighborLimit);
        }
        Ok(())
    }
}

/// Refuses a group as link-layer address: packets to one neighbor would go to many stations.
fn check_link_layer(mac: Option<Mac>) -> Result<(), Drop> {
    if mac.is_some_and(Mac::is_group) { Err(Drop::Malformed) } else { Ok(()) }
}

/// Entries that a table has at most.
pub const MAX_NEIGHBORS: usize = 4096;
/// Entries in the state INCOMPLETE that a table has at most.
pub const MAX_INCOMPLETE: usize = 1024;
/// Packets that may always wait for the link-layer address of one neighbor (RFC 4861 s7.2.2).
//= rfc4861#7.2.2-6 rfc4861#7.2.2-7 rfc4861#7.2.2-8
pub const MAX_QUEUE: usize = 3;
/// Octets that wait for one neighbor at most in more packets than these: the largest datagram in fragments of the least MTU. A packet counts as that
/// MTU at least. The oldest packet goes first.
pub const MAX_QUEUE_OCTETS: usize = 72 << 10;
/// Octets of which a packet that comes finds an equal share for its neighbor in the state INCOMPLETE. Queues that are full keep what they have, so all
/// queues together have some 3 MiB more than [`MAX_QUEUE`] packets each at most.
pub const QUEUES_OCTETS: usize = 1 << 20;
/// Multicast solicitations before address resolution has failed (RFC 4861 s10).
pub const MAX_MULTICAST_SOLICIT: u8 = 3;
/// Unicast solicitations before a neighbor is unreachable (RFC 4861 s10).
pub const MAX_UNICAST_SOLICIT: u8 = 3;
/// Time in the state DELAY (RFC 4861 s10).
pub const DELAY_FIRST_PROBE_TIME: Duration = Duration::from_secs(5);
/// Least time between probes of an unreachable router that the host would prefer (RFC 4191 s3.5).
//= rfc4191#3.5-3
pub const PROBE_INTERVAL: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests;
