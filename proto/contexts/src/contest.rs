//! Contexts that somebody else claims (decision 095).

use core::time::Duration;

use moorline_types::{ContextId, DropReason, Instant, LocatorPair};

use crate::machine::Contexts;

/// A contested context is one whose peer has been asked whether it still has it, and has acknowledged no update since then, nor reported
/// a probe that left since then. Any other message may be an old one that the network or somebody on the path has repeated. Payload does
/// not count: between the ULIDs it has no tag, and comes from whoever has the address. Payload of a moved peer has the tag, but the
/// data plane alone sees it, and reports it only when a timer of REAP asks.
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
        let contested = &mut self.notes.entry(id).or_default().contested;
        match contested.map(|asked| now.since(asked)) {
            Some(waited) if waited < CONTEST_TIMEOUT => Err(DropReason::Disbelieved),
            Some(waited) if waited < CONTEST_LIFETIME => Ok(()),
            Some(_) | None => {
                *contested = Some(now);
                self.shim6.ask(id, now);
                Err(DropReason::Disbelieved)
            }
        }
    }
}

/// How long a peer is waited for that somebody else claims a context of: 10 s, in which it is asked twice.
const CONTEST_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the silence of a peer counts: 2 min, more than the Max Probe Timeout (RFC 5534 s4.3), as each probe may draw the next
/// R1bis.
const CONTEST_LIFETIME: Duration = Duration::from_secs(120);
