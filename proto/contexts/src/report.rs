use moorline_datapath::shim6::Report;
use moorline_types::{DropReason, Instant};

use crate::machine::Contexts;

impl Contexts {
    /// Takes a report of the data plane.
    pub fn handle_report(&mut self, report: Report, now: Instant) {
        self.wake_for_report(report, now);
        let outcome = self.on_report(report, now);
        self.count(outcome);
        self.drain_shim6(now);
    }

    fn on_report(&mut self, report: Report, now: Instant) -> Result<(), DropReason> {
        let context = match report {
            Report::NoRoom { .. } => return Ok(()),
            Report::Trigger { ulids } => return self.shim6.handle_trigger(ulids, now),
            Report::Idle { context, since } => return self.on_idle(context, since, now),
            Report::SendExpired { context, .. }
            | Report::KeepaliveDue { context }
            | Report::Received { context, .. }
            | Report::Suspected { context, .. } => context,
            Report::Congested { context, ce, ece, .. } => {
                return self.on_congested(context, (ce, ece), now);
            }
        };
        self.hint(context, now);
        // The context was removed while the report was on its way.
        let active = self.active.get_mut(&context).ok_or(DropReason::Gone)?;
        match report {
            Report::SendExpired { since, .. } => active.reap.handle_send_expired(since, now),
            Report::KeepaliveDue { .. } => active.reap.handle_keepalive_due(now),
            Report::Received { at, .. } => {
                self.shim6.handle_traffic(context);
                // Otherwise the watch was for the first payload.
                if active.reap.watch() != 0 {
                    active.reap.handle_payload(at, now);
                }
            }
            Report::Suspected { hint, since, usual, .. } => {
                active.reap.handle_suspicion(hint, since, usual, now);
            }
            Report::Trigger { .. }
            | Report::Idle { .. }
            | Report::Congested { .. }
            | Report::NoRoom { .. } => {}
        }
        self.drain_reap(context, now);
        Ok(())
    }
}
