//! Replacement of `peers` in a build without the DNS: there are no look-ups.

use std::convert::Infallible;
use std::future::pending;

use crate::shell::Daemon;

/// Empty list of peers.
pub(crate) struct Peers;

impl Peers {
    /// Makes the empty list; such a build refuses `ilnp-peers`.
    pub(crate) fn start(_names: &[String]) -> Self {
        Self
    }

    /// Never returns.
    pub(crate) async fn next(&mut self) -> Infallible {
        pending().await
    }
}

impl Daemon {
    /// Is never called.
    pub(crate) fn on_known_peer(&mut self, known: &Infallible) {
        match *known {}
    }
}
