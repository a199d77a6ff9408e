use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use tokio::io::unix::AsyncFd;

use crate::socket::readable;

/// Waits until somebody else's file descriptor, such as a ring buffer, has something to read.
#[derive(Debug)]
pub struct Readiness(AsyncFd<OwnedFd>);

impl Readiness {
    /// Of a duplicate of `fd`.
    ///
    /// # Errors
    /// No descriptors left, or it cannot be polled.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(readable(fd.try_clone_to_owned()?)?))
    }

    /// Waits; then everything there is must be read, or it will not wake again. Cancel safe.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn ready(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}
