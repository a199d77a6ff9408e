use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use moorline_index::{FloodLimit, Lately};
use moorline_types::{DropReason, Ilv, Instant, L64, Nid};
use moorline_wire::ilnp::Refusal;

use crate::consts::{
    ALL_ANSWERS_BURST, ALL_ANSWERS_INTERVAL, ANSWER_BURST, ANSWER_INTERVAL, MAX_HINTED_LOCATORS,
    MAX_HINTS, MAX_NEGATIVES, NEGATIVE_LIFETIME, REFUSAL_LIFETIME,
};
use crate::event::Classic;
use crate::places::Places;

/// Correspondents whose traffic is classic IPv6.
#[derive(Clone, Debug)]
pub(crate) struct Negatives {
    known: BTreeMap<Ilv, Negative>,
    /// The ends of all entries.
    ends: BTreeSet<(Instant, Ilv)>,
    places: Places,
    /// Correspondents without a place that were silent lately or do not speak ILNP.
    others: Lately,
    /// Correspondents without a place that have shown a nonce and left a question unanswered.
    asked: Lately,
}

#[derive(Clone, Copy, Debug)]
struct Negative {
    until: Instant,
    /// Whether the correspondent itself has shown that it does not speak ILNP. Then packets in its name change
    /// nothing.
    is_sure: bool,
    /// Whether the correspondent has shown a nonce and left a proposal, or few Echo Requests, unanswered. Then its next
    /// packet with a nonce leads to an Echo Request at once.
    is_asked: bool,
}

/// Nodes for which the DNS or a packet says that they speak ILNP.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints(BTreeMap<Nid, Hint>);

#[derive(Clone, Debug)]
struct Hint {
    until: Instant,
    /// The node's L64 records in the DNS, each with the time until which the record is good. Packets of the node add
    /// nothing to them.
    records: Vec<(L64, Instant)>,
}

impl Hints {
    /// Notes that the node has shown that it speaks ILNP. A hint that is good for longer stays.
    pub(crate) fn add(&mut self, nid: Nid, until: Instant, now: Instant) {
        self.hint(nid, until, now);
    }

    /// Notes that the DNS has a NID record of the node and these L64 records. Records of another name of the node
    /// stay as long as they are good.
    pub(crate) fn add_records(&mut self, nid: Nid, l64s: &[L64], until: Instant, now: Instant) {
        if let Some(hint) = self.hint(nid, until, now) {
            let others = hint.records.iter().copied();
            let others = others.filter(|(l64, until)| *until > now && !l64s.contains(l64));
            let all = l64s.iter().map(|l64| (*l64, until)).chain(others);
            hint.records = all.take(MAX_HINTED_LOCATORS).collect();
        }
    }

    /// The hint of a node, made if it is missing; `None` if there is no room.
    fn hint(&mut self, nid: Nid, until: Instant, now: Instant) -> Option<&mut Hint> {
        if self.0.len() >= MAX_HINTS && !self.0.contains_key(&nid) {
            self.0.retain(|_, hint| hint.until > now);
            if self.0.len() >= MAX_HINTS {
                return None;
            }
        }
        let known = self.0.entry(nid).or_insert(Hint { until, records: Vec::new() });
        known.until = until.max(known.until);
        Some(known)
    }

    pub(crate) fn has(&self, nid: Nid, now: Instant) -> bool {
        self.0.get(&nid).is_some_and(|hint| hint.until > now)
    }

    /// Whether the DNS has a NID and an L64 record for this address.
    pub(crate) fn has_records(&self, remote: Ilv, now: Instant) -> bool {
        let is_it = |(l64, until): &(L64, Instant)| *l64 == remote.l64 && *until > now;
        self.0.get(&remote.nid).is_some_and(|hint| hint.records.iter().any(is_it))
    }
}

