//! Signals to the daemon. They are caught from the first on, and kept until the main loop asks: what the start has changed on the
//! host by then is undone by who knows of it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What came, and nobody has asked for yet.
pub(crate) struct Signals {
    /// SIGTERM, from a service manager: an end after which another run may go on.
    pub(crate) terminate: Signal,
    /// SIGINT, Ctrl-C of a person: an end that restores the host.
    pub(crate) interrupt: Signal,
    /// SIGHUP: the configuration of now.
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
