use core::hash::Hasher;

use alloc::vec::Vec;
use hashbrown::HashTable;
use moorline_types::{IlvPair, Nid, Nonce, SessionId};
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use siphasher::sip::SipHasher13;

/// Whether a correspondent has shown that it is where it says. Who has not is the first to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A packet that anybody could have sent.
    Unproven,
    /// It has answered something that only a host at its address could have read.
    Proven,
}

/// Identifier-Locator Communication Cache (RFC 6741 s5): sessions, found by what is in packets.
///
/// It never holds more than its capacity. Beyond, the entry goes that was not used for longest, unproven
/// ones before all others, so that a flood of made-up correspondents pushes out made-up correspondents.
/// Each operation takes the same time for one entry and for ten million: the indexes hold slots alone, under
/// a keyed hash, and what is found is compared with the entry itself. Their order is seen nowhere.
#[derive(Clone, Debug)]
pub struct Ilcc<T> {
    slots: Vec<Slot<T>>,
    first_free: Option<u32>,
    len: usize,
    capacity: usize,
    keyed: SipHasher13,
    by_pair: HashTable<u32>,
    by_nonce: HashTable<u32>,
    by_nids: HashTable<u32>,
    unproven: List,
    proven: List,
}

/// What had to go for another, or was taken out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed<T> {
    /// The slot it had.
    pub id: SessionId,
    /// The addresses of its sockets.
    pub pair: IlvPair,
    /// The rest.
    pub value: T,
}

impl<T> Ilcc<T> {
    /// An empty one for so many entries, at least 1. The key of its hash is drawn, so that nobody can choose
    /// what meets in a bucket.
    pub fn new(capacity: usize, rng: &mut ChaCha20Rng) -> Self {
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        Self {
            slots: Vec::new(),
            first_free: None,
            len: 0,
            capacity: capacity.max(1),
            keyed: SipHasher13::new_with_key(&key),
            by_pair: HashTable::new(),
            by_nonce: HashTable::new(),
            by_nids: HashTable::new(),
            unproven: List::default(),
            proven: List::default(),
        }
    }

    /// Entries.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an entry as the last used of its class. One with the same pair is replaced. Gives what had to go.
    pub fn insert(
        &mut self,
        pair: IlvPair,
        nonce: Option<Nonce>,
        class: Class,
        value: T,
    ) -> (SessionId, Option<Removed<T>>) {
        let removed = match self.find_pair(pair) {
            Some(same) => self.remove(same),
            None if self.len >= self.capacity => self.evict(),
            None => None,
        };
        let used = Used { pair, nonce: None, class, newer: None, older: None, value };
        let at = self.place(used);
        self.len += 1;
        let Self { slots, by_pair, by_nids, keyed, .. } = self;
        by_pair.insert_unique(hash_pair(keyed, pair), at, |&at| {
            used_at(slots, at).map_or(0, |used| hash_pair(keyed, used.pair))
        });
        by_nids.insert_unique(hash_nids(keyed, pair.nids()), at, |&at| {
            used_at(slots, at).map_or(0, |used| hash_nids(keyed, used.pair.nids()))
        });
        let id = SessionId(at);
        if let Some(nonce) = nonce {
            self.set_nonce(id, nonce);
        }
        self.link(at, class);
        (id, removed)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, id: SessionId) -> Option<Removed<T>> {
        let used = self.used(id)?;
        let (pair, nonce) = (used.pair, used.nonce);
        self.unlink(id.0);
        let free = Slot::Free { next: self.first_free };
        let slot = self.slots.get_mut(id.0 as usize)?;
        let Slot::Used(used) = core::mem::replace(slot, free) else { return None };
        self.first_free = Some(id.0);
        self.len -= 1;
        unindex(&mut self.by_pair, hash_pair(&self.keyed, pair), id);
        unindex(&mut self.by_nids, hash_nids(&self.keyed, pair.nids()), id);
        if let Some(nonce) = nonce {
            unindex(&mut self.by_nonce, hash_nonce(&self.keyed, pair.remote.nid, nonce), id);
        }
        Some(Removed { id, pair, value: used.value })
    }

