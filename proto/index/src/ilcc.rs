use core::hash::Hasher;

use moorline_types::{Ilv, IlvPair, Nid, Nonce, SessionId};
use siphasher::sip::SipHasher13;

use crate::{FairShares, Index, Segments};

/// Class of an entry. A full cache first evicts the class whose loss costs the correspondent and us least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The entry comes from a packet that anybody could have sent.
    Unproven,
    /// The correspondent has answered a message that only a host at its address could have read. Only the
    /// correspondent asked for the session: as far as is known, no connected socket of ours has its
    /// addresses.
    Guest,
    /// The correspondent has answered, and the session is not that of a guest.
    Proven,
}

/// Identifier-Locator Communication Cache (RFC 6741 s5): sessions, found by the fields of packets.
///
/// The cache never holds more entries than its capacity. Beyond that, it evicts unproven entries first, so
/// that invented correspondents of a flood evict each other; then guests. Within a class, the oldest entry
/// goes first. If an entry was used since it came, or since it was last considered, it is spared once (CLOCK,
/// "second chance"). To note a use is a bit in the entry itself; a list in order of use would also write to
/// the neighbours of the entry.
///
/// A look-up reads two lines of memory, one of an index and one of an entry, for one entry and for ten
/// million. The indexes hold slots and hashes under a random key, and each hit is compared with the entry.
/// The other data of a session are kept apart. Nothing is moved when the cache grows.
#[derive(Clone, Debug)]
pub struct Ilcc<T> {
    slots: Segments<Slot>,
    values: Segments<Option<T>>,
    first_free: Option<u32>,
    len: usize,
    capacity: usize,
    keyed: SipHasher13,
    by_pair: Index,
    by_nonce: Index,
    by_nids: Index,
    /// Lists of slots, by class.
    lists: [List; 3],
    /// Guests, by the addresses with which they came.
    guests: FairShares,
}

/// An entry that was removed or evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed<T> {
    /// Slot of the entry.
    pub id: SessionId,
    /// The addresses of its sockets.
    pub pair: IlvPair,
    /// Value of the entry.
    pub value: T,
}

impl<T> Ilcc<T> {
    /// Octets of an entry, besides some 60 in the indexes.
    pub const ENTRY_OCTETS: usize = size_of::<Slot>() + size_of::<Option<T>>();

    /// Creates an empty cache for `capacity` entries, at least 1. `key` must be random, so that nobody can
    /// choose sessions whose hashes collide.
    #[must_use]
    pub fn new(capacity: usize, key: [u8; 16]) -> Self {
        Self {
            slots: Segments::new(),
            values: Segments::new(),
            first_free: None,
            len: 0,
            capacity: capacity.max(1),
            keyed: SipHasher13::new_with_key(&key),
            by_pair: Index::new(),
            by_nonce: Index::new(),
            by_nids: Index::new(),
            lists: [List::default(); 3],
            guests: FairShares::new(capacity, key),
        }
    }

