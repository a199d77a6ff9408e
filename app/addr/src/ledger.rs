use crate::Shard;
use std::collections::BTreeSet;

/// Record of the searched chunks of a shard. Chunks have numbers from zero within the shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    shard: Shard,
    chunk_tries: u64,
    /// Next chunk for a worker.
    next: u64,
    /// All chunks below this number have been searched.
    done: u64,
    /// Searched chunks above `done`.
    ahead: BTreeSet<u64>,
    /// The lowest chunk with a fit so far, and the offset of the fit in the whole search.
    found: Option<(u64, u64)>,
}

/// Unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    number: u64,
    /// Offset of the first try in the whole search.
    pub(crate) offset: u64,
}

impl Ledger {
    /// Makes a ledger in which the first `done` chunks have no fit.
    pub(crate) fn new(shard: Shard, chunk_tries: u64, done: u64) -> Self {
        Self { shard, chunk_tries, next: done, done, ahead: BTreeSet::new(), found: None }
    }

    /// Returns the next chunk; `None` if no further chunk can change the result.
    pub(crate) fn hand_out(&mut self) -> Option<Chunk> {
        if self.found.is_some_and(|(number, _)| number < self.next) {
            return None;
        }
        let number = self.next;
        let offset = number
            .checked_mul(self.shard.count().into())?
            .checked_add(self.shard.index().into())?
            .checked_mul(self.chunk_tries)?;
        self.next += 1;
        Some(Chunk { number, offset })
    }

    /// Takes back a searched chunk, with the position of its first fit.
    pub(crate) fn take_back(&mut self, chunk: Chunk, fit: Option<u64>) {
        if let Some(fit) = fit
            && self.found.is_none_or(|(number, _)| chunk.number < number)
        {
            self.found = Some((chunk.number, chunk.offset + fit));
        }
        self.ahead.insert(chunk.number);
        while self.ahead.remove(&self.done) {
            self.done += 1;
        }
    }

    /// Returns the result, if no earlier fit is possible.
    pub(crate) fn result(&self) -> Option<u64> {
        self.found.filter(|&(number, _)| number < self.done).map(|(_, offset)| offset)
    }

    /// Whether the search has tried every offset without a fit.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.found.is_none() && self.next == self.done && self.clone().hand_out().is_none()
    }

    /// Returns the number of chunks that a later run can skip.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Returns the tries of all searched chunks.
    pub(crate) fn tries(&self) -> u64 {
        (self.done + self.ahead.len() as u64).saturating_mul(self.chunk_tries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shards_take_turns() {
        let offsets = |shard: &str| -> Vec<u64> {
            let mut ledger = Ledger::new(shard.parse().unwrap(), 10, 1);
            (0..3).map(|_| ledger.hand_out().unwrap().offset).collect()
        };
        assert_eq!(offsets("0/1"), [10, 20, 30]);
        assert_eq!(offsets("0/3"), [30, 60, 90]);
        assert_eq!(offsets("2/3"), [50, 80, 110]);
    }

    #[test]
    fn a_fit_counts_when_everything_before_it_is_back() {
        let mut ledger = Ledger::new(Shard::WHOLE, 10, 0);
        let [a, b, c] = [(); 3].map(|()| ledger.hand_out().unwrap());
        ledger.take_back(c, Some(3));
        assert_eq!((ledger.result(), ledger.done(), ledger.tries()), (None, 0, 10));
        assert_eq!(ledger.hand_out(), None, "what comes later cannot be the first");
        ledger.take_back(a, None);
        assert_eq!((ledger.result(), ledger.done()), (None, 1));
        ledger.take_back(b, Some(9));
        assert_eq!((ledger.result(), ledger.done(), ledger.tries()), (Some(19), 3, 30));
    }

    #[test]
    fn a_chunk_that_is_out_below_a_fit_may_be_handed_out_still() {
        let mut ledger = Ledger::new(Shard::WHOLE, 10, 0);
        let first = ledger.hand_out().unwrap();
        ledger.take_back(first, Some(0));
        assert_eq!((ledger.result(), ledger.hand_out()), (Some(0), None));
    }

    #[test]
    fn offsets_end_at_2_to_the_64() {
        let mut ledger = Ledger::new(Shard::WHOLE, 1 << 63, 0);
        let chunks = [(); 2].map(|()| ledger.hand_out().unwrap());
        assert_eq!(ledger.hand_out(), None);
        assert!(!ledger.is_exhausted());
        for chunk in chunks {
            ledger.take_back(chunk, None);
        }
        assert!(ledger.is_exhausted());
    }

    proptest! {
        /// Chunks come back in any order.
        #[test]
        fn the_first_fit_of_the_shard_is_the_result(
            fits in prop::collection::btree_set(0u64..300, 1..5),
            shard in (1u32..5).prop_flat_map(|count| (0..count, Just(count))),
            workers in 1usize..6,
            order in prop::collection::vec(any::<prop::sample::Index>(), 400),
        ) {
            let shard = Shard::new(shard.0, shard.1).unwrap();
            let of_shard = |offset: &u64| offset / 10 % u64::from(shard.count()) == u64::from(shard.index());
            let Some(expected) = fits.iter().copied().find(of_shard) else { return Ok(()) };
            let mut ledger = Ledger::new(shard, 10, 0);
            let mut out = Vec::new();
            for index in order {
                while out.len() < workers {
                    let Some(chunk) = ledger.hand_out() else { break };
                    out.push(chunk);
                }
                if out.is_empty() {
                    break;
                }
                let chunk = out.swap_remove(index.index(out.len()));
                let fit = fits.range(chunk.offset..chunk.offset + 10).next();
                ledger.take_back(chunk, fit.map(|fit| fit - chunk.offset));
            }
            prop_assert_eq!(ledger.result(), Some(expected));
        }
    }
}