    /// The nonce that the correspondent sends, from now on. There is no way to take one back.
    pub fn set_nonce(&mut self, id: SessionId, nonce: Nonce) {
        let Some(Slot::Used(used)) = self.slots.get_mut(id.0 as usize) else { return };
        let old = used.nonce.replace(nonce);
        let remote = used.pair.remote.nid;
        if let Some(old) = old {
            unindex(&mut self.by_nonce, hash_nonce(&self.keyed, remote, old), id);
        }
        let Self { slots, by_nonce, keyed, .. } = self;
        by_nonce.insert_unique(hash_nonce(keyed, remote, nonce), id.0, |&at| {
            let key = used_at(slots, at).and_then(|used| Some((used.pair.remote.nid, used.nonce?)));
            key.map_or(0, |(nid, nonce)| hash_nonce(keyed, nid, nonce))
        });
    }

    /// By the addresses that its sockets have.
    #[must_use]
    pub fn find_pair(&self, pair: IlvPair) -> Option<SessionId> {
        let is_it = |at: &u32| self.used(SessionId(*at)).is_some_and(|used| used.pair == pair);
        self.by_pair.find(hash_pair(&self.keyed, pair), is_it).map(|at| SessionId(*at))
    }

    /// By the nonce of the correspondent: wherever that is (RFC 6741 s5.4).
    //= rfc6741#5.4-1
    #[must_use]
    pub fn find_nonce(&self, local: Nid, remote: Nid, nonce: Nonce) -> Option<SessionId> {
        let is_it = |at: &u32| {
            self.used(SessionId(*at)).is_some_and(|used| {
                used.pair.nids() == (local, remote) && used.nonce == Some(nonce)
            })
        };
        let found = self.by_nonce.find(hash_nonce(&self.keyed, remote, nonce), is_it);
        found.map(|at| SessionId(*at))
    }

