use crate::LocatorsVerified;
use alloc::{boxed::Box, collections::BTreeMap};
use moorline_types::Ulid;

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
    by_ulid: BTreeMap<Ulid, Remembered>,
    by_use: BTreeMap<u64, Ulid>,
    /// One more for each use: 2^64 of them take centuries.
    uses: u64,
}

#[derive(Clone, Debug)]
struct Remembered {
    used: u64,
    pds: Box<[u8]>,
}

impl ParameterMemory {
    /// For `capacity` ULIDs at most. Each takes some 100 octets and its parameters: 140 to 350 in
    /// practice, 1024 at most.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { capacity, by_ulid: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// Remembers the parameters of a ULID, in place of older ones. Only verified ones come here.
    pub fn remember(&mut self, verified: &LocatorsVerified) {
        if self.capacity == 0 {
            return;
        }
        let ulid = verified.ulid();
        let pds = match self.forget(ulid) {
            Some(pds) if *pds == *verified.pds() => pds,
            _ => verified.pds().into(),
        };
        if self.by_ulid.len() == self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.by_ulid.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, ulid);
        self.by_ulid.insert(ulid, Remembered { used: self.uses, pds });
    }

    /// The parameters that go into a [`crate::LocatorClaim`] if the message has none.
    pub fn recall(&mut self, ulid: Ulid) -> Option<&[u8]> {
        let remembered = self.by_ulid.get_mut(&ulid)?;
        self.by_use.remove(&remembered.used);
        self.uses += 1;
        self.by_use.insert(self.uses, ulid);
        remembered.used = self.uses;
        Some(&remembered.pds)
    }

    /// Forgets a ULID, and gives what was remembered of it.
    pub fn forget(&mut self, ulid: Ulid) -> Option<Box<[u8]>> {
        let remembered = self.by_ulid.remove(&ulid)?;
        self.by_use.remove(&remembered.used);
        Some(remembered.pds)
    }

    /// How many ULIDs are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_ulid.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_ulid.is_empty()
    }
}
