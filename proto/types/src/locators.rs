use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use crate::Locator;

/// A set of locators in an order, shared by whoever has the same: a copy takes no room.
///
/// A host has many contexts, and in each of them several parts know the locators of both sides.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Locators(Arc<[Locator]>);

impl Locators {
    /// Whether the two are one and the same in memory, and so equal without a look at them. If not,
    /// they may be equal all the same.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for Locators {
    fn default() -> Self {
        Self::from(&[][..])
    }
}

impl Deref for Locators {
    type Target = [Locator];

    fn deref(&self) -> &[Locator] {
        &self.0
    }
}

impl From<&[Locator]> for Locators {
    fn from(locators: &[Locator]) -> Self {
        Self(locators.into())
    }
}

impl<const N: usize> From<&[Locator; N]> for Locators {
    fn from(locators: &[Locator; N]) -> Self {
        Self::from(&locators[..])
    }
}

impl From<&Vec<Locator>> for Locators {
    fn from(locators: &Vec<Locator>) -> Self {
        Self::from(&locators[..])
    }
}

impl From<&Self> for Locators {
    fn from(locators: &Self) -> Self {
        locators.clone()
    }
}

impl From<Vec<Locator>> for Locators {
    fn from(locators: Vec<Locator>) -> Self {
        Self(locators.into())
    }
}

impl FromIterator<Locator> for Locators {
    fn from_iter<I: IntoIterator<Item = Locator>>(locators: I) -> Self {
        Self(locators.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Locators {
    type Item = &'a Locator;
    type IntoIter = core::slice::Iter<'a, Locator>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Debug for Locators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq<[Locator]> for Locators {
    fn eq(&self, other: &[Locator]) -> bool {
        *self.0 == *other
    }
}

impl<const N: usize> PartialEq<[Locator; N]> for Locators {
    fn eq(&self, other: &[Locator; N]) -> bool {
        *self.0 == other[..]
    }
}

impl PartialEq<Vec<Locator>> for Locators {
    fn eq(&self, other: &Vec<Locator>) -> bool {
        *self.0 == other[..]
    }
}
