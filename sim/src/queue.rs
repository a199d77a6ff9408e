use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use moorline_types::Instant;

/// What is to happen, in order of time; of two at the same time the one put in first.
#[derive(Debug)]
pub struct Queue<T> {
    entries: BinaryHeap<Reverse<Entry<T>>>,
    seq: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Instant,
    seq: u64,
    what: T,
}

impl<T> Queue<T> {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: BinaryHeap::new(), seq: 0 }
    }

    /// Puts in what is to happen then.
    pub fn push(&mut self, at: Instant, what: T) {
        self.entries.push(Reverse(Entry { at, seq: self.seq, what }));
        self.seq += 1;
    }

    /// The next, if it is not later than `end`.
    pub fn pop_until(&mut self, end: Instant) -> Option<(Instant, T)> {
        if self.entries.peek()?.0.at > end {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| (entry.at, entry.what))
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

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.seq).cmp(&(other.at, other.seq))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

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
