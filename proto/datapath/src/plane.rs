use alloc::vec::Vec;

use moorline_types::{DropReason, Instant};

/// A data plane of one protocol, in the kernel or in user space.
///
/// Packets are not part of the contract: the kernel gives them to a plane at its hooks; in user space, the caller
/// does.
pub trait Plane {
    /// A decision of the protocol for the plane.
    type Update;
    /// An observation of the plane for the protocol.
    type Report;
    /// Reason why a plane cannot apply an update.
    type Error: core::error::Error;

    /// Executes a decision of the protocol.
    ///
    /// # Errors
    /// The plane has no room, or an operation of its kernel or library fails. An entry that was to be added is then
    /// not in the plane.
    fn apply(&mut self, update: &Self::Update, now: Instant) -> Result<(), Self::Error>;

    /// Returns the next report. `None` until packets have passed, time has passed or [`Self::apply`] was called.
    ///
    /// # Errors
    /// An operation of the kernel or library below the plane fails.
    fn poll_report(&mut self) -> Result<Option<Self::Report>, Self::Error>;

    /// Returns all reports that wait.
    ///
    /// # Errors
    /// As [`Self::poll_report`].
    fn take_reports(&mut self) -> Result<Vec<Self::Report>, Self::Error> {
        core::iter::from_fn(|| self.poll_report().transpose()).collect()
    }

    /// Counters of dropped packets and lost reports: the reasons whose counter is not zero.
    ///
    /// # Errors
    /// As [`Self::poll_report`].
    fn drops(&self) -> Result<Vec<(DropReason, u64)>, Self::Error>;
}
