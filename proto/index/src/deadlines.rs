use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;

use moorline_types::Instant;

use crate::Segments;

/// When each of very many slots is due: which is first is known exactly, and no operation looks at all of them.
///
/// A timing wheel whose spokes are there only while they hold something. Time comes in ticks of a millisecond.
/// Slots that are due in the same tick, or later in the same few ticks, hang on one spoke in a list through
/// their own entries, in no order; the farther off, the wider the spoke, so that there are some hundreds for
/// each doubling of the distance. The slots of the ticks that are next are in order, and when the last of them
/// has gone, the first spoke is taken: a wide one is hung up again on narrower ones, one of a single tick is put
/// in order. A slot goes through three spokes at most in a minute, and most are armed anew before.
///
/// Of equal deadlines the one with the lower slot is first. An entry takes 16 octets, armed or not.
#[derive(Clone)]
pub struct Deadlines {
    entries: Segments<Entry>,
    /// What is due before `from`, in order; empty only if nothing is armed.
    near: BTreeSet<(Instant, u32)>,
    /// The others: the first slot of each spoke. None is empty.
    far: BTreeMap<Spoke, u32>,
    /// A tick.
    from: u64,
    /// With more than so many in `near`, the later half goes back to spokes.
    most: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    at: Option<Instant>,
    /// For those on a spoke: the slots before and after this one.
    before: Link,
    after: Link,
}

/// A slot, or with [`Link::END`] the width of the spoke that the list hangs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link(u32);

/// Ticks of a common beginning. The first is the one that begins first, and of those the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spoke {
    first_tick: u64,
    /// [`Spoke::WIDEST`] less the power of two that is its width.
    narrowness: u32,
}

impl Deadlines {
    /// With nothing armed.
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

    /// When this slot is due.
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<Instant> {
        self.entries.get(slot)?.at
    }

    /// The slot that is due first, and when.
    #[must_use]
    pub fn first(&self) -> Option<(Instant, u32)> {
        self.near.first().copied()
    }

    /// Takes out the first slot if it is due by `now`.
    pub fn pop(&mut self, now: Instant) -> Option<u32> {
        let (at, slot) = self.first()?;
        if at > now {
            return None;
        }
        self.set(slot, None);
        Some(slot)
    }

    /// Arms a slot, anew if it was, or disarms it. Slots are below 2^31; others are not looked at.
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

    /// What hangs on the first spoke goes to narrower ones, or in order if there is none. False if there is no
    /// spoke.
    ///
    /// Spokes are as wide as powers of two and begin at multiples of their width, so one lies within another
    /// or beside it, and nothing that hangs on another one is due in the first tick.
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

    /// The first tick stays, and no more than half of what is there besides it.
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

/// As an ordered set of them, as where they hang says nothing else.
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

/// A tick is 2^20 ns, 1.05 ms.
const TICK: u32 = 20;
/// So many doublings of the distance in ticks have spokes of one tick: half a second. Then spokes are up to a
/// 256th of their distance wide.
const NARROW: u32 = 9;
/// In order, without a need for it.
const MOST: usize = 256;

#[cfg(test)]
mod tests;
