//! Conversion of reports to the types of the core.

use std::time::Duration;

use moorline_datapath::shim6::{FailureHint, Report};
use moorline_types::{ContextId, Instant};

use crate::convert;
use crate::skel::types;

/// Converts a report; `None` for an unknown kind, which another version may have made.
pub(crate) fn report(raw: &types::report) -> Option<Report> {
    let context = ContextId(raw.slot);
    let at = Instant::from_nanos(raw.at);
    match types::report_kind(raw.kind.into()) {
        types::report_kind::REPORT_TRIGGER => {
            Some(Report::Trigger { ulids: convert::ulids_back(raw.ulids) })
        }
        types::report_kind::REPORT_SEND_EXPIRED => Some(Report::SendExpired { context, since: at }),
        types::report_kind::REPORT_KEEPALIVE_DUE => Some(Report::KeepaliveDue { context }),
        types::report_kind::REPORT_RECEIVED => Some(Report::Received { context, at }),
        types::report_kind::REPORT_IDLE => Some(Report::Idle { context, since: at }),
        types::report_kind::REPORT_SUSPECTED => {
            let usual = Duration::from_nanos(raw.usual.into());
            Some(Report::Suspected { context, hint: hint(raw.hint)?, since: at, usual })
        }
        types::report_kind::REPORT_CONGESTED => {
            Some(Report::Congested { context, at, ce: raw.ce, ece: raw.ece })
        }
        types::report_kind::REPORT_NO_ROOM => Some(Report::NoRoom { context }),
        _ => None,
    }
}

fn hint(number: u16) -> Option<FailureHint> {
    match types::failure_hint(number.into()) {
        types::failure_hint::HINT_RETRANSMISSION => Some(FailureHint::Retransmission),
        types::failure_hint::HINT_SILENCE => Some(FailureHint::Silence),
        types::failure_hint::HINT_UNREACHABLE => Some(FailureHint::Unreachable),
        types::failure_hint::HINT_UNPROVEN => Some(FailureHint::Unproven),
        _ => None,
    }
}
