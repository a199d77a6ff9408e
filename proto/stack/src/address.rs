//! Addresses of an interface: how they come to be, whether another node has them, and when they end (RFC 4862).
//!
//! [`Addresses`] makes a link-local address when the link goes up, and addresses in the prefixes of Router Advertisements.
//! Interface identifiers are from the MAC address, or stable and opaque (RFC 7217), with temporary addresses besides (RFC 8981).
//! Callers add addresses of their own, for example HBAs: no other address takes the place of one that is a duplicate.
//!
//! Each address is tentative until Duplicate Address Detection ends (RFC 4862 s5.4, with the nonces of RFC 7527).
//!
//! ```text
//! Down --link up--> Delayed --delay--> Probing --RetransTimer, no duplicate--> Unique
//!   ^                  |                  |  ^                                    |
//!   '----link down-----+------------------'  '--own probe came back: 3 more       '--link up--> Delayed
//! ```
//!
//! | timer | armed by | does |
//! |---|---|---|
//! | detection, one for each address | link up, a new address | joins the solicited-node group, sends probes, assigns the address |
//! | lifetimes, two for each address | an advertisement, the caller | deprecates or removes the address |
//! | retry, one for each prefix | a duplicate (RFC 7217 s6) | makes the next stable address |
//! | regeneration, one for each prefix | a temporary address (RFC 8981 s3.5) | makes the next temporary address |

mod autoconfiguration;
mod config;
mod detection;
mod entry;
mod interface_id;
mod temporary;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::time::Duration;

use moorline_ip::address::{is_unicast, solicited_node};
use moorline_types::{Instant, Prefix};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore as _;

use crate::{Drop, Drops};
pub use autoconfiguration::{Cause, MAX_PREFIXES, TWO_HOURS};
pub use config::{Config, Given, Mode};
pub use detection::Reply;
pub use entry::{Address, Lifetimes, Origin, State};
pub use temporary::TemporaryLifetimes;

use autoconfiguration::Autoconfigured;
use detection::Detection;
use entry::{Entry, in_prefix};

/// An output of [`Addresses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Join this solicited-node group. Several addresses may have the same group.
    Join(Ipv6Addr),
    /// Take one [`Output::Join`] back.
    Leave(Ipv6Addr),
    /// Send a Neighbor Solicitation from the unspecified address to the solicited-node group of the target.
    Probe {
        /// The address to check.
        target: Ipv6Addr,
        /// Contents of the Nonce option.
        nonce: Option<[u8; 6]>,
    },
    /// The address can be used, but its detection goes on (RFC 4429).
    Optimistic(Ipv6Addr),
    /// The address is unique and assigned.
    Ready(Ipv6Addr),
    /// Another node has the address, which is not assigned any more.
    Duplicate(Ipv6Addr),
    /// The address is not for new connections any more.
    Deprecated(Ipv6Addr),
    /// A deprecated address is for new connections again.
    Preferred(Ipv6Addr),
    /// An address that was assigned is gone.
    Removed(Ipv6Addr),
    /// All addresses of one kind that were tried in this prefix are duplicates; there are no more tries.
    Failed(Prefix),
    /// The link-local address from the MAC address is a duplicate: IPv6 stops on this interface until the link goes down
    /// (RFC 4862 s5.4.5).
    Disabled,
}

/// The addresses of one interface.
#[derive(Clone, Debug)]
pub struct Addresses {
    config: Config,
    secret: [u8; 16],
    random: ChaCha20Rng,
    is_up: bool,
    is_disabled: bool,
    /// Whether the link-layer address of a router is known (RFC 4429 s3.3).
    knows_router: bool,
    /// `RetransTimer`.
    retrans_timer: Duration,
    entries: BTreeMap<Ipv6Addr, Entry>,
    prefixes: BTreeMap<Prefix, Autoconfigured>,
    drops: Drops,
    outputs: VecDeque<Output>,
    next: Option<Instant>,
}

impl Addresses {
    /// Creates an interface without addresses, whose link is down.
    //= rfc7217#5-14
    #[must_use]
    pub fn new(config: Config, mut random: ChaCha20Rng) -> Self {
        let mut drawn = [0; 16];
        random.fill_bytes(&mut drawn);
        Self {
            config,
            secret: config.secret.unwrap_or(drawn),
            random,
            is_up: false,
            is_disabled: false,
            knows_router: false,
            retrans_timer: RETRANS_TIMER,
            entries: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            drops: Drops::default(),
            outputs: VecDeque::new(),
            next: None,
        }
    }

