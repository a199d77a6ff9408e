//! What data planes have refused to forget. A context or session that stays there would go on changing packets.

use alloc::collections::BTreeSet;

use moorline_datapath::ilnp::Update as SessionUpdate;
use moorline_datapath::shim6::Update as ContextUpdate;
use moorline_types::{ContextId, SessionId, UlidPair};

use crate::effect::Effect;
use crate::host::Host;

/// Contexts and sessions to be removed, and pairs to be rearmed, once more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refused {
    contexts: BTreeSet<ContextId>,
    sessions: BTreeSet<SessionId>,
    /// Traffic of these earns no context before.
    unarmed: BTreeSet<UlidPair>,
}

impl Refused {
    /// Notes an effect that a data plane has refused. Result: whether it is to be tried again.
    pub(crate) fn note(&mut self, effect: &Effect) -> bool {
        if let Effect::UpdateContext(ContextUpdate::Remove { context }) = effect {
            self.contexts.insert(*context);
        } else if let Effect::UpdateSession(SessionUpdate::Remove { session }) = effect {
            self.sessions.insert(*session);
        } else if let Effect::UpdateContext(ContextUpdate::Rearm { ulids }) = effect
            && self.unarmed.len() < MAX_UNARMED
        {
            self.unarmed.insert(*ulids);
        } else {
            return false;
        }
        true
    }
}

impl Host {
    /// Tries again what data planes have refused. A slot that has another context or session by now has replaced the one that was there.
    pub(crate) fn retry_refused(&mut self) {
        let Refused { contexts, sessions, unarmed } = core::mem::take(&mut self.refused);
        let contexts = contexts.into_iter().filter(|id| self.shim6.entry_of(*id).is_none());
        let contexts = contexts.map(|context| ContextUpdate::Remove { context });
        let unarmed = unarmed.into_iter().map(|ulids| ContextUpdate::Rearm { ulids });
        self.effects.extend(contexts.chain(unarmed).map(Effect::UpdateContext));
        let sessions = sessions.into_iter().filter(|id| self.routing.sessions.get(*id).is_none());
        let sessions = sessions.map(|session| SessionUpdate::Remove { session });
        self.effects.extend(sessions.map(Effect::UpdateSession));
    }
}

/// Pairs are forgotten by the data plane itself once they have been idle.
const MAX_UNARMED: usize = 1024;
