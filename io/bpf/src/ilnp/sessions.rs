use std::collections::BTreeMap;

use libbpf_rs::Object;
use moorline_datapath::ilnp::{CANDIDATES_BURST, LOOK_SHARES, SessionEntry};
use moorline_types::{IlvPair, Nid, Nonce, SessionId};

use crate::error::{Error, Result};
use crate::ilnp::convert;
use crate::plain::Plain;
use crate::skel::ilnp::types;
use crate::tables::Table;

/// Sessions in the tables.
pub(crate) struct Sessions {
    pub(crate) table: Table<u32, types::ilnp_session>,
    pub(crate) lives: Table<u32, types::ilnp_live>,
    by_pair: Table<types::pair, u32>,
    by_nonce: Table<types::nonce_key, u32>,
    by_nids: Table<types::nids, types::node>,
    counts: Table<u32, u32>,
    pub(crate) remotes: Table<u32, types::named>,
    known: BTreeMap<SessionId, Known>,
    /// Sessions whose removal has failed: the tables may still have parts of them.
    leaving: BTreeMap<SessionId, Known>,
    nodes: BTreeMap<(Nid, Nid), Vec<SessionId>>,
    generations: u32,
    serials: u32,
    changes: u32,
}

/// State of a session that this library has written.
#[derive(Clone, Debug)]
struct Known {
    pair: IlvPair,
    generation: u32,
    /// The nonce that the core has given.
    nonce: Option<Nonce>,
}

/// Entries of the tables from before a change of a session.
struct Before {
    /// Key of the new nonce, and the slot to which the key led.
    nonce: Option<(types::nonce_key, Option<u32>)>,
    remotes: types::named,
    session: types::ilnp_session,
}

