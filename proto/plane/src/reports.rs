use alloc::collections::VecDeque;

use moorline_datapath::shim6::Report;
use moorline_types::{DropCounters, DropReason};

/// Output of a plane besides packets: reports on their way to its machine, and counters of dropped packets and lost
/// reports.
#[derive(Debug)]
pub(crate) struct Reports<R = Report> {
    queue: VecDeque<R>,
    pub(crate) drops: DropCounters,
}

impl<R> Reports<R> {
    /// Queues a report. False if there is no room: the loss is counted, and the caller reports again later.
    pub(crate) fn push(&mut self, report: R) -> bool {
        if self.queue.len() >= MAX_REPORTS {
            self.drops.count(DropReason::ReportLost);
            return false;
        }
        self.queue.push_back(report);
        true
    }

    pub(crate) fn pop(&mut self) -> Option<R> {
        self.queue.pop_front()
    }

    /// Returns the fate of a packet, and counts the packet if the plane drops it.
    pub(crate) fn fate<F>(
        &mut self,
        decided: Result<F, DropReason>,
        dropped: impl FnOnce(DropReason) -> F,
    ) -> F {
        decided.unwrap_or_else(|reason| {
            self.drops.count(reason);
            dropped(reason)
        })
    }
}

impl<R> Default for Reports<R> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), drops: DropCounters::new() }
    }
}

/// Largest number of reports that wait to be polled: 4,096. Further reports are lost and counted; the plane tries
/// reports of timers again. Not configurable.
pub const MAX_REPORTS: usize = 4096;
