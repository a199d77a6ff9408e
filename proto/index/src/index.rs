use core::fmt;

use crate::Segments;

/// Finds slots by hashes. A look-up reads one line of memory, with one slot or ten million.
///
/// The index holds only the hash of a key, so each hit must be compared with the content of the slot. A slot
/// takes some 19 octets.
#[derive(Clone, Default)]
pub struct Index {
    lines: Segments<Line>,
    /// Lines in which full lines continue.
    more: Segments<Line>,
    /// First free line of `more`, counted as in `Line::next`.
    free: u32,
    len: u32,
}

/// A line, as long as the unit that a processor fetches. The last of each eight words is no cell; to compare
/// eight words is as cheap as to compare one.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line {
    /// Hashes of the cells. The last word is the place in `Index::more` where the line continues, counted
    /// from 1; 0: the line does not continue.
    hashes: [u32; 8],
    /// Slots of the cells. The last word has one bit for each cell in use.
    slots: [u32; 8],
}

impl Index {
    /// Creates an empty index.
    #[must_use]
    pub const fn new() -> Self {
        Self { lines: Segments::new(), more: Segments::new(), free: 0, len: 0 }
    }

    /// Requests the line of a hash that will be needed soon. Lines that are requested together arrive
    /// together.
    #[inline]
    pub fn touch(&self, hash: u32) {
        let line = self.lines.get(self.line_of(hash));
        core::hint::black_box(line.map_or(0, Line::taken));
    }

    /// Returns the slot with this hash for which `is_it` is true.
    #[inline]
    pub fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.candidates(hash).find(|slot| is_it(*slot))
    }

    /// All slots with this hash, in no order.
    #[inline]
    pub fn candidates(&self, hash: u32) -> Candidates<'_> {
        let line = self.lines.get(self.line_of(hash));
        let matches = line.map_or(0, |line| line.matches(hash));
        Candidates { index: self, hash, line, matches }
    }

    /// Adds a slot. It must not be in the index with this hash.
    pub fn insert(&mut self, hash: u32, slot: u32) {
        // The cells are half full.
        if u64::from(self.len) * 2 >= u64::from(self.lines.len()) * CELLS as u64 {
            self.split();
        }
        self.len = self.len.saturating_add(1);
        self.put(hash, slot);
    }

    /// Removes a slot. False if it was not in the index with this hash.
    pub fn remove(&mut self, hash: u32, slot: u32) -> bool {
        let (mut before, mut at) = (None, Place::Line(self.line_of(hash)));
        while let Some(line) = self.line_mut(at) {
            if let Some(cell) = line.cell_of(hash, slot) {
                line.clear(cell);
                self.len = self.len.saturating_sub(1);
                self.mend(before, at);
                return true;
            }
            (before, at) = (Some(at), Place::More(line.next()));
        }
        false
    }

    /// Line of a hash: as many bits of the hash as the number of lines needs. If that line does not exist
    /// yet, its slots are still in the line from which it will be split off.
    #[inline]
    fn line_of(&self, hash: u32) -> u32 {
        let lines = self.lines.len();
        let top = 1 << (lines | 1).ilog2();
        let line = hash & (top | (top - 1));
        if line < lines { line } else { line & (top - 1) }
    }

    /// Adds a line, and moves its slots out of the line that had them until now.
    fn split(&mut self) {
        let new = self.lines.len();
        if self.lines.push(Line::EMPTY).is_none() {
            return;
        }
        let Some(level) = new.checked_ilog2() else { return };
        let old = self.lines.get_mut(new ^ (1 << level));
        let mut from = old.map(|old| core::mem::replace(old, Line::EMPTY));
        while let Some(line) = from {
            for (hash, slot) in line.entries() {
                self.put(hash, slot);
            }
            from = self.release(line.next());
        }
    }

    /// Puts a slot into its line, or into the first line in which that one continues. So the time does not
    /// grow with the number of those lines.
    fn put(&mut self, hash: u32, slot: u32) {
        let at = Place::Line(self.line_of(hash));
        let Some(line) = self.line_mut(at) else { return };
        if line.put(hash, slot) {
            return;
        }
        let next = line.next();
        if self.line_mut(Place::More(next)).is_some_and(|line| line.put(hash, slot)) {
            return;
        }
        let mut another = Line::EMPTY;
        another.set_next(next);
        another.put(hash, slot);
        let next = self.allocate(another);
        if let Some(line) = self.line_mut(at) {
            line.set_next(next);
        }
    }

    /// Repairs a chain after a line has lost a slot: a slot of the next line moves up, and an empty line is
    /// released.
    fn mend(&mut self, before: Option<Place>, at: Place) {
        let Some(line) = self.line_mut(at).copied() else { return };
        if let Some(next) = self.line_mut(Place::More(line.next())) {
            let (entry, rest) = (next.pop(), next.next());
            let is_empty = next.taken() == 0;
            if is_empty {
                self.release(line.next());
            }
            if let (Some(line), Some((hash, slot))) = (self.line_mut(at), entry) {
                line.put(hash, slot);
                if is_empty {
                    line.set_next(rest);
                }
            }
        } else if line.taken() == 0
            && let Some(before) = before.and_then(|before| self.line_mut(before))
        {
            let empty = before.next();
            before.set_next(0);
            self.release(empty);
        }
    }

    fn allocate(&mut self, line: Line) -> u32 {
        let at = self.free;
        if let Some(free) = self.line_mut(Place::More(at)) {
            let rest = free.next();
            *free = line;
            self.free = rest;
            return at;
        }
        self.more.push(line).map_or(0, |at| at.saturating_add(1))
    }

    fn release(&mut self, at: u32) -> Option<Line> {
        let free = self.free;
        let line = self.line_mut(Place::More(at))?;
        let content = core::mem::replace(line, Line::EMPTY);
        line.set_next(free);
        self.free = at;
        Some(content)
    }

    #[inline]
    fn line_mut(&mut self, at: Place) -> Option<&mut Line> {
        match at {
            Place::Line(at) => self.lines.get_mut(at),
            Place::More(at) => self.more.get_mut(at.checked_sub(1)?),
        }
    }
}