    /// The link goes up or down. When it goes up, all addresses are checked again. While it is down, assigned addresses
    /// stay assigned: mostly the link is the same one afterwards.
    pub fn handle_link(&mut self, is_up: bool, now: Instant) {
        self.is_up = is_up;
        self.is_disabled = false;
        self.knows_router = false;
        self.stop_detection();
        self.prefixes.values_mut().for_each(Autoconfigured::reset);
        if is_up {
            let known: Vec<_> = self.entries.keys().copied().collect();
            known.into_iter().for_each(|address| self.detect(address, self.config.dad_delay, now));
            self.make_link_local(now);
        }
        self.prune(now);
    }

    /// Removes all addresses that the interface has made itself, because it is on another link (RFC 8981 s3.6). It
    /// makes a link-local address anew.
    //= rfc8981#3.6-5
    pub fn forget(&mut self, now: Instant) {
        let made = self.entries.iter().filter(|(_, entry)| entry.origin.is_autoconfigured());
        let made: Vec<_> = made.map(|(address, _)| *address).collect();
        made.into_iter().for_each(|address| self.take_out(address));
        self.prefixes.clear();
        self.handle_link(self.is_up, now);
    }

    /// Sets `RetransTimer`, the time between probes; at least a millisecond.
    pub fn set_retrans_timer(&mut self, time: Duration) {
        self.retrans_timer = time.max(Duration::from_millis(1));
        self.rearm();
    }

    /// Adds an address, or changes the ends of an address that is there.
    ///
    /// # Errors
    /// [`Drop::BadSource`] if the address is no unicast address, [`Drop::PrefixLimit`] at a limit ([`MAX_ADDRESSES`],
    /// [`MAX_ADDRESSES_OF_PREFIX`]).
    pub fn add(&mut self, given: &Given, now: Instant) -> Result<(), Drop> {
        if !is_unicast(given.address) {
            return Err(Drop::BadSource);
        }
        let origin = if given.is_generated { Origin::Generated } else { Origin::Manual };
        if let Some(entry) = self.entries.get_mut(&given.address) {
            entry.origin = origin;
            entry.lifetimes = given.lifetimes;
        } else {
            let mut entry = Entry::new(given.prefix_len, origin, given.lifetimes, now);
            entry.may_be_optimistic = given.is_optimistic;
            self.put_in(given.address, entry, Duration::ZERO, now)?;
        }
        self.handle_timeout(now);
        Ok(())
    }

    /// Removes an address. An advertisement may bring the same address again.
    //= rfc7527#4.1-4
    pub fn remove(&mut self, address: Ipv6Addr, now: Instant) {
        self.take_out(address);
        self.prune(now);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire(now);
        self.handle_detection_timeout(now);
        self.retry(now);
        self.regenerate(now);
        self.prune(now);
    }

    /// Time of the next [`Addresses::handle_timeout`].
    #[must_use]
    pub const fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// The next output; `None` until another call changes that.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether packets to this address are for the host: the address is assigned or optimistic. RFC 4862 s5.4: packets
    /// to a tentative address are discarded.
    #[must_use]
    pub fn is_ours(&self, address: Ipv6Addr) -> bool {
        self.state(address).is_some_and(State::is_assigned)
    }

    /// Whether the group is the solicited-node group of an address of the interface, also before the interface joins it.
    //= rfc4862#5.4.2-4
    #[must_use]
    pub fn has_group(&self, group: Ipv6Addr) -> bool {
        self.entries.keys().any(|address| solicited_node(*address) == group)
    }

    /// State of an address; `None` if the interface has not this address.
    #[must_use]
    pub fn state(&self, address: Ipv6Addr) -> Option<State> {
        self.entries.get(&address).filter(|_| !self.is_disabled).map(Entry::state)
    }

