//! The order in which locators of one side are tried, if there are many (decision 216).

use alloc::vec::Vec;

/// Number of locators of one side up to which all have the same depth: 4. Few hosts have more uplinks.
pub const FEW_LOCATORS: usize = 4;

/// Depths of the locators of one side. Locators that are known to work have depth 0. The others have the depths 1, 2, 3
/// and so on, in their order. If there are few locators, all have depth 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Depths<L> {
    /// Sorted by locator.
    all: Vec<(L, usize)>,
}

impl<L: Copy + Ord> Depths<L> {
    /// `used`: the locator in use, which works until it fails. If no other locator is known to work, the first other one
    /// has depth 0.
    pub fn new(
        all: impl ExactSizeIterator<Item = L>,
        used: L,
        is_known: impl Fn(L) -> bool,
    ) -> Self {
        let is_few = all.len() <= FEW_LOCATORS;
        let is_deep = |one| !is_few && one != used && !is_known(one);
        let mut all: Vec<_> = all.map(|one| (one, usize::from(is_deep(one)))).collect();
        let has_other = is_few || all.iter().any(|&(one, depth)| one != used && depth == 0);
        let deep = all.iter_mut().filter(|(_, depth)| *depth > 0);
        for ((_, depth), next) in deep.zip(usize::from(has_other)..) {
            *depth = next;
        }
        all.sort_by_key(|(one, _)| *one);
        Self { all }
    }

    /// The depth of a locator. A locator that is not in the list is the deepest.
    #[must_use]
    pub fn of(&self, locator: L) -> usize {
        let at = self.all.binary_search_by_key(&locator, |(one, _)| *one);
        at.ok().and_then(|at| self.all.get(at)).map_or(self.all.len(), |(_, depth)| *depth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depths(all: &[u8], used: u8, known: &[u8]) -> Vec<usize> {
        let depths = Depths::new(all.iter().copied(), used, |one| known.contains(&one));
        all.iter().map(|one| depths.of(*one)).collect()
    }

    #[test]
    fn what_works_comes_first_and_then_the_order_of_the_list() {
        assert_eq!(depths(&[1, 2, 3, 4, 5, 6], 3, &[6]), [1, 2, 0, 3, 4, 0]);
        assert_eq!(depths(&[1, 2, 3, 4, 5, 6], 3, &[3]), [0, 1, 0, 2, 3, 4]);
        assert_eq!(depths(&[1, 2, 3, 4], 3, &[2]), [0; 4]);
    }

    #[test]
    fn a_locator_that_is_not_in_the_list_is_the_deepest() {
        let depths = Depths::new([1, 2, 3, 4, 5].into_iter(), 1, |_| false);
        assert_eq!(depths.of(9), 5);
    }
}