/// Shows no places, which depend on the history of the table and carry no information.
impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Iterator over the slots with one hash: [`Index::candidates`].
#[derive(Clone, Debug)]
pub struct Candidates<'a> {
    index: &'a Index,
    hash: u32,
    line: Option<&'a Line>,
    /// Matching cells of the line that are not returned yet.
    matches: u32,
}

impl Iterator for Candidates<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let mut line = self.line?;
        while self.matches == 0 {
            line = self.index.more.get(line.next().checked_sub(1)?)?;
            self.line = Some(line);
            self.matches = line.matches(self.hash);
        }
        let cell = self.matches.trailing_zeros();
        self.matches &= self.matches - 1;
        line.slots.get(cell as usize).copied()
    }
}

/// Place of a line.
#[derive(Clone, Copy, Debug)]
enum Place {
    Line(u32),
    More(u32),
}

impl Line {
    const EMPTY: Self = Self { hashes: [0; 8], slots: [0; 8] };

    #[inline]
    const fn next(&self) -> u32 {
        self.hashes[CELLS]
    }

    const fn set_next(&mut self, next: u32) {
        self.hashes[CELLS] = next;
    }

    #[inline]
    const fn taken(&self) -> u32 {
        self.slots[CELLS]
    }

    #[inline]
    fn matches(&self, hash: u32) -> u32 {
        let mut bits = 0;
        for (cell, other) in self.hashes.iter().enumerate() {
            bits |= if *other == hash { 1 << cell } else { 0 };
        }
        bits & self.taken()
    }

    fn cell_of(&self, hash: u32, slot: u32) -> Option<usize> {
        let matches = self.matches(hash);
        (0..CELLS).find(|cell| matches >> cell & 1 != 0 && self.slots[*cell] == slot)
    }

    fn clear(&mut self, cell: usize) {
        self.slots[CELLS] &= !(1 << cell);
    }

    fn put(&mut self, hash: u32, slot: u32) -> bool {
        let cell = self.taken().trailing_ones() as usize;
        if cell >= CELLS {
            return false;
        }
        (self.hashes[cell], self.slots[cell]) = (hash, slot);
        self.slots[CELLS] |= 1 << cell;
        true
    }

    fn pop(&mut self) -> Option<(u32, u32)> {
        let cell = self.taken().trailing_zeros() as usize;
        let entry = self.entries().next()?;
        self.clear(cell);
        Some(entry)
    }

    fn entries(self) -> impl Iterator<Item = (u32, u32)> {
        let entries = self.hashes.into_iter().zip(self.slots).enumerate();
        entries.filter(move |(cell, _)| self.taken() >> cell & 1 != 0).map(|(_, entry)| entry)
    }
}

/// Number of cells of a line. Besides them, a line has two more words.
const CELLS: usize = 7;

#[cfg(test)]
mod tests;
