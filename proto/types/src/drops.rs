use crate::DropReason;

/// Counters of drops, one for each [`DropReason`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl DropCounters {
    /// Creates counters with value zero.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; DropReason::ALL.len()])
    }

    /// Counts one drop with this reason.
    pub fn count(&mut self, reason: DropReason) {
        if let Some(counter) = self.0.get_mut(reason as usize) {
            *counter += 1;
        }
    }

    /// Number of drops with this reason.
    #[must_use]
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or(0)
    }

    /// The reasons that occurred, with their counters.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.of(reason))).filter(|(_, n)| *n > 0)
    }
}

impl Default for DropCounters {
    fn default() -> Self {
        Self::new()
    }
}
