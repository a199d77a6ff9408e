use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

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

    pub(crate) fn take_reports(&self) -> Result<VecDeque<types::ilnp_report>> {
        self.consume()?;
        Ok(take(&self.reports))
    }

    pub(crate) fn take_controls(&self) -> Result<VecDeque<Vec<u8>>> {
        self.consume()?;
        Ok(take(&self.controls))
    }

    fn consume(&self) -> Result<()> {
        let failed = |source| Error::Table { action: "read", table: "reports", source };
        self.ring.consume().map_err(failed)
    }
}

fn packet(octets: &[u8]) -> Option<Vec<u8>> {
    let control = types::ilnp_control::from_octets(octets)?;
    control.octet.get(..control.len as usize).map(<[u8]>::to_vec)
}

fn push<T>(queue: &Queue<T>, value: Option<T>) {
    queue.lock().unwrap_or_else(PoisonError::into_inner).extend(value);
}

fn take<T>(queue: &Queue<T>) -> VecDeque<T> {
    std::mem::take(&mut *queue.lock().unwrap_or_else(PoisonError::into_inner))
}
