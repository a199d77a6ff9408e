use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{Found, LookupError, Resolver};

/// News of a name.
#[derive(Debug)]
pub struct Known {
    /// The name, as it was given.
    pub name: String,
    /// What it says now.
    pub result: Result<Found, LookupError>,
    /// When it is looked up again: what is known is good until then.
    pub next: Duration,
}

/// Looks names up at once, and each again when its records are due, as long as somebody listens.
///
/// Has to be called inside a tokio runtime.
#[must_use]
pub fn watch(resolver: &Resolver, names: &[String]) -> mpsc::Receiver<Known> {
    let (sender, receiver) = mpsc::channel(names.len().max(1));
    let mut tasks = JoinSet::new();
    for name in names {
        tasks.spawn(follow(resolver.clone(), name.clone(), sender.clone()));
    }
    tasks.detach_all();
    receiver
}

async fn follow(resolver: Resolver, name: String, sender: mpsc::Sender<Known>) {
    loop {
        let result = resolver.lookup(&name).await;
        let next = pause(result.as_ref().ok());
        if sender.send(Known { name: name.clone(), result, next }).await.is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            () = sender.closed() => return,
        }
    }
}

/// The TTL, within bounds: of a host that moves it is "very low" (RFC 6742 s3.1).
fn pause(found: Option<&Found>) -> Duration {
    found.map_or(AFTER_FAILURE, |found| found.ttl.clamp(SHORTEST, LONGEST))
}

const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(3600);
const AFTER_FAILURE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_again_as_their_ttl_says_within_bounds() {
        let found = |ttl| Found {
            name: moorline_wire::ilnp::DomainName::root(),
            nids: Vec::new(),
            locators: Vec::new(),
            left_out: 0,
            ttl: Duration::from_secs(ttl),
        };
        let pause = |ttl| pause(Some(&found(ttl))).as_secs();
        assert_eq!([pause(0), pause(60), pause(86_400)], [5, 60, 3600]);
        assert_eq!(super::pause(None), AFTER_FAILURE);
    }
}
