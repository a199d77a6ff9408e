//! Signals to the daemon. They are caught from the first on, and kept until the main loop asks: what the start has changed on the
//! host by then is undone by who knows of it.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What came, and nobody has asked for yet.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

/// What somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// SIGTERM, from a service manager: an end after which another run may go on.
    Keep,
    /// SIGINT, Ctrl-C of a person: an end that restores the host.
    Restore,
    /// SIGHUP: the configuration of now.
    Reload,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Can be cancelled.
    pub(crate) async fn next(&mut self) -> Wanted {
        tokio::select! {
            _ = self.terminate.recv() => Wanted::Keep,
            _ = self.interrupt.recv() => Wanted::Restore,
            _ = self.hangup.recv() => Wanted::Reload,
        }
    }
}
