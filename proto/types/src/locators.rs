use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;

use serde::{Deserialize, Serialize};

use crate::Locator;

/// An ordered set of locators. Equal sets may share memory; a copy takes only a pointer of one word.
///
/// A host has many contexts, and in each of them several parts need the locators of both ends.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Vec<Locator>", into = "Vec<Locator>")]
pub struct Locators(Arc<Set>);

/// Most sets have two locators or fewer, and need no further allocation.
enum Set {
    One([Locator; 1]),
    Two([Locator; 2]),
    Other(Box<[Locator]>),
}

impl Locators {
    /// Whether the two sets share memory, and so are equal without a comparison. Sets that do not share
    /// memory may be equal too.
    #[must_use]
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for Locators {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || **self == **other
    }
}

impl Eq for Locators {}

impl Hash for Locators {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Default for Locators {
    fn default() -> Self {
        Self::from([])
    }
}

impl Deref for Locators {
    type Target = [Locator];

    fn deref(&self) -> &[Locator] {
        match &*self.0 {
            Set::One(locators) => locators,
            Set::Two(locators) => locators,
            Set::Other(locators) => locators,
        }
    }
}

impl<T: AsRef<[Locator]>> From<T> for Locators {
    fn from(locators: T) -> Self {
        let locators = locators.as_ref();
        Self(Arc::new(match *locators {
            [one] => Set::One([one]),
            [one, two] => Set::Two([one, two]),
            _ => Set::Other(locators.into()),
        }))
    }
}

impl From<&Self> for Locators {
    fn from(locators: &Self) -> Self {
        locators.clone()
    }
}

impl From<Locators> for Vec<Locator> {
    fn from(locators: Locators) -> Self {
        locators.to_vec()
    }
}

impl FromIterator<Locator> for Locators {
    fn from_iter<I: IntoIterator<Item = Locator>>(locators: I) -> Self {
        Self::from(locators.into_iter().collect::<Vec<_>>())
    }
}

impl<'a> IntoIterator for &'a Locators {
    type Item = &'a Locator;
    type IntoIter = core::slice::Iter<'a, Locator>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Locators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: AsRef<[Locator]> + ?Sized> PartialEq<T> for Locators {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}
