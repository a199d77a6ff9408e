use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{AsRawLibbpf as _, MapHandle, RingBuffer, RingBufferBuilder, libbpf_sys};

use crate::error::{Error, Result};
use crate::plain::Plain;
use crate::skel::ilnp::types;

/// Reports and packets as the programs wrote them, each in order.
pub(crate) struct Rings {
    ring: RingBuffer<'static>,
    reports: Queue<types::ilnp_report>,
    controls: Queue<Vec<u8>>,
}

type Queue<T> = Arc<Mutex<VecDeque<T>>>;

impl Rings {
    pub(crate) fn new(reports_map: &MapHandle, controls_map: &MapHandle) -> Result<Self> {
        let (reports, controls) = (Queue::default(), Queue::default());
        let mut builder = RingBufferBuilder::new();
        let sink = Arc::clone(&reports);
        builder
            .add(reports_map, move |octets| {
                push(&sink, types::ilnp_report::from_octets(octets));
                0
            })
            .map_err(Error::Load)?;
        let sink = Arc::clone(&controls);
        builder
            .add(controls_map, move |octets| {
                push(&sink, packet(octets));
                0
            })
            .map_err(Error::Load)?;
        Ok(Self { ring: builder.build().map_err(Error::Load)?, reports, controls })
    }

    /// Readable when there is anything.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor and is borrowed for as long.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// A batch, and whether there may be more.
    pub(crate) fn take_reports(&self) -> Result<(VecDeque<types::ilnp_report>, bool)> {
        let is_full = self.consume(REPORTS, REPORTS_AT_ONCE, "reports")?;
        Ok((take(&self.reports), is_full))
    }

    /// A batch, and whether there may be more.
    pub(crate) fn take_controls(&self) -> Result<(VecDeque<Vec<u8>>, bool)> {
        let is_full = self.consume(CONTROLS, CONTROLS_AT_ONCE, "controls")?;
        Ok((take(&self.controls), is_full))
    }

    /// Moves at most so many into the queue of a ring. Whether it was as many: who writes goes on meanwhile.
    fn consume(&self, ring: u32, most: u32, table: &'static str) -> Result<bool> {
        // SAFETY: the rings are owned by `self.ring`, which lives on; there are as many as were added.
        let taken = unsafe {
            let ring = libbpf_sys::ring_buffer__ring(self.ring.as_libbpf_object().as_ptr(), ring);
            libbpf_sys::ring__consume_n(ring, most as libbpf_sys::size_t)
        };
        let failed = |_| {
            let source = libbpf_rs::Error::from_raw_os_error(taken.saturating_neg());
            Error::Table { action: "read", table, source }
        };
        u32::try_from(taken).map(|taken| taken >= most).map_err(failed)
    }
}

fn packet(octets: &[u8]) -> Option<Vec<u8>> {
    let control = types::ilnp_control::from_octets(octets)?;
    control.octet.get(..control.len as usize).map(<[u8]>::to_vec)
}

fn push<T>(queue: &Queue<T>, value: Option<T>) {
    queue.lock().unwrap_or_else(PoisonError::into_inner).extend(value);
}

/// In the order in which they were added.
const REPORTS: u32 = 0;
const CONTROLS: u32 = 1;
const REPORTS_AT_ONCE: u32 = 1024;
/// Each may take a look for a socket and a packet to send.
pub(super) const CONTROLS_AT_ONCE: u32 = 64;

fn take<T>(queue: &Queue<T>) -> VecDeque<T> {
    std::mem::take(&mut *queue.lock().unwrap_or_else(PoisonError::into_inner))
}
