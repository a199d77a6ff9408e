use std::future::pending;

use moorline_dns::{Known, Resolver, watch};
use tokio::sync::mpsc;

use crate::clock;
use crate::shell::Daemon;

/// DNS look-ups of the peers in `ilnp-peers` (RFC 6742).
pub(crate) struct Peers(Option<mpsc::Receiver<Known>>);

impl Peers {
    /// Starts the look-ups; the caller must be inside a runtime. Without a resolver, ILNP works without DNS records.
    pub(crate) fn start(names: &[String]) -> Self {
        if names.is_empty() {
            return Self(None);
        }
        match Resolver::from_system() {
            Ok(resolver) => Self(Some(watch(&resolver, names))),
            Err(error) => {
                tracing::warn!(%error, "ilnp-peers are not looked up");
                Self(None)
            }
        }
    }

    /// Returns the next result.
    pub(crate) async fn next(&mut self) -> Known {
        let Self(Some(news)) = self else { return pending().await };
        match news.recv().await {
            Some(known) => known,
            None => pending().await,
        }
    }
}

impl Daemon {
    /// Handles the result of a look-up: whether the DNS says that a peer speaks ILNP.
    //= rfc6742#2.1
    pub(crate) fn on_known_peer(&mut self, known: &Known) {
        let Some(sessions) = self.host.ilnp_mut() else { return };
        match &known.result {
            Ok(found) => {
                let now = clock::now();
                // Valid until the next look-up and one retry.
                let until = now + known.next.saturating_mul(2);
                let l64s: Vec<_> = found.locators.iter().map(|locator| locator.l64).collect();
                for nid in &found.nids {
                    sessions.handle_hint(nid.nid, &l64s, until, now);
                }
                let (nids, locators) = (found.nids.len(), found.locators.len());
                tracing::debug!(peer = known.name, nids, locators, "in the DNS");
            }
            Err(error) => tracing::info!(peer = known.name, %error, "not found in the DNS"),
        }
    }
}
