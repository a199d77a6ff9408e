use core::ops::Range;

/// A walk once round a table, from any slot on, in slices.
///
/// Slots that the table gets during the walk do not belong to the round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    next: u32,
    left: u32,
    slots: u32,
}

impl Round {
    /// Begins a round at the slot `next` of a table with this number of slots. A slot behind the table counts as the first one.
    #[must_use]
    pub const fn at(next: u32, slots: u32) -> Self {
        Self { next: if next < slots { next } else { 0 }, left: slots, slots }
    }

    /// The first slot of the next slice.
    #[must_use]
    pub const fn place(&self) -> u32 {
        self.next
    }

    /// Whether all slots have had their turn.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Takes the next slice, of `count` slots at most. A slice ends where the table ends.
    pub fn take(&mut self, count: u32) -> Range<u32> {
        let first = self.next;
        let end = first.saturating_add(count.min(self.left)).min(self.slots);
        self.left -= end - first;
        self.next = if end < self.slots { end } else { 0 };
        first..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_round_has_each_slot_once_wherever_it_begins() {
        for slots in 0..12 {
            for (first, count) in (0..14).flat_map(|first| (1..14).map(move |n| (first, n))) {
                let mut round = Round::at(first, slots);
                let mut seen = Vec::new();
                while !round.is_over() {
                    let slice = round.take(count);
                    assert!((1..=count as usize).contains(&slice.len()));
                    seen.extend(slice);
                }
                let first = if first < slots { first } else { 0 };
                assert!(seen.into_iter().eq((first..slots).chain(0..first)));
                assert_eq!((round.place(), round.take(count).len()), (first, 0));
            }
        }
    }
}
