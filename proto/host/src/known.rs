use alloc::collections::{BTreeMap, BTreeSet};

use moorline_datapath::ilnp::SessionEntry;
use moorline_types::{IlvPair, Nid, SessionId};

/// Facts about a session that the host keeps outside the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSession {
    /// The addresses that sockets see.
    pub pair: IlvPair,
    /// The addresses in packets that we send.
    pub wire: IlvPair,
    /// Octets that the nonce may add to its packets on the wire.
    pub(crate) overhead: u32,
    /// Whether its packets need a route of their own.
    pub(crate) is_routed: bool,
    /// Number of sessions that began before it.
    number: u64,
}

impl KnownSession {
    fn of(entry: &SessionEntry, number: u64) -> Self {
        let (overhead, is_routed) = (entry.overhead(), entry.needs_route());
        Self { pair: entry.pair, wire: entry.wire_pair(), overhead, is_routed, number }
    }
}

/// The sessions in the data plane of ILNP.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownSessions {
    all: BTreeMap<SessionId, KnownSession>,
    /// The sessions of each of our identifiers by their numbers, so that no new session needs a look at all others.
    nids: BTreeMap<Nid, BTreeSet<u64>>,
    /// Number of sessions that have begun.
    begun: u64,
}

impl KnownSessions {
    pub(crate) fn get(&self, id: SessionId) -> Option<&KnownSession> {
        self.all.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &KnownSession)> + '_ {
        self.all.iter().map(|(id, known)| (*id, known))
    }

    /// Identifiers of ours that have sessions.
    pub(crate) fn nids(&self) -> BTreeSet<Nid> {
        self.nids.keys().copied().collect()
    }

    /// Identifiers of ours with a session that is among the first `count` sessions of this host.
    pub(crate) fn nids_of_first(&self, count: u64) -> impl Iterator<Item = Nid> + '_ {
        let is_first =
            move |numbers: &BTreeSet<u64>| numbers.first().is_some_and(|one| *one < count);
        self.nids.iter().filter(move |(_, numbers)| is_first(numbers)).map(|(nid, _)| *nid)
    }

    /// Number of sessions that have begun, also of those that have ended.
    pub(crate) const fn begun(&self) -> u64 {
        self.begun
    }

    /// Notes the present state of a session. Returns whether the set of identifiers with sessions has changed.
    pub(crate) fn insert(&mut self, entry: &SessionEntry) -> bool {
        if let Some(known) = self.all.get_mut(&entry.id).filter(|known| known.pair == entry.pair) {
            *known = KnownSession::of(entry, known.number);
            return false;
        }
        let old = self.all.insert(entry.id, KnownSession::of(entry, self.begun));
        let of_nid = self.nids.entry(entry.pair.local.nid).or_default();
        let is_new = of_nid.is_empty();
        of_nid.insert(self.begun);
        self.begun += 1;
        old.is_some_and(|old| self.release(&old)) || is_new
    }

    /// Forgets a session, if there is one. Returns whether the set of identifiers with sessions has changed.
    pub(crate) fn remove(&mut self, id: SessionId) -> Option<bool> {
        let known = self.all.remove(&id)?;
        Some(self.release(&known))
    }

    fn release(&mut self, session: &KnownSession) -> bool {
        let nid = session.pair.local.nid;
        let Some(numbers) = self.nids.get_mut(&nid) else { return false };
        numbers.remove(&session.number);
        let is_last = numbers.is_empty();
        if is_last {
            self.nids.remove(&nid);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use moorline_datapath::ilnp::ChecksumMode;
    use moorline_types::{Ilv, L64, Nonce};

    use super::*;

    fn entry(id: u32, nid: u64) -> SessionEntry {
        let (ours, theirs) = (L64(0x2001_0db8_0000_0001), L64(0x2001_0db8_0000_0002));
        SessionEntry {
            id: SessionId(id),
            pair: IlvPair::new(Ilv::new(ours, Nid(nid)), Ilv::new(theirs, Nid(7))),
            wire: (ours, theirs),
            send_nonce: Nonce::Short([1; 4]),
            attach: false,
            always: false,
            maps_tcp: true,
            settled: true,
            receive_nonce: None,
            remote: [theirs].into(),
            confirming: false,
            checksum: ChecksumMode::NidOnly,
            watch: false,
        }
    }

    #[test]
    fn identifiers_are_those_of_the_sessions_that_are_left() {
        let mut known = KnownSessions::default();
        assert!(known.insert(&entry(1, 5)), "a new identifier");
        assert!(!known.insert(&entry(1, 5)), "the same once more");
        assert!(!known.insert(&entry(2, 5)));
        assert_eq!(known.remove(SessionId(1)), Some(false), "another session has it");
        assert!(known.insert(&entry(2, 6)), "the slot is used again for another one");
        assert_eq!(known.nids(), [Nid(6)].into());
        assert_eq!(known.remove(SessionId(2)), Some(true));
        assert_eq!((known.remove(SessionId(2)), known.nids().len()), (None, 0));
    }
}
