use alloc::vec::Vec;
use core::ops::Range;

use moorline_index::Segments;
use moorline_types::ContextId;

use crate::active::Active;

/// The established contexts, each in its slot, without keys and searches.
///
/// Slots are given out from zero and used again. So there are never more slots than the largest number of contexts at
/// one time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    slots: Segments<Option<Active>>,
}

impl Slots {
    pub(crate) fn get(&self, id: &ContextId) -> Option<&Active> {
        self.slots.get(id.0)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: &ContextId) -> Option<&mut Active> {
        self.slots.get_mut(id.0)?.as_mut()
    }

    pub(crate) fn insert(&mut self, id: ContextId, active: Active) {
        while self.slots.len() <= id.0 && self.slots.push(None).is_some() {}
        if let Some(slot) = self.slots.get_mut(id.0) {
            *slot = Some(active);
        }
    }

    pub(crate) fn remove(&mut self, id: &ContextId) -> Option<Active> {
        self.slots.get_mut(id.0)?.take()
    }

    /// Number of slots, with those that are free.
    pub(crate) const fn len(&self) -> u32 {
        self.slots.len()
    }

    /// Contexts in these slots.
    pub(crate) fn slice(&self, slots: Range<u32>) -> Vec<ContextId> {
        let taken = slots.clone().zip(self.slots.iter_from(slots.start));
        taken.filter(|(_, slot)| slot.is_some()).map(|(slot, _)| ContextId(slot)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_small() {
        assert!(size_of::<Option<Active>>() <= 120, "{}", size_of::<Option<Active>>());
    }
}
