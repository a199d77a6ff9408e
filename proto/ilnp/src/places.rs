use moorline_index::FairShares;
use moorline_types::Ilv;

use crate::consts::LOCATORS_THAT_FILL;

/// Counts the entries of a table of correspondents by site, so that no site fills the table (decision 199).
///
/// While half of the table is free, each correspondent has a place. After that a site has its shares, as among
/// sessions (decision 174): a /64 has a sixteenth of the table, an address a quarter of that, a /48 four times that.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    max: usize,
    taken: usize,
    shares: FairShares,
}

impl Places {
    /// Makes the counts of a table of `max` entries. Nobody else may know the key.
    pub(crate) fn new(max: usize, key: [u8; 16]) -> Self {
        Self { max, taken: 0, shares: FairShares::new(max, key) }
    }

    /// Whether the site of this correspondent may have one more entry.
    pub(crate) fn allow(&self, remote: Ilv) -> bool {
        let share = self.max / LOCATORS_THAT_FILL;
        self.taken < self.max / 2 || self.shares.taken(remote.address(), 0) < share
    }

    /// Whether an entry has to give way to the next one.
    pub(crate) const fn are_full(&self) -> bool {
        self.taken >= self.max
    }

    /// Counts an entry.
    pub(crate) fn add(&mut self, remote: Ilv) {
        self.taken += 1;
        self.shares.add(remote.address());
    }

    /// An entry has gone.
    pub(crate) fn remove(&mut self, remote: Ilv) {
        self.taken = self.taken.saturating_sub(1);
        self.shares.remove(remote.address());
    }
}