impl Negatives {
    /// Makes an empty table. Nobody else may know the key.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        let places = Places::new(MAX_NEGATIVES, key);
        let others = Lately::new(key, NEGATIVE_LIFETIME);
        let asked = others.clone();
        Self { known: BTreeMap::new(), ends: BTreeSet::new(), places, others, asked }
    }

    /// Remembers why the traffic of a correspondent is classic IPv6. If `is_hinted`, the node is said to speak ILNP,
    /// so its silence may be the network's. Returns whether there is room. A digest remembers a correspondent without
    /// room, so the machine does not ask it again at each report of its traffic either.
    #[must_use]
    pub(crate) fn remember(
        &mut self,
        remote: Ilv,
        cause: Classic,
        is_hinted: bool,
        now: Instant,
    ) -> bool {
        self.forget(remote);
        while self.ends.first().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
        let lifetime = match cause {
            Classic::Silent if is_hinted => REFUSAL_LIFETIME,
            Classic::Silent
            | Classic::Unread
            | Classic::NoSupport
            | Classic::Refused(Refusal::POLICY) => NEGATIVE_LIFETIME,
            Classic::Refused(_) => REFUSAL_LIFETIME,
        };
        if !self.places.allow(remote) {
            if lifetime == NEGATIVE_LIFETIME {
                self.others.add(remote.address().octets(), now);
            }
            return false;
        }
        if self.places.are_full() {
            self.make_room(now);
        }
        let is_sure = matches!(cause, Classic::Unread | Classic::NoSupport);
        let until = now + lifetime;
        self.known.insert(remote, Negative { until, is_sure, is_asked: false });
        self.ends.insert((until, remote));
        self.places.add(remote);
        true
    }

    /// Whether the traffic of a correspondent is classic IPv6. `is_hinted` as in [`remember`](Self::remember).
    pub(crate) fn is_classic(&self, remote: Ilv, is_hinted: bool, now: Instant) -> bool {
        match self.known.get(&remote) {
            Some(negative) => negative.until > now,
            None => !is_hinted && self.others.has(remote.address().octets(), now),
        }
    }

    /// Forgets a correspondent because a packet in its name has a nonce. If the correspondent is sure not to speak
    /// ILNP, nothing changes: anybody can send such a packet. Returns whether the correspondent was asked before, in
    /// vain, after it had shown a nonce.
    pub(crate) fn doubt(&mut self, remote: Ilv, now: Instant) -> bool {
        let known = self.known.get(&remote).copied();
        let was_asked = self.asked.has(remote.address().octets(), now);
        if known.is_none_or(|negative| !negative.is_sure) {
            self.forget(remote);
        }
        known.map_or(was_asked, |one| one.is_asked && !one.is_sure && one.until > now)
    }

    /// Notes that the correspondent has shown a nonce and left a proposal, or few Echo Requests, unanswered.
    pub(crate) fn note_asked(&mut self, remote: Ilv, now: Instant) {
        match self.known.get_mut(&remote) {
            Some(negative) => negative.is_asked = true,
            None => self.asked.add(remote.address().octets(), now),
        }
    }

    /// Forgets a correspondent that has shown that it speaks ILNP.
    pub(crate) fn forget(&mut self, remote: Ilv) {
        if let Some(negative) = self.known.remove(&remote) {
            self.ends.remove(&(negative.until, remote));
            self.places.remove(remote);
        }
        self.others.remove(remote.address().octets());
        self.asked.remove(remote.address().octets());
    }

    /// Forgets the correspondent that would be forgotten first, but for its digest.
    fn make_room(&mut self, now: Instant) {
        let first = self.ends.first().copied();
        let was_asked =
            first.and_then(|(_, remote)| self.known.get(&remote)).map(|one| one.is_asked);
        self.forget_first();
        if let Some((until, remote)) = first
            && until.since(now) > REFUSAL_LIFETIME
        {
            self.others.add(remote.address().octets(), now);
            if was_asked == Some(true) {
                self.asked.add(remote.address().octets(), now);
            }
        }
    }

    /// Forgets the correspondent that would be forgotten first.
    fn forget_first(&mut self) {
        if let Some(&(_, remote)) = self.ends.first() {
            self.forget(remote);
        }
    }

    /// Forgets all correspondents of a node because the DNS says that the node speaks ILNP.
    pub(crate) fn forget_node(&mut self, nid: Nid) {
        let all: Vec<_> = self.known.keys().copied().filter(|remote| remote.nid == nid).collect();
        for remote in all {
            self.forget(remote);
        }
    }
}

/// Limits of answers that anybody can ask for.
#[derive(Clone, Debug)]
pub(crate) struct Answers {
    by_prefix: FloodLimit,
    of_all: FloodLimit,
}

impl Answers {
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self {
            by_prefix: FloodLimit::new(key, ANSWER_INTERVAL, ANSWER_BURST),
            of_all: FloodLimit::new(key, ALL_ANSWERS_INTERVAL, ALL_ANSWERS_BURST),
        }
    }

    /// Takes one answer from the allowances, or drops it. Requests beyond the allowance of a prefix use up nothing of
    /// the common allowance.
    pub(crate) fn take(&mut self, remote: L64, now: Instant) -> Result<(), DropReason> {
        self.by_prefix.take(remote.octets(), now)?;
        self.of_all.take(EVERYBODY, now)
    }
}

const EVERYBODY: [u8; 8] = [0; 8];
