//! Ring buffers: reads the records of the programs one by one.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use libbpf_rs::{AsRawLibbpf as _, Object, RingBuffer, RingBufferBuilder, libbpf_sys};

use crate::error::{Error, Result};
use crate::plain::Plain;
use crate::tables;

/// Ring buffers that share one descriptor.
pub(crate) struct Rings {
    ring: RingBuffer<'static>,
    names: &'static [&'static str],
    /// The last record that was read.
    record: Arc<Mutex<Vec<u8>>>,
}

impl Rings {
    /// Opens the rings with these names.
    pub(crate) fn new(object: &Object, names: &'static [&'static str]) -> Result<Self> {
        let record = Arc::new(Mutex::new(Vec::new()));
        let mut builder = RingBufferBuilder::new();
        let maps: Result<Vec<_>> = names.iter().map(|name| tables::handle(object, name)).collect();
        let maps = maps?;
        for map in &maps {
            let sink = Arc::clone(&record);
            let write = move |octets: &[u8]| {
                *sink.lock().unwrap_or_else(PoisonError::into_inner) = octets.to_vec();
                0
            };
            builder.add(map, write).map_err(Error::Load)?;
        }
        Ok(Self { ring: builder.build().map_err(Error::Load)?, names, record })
    }

    /// Descriptor that is readable when there is a record.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns the descriptor and is borrowed for as long.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Returns the next record of a ring, if there is one. `ring` is the place of its name. Records that are too
    /// short are skipped.
    pub(crate) fn next<T: Plain>(&self, ring: u32) -> Result<Option<T>> {
        while self.consume(ring)? {
            let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(value) = T::from_octets(&record) {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Reads one record, if there is one.
    fn consume(&self, ring: u32) -> Result<bool> {
        // SAFETY: the rings are owned by `self.ring`, which lives on; there are as many as names.
        let taken = unsafe {
            let ring = libbpf_sys::ring_buffer__ring(self.ring.as_libbpf_object().as_ptr(), ring);
            libbpf_sys::ring__consume_n(ring, 1)
        };
        if taken < 0 {
            let source = libbpf_rs::Error::from_raw_os_error(taken.saturating_neg());
            return Err(Error::Table { action: "read", table: self.names[ring as usize], source });
        }
        Ok(taken > 0)
    }
}
