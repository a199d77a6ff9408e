use alloc::collections::BTreeMap;

use moorline_types::{ContextId, UlidPair};

/// Pairs whose payload Shim6 has moved.
#[derive(Clone, Debug)]
pub(crate) struct MovedPairs {
    contexts: BTreeMap<ContextId, UlidPair>,
    /// Number of contexts of each pair: forked contexts share a pair.
    pairs: BTreeMap<UlidPair, u32>,
}

impl MovedPairs {
    pub(crate) const fn new() -> Self {
        Self { contexts: BTreeMap::new(), pairs: BTreeMap::new() }
    }

    pub(crate) fn contains(&self, pair: UlidPair) -> bool {
        self.pairs.contains_key(&pair)
    }

    /// Notes that a context has moved, or has moved again.
    pub(crate) fn insert(&mut self, context: ContextId, pair: UlidPair) {
        let before = self.contexts.insert(context, pair);
        if before != Some(pair) {
            self.release(before);
            *self.pairs.entry(pair).or_default() += 1;
        }
    }

    /// Notes that a context is back at its ULIDs, or gone.
    pub(crate) fn remove(&mut self, context: ContextId) {
        let before = self.contexts.remove(&context);
        self.release(before);
    }

    fn release(&mut self, pair: Option<UlidPair>) {
        let Some(pair) = pair else { return };
        if let Some(count) = self.pairs.get_mut(&pair) {
            *count -= 1;
            if *count == 0 {
                self.pairs.remove(&pair);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use moorline_types::Ulid;

    use super::*;

    #[test]
    fn a_pair_is_shim6s_as_long_as_one_of_its_contexts_has_moved() {
        let pair = |end: &str| {
            let ulid = |text: &str| Ulid(text.parse().expect("an address"));
            UlidPair::new(ulid("2001:db8:a::1"), ulid(end))
        };
        let (one, other) = (pair("2001:db8:b::1"), pair("2001:db8:b::2"));
        let mut moved = MovedPairs::new();
        moved.insert(ContextId(1), one);
        moved.insert(ContextId(1), one);
        moved.insert(ContextId(2), one);
        moved.remove(ContextId(1));
        assert!(moved.contains(one) && !moved.contains(other));
        // Another pair gets the slot.
        moved.insert(ContextId(2), other);
        assert!(!moved.contains(one) && moved.contains(other));
        moved.remove(ContextId(2));
        moved.remove(ContextId(2));
        assert!(!moved.contains(other));
    }
}
