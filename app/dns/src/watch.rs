use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::{Found, LookupError, Resolver};

/// Result of a look-up.
#[derive(Debug)]
pub struct Known {
    /// Name as configured.
    pub name: String,
    /// Current records of the name.
    pub result: Result<Found, LookupError>,
    /// Time until the next look-up; the result is valid until then.
    pub next: Duration,
}

/// Looks up all names at once, and each name again when its TTL has passed. The look-ups end when the receiver is dropped.
///
/// The caller must be inside a tokio runtime.
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

/// Returns the TTL within bounds. The TTL of a mobile host is "very low" (RFC 6742 s3.1).
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
