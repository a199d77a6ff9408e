//! In place of `peers`, in a build without the DNS: there is never any news.

use std::convert::Infallible;
use std::future::pending;

use crate::shell::Daemon;

/// No news.
pub(crate) struct Peers;

impl Peers {
    /// The configuration names none.
    pub(crate) fn start(_names: &[String]) -> Self {
        Self
    }

    /// Never.
    pub(crate) async fn next(&mut self) -> Infallible {
        pending().await
    }
}

impl Daemon {
    /// Never.
    pub(crate) fn on_known_peer(&mut self, known: &Infallible) {
        match *known {}
    }
}
