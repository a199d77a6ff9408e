use std::future::pending;

use moorline_dns::{Known, Resolver, watch};
use tokio::sync::mpsc;

use crate::clock;
use crate::shell::Daemon;

/// News of the peers in `ilnp-peers`, as the DNS has them (RFC 6742).
pub(crate) struct Peers(Option<mpsc::Receiver<Known>>);

impl Peers {
    /// Inside a runtime. Without a resolver there are no news: ILNP goes without.
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

    /// The next.
    pub(crate) async fn next(&mut self) -> Known {
        let Self(Some(news)) = self else { return pending().await };
        match news.recv().await {
            Some(known) => known,
            None => pending().await,
        }
    }
}

impl Daemon {
    /// The DNS says, or does not say, that a peer speaks ILNP.
    //= rfc6742#2.1
    pub(crate) fn on_known_peer(&mut self, known: &Known) {
        let Some(sessions) = self.host.ilnp_mut() else { return };
        match &known.result {
            Ok(found) => {
                let now = clock::now();
                // Until it has been looked up again, and that has been tried once more.
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
