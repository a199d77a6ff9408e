use core::hash::{Hash, Hasher};

use hashbrown::HashTable;
use moorline_types::ContextId;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use siphasher::sip::SipHasher13;

/// Finds the slots of contexts by something that is in them: nine octets for a context, whatever the
/// key, and the same time for one context and for a million.
///
/// The key itself is not in the index, only part of its hash, so what is found must be compared with
/// the context. Nothing here has an order; equal seeds give equal answers all the same, as only equal
/// keys are ever asked for.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    keyed: SipHasher13,
    entries: HashTable<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    hash: u32,
    id: ContextId,
}

impl Index {
    /// An empty one. The key of its hash is drawn, so that nobody can choose what meets in a bucket.
    pub(crate) fn new(rng: &mut ChaCha20Rng) -> Self {
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        Self { keyed: SipHasher13::new_with_key(&key), entries: HashTable::new() }
    }

    /// The one slot with this key that `is_it` says is right.
    pub(crate) fn find(
        &self,
        key: &impl Hash,
        mut is_it: impl FnMut(ContextId) -> bool,
    ) -> Option<ContextId> {
        let hash = self.hash(key);
        let found = self.entries.find(spread(hash), |entry| entry.hash == hash && is_it(entry.id));
        found.map(|entry| entry.id)
    }

    /// All slots that may have this key.
    pub(crate) fn candidates<'a, K: Hash>(
        &'a self,
        key: &K,
    ) -> impl Iterator<Item = ContextId> + use<'a, K> {
        let hash = self.hash(key);
        let entries = self.entries.iter_hash(spread(hash));
        entries.filter(move |entry| entry.hash == hash).map(|entry| entry.id)
    }

    /// Adds a slot, which is not there with this key.
    pub(crate) fn insert(&mut self, key: &impl Hash, id: ContextId) {
        let hash = self.hash(key);
        let entry = Entry { hash, id };
        self.entries.insert_unique(spread(hash), entry, |entry| spread(entry.hash));
    }

    /// Takes a slot out.
    pub(crate) fn remove(&mut self, key: &impl Hash, id: ContextId) {
        let hash = self.hash(key);
        let entry = Entry { hash, id };
        if let Ok(found) = self.entries.find_entry(spread(hash), |other| *other == entry) {
            found.remove();
        }
    }

    fn hash(&self, key: &impl Hash) -> u32 {
        let mut hasher = self.keyed;
        key.hash(&mut hasher);
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}

/// A table takes its bucket from the lower bits and a mark from the upper ones.
const fn spread(hash: u32) -> u64 {
    (hash as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand_core::SeedableRng;

    fn index() -> Index {
        Index::new(&mut ChaCha20Rng::from_seed([1; 32]))
    }

    #[test]
    fn slots_are_found_by_their_keys_until_they_are_removed() {
        let mut index = index();
        for n in 0..1000u32 {
            index.insert(&n, ContextId(n + 7));
        }
        let find = |index: &Index, n: u32| index.find(&n, |id| id == ContextId(n + 7));
        assert!((0..1000).all(|n| find(&index, n) == Some(ContextId(n + 7))));
        assert_eq!(index.find(&3u32, |_| false), None);
        index.remove(&3u32, ContextId(11));
        assert_eq!(find(&index, 3), Some(ContextId(10)), "another slot was named");
        index.remove(&3u32, ContextId(10));
        assert_eq!(find(&index, 3), None);
    }

    #[test]
    fn several_slots_can_have_one_key() {
        let mut index = index();
        for n in 0..5 {
            index.insert(&"key", ContextId(n));
        }
        index.remove(&"key", ContextId(2));
        let mut found: Vec<_> = index.candidates(&"key").collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 3, 4].map(ContextId));
    }

    #[test]
    fn another_seed_gives_other_hashes() {
        let other = Index::new(&mut ChaCha20Rng::from_seed([2; 32]));
        assert_ne!(index().hash(&1u32), other.hash(&1u32));
    }
}
