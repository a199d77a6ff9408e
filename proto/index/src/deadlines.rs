use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use moorline_types::Instant;

use crate::Segments;

/// Deadlines of very many slots. The first one is known exactly, and no operation looks at all slots.
///
/// A timing wheel whose spokes exist only while they hold slots. Time is divided into ticks of about a
/// millisecond. The slots that are due in the next ticks are in order. The other slots are on spokes, each an
/// unordered list through the entries of its slots. The farther off a spoke is, the more ticks it spans, so
/// that there are some hundreds of spokes for each doubling of the distance. When the last of the ordered
/// slots has gone, the first spoke is taken: if it spans one tick, its slots are put in order, otherwise they
/// go to narrower spokes. Within a minute a slot is on three spokes at most, and most slots are armed anew
/// before.
///
/// Of equal deadlines, the one with the lower slot is first. An entry takes 16 octets, armed or not.
#[derive(Clone)]
pub struct Deadlines {
    entries: Segments<Entry>,
    /// Slots that are due before `from`, in order. Empty only if nothing is armed.
    near: BTreeSet<(Instant, u32)>,
    /// The other slots: the first slot of each spoke. No spoke is empty.
    far: BTreeMap<Spoke, u32>,
    /// First tick that is not in `near`.
    from: u64,
    /// Largest length of `near`. Beyond it, the later half goes back to spokes.
    most: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    at: Option<Instant>,
    /// For a slot on a spoke: the slots before and after it.
    before: Link,
    after: Link,
}

/// A slot. With [`Link::END`], the width of the spoke to which the list belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link(u32);

/// A spoke: ticks with a common beginning. Spokes are in order of their first tick, and of equal ones the
/// widest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spoke {
    first_tick: u64,
    /// [`Spoke::WIDEST`] minus the width; the spoke spans two to the power of its width in ticks.
    narrowness: u32,
}

impl Deadlines {
    /// Creates deadlines with no slot armed.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            entries: Segments::new(),
            near: BTreeSet::new(),
            far: BTreeMap::new(),
            from: 0,
            most: MOST,
        }
    }

    /// Deadline of a slot.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<Instant> {
        self.entries.get(slot)?.at
    }

    /// The slot that is due first, with its deadline.
    #[must_use]
    pub fn first(&self) -> Option<(Instant, u32)> {
        self.near.first().copied()
    }

    /// Disarms and returns the first slot, if it is due by `now`.
    pub fn pop(&mut self, now: Instant) -> Option<u32> {
        let (at, slot) = self.first()?;
        if at > now {
            return None;
        }
        self.set(slot, None);
        Some(slot)
    }

    /// Arms, re-arms or disarms a slot. Slots must be below 2^31; others are ignored.
    pub fn set(&mut self, slot: u32, at: Option<Instant>) {
        let old = self.get(slot);
        if old == at || slot >= Link::END {
            return;
        }
        if let Some(old) = old {
            self.take(slot, old);
        }
        while at.is_some() && self.entries.len() <= slot {
            self.entries.push(Entry::default());
        }
        if let Some(entry) = self.entries.get_mut(slot) {
            entry.at = at;
        }
        if let Some(at) = at {
            if self.near.is_empty() && self.far.is_empty() {
                self.from = tick(at) + 1;
            }
            self.put(slot, at);
        }
        while self.near.is_empty() && self.take_first_spoke() {}
        if self.near.len() > self.most {
            self.spill();
        }
    }

    fn put(&mut self, slot: u32, at: Instant) {
        let Some(distance) = tick(at).checked_sub(self.from) else {
            self.near.insert((at, slot));
            return;
        };
        let width = (distance >> NARROW).checked_ilog2().map_or(0, |doublings| doublings + 1);
        let next = self.far.insert(Spoke::of(at, width), slot);
        if let Some(next) = next.and_then(|next| self.entries.get_mut(next)) {
            next.before = Link(slot);
        }
        if let Some(entry) = self.entries.get_mut(slot) {
            (entry.before, entry.after) = (Link::end(width), next.map_or(Link::end(0), Link));
        }
    }

    fn take(&mut self, slot: u32, at: Instant) {
        if tick(at) < self.from {
            self.near.remove(&(at, slot));
            return;
        }
        let Some(Entry { before, after, .. }) = self.entries.get(slot).copied() else { return };
        if let Some(after) = after.slot().and_then(|after| self.entries.get_mut(after)) {
            after.before = before;
        }
        match (before.slot(), after.slot()) {
            (Some(before), _) => {
                if let Some(before) = self.entries.get_mut(before) {
                    before.after = after;
                }
            }
            (None, Some(after)) => {
                self.far.insert(Spoke::of(at, before.width()), after);
            }
            (None, None) => {
                self.far.remove(&Spoke::of(at, before.width()));
            }
        }
    }

    /// Takes the first spoke. Its slots go to narrower spokes, or in order if the spoke spans one tick. False
    /// if there is no spoke.
    ///
    /// The width of a spoke is a power of two, and a spoke begins at a multiple of its width. So two spokes
    /// lie one within the other or side by side, and no slot of another spoke is due in the first tick.
    fn take_first_spoke(&mut self) -> bool {
        let Some((spoke, mut slot)) = self.far.pop_first() else { return false };
        let is_tick = spoke.narrowness == Spoke::WIDEST;
        self.from = self.from.max(spoke.first_tick) + u64::from(is_tick);
        while let Some(Entry { at: Some(at), after, .. }) = self.entries.get(slot).copied() {
            self.put(slot, at);
            let Some(after) = after.slot() else { break };
            slot = after;
        }
        self.most = MOST.max(self.near.len() * 2);
        true
    }

    /// Moves slots from `near` back to spokes. The first tick stays, and half of the slots at most besides
    /// it.
    fn spill(&mut self) {
        let ticks = |nth| self.near.iter().nth(nth).map_or(0, |(at, _)| tick(*at));
        self.from = ticks(self.near.len() / 2).max(ticks(0) + 1);
        let spilled = self.near.split_off(&(Instant::from_nanos(self.from << TICK), 0));
        for (at, slot) in spilled {
            self.put(slot, at);
        }
        self.most = MOST.max(self.near.len() * 2);
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the deadlines as an ordered set: their places on spokes carry no information.
impl fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let armed = self.entries.iter().zip(0_u32..);
        let armed: BTreeSet<_> =
            armed.filter_map(|(entry, slot)| Some((entry.at?, slot))).collect();
        armed.fmt(f)
    }
}

impl Spoke {
    const WIDEST: u32 = 63;

    const fn of(at: Instant, width: u32) -> Self {
        Self { first_tick: tick(at) >> width << width, narrowness: Self::WIDEST - width }
    }
}

impl Link {
    const END: u32 = 1 << 31;

    const fn end(width: u32) -> Self {
        Self(Self::END | width)
    }

    const fn slot(self) -> Option<u32> {
        if self.0 < Self::END { Some(self.0) } else { None }
    }

    const fn width(self) -> u32 {
        self.0 & !Self::END
    }
}

const fn tick(at: Instant) -> u64 {
    at.as_nanos() >> TICK
}

/// Length of a tick as a power of two: 2^20 ns, 1.05 ms.
const TICK: u32 = 20;
/// Doublings of the distance, in ticks, up to which spokes span one tick: half a second. Beyond, a spoke
/// spans up to a 256th of its distance.
const NARROW: u32 = 9;
/// Number of slots that may be in order in any case.
const MOST: usize = 256;

#[cfg(test)]
mod tests;
