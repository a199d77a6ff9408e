use crate::LocatorsVerified;
use alloc::{boxed::Box, vec::Vec};
use core::hash::Hasher;
use moorline_index::Index;
use moorline_types::Ulid;
use siphasher::sip::SipHasher13;

/// The parameters that peers have proved their ULIDs with, for the messages that leave them out.
///
/// RFC 5533 s5.10 has the PDS in an Update Request only if the peer was not sent it before, and a peer
/// that has lost its context may think that it was. What was verified once goes on to verify the
/// locators of the same ULID: the parameters are no secret, and bind whoever sends them. They are held
/// against the ULID anew each time, which takes two hashes.
///
/// At the cap the ULID that was not remembered or recalled for the longest time is forgotten.
#[derive(Clone, Debug)]
pub struct ParameterMemory {
    capacity: usize,
    keyed: SipHasher13,
    by_ulid: Index,
    slots: Vec<Remembered>,
    free: Vec<u32>,
    /// Ends of the list by use.
    newest: Option<u32>,
    oldest: Option<u32>,
}

#[derive(Clone, Debug)]
struct Remembered {
    ulid: Ulid,
    newer: Option<u32>,
    older: Option<u32>,
    pds: Box<[u8]>,
}

impl ParameterMemory {
    /// For `capacity` ULIDs at most. Each takes some 80 octets and its parameters: 140 to 350 in
    /// practice, 1024 at most. With a `key` that is secret nobody can choose ULIDs that take long to find.
    #[must_use]
    pub fn new(capacity: usize, key: [u8; 16]) -> Self {
        Self {
            capacity,
            keyed: SipHasher13::new_with_key(&key),
            by_ulid: Index::new(),
            slots: Vec::new(),
            free: Vec::new(),
            newest: None,
            oldest: None,
        }
    }

    /// Remembers the parameters of a ULID, in place of older ones. Only verified ones come here.
    pub fn remember(&mut self, verified: &LocatorsVerified) {
        let (ulid, pds) = (verified.ulid(), verified.pds());
        let digest = self.digest(ulid);
        if let Some(at) = self.find(digest, ulid) {
            self.unlink(at);
            self.set(at, ulid, pds);
            return self.link(at);
        }
        if self.len() == self.capacity {
            let Some(oldest) = self.oldest else { return };
            self.unlink(oldest);
            self.unindex(oldest);
            self.free.push(oldest);
        }
        let at = self.free.pop().or_else(|| {
            self.slots.push(Remembered { ulid, newer: None, older: None, pds: Box::default() });
            u32::try_from(self.slots.len() - 1).ok()
        });
        let Some(at) = at else { return };
        self.set(at, ulid, pds);
        self.by_ulid.insert(digest, at);
        self.link(at);
    }

    /// The parameters that go into a [`crate::LocatorClaim`] if the message has none.
    pub fn recall(&mut self, ulid: Ulid) -> Option<&[u8]> {
        let at = self.find(self.digest(ulid), ulid)?;
        self.unlink(at);
        self.link(at);
        self.slots.get(at as usize).map(|slot| &*slot.pds)
    }

    /// Forgets a ULID, and gives what was remembered of it.
    pub fn forget(&mut self, ulid: Ulid) -> Option<Box<[u8]>> {
        let at = self.find(self.digest(ulid), ulid)?;
        self.unlink(at);
        self.unindex(at);
        self.free.push(at);
        self.slots.get_mut(at as usize).map(|slot| core::mem::take(&mut slot.pds))
    }

    /// How many ULIDs are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find(&self, digest: u32, ulid: Ulid) -> Option<u32> {
        let is_it = |at: u32| self.slots.get(at as usize).is_some_and(|slot| slot.ulid == ulid);
        self.by_ulid.find(digest, is_it)
    }

    /// Takes no memory anew if those of before were as long, which most are.
    fn set(&mut self, at: u32, ulid: Ulid, pds: &[u8]) {
        let Some(slot) = self.slots.get_mut(at as usize) else { return };
        slot.ulid = ulid;
        if slot.pds.len() == pds.len() {
            slot.pds.copy_from_slice(pds);
        } else {
            slot.pds = pds.into();
        }
    }

    /// The newest from now on.
    fn link(&mut self, at: u32) {
        let second = self.newest.replace(at);
        self.oldest.get_or_insert(at);
        if let Some(slot) = self.slots.get_mut(at as usize) {
            (slot.newer, slot.older) = (None, second);
        }
        self.change(second, |slot| slot.newer = Some(at));
    }

    fn unlink(&mut self, at: u32) {
        let Some(&Remembered { newer, older, .. }) = self.slots.get(at as usize) else { return };
        match newer {
            Some(_) => self.change(newer, |slot| slot.older = older),
            None => self.newest = older,
        }
        match older {
            Some(_) => self.change(older, |slot| slot.newer = newer),
            None => self.oldest = newer,
        }
    }

    fn change(&mut self, at: Option<u32>, change: impl FnOnce(&mut Remembered)) {
        if let Some(slot) = at.and_then(|at| self.slots.get_mut(at as usize)) {
            change(slot);
        }
    }

    fn unindex(&mut self, at: u32) {
        if let Some(slot) = self.slots.get(at as usize) {
            let digest = self.digest(slot.ulid);
            self.by_ulid.remove(digest, at);
        }
    }

    fn digest(&self, ulid: Ulid) -> u32 {
        let mut hasher = self.keyed;
        hasher.write(&ulid.octets());
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        u32::from_le_bytes([a, b, c, d])
    }
}