    /// Number of entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Number of slots, with those that are free.
    #[must_use]
    pub const fn slots(&self) -> u32 {
        self.slots.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of entries of a class.
    #[must_use]
    pub const fn count(&self, class: Class) -> usize {
        self.lists[class as usize].len
    }

    /// The part of the share of a locator that guests have, in entries: see [`FairShares::taken`]. The addresses of
    /// their sockets count, wherever the guests are now. `without`: this number of guests with the address would go.
    #[must_use]
    pub fn taken_by_guests(&self, remote: Ilv, without: usize) -> usize {
        self.guests.taken(remote.address(), without)
    }

    /// Adds an entry as the newest of its class. Returns its slot, and the entry that was replaced (one with
    /// the same pair) or evicted.
    pub fn insert(
        &mut self,
        pair: IlvPair,
        nonce: Option<Nonce>,
        class: Class,
        value: T,
    ) -> (SessionId, Option<Removed<T>>) {
        let ways = self.ask(pair, nonce);
        let removed = match self.find(pair, ways.pair) {
            Some(same) => self.remove(SessionId(same)),
            None if self.len < self.capacity => None,
            None => self.victim().and_then(|oldest| self.remove(SessionId(oldest))),
        };
        let at = self.place(pair, value);
        self.len += 1;
        self.by_pair.insert(ways.pair, at);
        self.by_nids.insert(ways.nids, at);
        if let Some(digest) = ways.nonce {
            self.by_nonce.insert(digest, at);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            slot.nonce = nonce;
        }
        self.link(at, class);
        if class == Class::Guest {
            self.guests.add(pair.remote.address());
        }
        (SessionId(at), removed)
    }

    /// Removes an entry.
    pub fn remove(&mut self, id: SessionId) -> Option<Removed<T>> {
        let &Slot { pair, nonce, class, .. } = self.used(id)?;
        let ways = self.ask(pair, nonce);
        let value = self.values.get_mut(id.0)?.take()?;
        if class == Some(Class::Guest) {
            self.guests.remove(pair.remote.address());
        }
        self.unlink(id.0);
        let slot = self.slots.get_mut(id.0)?;
        (slot.class, slot.newer) = (None, self.first_free);
        self.first_free = Some(id.0);
        self.len -= 1;
        self.by_pair.remove(ways.pair, id.0);
        self.by_nids.remove(ways.nids, id.0);
        if let Some(digest) = ways.nonce {
            self.by_nonce.remove(digest, id.0);
        }
        Some(Removed { id, pair, value })
    }

    /// Sets the nonce that the correspondent sends from now on. A nonce cannot be taken back.
    pub fn set_nonce(&mut self, id: SessionId, nonce: Nonce) {
        let Some(slot) = self.slots.get_mut(id.0).filter(|slot| slot.class.is_some()) else {
            return;
        };
        let old = slot.nonce.replace(nonce);
        let remote = slot.pair.remote.nid;
        if let Some(old) = old {
            self.by_nonce.remove(hash_nonce(&self.keyed, remote, old), id.0);
        }
        self.by_nonce.insert(hash_nonce(&self.keyed, remote, nonce), id.0);
    }

    /// Finds an entry by the addresses of its sockets.
    //= rfc6740#3.1.1-3
    #[must_use]
    pub fn find_pair(&self, pair: IlvPair) -> Option<SessionId> {
        if self.is_empty() {
            return None;
        }
        self.find(pair, hash_pair(&self.keyed, pair)).map(SessionId)
    }

    /// Finds an entry by the nonce of the correspondent, wherever the correspondent is (RFC 6741 s5.4).
    //= rfc6741#5.4-1
    #[must_use]
    pub fn find_nonce(&self, local: Nid, remote: Nid, nonce: Nonce) -> Option<SessionId> {
        if self.is_empty() {
            return None;
        }
        let is_it = |at: u32| {
            self.used(SessionId(at)).is_some_and(|used| {
                used.pair.nids() == (local, remote) && used.nonce == Some(nonce)
            })
        };
        self.by_nonce.find(hash_nonce(&self.keyed, remote, nonce), is_it).map(SessionId)
    }

    /// All sessions between two nodes, in no order.
    pub fn between(&self, local: Nid, remote: Nid) -> impl Iterator<Item = SessionId> + '_ {
        let hash = if self.is_empty() { 0 } else { hash_nids(&self.keyed, (local, remote)) };
        let candidates = self.by_nids.candidates(hash);
        candidates.map(SessionId).filter(move |id| {
            self.used(*id).is_some_and(|used| used.pair.nids() == (local, remote))
        })
    }

