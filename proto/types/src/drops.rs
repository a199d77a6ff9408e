use crate::DropReason;

/// How often each [`DropReason`] occurred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl DropCounters {
    /// All at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; DropReason::ALL.len()])
    }

    /// One more of this reason.
    pub fn count(&mut self, reason: DropReason) {
        if let Some(counter) = self.0.get_mut(reason as usize) {
            *counter += 1;
        }
    }

    /// Occurrences of one reason.
    #[must_use]
    pub fn of(&self, reason: DropReason) -> u64 {
        self.0.get(reason as usize).copied().unwrap_or(0)
    }

    /// The reasons that occurred.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.of(reason))).filter(|(_, n)| *n > 0)
    }
}

impl Default for DropCounters {
    fn default() -> Self {
        Self::new()
    }
}
