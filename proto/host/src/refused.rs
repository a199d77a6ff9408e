//! Removals that data planes have refused. A context or session that stays in a data plane would go on changing
//! packets.

use alloc::collections::BTreeSet;
use core::mem::take;

use moorline_datapath::ilnp::Update as SessionUpdate;
use moorline_datapath::shim6::Update as ContextUpdate;
use moorline_types::{ContextId, Instant, Retry, SessionId, UlidPair};

use crate::effect::Effect;
use crate::host::Host;

/// Contexts and sessions to remove again, and pairs to rearm again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused {
    /// Timer of the next try. Failed addresses and routes have another timer.
    pub(crate) retry: Retry,
    contexts: BTreeSet<ContextId>,
    sessions: BTreeSet<SessionId>,
    /// Pairs whose traffic earns no context before they are rearmed.
    not_rearmed: BTreeSet<UlidPair>,
}

impl Refused {
    /// Notes an effect that a data plane has refused, if it is to be tried again.
    pub(crate) fn note(&mut self, effect: &Effect, now: Instant) {
        if let Effect::UpdateContext(ContextUpdate::Remove { context }) = effect {
            self.contexts.insert(*context);
        } else if let Effect::UpdateSession(SessionUpdate::Remove { session }) = effect {
            self.sessions.insert(*session);
        } else if let Effect::UpdateContext(ContextUpdate::Rearm { ulids }) = effect
            && self.not_rearmed.len() < MAX_NOT_REARMED
        {
            self.not_rearmed.insert(*ulids);
        } else {
            return;
        }
        self.retry.handle_failed(now);
    }
}

impl Host {
    /// Tries refused removals again. If a slot has another context or session by now, that one has replaced the old
    /// one.
    pub(crate) fn retry_refused(&mut self) {
        self.refused.retry.begin();
        let Refused { contexts, sessions, not_rearmed, .. } = &mut self.refused;
        let (contexts, sessions, pairs) = (take(contexts), take(sessions), take(not_rearmed));
        let contexts = contexts.into_iter().filter(|id| self.shim6.entry_of(*id).is_none());
        let contexts = contexts.map(|context| ContextUpdate::Remove { context });
        let rearmed = pairs.into_iter().map(|ulids| ContextUpdate::Rearm { ulids });
        self.effects.extend(contexts.chain(rearmed).map(Effect::UpdateContext));
        let sessions = sessions.into_iter().filter(|id| self.routing.sessions.get(*id).is_none());
        let sessions = sessions.map(|session| SessionUpdate::Remove { session });
        self.effects.extend(sessions.map(Effect::UpdateSession));
    }
}

/// Largest number of pairs to rearm. Others wait until the data plane forgets them, as it forgets idle pairs.
const MAX_NOT_REARMED: usize = 1024;
