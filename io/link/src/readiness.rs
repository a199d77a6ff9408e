use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use tokio::io::unix::AsyncFd;

use crate::socket::readable;

/// Waits until a file descriptor of another owner, such as a ring buffer, is readable.
#[derive(Debug)]
pub struct Readiness(AsyncFd<OwnedFd>);

impl Readiness {
    /// Waits on a duplicate of `fd`.
    ///
    /// # Errors
    /// There are no descriptors left, or the descriptor cannot be polled.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self(readable(fd.try_clone_to_owned()?)?))
    }

    /// Waits until the descriptor is readable. The caller must then read everything, or it is not woken again. Cancel
    /// safe.
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub async fn ready(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}
