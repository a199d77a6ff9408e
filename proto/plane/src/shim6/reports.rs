use alloc::collections::VecDeque;
use moorline_datapath::shim6::Report;

use crate::shim6::settings::MAX_REPORTS;

/// Reports on their way to the core.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queue: VecDeque<Report>,
    lost: u64,
}

impl Reports {
    /// False if there is no room: the caller tries again later, and the loss is counted.
    pub(crate) fn push(&mut self, report: Report) -> bool {
        if self.queue.len() >= MAX_REPORTS {
            self.lost += 1;
            return false;
        }
        self.queue.push_back(report);
        true
    }

    pub(crate) fn pop(&mut self) -> Option<Report> {
        self.queue.pop_front()
    }

    /// Losses since the last call.
    pub(crate) fn take_lost(&mut self) -> u64 {
        core::mem::take(&mut self.lost)
    }
}
