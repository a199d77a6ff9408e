use crate::Error;
use std::{fmt, str::FromStr};

/// One of several equal parts of a search, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    count: u32,
}

impl Shard {
    /// The whole search.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Makes a shard; `None` unless `index` is below `count`.
    #[must_use]
    pub fn new(index: u32, count: u32) -> Option<Self> {
        (index < count).then_some(Self { index, count })
    }

    /// Returns the number of this shard, from zero.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of shards.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// Whether the search has more than one shard.
    #[must_use]
    pub fn is_part(self) -> bool {
        self.count > 1
    }
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let (index, count) = text.split_once('/')?;
            Self::new(index.parse().ok()?, count.parse().ok()?)
        };
        parse().ok_or_else(|| Error::Shard { text: text.to_owned() })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_count_from_zero() {
        assert_eq!("0/1".parse::<Shard>().unwrap(), Shard::WHOLE);
        let shard: Shard = "15/16".parse().unwrap();
        assert_eq!((shard.index(), shard.count(), shard.is_part()), (15, 16, true));
        assert_eq!(shard.to_string(), "15/16");
        for wrong in ["16/16", "0/0", "1", "", "-1/2", "a/b", "1/2/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
