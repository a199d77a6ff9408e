use crate::LocatorsVerified;
use alloc::{boxed::Box, collections::BTreeMap};
use moorline_types::Ulid;

/// Parameters by which peers have proved their ULIDs, for messages that leave them out.
///
/// By RFC 5533 s5.10 a peer puts the PDS into an Update Request only if it has not sent it before. A peer
/// that has lost its context may believe that it has sent it. Parameters that were verified once may verify
/// further locators of the same ULID: they are not secret, and bind the sender. Each time they are compared
/// with the ULID anew, which takes two hashes.
///
/// At the cap, the ULID that was not remembered or recalled for the longest time is forgotten.
#[derive(Clone, Debug)]
pub struct ParameterMemory {
    capacity: usize,
    /// Number of the last use, and the parameters.
    by_ulid: BTreeMap<Ulid, (u64, Box<[u8]>)>,
    by_use: BTreeMap<u64, Ulid>,
    uses: u64,
}

impl ParameterMemory {
    /// Creates a memory for `capacity` ULIDs at most. Each takes some 100 octets and its parameters: 140 to
    /// 350 in practice, 1024 at most.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        Self { capacity, by_ulid: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }

    /// Remembers the parameters of a ULID, in place of older ones. The type admits only verified parameters.
    pub fn remember(&mut self, verified: &LocatorsVerified) {
        self.forget(verified.ulid());
        if self.len() == self.capacity {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            self.by_ulid.remove(&oldest);
        }
        self.insert(verified.ulid(), verified.pds().into());
    }

    /// Parameters for a [`crate::LocatorClaim`] if the message has none.
    pub fn recall(&mut self, ulid: Ulid) -> Option<&[u8]> {
        let pds = self.forget(ulid)?;
        Some(self.insert(ulid, pds))
    }

    /// Forgets a ULID. Returns its parameters, if there were any.
    pub fn forget(&mut self, ulid: Ulid) -> Option<Box<[u8]>> {
        let (used, pds) = self.by_ulid.remove(&ulid)?;
        self.by_use.remove(&used);
        Some(pds)
    }

    /// Number of remembered ULIDs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_ulid.len()
    }

    /// Whether no ULID is remembered.
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