    /// The value of an entry.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&T> {
        self.values.get(id.0)?.as_ref()
    }

    /// The value of an entry, to change.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut T> {
        self.values.get_mut(id.0)?.as_mut()
    }

    /// The addresses of the sockets, and the nonce of the correspondent.
    #[must_use]
    pub fn key(&self, id: SessionId) -> Option<(IlvPair, Option<Nonce>)> {
        self.used(id).map(|used| (used.pair, used.nonce))
    }

    /// Class of an entry.
    #[must_use]
    pub fn class(&self, id: SessionId) -> Option<Class> {
        self.used(id)?.class
    }

    /// Notes that an entry was used.
    pub fn touch(&mut self, id: SessionId) {
        if let Some(slot) = self.slots.get_mut(id.0).filter(|slot| !slot.is_used) {
            slot.is_used = true;
        }
    }

    /// Promotes an entry of class `from` to proven: its correspondent has shown that it is there, or a
    /// connected socket of ours has the addresses of a guest.
    pub fn promote(&mut self, id: SessionId, from: Class) {
        let Some(&Slot { pair, .. }) = self.used(id).filter(|slot| slot.class == Some(from)) else {
            return;
        };
        if from == Class::Guest {
            self.guests.remove(pair.remote.address());
        }
        self.unlink(id.0);
        self.link(id.0, Class::Proven);
    }

    /// All entries, in order of slots.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, IlvPair, &T)> {
        self.iter_from(SessionId(0))
    }

    /// The entry in this slot and the entries behind it, in order of slots. The entries before cost nothing.
    pub fn iter_from(
        &self,
        SessionId(first): SessionId,
    ) -> impl Iterator<Item = (SessionId, IlvPair, &T)> {
        let entries = self.slots.iter_from(first).zip(self.values.iter_from(first));
        let slots = entries.zip(first..=u32::MAX);
        slots.filter_map(|((slot, value), at)| Some((SessionId(at), slot.pair, value.as_ref()?)))
    }

    fn find(&self, pair: IlvPair, digest: u32) -> Option<u32> {
        self.by_pair
            .find(digest, |at| self.used(SessionId(at)).is_some_and(|used| used.pair == pair))
    }

    /// Hashes all keys of an entry, and requests the lines of the indexes before the first is needed, so that
    /// they arrive together.
    fn ask(&self, pair: IlvPair, nonce: Option<Nonce>) -> Ways {
        let ways = Ways {
            pair: hash_pair(&self.keyed, pair),
            nids: hash_nids(&self.keyed, pair.nids()),
            nonce: nonce.map(|nonce| hash_nonce(&self.keyed, pair.remote.nid, nonce)),
        };
        self.by_pair.touch(ways.pair);
        self.by_nids.touch(ways.nids);
        if let Some(digest) = ways.nonce {
            self.by_nonce.touch(digest);
        }
        ways
    }

    /// The entry to evict.
    fn victim(&mut self) -> Option<u32> {
        let class = [Class::Unproven, Class::Guest]
            .into_iter()
            .find(|class| self.count(*class) > 0)
            .unwrap_or(Class::Proven);
        for _ in 0..SECOND_CHANCES {
            let oldest = self.list(class).oldest?;
            let slot = self.slots.get_mut(oldest)?;
            if !core::mem::take(&mut slot.is_used) {
                return Some(oldest);
            }
            self.unlink(oldest);
            self.link(oldest, class);
        }
        self.list(class).oldest
    }

    /// Puts an entry into a slot, without nonce and class so far.
    fn place(&mut self, pair: IlvPair, value: T) -> u32 {
        let new = Slot { pair, nonce: None, newer: None, older: None, class: None, is_used: false };
        if let Some(at) = self.first_free
            && let (Some(slot), Some(free)) = (self.slots.get_mut(at), self.values.get_mut(at))
        {
            self.first_free = slot.newer;
            (*slot, *free) = (new, Some(value));
            return at;
        }
        self.values.push(Some(value));
        self.slots.push(new).unwrap_or(u32::MAX)
    }

    fn used(&self, id: SessionId) -> Option<&Slot> {
        self.slots.get(id.0).filter(|slot| slot.class.is_some())
    }

    fn list(&mut self, class: Class) -> &mut List {
        &mut self.lists[class as usize]
    }

    fn link(&mut self, at: u32, class: Class) {
        let list = self.list(class);
        list.len += 1;
        let second = list.newest.replace(at);
        list.oldest.get_or_insert(at);
        if let Some(slot) = self.slots.get_mut(at) {
            (slot.newer, slot.older, slot.class) = (None, second, Some(class));
        }
        if let Some(second) = second.and_then(|second| self.slots.get_mut(second)) {
            second.newer = Some(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(&Slot { newer, older, class: Some(class), .. }) = self.slots.get(at) else {
            return;
        };
        self.list(class).len -= 1;
        match newer.and_then(|newer| self.slots.get_mut(newer)) {
            Some(newer) => newer.older = older,
            None => self.list(class).newest = older,
        }
        match older.and_then(|older| self.slots.get_mut(older)) {
            Some(older) => older.newer = newer,
            None => self.list(class).oldest = newer,
        }
    }
}

/// Keys of an entry, and the facts for eviction: one line of memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot {
    pair: IlvPair,
    nonce: Option<Nonce>,
    /// The slot that came after this one; in a free slot, the next free slot.
    newer: Option<u32>,
    older: Option<u32>,
    /// Class of the entry; `None`: the slot is free.
    class: Option<Class>,
    /// Whether the entry was used since it came, or since it was last considered for eviction.
    is_used: bool,
}

/// The slots of a class, in the order in which they came.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    newest: Option<u32>,
    oldest: Option<u32>,
    len: usize,
}

/// Hashes of the keys of an entry.
#[derive(Clone, Copy, Debug)]
struct Ways {
    pair: u32,
    nids: u32,
    nonce: Option<u32>,
}

/// Largest number of used entries that one insertion spares. It bounds the time of an insertion if all
/// entries are used.
const SECOND_CHANCES: u32 = 8;

fn hash_pair(keyed: &SipHasher13, pair: IlvPair) -> u32 {
    let mut hasher = *keyed;
    for half in [pair.local.l64.0, pair.local.nid.0, pair.remote.l64.0, pair.remote.nid.0] {
        hasher.write_u64(half);
    }
    short(&hasher)
}

fn hash_nids(keyed: &SipHasher13, (local, remote): (Nid, Nid)) -> u32 {
    let mut hasher = *keyed;
    hasher.write_u64(local.0);
    hasher.write_u64(remote.0);
    short(&hasher)
}

fn hash_nonce(keyed: &SipHasher13, remote: Nid, nonce: Nonce) -> u32 {
    let mut hasher = *keyed;
    hasher.write_u64(remote.0);
    hasher.write(nonce.octets());
    short(&hasher)
}

/// The part of a hash that the indexes take.
fn short(hasher: &SipHasher13) -> u32 {
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests;
