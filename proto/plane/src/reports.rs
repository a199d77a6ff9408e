use alloc::collections::VecDeque;

use moorline_datapath::shim6::Report;
use moorline_types::{DropCounters, DropReason};

/// What a plane has to tell: reports on their way to its machine, and how many packets and reports it has dropped.
#[derive(Debug)]
pub(crate) struct Reports<R = Report> {
    queue: VecDeque<R>,
    pub(crate) drops: DropCounters,
}

impl<R> Reports<R> {
    /// False if there is no room: the loss is counted, and the caller reports again later.
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

    /// The fate of a packet. A packet that the plane drops is counted.
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

/// Reports that wait to be polled: 4,096. Beyond that they are lost and counted; those of timers are tried again. Not
/// configurable.
pub const MAX_REPORTS: usize = 4096;
