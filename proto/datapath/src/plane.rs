use alloc::vec::Vec;

use moorline_types::{DropReason, Instant};

/// A data plane of one protocol, in the kernel or in user space.
///
/// Packets are not part of the contract: the kernel gives them to a plane at its hooks, and a caller in user space by itself.
pub trait Plane {
    /// What the protocol tells the plane.
    type Update;
    /// What the plane tells the protocol.
    type Report;
    /// Why a plane cannot do what it is told.
    type Error: core::error::Error;

    /// Executes what the protocol has decided.
    ///
    /// # Errors
    /// The plane has no room, or what it works with fails. An entry that was to be added is not there then.
    fn apply(&mut self, update: &Self::Update, now: Instant) -> Result<(), Self::Error>;

    /// The next report. `None` until packets have passed, time has passed or [`Self::apply`] was called.
    ///
    /// # Errors
    /// What the plane works with fails.
    fn poll_report(&mut self) -> Result<Option<Self::Report>, Self::Error>;

    /// All reports that there are.
    ///
    /// # Errors
    /// As [`Self::poll_report`].
    fn take_reports(&mut self) -> Result<Vec<Self::Report>, Self::Error> {
        core::iter::from_fn(|| self.poll_report().transpose()).collect()
    }

    /// What the plane has dropped: reasons that are not zero.
    ///
    /// # Errors
    /// What the plane works with fails.
    fn drops(&self) -> Result<Vec<(DropReason, u64)>, Self::Error>;
}
