use alloc::vec::Vec;

/// A vector whose elements stay at their place in memory when it grows.
#[derive(Clone, Debug)]
pub struct Segments<T> {
    /// Pieces, each twice as long as the one before.
    segments: Vec<Vec<T>>,
    len: u32,
}

impl<T> Segments<T> {
    /// Creates an empty vector.
    #[must_use]
    pub const fn new() -> Self {
        Self { segments: Vec::new(), len: 0 }
    }

    /// Number of elements.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element at this place.
    #[inline]
    #[must_use]
    pub fn get(&self, at: u32) -> Option<&T> {
        let (segment, offset) = place(at);
        self.segments.get(segment)?.get(offset)
    }

    /// The element at this place.
    #[inline]
    pub fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        let (segment, offset) = place(at);
        self.segments.get_mut(segment)?.get_mut(offset)
    }

    /// Adds an element and returns its place; `None` if there are 2^32 - 1 already.
    pub fn push(&mut self, element: T) -> Option<u32> {
        let at = self.len;
        let len = at.checked_add(1)?;
        let (segment, _) = place(at);
        if self.segments.len() <= segment {
            self.segments.push(Vec::with_capacity(at as usize + FIRST));
        }
        self.segments.get_mut(segment)?.push(element);
        self.len = len;
        Some(at)
    }

    /// All elements, in order of places.
    pub fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        self.iter_from(0)
    }

    /// The elements at this place and behind it, in order of places. The elements before cost nothing.
    pub fn iter_from(&self, at: u32) -> impl Iterator<Item = &T> + '_ {
        let (segment, offset) = place(at);
        let mut segments = self.segments.get(segment..).unwrap_or_default().iter();
        let first = segments.next().and_then(|first| first.get(offset..)).unwrap_or_default();
        first.iter().chain(segments.flatten())
    }
}

impl<T> Default for Segments<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Segment of a place, and the place in that segment.
#[inline]
const fn place(at: u32) -> (usize, usize) {
    let at = at as usize + FIRST;
    let top = at.ilog2();
    ((top - FIRST.ilog2()) as usize, at ^ (1 << top))
}

/// Number of elements in the first segment.
const FIRST: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_where_they_were_put_and_stay_there() {
        let mut segments = Segments::new();
        assert!(segments.is_empty() && segments.get(0).is_none());
        assert_eq!(segments.push(0_u32), Some(0));
        let first: *const u32 = segments.get(0).expect("just put");
        assert!((1..5000).all(|n| segments.push(n) == Some(n)));
        assert!((0..5000).all(|n| segments.get(n) == Some(&n)));
        assert_eq!((segments.get(5000), segments.len()), (None, 5000));
        assert!(segments.iter().copied().eq(0..5000));
        for at in [1, 3, 4, 5, 11, 12, 4999, 5000, 5001, 70_000, u32::MAX] {
            assert!(segments.iter_from(at).copied().eq(at.min(5000)..5000), "{at}");
        }
        *segments.get_mut(4097).expect("there") = 7;
        assert_eq!(segments.get(4097), Some(&7));
        assert!(core::ptr::eq(first, segments.get(0).expect("there")));
        let sizes: Vec<_> = segments.segments.iter().map(Vec::capacity).collect();
        assert_eq!(sizes[..6], [4, 8, 16, 32, 64, 128]);
    }
}
