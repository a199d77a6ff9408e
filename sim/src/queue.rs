use std::collections::BTreeMap;

use moorline_types::Instant;

/// Entries in order of time. Entries of the same time are in the order in which they were put in.
#[derive(Debug)]
pub struct Queue<T> {
    entries: BTreeMap<(Instant, u64), T>,
    seq: u64,
}

impl<T> Queue<T> {
    /// Makes an empty queue.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: BTreeMap::new(), seq: 0 }
    }

    /// Puts in an entry for this time.
    pub fn push(&mut self, at: Instant, what: T) {
        self.entries.insert((at, self.seq), what);
        self.seq += 1;
    }

    /// Takes the next entry, if it is not later than `end`.
    pub fn pop_until(&mut self, end: Instant) -> Option<(Instant, T)> {
        let next = self.entries.first_entry().filter(|next| next.key().0 <= end)?;
        let ((at, _), what) = next.remove_entry();
        Some((at, what))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_time_then_arrival() {
        let mut queue = Queue::new();
        for (at, name) in [(2, 'c'), (1, 'a'), (1, 'b'), (3, 'd')] {
            queue.push(Instant::from_nanos(at), name);
        }
        let end = Instant::from_nanos(2);
        let names: Vec<_> = std::iter::from_fn(|| queue.pop_until(end)).map(|(_, n)| n).collect();
        assert_eq!(names, ['a', 'b', 'c']);
        assert_eq!(queue.len(), 1);
    }
}