    /// All addresses, in their order. Their states are those of the last call of [`Addresses::handle_timeout`].
    pub fn iter(&self) -> impl Iterator<Item = Address> + '_ {
        let entries = self.entries.iter().filter(|_| !self.is_disabled);
        entries.map(|(address, entry)| entry.describe(*address))
    }

    /// An assigned link-local address whose detection has ended. RFC 4429 s3.2: an optimistic address is no source of
    /// messages with a link-layer address.
    //= rfc4429#3.2-1 rfc4429#3.2-2 rfc4429#3.2-4
    #[must_use]
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        let all = self.entries.range(LINK_LOCAL.address()..).take_while(|_| !self.is_disabled);
        let mut link_local = all.take_while(|(address, _)| LINK_LOCAL.contains(**address));
        let is_sure = |entry: &Entry| matches!(entry.state(), State::Preferred | State::Deprecated);
        link_local.find(|(_, entry)| is_sure(entry)).map(|(address, _)| *address)
    }

    /// Whether IPv6 is stopped on this interface (RFC 4862 s5.4.5).
    #[must_use]
    pub const fn is_disabled(&self) -> bool {
        self.is_disabled
    }

    /// Counters of temporary addresses that a limit has prevented.
    #[must_use]
    pub const fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Puts an address in whose detection begins after a random time up to `delay`.
    //= rfc8504#6.3-5
    //= rfc8981#3.4-7
    //= rfc4862#5.4-1 rfc4862#5.4-3 rfc4862#5.4-4 rfc4862#5.4-5
    fn put_in(
        &mut self,
        address: Ipv6Addr,
        entry: Entry,
        delay: Duration,
        now: Instant,
    ) -> Result<(), Drop> {
        let is_made = entry.origin.is_autoconfigured();
        let made = self.entries.values().filter(|entry| entry.origin.is_autoconfigured()).count();
        let is_full = self.entries.len() >= MAX_ADDRESSES
            || is_made && made >= MAX_AUTOCONFIGURED
            || self.in_prefix(Prefix::new(address, 64)).count() >= MAX_ADDRESSES_OF_PREFIX;
        if is_full {
            return Err(Drop::PrefixLimit);
        }
        self.entries.insert(address, entry);
        self.detect(address, delay, now);
        Ok(())
    }

    /// Takes an address out.
    //= rfc4861#7.2.1-2
    fn take_out(&mut self, address: Ipv6Addr) {
        let Some(entry) = self.entries.remove(&address) else { return };
        if entry.is_joined {
            self.outputs.push_back(Output::Leave(solicited_node(address)));
        }
        if entry.state().is_assigned() {
            self.outputs.push_back(Output::Removed(address));
        }
    }

    /// Removes and deprecates addresses whose time is over.
    //= rfc4862#5.5.4-7 rfc4862#5.5.4-8
    fn expire(&mut self, now: Instant) {
        let over = self.entries.iter().filter(|(_, entry)| !entry.lifetimes.is_valid(now));
        let over: Vec<_> = over.map(|(address, _)| *address).collect();
        over.into_iter().for_each(|address| self.take_out(address));
        for (address, entry) in &mut self.entries {
            self.outputs.extend(entry.update_deprecation(*address, now));
        }
    }

    fn in_prefix(&self, prefix: Prefix) -> impl Iterator<Item = (Ipv6Addr, &Entry)> {
        in_prefix(&self.entries, prefix)
    }

    fn rearm(&mut self) {
        let entries = self.entries.values().flat_map(Entry::timers);
        let prefixes = self.prefixes.iter();
        let prefixes = prefixes.flat_map(|(prefix, state)| self.timers_of(*prefix, state));
        self.next = entries.chain(prefixes).min();
    }
}

/// Largest number of addresses of an interface. Not configurable.
//= rfc8504#6.2-2
pub const MAX_ADDRESSES: usize = 64;
/// Largest number of addresses that the interface has made itself. So advertisements leave room for those of the
/// caller. Not configurable.
pub const MAX_AUTOCONFIGURED: usize = 48;
/// Largest number of addresses with the same first 64 bits. Not configurable.
//= rfc8504#6.2-3
pub const MAX_ADDRESSES_OF_PREFIX: usize = 16;
/// `RETRANS_TIMER` (RFC 4861 s10), until a router states another one.
const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// The prefix of link-local addresses (RFC 4291 s2.5.6).
const LINK_LOCAL: Prefix = Prefix::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 64);

#[cfg(test)]
mod tests;