impl Sessions {
    pub(crate) fn new(object: &Object) -> Result<Self> {
        Ok(Self {
            table: Table::of(object, "sessions")?,
            lives: Table::of(object, "lives")?,
            by_pair: Table::of(object, "by_pair")?,
            by_nonce: Table::of(object, "by_nonce")?,
            by_nids: Table::of(object, "by_nids")?,
            counts: Table::of(object, "counts")?,
            remotes: Table::of(object, "remotes")?,
            known: BTreeMap::new(),
            leaving: BTreeMap::new(),
            nodes: BTreeMap::new(),
            generations: 0,
            serials: 0,
            changes: 0,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether a report is about the session that has the slot now.
    pub(crate) fn is_current(&self, slot: u32, generation: u32) -> bool {
        let known = self.known.get(&SessionId(slot));
        known.is_some_and(|known| known.generation == generation)
    }

    /// Writes a session. On error, a new session is not in the tables, and an older session stays as it was.
    pub(crate) fn upsert(&mut self, entry: &SessionEntry) -> Result<()> {
        if entry.id.0 >= self.table.max_entries() {
            return Err(Error::TooManySessions(entry.id));
        }
        let same = self.known.get(&entry.id).filter(|known| known.pair == entry.pair).cloned();
        if let Some(known) = same {
            return self.write(entry, known);
        }
        self.remove(entry.id)?;
        let done = self.add(entry);
        if done.is_err() {
            // The tables may have parts of the session. The caller gets the first error.
            let _ = self.remove(entry.id);
        }
        done
    }

    /// Removes a session. If a table fails, the function goes on, so that as little as possible is left. A session
    /// that does not exist counts as removed.
    pub(crate) fn remove(&mut self, id: SessionId) -> Result<()> {
        let known = self.known.remove(&id).or_else(|| self.leaving.remove(&id));
        let Some(known) = known else { return Ok(()) };
        let done = [
            forget(&self.by_pair, &convert::pair(known.pair), id),
            self.leave_node(id, known.pair),
            self.forget_nonces(id, &known, None),
            // Comes after the keys, so that programs do not cache any of them again.
            self.write_session(id, &types::ilnp_session::default()),
            self.remotes.insert_locked(&id.0, &types::named::default()),
        ];
        let done: Result<()> = done.into_iter().collect();
        if done.is_err() {
            // The next attempt, or the next session of the slot, removes the rest.
            self.leaving.insert(id, known);
        }
        done
    }

    /// Adds a session to an empty slot.
    fn add(&mut self, entry: &SessionEntry) -> Result<()> {
        let others = self.nodes.get(&entry.pair.nids()).map_or(0, Vec::len);
        if others >= WITH_NODE {
            return Err(Error::TooManyWithNode(entry.id));
        }
        let (has_sent, has_come) = (entry.has_told().into(), entry.settled.into());
        let live = types::ilnp_live { has_sent, has_come, ..Default::default() };
        self.lives.insert(&entry.id.0, &live)?;
        self.generations = self.generations.wrapping_add(1).max(1);
        let known = Known { pair: entry.pair, generation: self.generations, nonce: None };
        self.known.insert(entry.id, known.clone());
        self.write(entry, known)?;
        self.join_node(entry.id, entry.pair)?;
        self.by_pair.insert(&convert::pair(entry.pair), &entry.id.0)
    }

    /// Writes the decisions about a session. If the table of sessions or of remotes fails, both are as before. If an
    /// old nonce cannot be removed, the new decisions stay.
    fn write(&mut self, entry: &SessionEntry, known: Known) -> Result<()> {
        let key = entry.receive_nonce.map(|nonce| convert::nonce_key(entry.pair, nonce));
        let before = self.before(entry.id, key)?;
        if let Some(key) = key {
            self.by_nonce.insert(&key, &entry.id.0)?;
        }
        // The core may know less than we do.
        let receive = entry.receive_nonce.or(known.nonce);
        self.serials = self.serials.wrapping_add(1).max(1);
        let session = convert::session(entry, known.generation, self.serials, receive);
        let remotes = convert::remotes(&entry.remote, known.generation);
        let done = self.remotes.insert_locked(&entry.id.0, &remotes);
        let done = done.and_then(|()| self.write_session(entry.id, &session));
        if done.is_err() {
            self.take_back(entry.id, &before);
            return done;
        }
        self.known.insert(entry.id, Known { nonce: receive, ..known.clone() });
        match entry.receive_nonce {
            Some(nonce) => self.forget_nonces(entry.id, &known, Some(nonce)),
            None => Ok(()),
        }
    }

    /// Reads the entries that [`Self::write`] replaces.
    fn before(&self, id: SessionId, key: Option<types::nonce_key>) -> Result<Before> {
        let owner = |key: types::nonce_key| Ok((key, self.by_nonce.lookup(&key)?));
        Ok(Before {
            nonce: key.map(owner).transpose()?,
            remotes: self.remotes.lookup(&id.0)?.unwrap_or_default(),
            session: self.table.lookup(&id.0)?.unwrap_or_default(),
        })
    }

    /// Writes the entries from before a change that has failed. The caller gets the error of the change, and not of
    /// these writes.
    fn take_back(&mut self, id: SessionId, before: &Before) {
        if let Some((key, owner)) = before.nonce {
            let _ = match owner {
                Some(slot) => self.by_nonce.insert(&key, &slot),
                None => self.by_nonce.remove(&key),
            };
        }
        let _ = self.remotes.insert_locked(&id.0, &before.remotes);
        let _ = self.write_session(id, &before.session);
    }

    /// Removes the nonce that the core has given and the nonce that programs have learned, except the one in use.
    fn forget_nonces(&self, id: SessionId, known: &Known, but: Option<Nonce>) -> Result<()> {
        let learned = self.lives.lookup(&id.0)?.and_then(|live| convert::nonce_back(live.learned));
        for nonce in [known.nonce, learned].into_iter().flatten() {
            if but != Some(nonce) {
                self.forget_nonce(&known.pair, nonce, id)?;
            }
        }
        Ok(())
    }

    /// Removes a nonce of a session. If another session shares the nonce, the nonce leads to that one from now on
    /// (decision 149).
    fn forget_nonce(&self, pair: &IlvPair, nonce: Nonce, id: SessionId) -> Result<()> {
        let shares = |other: &&SessionId| {
            let known = self.known.get(other).filter(|_| **other != id);
            known.is_some_and(|known| known.nonce == Some(nonce))
        };
        let key = convert::nonce_key(*pair, nonce);
        match self.nodes.get(&pair.nids()).and_then(|all| all.iter().find(shares)) {
            Some(other) => self.by_nonce.insert(&key, &other.0),
            None => forget(&self.by_nonce, &key, id),
        }
    }

    fn join_node(&mut self, id: SessionId, pair: IlvPair) -> Result<()> {
        let all = self.nodes.entry(pair.nids()).or_default();
        all.push(id);
        // The programs choose the first of equal sessions. The user-space data plane must choose the same.
        all.sort_unstable();
        self.write_node(pair)
    }

    fn leave_node(&mut self, id: SessionId, pair: IlvPair) -> Result<()> {
        if let Some(all) = self.nodes.get_mut(&pair.nids()) {
            all.retain(|other| *other != id);
        }
        self.write_node(pair)
    }

    fn write_node(&mut self, pair: IlvPair) -> Result<()> {
        let key = convert::nids(pair.nids());
        let all = self.nodes.get(&pair.nids()).map_or(&[][..], Vec::as_slice);
        if all.is_empty() {
            self.nodes.remove(&pair.nids());
            self.by_nids.remove(&key)?;
        } else {
            let count = u32::try_from(all.len()).unwrap_or(0);
            let mut node = types::node { count, ..Default::default() };
            for (slot, id) in node.slot.iter_mut().zip(all) {
                *slot = id.0;
            }
            self.by_nids.insert(&key, &node)?;
        }
        let count = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        self.counts.insert(&types::ilnp_count::ILNP_NODES.0, &count)
    }

    /// Writes a session, and invalidates the copies of the programs.
    fn write_session(&mut self, id: SessionId, session: &types::ilnp_session) -> Result<()> {
        self.table.insert_locked(&id.0, session)?;
        self.note_change()
    }

    /// Invalidates what programs have cached about sessions.
    pub(crate) fn note_change(&mut self) -> Result<()> {
        self.changes = self.changes.wrapping_add(1).max(1);
        self.counts.insert(&types::ilnp_count::ILNP_CHANGES.0, &self.changes)
    }

    /// Sets the index of the interface where the kernel segments packets; 0: none.
    pub(crate) fn set_segment(&self, ifindex: u32) -> Result<()> {
        self.counts.insert(&types::ilnp_count::ILNP_SEGMENT.0, &ifindex)
    }
}

/// Removes a key that leads to this session.
fn forget<K: Plain>(table: &Table<K, u32>, key: &K, id: SessionId) -> Result<()> {
    if table.lookup(key)? == Some(id.0) { table.remove(key) } else { Ok(()) }
}

const WITH_NODE: usize = types::ilnp_sizes::ILNP_WITH_NODE.0 as usize;
const _: () = assert!(WITH_NODE == moorline_datapath::ilnp::MAX_WITH_NODE);
const _: () = assert!(
    types::ilnp_sizes::ILNP_REMOTES.0 as usize == moorline_datapath::ilnp::MAX_REMOTE_LOCATORS
);
const LOOKS: [types::ilnp_sizes; LOOK_SHARES.len()] = [
    types::ilnp_sizes::ILNP_LOOKS_OF_ADDRESS,
    types::ilnp_sizes::ILNP_LOOKS_OF_64,
    types::ilnp_sizes::ILNP_LOOKS_OF_56,
    types::ilnp_sizes::ILNP_LOOKS_OF_48,
    types::ilnp_sizes::ILNP_LOOKS_OF_ALL,
];
const _: () = {
    let mut at = 0;
    while at < LOOKS.len() {
        assert!(LOOKS[at].0 == LOOK_SHARES[at].1);
        at += 1;
    }
    assert!(types::ilnp_sizes::ILNP_CANDIDATES.0 == CANDIDATES_BURST);
};
