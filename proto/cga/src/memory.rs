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
    /// Number of the last use, and the parameters.
    by_ulid: BTreeMap<Ulid, (u64, Box<[u8]>)>,
    by_use: BTreeMap<u64, Ulid>,
    uses: u64,
}

impl ParameterMemory {
    /// For `capacity` ULIDs at most. Each takes some 100 octets and its parameters: 140 to 350 in practice, 1024 at most.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { capacity, by_ulid: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// Remembers the parameters of a ULID, in place of older ones. Only verified ones come here.
    pub fn remember(&mut self, verified: &LocatorsVerified) {
        self.forget(verified.ulid());
        if self.len() == self.capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            self.by_ulid.remove(&oldest);
        }
        self.insert(verified.ulid(), verified.pds().into());
    }

    /// The parameters that go into a [`crate::LocatorClaim`] if the message has none.
    pub fn recall(&mut self, ulid: Ulid) -> Option<&[u8]> {
        let pds = self.forget(ulid)?;
        Some(self.insert(ulid, pds))
    }

    /// Forgets a ULID, and gives what was remembered of it.
    pub fn forget(&mut self, ulid: Ulid) -> Option<Box<[u8]>> {
        let (used, pds) = self.by_ulid.remove(&ulid)?;
        self.by_use.remove(&used);
        Some(pds)
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

    fn insert(&mut self, ulid: Ulid, pds: Box<[u8]>) -> &[u8] {
        self.uses += 1;
        self.by_use.insert(self.uses, ulid);
        &self.by_ulid.entry(ulid).insert_entry((self.uses, pds)).into_mut().1
    }
}
