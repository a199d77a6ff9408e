//! The ring buffer to the core.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use moorline_datapath::shim6::{FailureHint, Report};
use moorline_types::{ContextId, Instant};

use crate::convert;
use crate::error::{Error, Result};
use crate::plain::Plain;
use crate::skel::types;

/// Reports as the programs wrote them, in order.
pub(crate) struct Reports {
    ring: RingBuffer<'static>,
    queue: Arc<Mutex<VecDeque<types::report>>>,
}

impl Reports {
    pub(crate) fn new(map: &MapHandle) -> Result<Self> {
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        let sink = Arc::clone(&queue);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(map, move |octets| {
                if let Some(report) = types::report::from_octets(octets) {
                    sink.lock().unwrap_or_else(PoisonError::into_inner).push_back(report);
                }
                0
            })
            .map_err(Error::Load)?;
        Ok(Self { ring: builder.build().map_err(Error::Load)?, queue })
    }

    /// Readable when there are reports.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor and is borrowed for as long.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Takes what there is.
    pub(crate) fn take(&self) -> Result<VecDeque<types::report>> {
        self.ring.consume().map_err(|source| Error::Table {
            action: "read",
            table: "reports",
            source,
        })?;
        Ok(std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The report that the core understands; `None` for kinds of another version.
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
        _ => None,
    }
}
