use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits until somebody else's file descriptor, such as a ring buffer, has something to read.
#[derive(Debug)]
pub struct Readiness(AsyncFd<OwnedFd>);

impl Readiness {
    /// Of a duplicate of `fd`.
    ///
    /// # Errors
    /// No descriptors left, or it cannot be polled.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let fd = fd.try_clone_to_owned()?;
        // SAFETY: an `OwnedFd` stays open and the same for as long as it lives, and lives in here.
        let registered = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        Ok(Self(registered?))
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
