use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::hash::Hasher;

use moorline_types::{IlvPair, L64, Nid, Nonce, SessionId};
use siphasher::sip::SipHasher13;

use crate::{Index, Segments};

/// Who goes first when there is no more room: what costs a correspondent least, and us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A packet that anybody could have sent.
    Unproven,
    /// It has answered something that only a host at its address could have read. The session was its wish alone: no
    /// connected socket of ours has its addresses, as far as is known.
    Guest,
    /// It has answered, and the session is not that of a guest.
    Proven,
}

/// Identifier-Locator Communication Cache (RFC 6741 s5): sessions, found by what is in packets.
///
/// It never holds more than its capacity. Beyond, unproven entries go before all others, so that a flood of
/// made-up correspondents pushes out made-up correspondents, and then guests; of a class the one that came first,
/// but one that was used since then is asked about once more later (CLOCK, "second chance"). To note a use is a
/// bit in the entry itself, where a list by use would have its neighbours written as well.
///
/// A look-up reads two lines of memory, one of an index and one of an entry, for one entry and for ten
/// million: the indexes hold slots and hashes under a drawn key, and what is found is compared with the entry.
/// What else a session has lies apart from that. Nothing is moved when the cache grows.
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
    /// By class.
    lists: [List; 3],
    /// Guests by the locator that they came with.
    guests_at: BTreeMap<L64, usize>,
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
    /// Octets of an entry, beside some 60 in the indexes.
    pub const ENTRY_OCTETS: usize = size_of::<Slot>() + size_of::<Option<T>>();

    /// An empty one for so many entries, at least 1. The key of its hash is to be drawn, so that nobody can choose what meets in a
    /// bucket.
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
            guests_at: BTreeMap::new(),
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

    /// Entries of a class.
    #[must_use]
    pub const fn count(&self, class: Class) -> usize {
        self.lists[class as usize].len
    }

    /// Guests whose sockets have this locator, wherever they are now.
    #[must_use]
    pub fn guests_at(&self, l64: L64) -> usize {
        self.guests_at.get(&l64).copied().unwrap_or(0)
    }

    /// Adds an entry as the last that came of its class. One with the same pair is replaced. Gives what had to
    /// go.
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
            *self.guests_at.entry(pair.remote.l64).or_default() += 1;
        }
        (SessionId(at), removed)
    }

    /// Takes an entry out.
    pub fn remove(&mut self, id: SessionId) -> Option<Removed<T>> {
        let &Slot { pair, nonce, class, .. } = self.used(id)?;
        let ways = self.ask(pair, nonce);
        let value = self.values.get_mut(id.0)?.take()?;
        if class == Some(Class::Guest) {
            self.guest_has_gone(pair.remote.l64);
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

    /// The nonce that the correspondent sends, from now on. There is no way to take one back.
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

    /// By the addresses that its sockets have.
    //= rfc6740#3.1.1-3
    #[must_use]
    pub fn find_pair(&self, pair: IlvPair) -> Option<SessionId> {
        if self.is_empty() {
            return None;
        }
        self.find(pair, hash_pair(&self.keyed, pair)).map(SessionId)
    }

    /// By the nonce of the correspondent: wherever that is (RFC 6741 s5.4).
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

    /// The entry.
    #[must_use]
    pub fn get(&self, id: SessionId) -> Option<&T> {
        self.values.get(id.0)?.as_ref()
    }

    /// The entry.
    pub fn get_mut(&mut self, id: SessionId) -> Option<&mut T> {
        self.values.get_mut(id.0)?.as_mut()
    }

    /// The addresses that its sockets have, and the nonce of the correspondent.
    #[must_use]
    pub fn key(&self, id: SessionId) -> Option<(IlvPair, Option<Nonce>)> {
        self.used(id).map(|used| (used.pair, used.nonce))
    }

    /// Whether its correspondent has shown that it is there.
    #[must_use]
    pub fn class(&self, id: SessionId) -> Option<Class> {
        self.used(id)?.class
    }

    /// It was used just now.
    pub fn touch(&mut self, id: SessionId) {
        if let Some(slot) = self.slots.get_mut(id.0).filter(|slot| !slot.is_used) {
            slot.is_used = true;
        }
    }

    /// Proven from now on, if it is of this class: its correspondent has shown that it is there, or a connected socket
    /// of ours has the addresses of a guest.
    pub fn promote(&mut self, id: SessionId, from: Class) {
        let Some(&Slot { pair, .. }) = self.used(id).filter(|slot| slot.class == Some(from)) else {
            return;
        };
        if from == Class::Guest {
            self.guest_has_gone(pair.remote.l64);
        }
        self.unlink(id.0);
        self.link(id.0, Class::Proven);
    }

    fn guest_has_gone(&mut self, l64: L64) {
        if let Entry::Occupied(mut guests) = self.guests_at.entry(l64) {
            *guests.get_mut() -= 1;
            if *guests.get() == 0 {
                guests.remove();
            }
        }
    }

    /// All entries, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (SessionId, IlvPair, &T)> {
        let slots = (0..).zip(self.slots.iter().zip(self.values.iter()));
        slots.filter_map(|(at, (slot, value))| Some((SessionId(at), slot.pair, value.as_ref()?)))
    }

    fn find(&self, pair: IlvPair, digest: u32) -> Option<u32> {
        self.by_pair
            .find(digest, |at| self.used(SessionId(at)).is_some_and(|used| used.pair == pair))
    }

    /// Hashes all that an entry is found by, and asks for the lines of the indexes before the first is needed:
    /// they come together.
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

    /// Who has to go.
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

    /// Into a slot, with neither nonce nor class yet.
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

/// What finds an entry, and whether it goes: one line of memory.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Slot {
    pair: IlvPair,
    nonce: Option<Nonce>,
    /// Came after it; of a free one, the next that is free.
    newer: Option<u32>,
    older: Option<u32>,
    /// `None`: it is free.
    class: Option<Class>,
    /// Since it came, or was last asked about.
    is_used: bool,
}

/// Slots of a class in the order in which they came.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    newest: Option<u32>,
    oldest: Option<u32>,
    len: usize,
}

/// Hashes of what an entry is found by.
#[derive(Clone, Copy, Debug)]
struct Ways {
    pair: u32,
    nids: u32,
    nonce: Option<u32>,
}

/// Entries in use that one insertion spares, so that it takes no longer if all are.
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

/// As much of a hash as the indexes take.
fn short(hasher: &SipHasher13) -> u32 {
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests;
