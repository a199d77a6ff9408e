use alloc::vec::Vec;

use moorline_reap as reap;
use moorline_types::{Locator, Ulid, UlidPair};

/// Properties by which the machine counts established contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// Our ULID.
    pub ulid: Ulid,
    /// Our locator in the current pair.
    pub local: Locator,
    /// Whether the state of REAP is not Operational.
    pub is_exploring: bool,
    /// Whether the current pair differs from the ULIDs.
    pub is_moved: bool,
}

impl Class {
    pub(crate) fn of(ulids: UlidPair, reap: &reap::Machine) -> Self {
        let current = reap.current_pair();
        Self {
            ulid: ulids.local,
            local: current.local,
            is_exploring: reap.state() != reap::State::Operational,
            is_moved: current != ulids.as_locators(),
        }
    }
}

/// Numbers of established contexts by class, which are kept as contexts change. A host has few classes, however many
/// contexts it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    classes: Vec<(Class, u64)>,
}

/// Place of a class in the tally. Each context holds its place, which takes less room than its class. A context beyond
/// 65,535 classes has no place, and is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u16);

impl Tally {
    pub(crate) fn add(&mut self, class: Class) -> Place {
        let known = self.classes.iter().position(|(known, _)| *known == class);
        let free = || self.classes.iter().position(|(_, count)| *count == 0);
        let at = known.or_else(free).unwrap_or(self.classes.len());
        let place = Place(u16::try_from(at).unwrap_or(u16::MAX));
        if at == self.classes.len() && place != NOWHERE {
            self.classes.push((class, 0));
        }
        if let Some(entry) = self.classes.get_mut(usize::from(place.0)) {
            *entry = (class, entry.1 + 1);
        }
        place
    }

    pub(crate) fn remove(&mut self, Place(at): Place) {
        if let Some((_, count)) = self.classes.get_mut(usize::from(at)) {
            *count -= 1;
        }
    }

    /// Counts a context, which was counted at `place`, in this class. Returns its new place.
    pub(crate) fn change(&mut self, place: Place, class: Class) -> Place {
        let Place(at) = place;
        if self.classes.get(usize::from(at)).is_some_and(|(known, _)| *known == class) {
            return place;
        }
        self.remove(place);
        self.add(class)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        self.classes.iter().copied().filter(|(_, count)| *count > 0)
    }
}

const NOWHERE: Place = Place(u16::MAX);
