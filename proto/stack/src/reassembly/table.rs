use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::net::Ipv6Addr;

use moorline_ip::address::party as prefix;
use moorline_types::Instant;

use super::FAIR_SHARE;
use super::datagram::{BLOCK, Datagram};

/// The names of a datagram (RFC 8200 s4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key<W> {
    /// First, so the datagrams of a source are beside each other.
    pub(super) source: Ipv6Addr,
    pub(super) destination: Ipv6Addr,
    pub(super) identification: u32,
    /// Interface of the link, if one of the addresses is link-local.
    pub(super) zone: Option<W>,
}

/// The datagrams by their age, their names, and the /64 of their source, with the memory that they take.
#[derive(Clone, Debug)]
pub(super) struct Table<W> {
    /// Serial numbers rise, so the oldest datagram is the first one. All have the same timeout.
    datagrams: BTreeMap<u64, Box<Datagram<W>>>,
    next_serial: u64,
    names: BTreeMap<Key<W>, u64>,
    /// Prefix and serial number.
    ages: BTreeSet<(u64, u64)>,
    /// Memory of the datagrams of each prefix.
    prefixes: BTreeMap<u64, usize>,
    /// Prefixes above their share: fewer than [`super::MAX_MEMORY`] / [`FAIR_SHARE`] + 1.
    greedy: BTreeSet<u64>,
    memory: usize,
}

impl<W> Default for Table<W> {
    fn default() -> Self {
        Self {
            datagrams: BTreeMap::new(),
            next_serial: 0,
            names: BTreeMap::new(),
            ages: BTreeSet::new(),
            prefixes: BTreeMap::new(),
            greedy: BTreeSet::new(),
            memory: 0,
        }
    }
}

impl<W> Table<W> {
    pub(super) const fn memory(&self) -> usize {
        self.memory
    }

    pub(super) fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Serial number and deadline of the oldest datagram.
    pub(super) fn oldest(&self) -> Option<(u64, Instant)> {
        self.datagrams.first_key_value().map(|(&serial, datagram)| (serial, datagram.deadline))
    }
}

impl<W: Copy + Ord> Table<W> {
    pub(super) fn find(&self, key: &Key<W>) -> Option<u64> {
        self.names.get(key).copied()
    }

    /// Number of the source's datagrams, and the oldest of them.
    pub(super) fn of_source(&self, source: Ipv6Addr) -> (usize, Option<u64>) {
        let least = Key { source, destination: UNSPECIFIED, identification: 0, zone: None };
        let of_source = self.names.range(least..).take_while(|(key, _)| key.source == source);
        let serials = of_source.map(|(_, &serial)| serial);
        serials.fold((0, None), |(count, oldest), serial| {
            (count + 1, Some(oldest.map_or(serial, |other: u64| other.min(serial))))
        })
    }

    pub(super) fn insert(&mut self, datagram: Datagram<W>) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.names.insert(datagram.key, serial);
        self.ages.insert((prefix(datagram.key.source), serial));
        self.datagrams.insert(serial, Box::new(datagram));
        self.change(serial, |_| ());
        serial
    }

    /// Changes a datagram, and counts the memory that it takes then.
    pub(super) fn change<T>(
        &mut self,
        serial: u64,
        change: impl FnOnce(&mut Datagram<W>) -> T,
    ) -> Option<T> {
        let datagram = self.datagrams.get_mut(&serial)?;
        let result = change(datagram);
        let after = Self::ENTRY + datagram.heap();
        let before = core::mem::replace(&mut datagram.charged, after);
        let prefix = prefix(datagram.key.source);
        self.charge(prefix, before, after);
        Some(result)
    }

    pub(super) fn remove(&mut self, serial: u64) -> Option<Box<Datagram<W>>> {
        let datagram = self.datagrams.remove(&serial)?;
        let prefix = prefix(datagram.key.source);
        self.names.remove(&datagram.key);
        self.ages.remove(&(prefix, serial));
        self.charge(prefix, datagram.charged, 0);
        Some(datagram)
    }

    fn charge(&mut self, prefix: u64, before: usize, after: usize) {
        self.memory = self.memory - before + after;
        let taken = self.prefixes.entry(prefix).or_default();
        *taken = *taken - before + after;
        if *taken > FAIR_SHARE {
            self.greedy.insert(prefix);
        } else {
            self.greedy.remove(&prefix);
        }
        if *taken == 0 {
            self.prefixes.remove(&prefix);
        }
    }

    /// The datagram to give up first: the oldest one of the greediest prefix, or of all if no prefix is greedy.
    pub(super) fn victim(&self) -> Option<u64> {
        let greediest = self.greedy.iter().max_by_key(|prefix| self.prefixes.get(prefix));
        let of_greediest = greediest.and_then(|&prefix| self.ages.range((prefix, 0)..).next());
        of_greediest.map(|&(_, serial)| serial).or_else(|| self.oldest().map(|(serial, _)| serial))
    }

    /// Octets that a datagram takes besides its fragments. Nodes of the maps are at least 5/11 full.
    const ENTRY: usize = size_of::<Datagram<W>>() + BLOCK + Self::SLOTS * 11 / 5;
    /// Octets of the entries in the four maps.
    const SLOTS: usize = size_of::<(u64, Box<Datagram<W>>)>()
        + size_of::<(Key<W>, u64)>()
        + size_of::<(u64, u64)>()
        + size_of::<(u64, usize)>();
}

const UNSPECIFIED: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