    /// All sessions between two nodes, in no order.
    pub fn between(&self, local: Nid, remote: Nid) -> impl Iterator<Item = SessionId> + '_ {
        let candidates = self.by_nids.iter_hash(hash_nids(&self.keyed, (local, remote)));
        candidates.map(|at| SessionId(*at)).filter(move |id| {
            self.used(*id).is_some_and(|used| used.pair.nids() == (local, remote))
        })
    }

    /// The entry.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&T> {
        self.used(id).map(|used| &used.value)
    }

    /// The entry.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut T> {
        match self.slots.get_mut(id.0 as usize)? {
            Slot::Used(used) => Some(&mut used.value),
            Slot::Free { .. } => None,
        }
    }

    /// The addresses that its sockets have, and the nonce of the correspondent.
    #[must_use]
    pub fn key(&self, id: SessionId) -> Option<(IlvPair, Option<Nonce>)> {
        self.used(id).map(|used| (used.pair, used.nonce))
    }

    /// Whether its correspondent has shown that it is there.
    #[must_use]
    pub fn class(&self, id: SessionId) -> Option<Class> {
        self.used(id).map(|used| used.class)
    }

    /// It was used just now.
    pub fn touch(&mut self, id: SessionId) {
        if let Some(class) = self.class(id) {
            self.unlink(id.0);
            self.link(id.0, class);
        }
    }

    /// Its correspondent has shown that it is there.
    pub fn promote(&mut self, id: SessionId) {
        if self.used(id).is_some() {
            self.unlink(id.0);
            if let Some(Slot::Used(used)) = self.slots.get_mut(id.0 as usize) {
                used.class = Class::Proven;
            }
            self.link(id.0, Class::Proven);
        }
    }

    /// All entries, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, IlvPair, &T)> {
        (0..).zip(&self.slots).filter_map(|(at, slot)| match slot {
            Slot::Used(used) => Some((SessionId(at), used.pair, &used.value)),
            Slot::Free { .. } => None,
        })
    }

    fn evict(&mut self) -> Option<Removed<T>> {
        let oldest = self.unproven.oldest.or(self.proven.oldest)?;
        self.remove(SessionId(oldest))
    }

    fn place(&mut self, used: Used<T>) -> u32 {
        let at = self.first_free.unwrap_or(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        match self.slots.get_mut(at as usize) {
            Some(slot) => {
                if let Slot::Free { next } = slot {
                    self.first_free = *next;
                }
                *slot = Slot::Used(used);
            }
            None => self.slots.push(Slot::Used(used)),
        }
        at
    }

    fn used(&self, id: SessionId) -> Option<&Used<T>> {
        used_at(&self.slots, id.0)
    }

    fn list(&mut self, class: Class) -> &mut List {
        match class {
            Class::Unproven => &mut self.unproven,
            Class::Proven => &mut self.proven,
        }
    }

    fn link(&mut self, at: u32, class: Class) {
        let list = self.list(class);
        let second = list.newest.replace(at);
        list.oldest.get_or_insert(at);
        if let Some(Slot::Used(used)) = self.slots.get_mut(at as usize) {
            (used.newer, used.older) = (None, second);
        }
        if let Some(second) = second {
            self.with(second, |used| used.newer = Some(at));
        }
    }

    fn unlink(&mut self, at: u32) {
        let Some(used) = used_at(&self.slots, at) else { return };
        let (newer, older, class) = (used.newer, used.older, used.class);
        match newer {
            Some(newer) => self.with(newer, |used| used.older = older),
            None => self.list(class).newest = older,
        }
        match older {
            Some(older) => self.with(older, |used| used.newer = newer),
            None => self.list(class).oldest = newer,
        }
    }

    fn with(&mut self, at: u32, change: impl FnOnce(&mut Used<T>)) {
        if let Some(Slot::Used(used)) = self.slots.get_mut(at as usize) {
            change(used);
        }
    }
}

#[derive(Clone, Debug)]
enum Slot<T> {
    Used(Used<T>),
    Free { next: Option<u32> },
}

#[derive(Clone, Debug)]
struct Used<T> {
    pair: IlvPair,
    nonce: Option<Nonce>,
    class: Class,
    newer: Option<u32>,
    older: Option<u32>,
    value: T,
}

/// Slots of a class in the order of their last use.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    newest: Option<u32>,
    oldest: Option<u32>,
}

/// What an entry takes, beside some 20 octets in the indexes.
#[cfg(test)]
pub(crate) const fn slot_size<T>() -> usize {
    size_of::<Slot<T>>()
}

fn used_at<T>(slots: &[Slot<T>], at: u32) -> Option<&Used<T>> {
    match slots.get(at as usize)? {
        Slot::Used(used) => Some(used),
        Slot::Free { .. } => None,
    }
}

fn unindex(index: &mut HashTable<u32>, hash: u64, id: SessionId) {
    if let Ok(found) = index.find_entry(hash, |at| *at == id.0) {
        found.remove();
    }
}

fn hash_pair(keyed: &SipHasher13, pair: IlvPair) -> u64 {
    let mut hasher = *keyed;
    for half in [pair.local.l64.0, pair.local.nid.0, pair.remote.l64.0, pair.remote.nid.0] {
        hasher.write_u64(half);
    }
    hasher.finish()
}

fn hash_nids(keyed: &SipHasher13, (local, remote): (Nid, Nid)) -> u64 {
    let mut hasher = *keyed;
    hasher.write_u64(local.0);
    hasher.write_u64(remote.0);
    hasher.finish()
}

fn hash_nonce(keyed: &SipHasher13, remote: Nid, nonce: Nonce) -> u64 {
    let mut hasher = *keyed;
    hasher.write_u64(remote.0);
    hasher.write(nonce.octets());
    hasher.finish()
}

#[cfg(test)]
mod tests;
