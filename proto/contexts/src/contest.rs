//! Contexts that somebody else claims (decision 095).

use alloc::collections::BTreeMap;
use core::time::Duration;

use moorline_types::{ContextId, DropReason, Instant, LocatorPair};

use crate::machine::Contexts;

/// Contexts whose peer has been asked whether it still has them, since when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contests(BTreeMap<ContextId, Instant>);

impl Contests {
    pub(crate) fn forget(&mut self, id: ContextId) {
        self.0.remove(&id);
    }
}

impl Contexts {
    /// A context that the peer has moved away from its ULID with is not for who has that address now. So one who does not
    /// know its tags, elsewhere than where the peer is, has to wait until the peer does not answer there.
    pub(crate) fn contest(
        &mut self,
        id: ContextId,
        locators: LocatorPair,
        now: Instant,
    ) -> Result<(), DropReason> {
        let Some(active) = self.active.get(&id) else { return Ok(()) };
        if active.reap.current_pair().peer == locators.peer {
            return Ok(());
        }
        let asked = self.contests.0.get(&id).filter(|asked| active.reap.heard() < **asked);
        match asked {
            Some(asked) if now.since(*asked) >= CONTEST_TIMEOUT => Ok(()),
            Some(_) => Err(DropReason::UnexpectedState),
            None => {
                self.contests.0.insert(id, now);
                self.shim6.ask(id, now);
                Err(DropReason::UnexpectedState)
            }
        }
    }
}

/// How long a peer is waited for that somebody else claims a context of: 10 s, in which it is asked twice.
const CONTEST_TIMEOUT: Duration = Duration::from_secs(10);
