use core::hash::{Hash, Hasher};

use moorline_types::ContextId;
use rand_chacha::ChaCha20Rng;
use rand_core::RngCore;
use siphasher::sip::SipHasher13;

/// Finds the slots of contexts by a key. An entry takes some 19 octets, whatever the key is. A look-up touches one
/// cache line, with one context and with a million.
///
/// The index holds only a part of the hash of a key, so the caller must compare the result with the context. The index
/// has no order. Equal seeds still give equal answers, because a caller only asks for equal keys.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    keyed: SipHasher13,
    slots: moorline_index::Index,
}

/// Hash of a key in one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u32);

impl Index {
    /// Makes an empty index. The key of the hash is random, so that nobody can choose which keys share a cache line.
    pub(crate) fn new(rng: &mut ChaCha20Rng) -> Self {
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        let slots = moorline_index::Index::new();
        Self { keyed: SipHasher13::new_with_key(&key), slots }
    }

    /// Hashes a key once, for all later calls.
    pub(crate) fn digest(&self, key: &impl Hash) -> Digest {
        let mut hasher = self.keyed;
        key.hash(&mut hasher);
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        Digest(u32::from_le_bytes([a, b, c, d]))
    }

    /// Asks for the cache line of a key before it is needed.
    pub(crate) fn touch(&self, key: Digest) {
        self.slots.touch(key.0);
    }

    /// The slot with this key for which `is_it` holds.
    pub(crate) fn find(
        &self,
        key: Digest,
        mut is_it: impl FnMut(ContextId) -> bool,
    ) -> Option<ContextId> {
        self.slots.find(key.0, |slot| is_it(ContextId(slot))).map(ContextId)
    }

    /// All slots that may have this key.
    pub(crate) fn candidates(&self, key: Digest) -> impl Iterator<Item = ContextId> + '_ {
        self.slots.candidates(key.0).map(ContextId)
    }

    /// Adds a slot that is not in the index with this key.
    pub(crate) fn insert(&mut self, key: Digest, id: ContextId) {
        self.slots.insert(key.0, id.0);
    }

    /// Removes a slot.
    pub(crate) fn remove(&mut self, key: Digest, id: ContextId) {
        self.slots.remove(key.0, id.0);
    }
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
            index.insert(index.digest(&n), ContextId(n + 7));
        }
        let find =
            |index: &Index, n: u32| index.find(index.digest(&n), |id| id == ContextId(n + 7));
        assert!((0..1000).all(|n| find(&index, n) == Some(ContextId(n + 7))));
        let three = index.digest(&3u32);
        assert_eq!(index.find(three, |_| false), None);
        index.remove(three, ContextId(11));
        assert_eq!(find(&index, 3), Some(ContextId(10)), "another slot was named");
        index.remove(three, ContextId(10));
        assert_eq!(find(&index, 3), None);
    }

    #[test]
    fn several_slots_can_have_one_key() {
        let mut index = index();
        let key = index.digest(&"key");
        for n in 0..5 {
            index.insert(key, ContextId(n));
        }
        index.remove(key, ContextId(2));
        let mut found: Vec<_> = index.candidates(key).collect();
        found.sort_unstable();
        assert_eq!(found, [0, 1, 3, 4].map(ContextId));
    }

    #[test]
    fn another_seed_gives_other_hashes() {
        let other = Index::new(&mut ChaCha20Rng::from_seed([2; 32]));
        assert_ne!(index().digest(&1u32), other.digest(&1u32));
    }
}
