//! Signals to the daemon. The daemon catches signals from its start and keeps them until the main loop reads them. So a signal
//! during the start does not end the process half-way, and the main loop undoes the changes to the host.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that the main loop has not read yet.
pub(crate) struct Signals {
    /// SIGTERM, from a service manager: end the run and keep everything for the next run.
    pub(crate) terminate: Signal,
    /// SIGINT, from Ctrl-C: end the run and restore the host.
    pub(crate) interrupt: Signal,
    /// SIGHUP: read the configuration again.
    pub(crate) hangup: Signal,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}
