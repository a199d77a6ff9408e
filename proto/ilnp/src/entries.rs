//! Entries of the correspondent cache: the machine makes them, tells the data plane, and forgets them.

use alloc::vec::Vec;

use moorline_datapath::ilnp::{Socket, Update};
use moorline_index::{Class, Removed};
use moorline_types::{IlvPair, Instant, Nonce, SessionId};

use crate::config::NonceMode;
use crate::event::{Cause, Event};
use crate::machine::Machine;
use crate::policy::{Candidate, Stage};
use crate::session::{Opening, Session};

impl Machine {
    /// The question for the policy. A session that the new one would replace takes no room.
    pub(crate) fn candidate(&self, pair: IlvPair, stage: Stage, socket: Socket) -> Candidate {
        let same = self.ilcc.find_pair(pair);
        let with_node = self.others_with_node(pair);
        let same = same.and_then(|id| self.ilcc.class(id));
        let count = |class| self.ilcc.count(class) - usize::from(same == Some(class));
        let guests = count(Class::Unproven) + count(Class::Guest);
        let is_guest = usize::from(same == Some(Class::Guest));
        let with_locator = self.ilcc.taken_by_guests(pair.remote, is_guest);
        let sessions = guests + count(Class::Proven);
        Candidate { stage, socket, sessions, guests, with_node, with_locator }
    }

    /// Number of sessions with the node of a pair, without the session of the pair, up to the bound of a node.
    fn others_with_node(&self, pair: IlvPair) -> usize {
        let (local, remote) = pair.nids();
        let same = self.ilcc.find_pair(pair);
        let others = self.ilcc.between(local, remote).filter(|id| Some(*id) != same);
        others.take(self.config.max_with_node).count()
    }

    pub(crate) fn has_no_room_with_node(&self, pair: IlvPair) -> bool {
        self.others_with_node(pair) >= self.config.max_with_node
    }

    /// Makes an entry, and tells the data plane about it and about the entry that gives way.
    pub(crate) fn admit(
        &mut self,
        pair: IlvPair,
        nonce: Option<Nonce>,
        class: Class,
        session: Session,
        now: Instant,
    ) -> SessionId {
        self.drop_trial(pair);
        let same = self.ilcc.find_pair(pair);
        let (id, removed) = self.ilcc.insert(pair, nonce, class, session);
        if let Some(removed) = removed {
            let cause = if same == Some(removed.id) { Cause::Replaced } else { Cause::Evicted };
            self.on_removed(removed, cause);
        }
        self.tell(id, now);
        self.tell_overlapped(pair, now);
        self.schedule(id);
        id
    }

    /// Tells the data plane about sessions that have moved to the addresses of this one.
    fn tell_overlapped(&mut self, pair: IlvPair, now: Instant) {
        let (local, remote) = pair.nids();
        let is_there = |id: &SessionId| self.overlaps(*id) == Some(pair);
        let overlapped: Vec<_> = self.ilcc.between(local, remote).filter(is_there).collect();
        for id in overlapped {
            self.tell(id, now);
        }
    }

    /// The addresses that a session has moved to, if another session has them. The correspondent would take segments
    /// without a nonce for segments of the other session.
    fn overlaps(&self, id: SessionId) -> Option<IlvPair> {
        let (pair, _) = self.ilcc.key(id)?;
        let wire = self.ilcc.get(id)?.wire_pair(pair);
        (wire != pair && self.ilcc.find_pair(wire).is_some()).then_some(wire)
    }

    pub(crate) fn forget(&mut self, id: SessionId, cause: Cause) {
        if let Some(removed) = self.ilcc.remove(id) {
            self.on_removed(removed, cause);
        }
    }

    fn on_removed(&mut self, removed: Removed<Session>, cause: Cause) {
        self.session_timers.set(removed.id.0, None);
        self.questions.forget_session(removed.id);
        self.updates.push_back(Update::Remove { session: removed.id });
        self.events.push_back(Event::Forgotten { session: removed.id, pair: removed.pair, cause });
    }

    /// Tells the data plane the present state of a session.
    pub(crate) fn tell(&mut self, id: SessionId, now: Instant) {
        let Some(key) = self.ilcc.key(id) else { return };
        let always = self.config.nonce == NonceMode::Always || self.overlaps(id).is_some();
        let Some(session) = self.ilcc.get(id) else { return };
        let entry = session.entry(id, key, always, now);
        self.updates.push_back(Update::Upsert(entry));
    }

    /// Sets the timer of a session to the earliest deadline.
    pub(crate) fn schedule(&mut self, id: SessionId) {
        let idle = self.config.idle_timeout;
        let answer = self.questions.waits_until(id);
        let Some(session) = self.ilcc.get_mut(id) else { return };
        let opening = match &session.opening {
            Opening::Confirming(confirming) => Some(confirming.retry.next),
            Opening::Offered { until } => *until,
            Opening::Done => None,
        };
        let is_unheard = session.is_unheard();
        let advertisement = session.advertisement.as_ref().map(|sent| sent.next(is_unheard));
        let quiet = answer.max(Some(session.last_used + idle));
        let proof = session.proofs.as_ref().and_then(|proofs| proofs.next());
        let next = [opening, advertisement, session.nonce_until, quiet, proof];
        self.session_timers.set(id.0, next.into_iter().flatten().min());
    }
}
