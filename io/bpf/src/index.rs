//! Indices of the programs, from addresses and tags to slots; `bpf/lib/index.h` explains them.

use libbpf_rs::Object;
use moorline_types::{LocatorPair, UlidPair};

use crate::convert;
use crate::error::{Error, Result};
use crate::skel::types;
use crate::tables::Table;

/// Cells of an index for each context. Half of them stay empty, so that a bucket is hardly ever full.
const CELLS_PER_CONTEXT: u32 = 2;
/// `BUCKET_CELLS` of the programs.
const BUCKET_CELLS: u32 = types::sizes::BUCKET_CELLS.0;
/// `SECOND_PLACE` of the programs.
const SECOND_PLACE: u32 = 0x9e37_79b1;
/// `MIX` of the programs.
const MIX: u64 = 0xd6e8_feb8_6659_fd93;
/// Place of the addend in [`types::hashing`]: behind the keys.
const ADDEND: usize = types::sizes::KEY_WORDS.0 as usize;

/// Number of buckets of an index for so many contexts.
pub(crate) fn buckets(contexts: u32) -> u32 {
    contexts.saturating_mul(CELLS_PER_CONTEXT).div_ceil(BUCKET_CELLS).max(1)
}

/// The hash that all indices share.
#[derive(Clone, Copy)]
pub(crate) struct Hashing(types::hashing);

impl Hashing {
    /// The keys of the pinned tables, or new keys for new tables.
    pub(crate) fn of(object: &Object, buckets: u32) -> Result<Self> {
        let table = Table::<u32, types::hashing>::of(object, "hash_keys")?;
        let found = table.lookup(&0)?.unwrap_or_default();
        if found.buckets == buckets {
            return Ok(Self(found));
        }
        let mut hashing = types::hashing { buckets, ..types::hashing::default() };
        for key in &mut hashing.key {
            *key = getrandom::u64().map_err(|error| Error::Randomness(error.into()))?;
        }
        table.insert(&0, &hashing)?;
        Ok(Self(hashing))
    }

    pub(crate) fn ulids(&self, ulids: UlidPair) -> u32 {
        let pair = convert::ulids(ulids);
        let [a, b] = pair.local.word;
        let [c, d] = pair.peer.word;
        self.words(&[a, b, c, d])
    }

    /// Hash of the locators and the tag in payload that we send.
    pub(crate) fn quote(&self, locators: LocatorPair, peer_tag: u64) -> u32 {
        let [a, b] = convert::address(locators.local.octets()).word;
        let [c, d] = convert::address(locators.peer.octets()).word;
        self.words(&[a, b, c, d, peer_tag])
    }

    pub(crate) fn tag(&self, tag: u64) -> u32 {
        self.words(&[tag])
    }

    fn words(&self, words: &[u64]) -> u32 {
        let halves = words.iter().flat_map(|word| [word & u64::from(u32::MAX), word >> 32]);
        let products = halves.zip(self.0.key).map(|(half, key)| half.wrapping_mul(key));
        let sum = products.fold(self.0.key[ADDEND], u64::wrapping_add);
        let mix = |sum: u64| (sum ^ sum >> 32).wrapping_mul(MIX);
        upper_half(mix(mix(sum)))
    }

    fn buckets_of(&self, hash: u32) -> [u32; 2] {
        [hash, hash.wrapping_mul(SECOND_PLACE)]
            .map(|hash| upper_half(u64::from(hash) * u64::from(self.0.buckets)))
    }
}

/// One index.
pub(crate) struct Index {
    table: Table<u32, types::bucket>,
}

impl Index {
    pub(crate) fn of(object: &Object, name: &'static str) -> Result<Self> {
        Ok(Self { table: Table::of(object, name)? })
    }

    /// Adds a slot. It replaces a slot for which `is_same` says that it has the same key.
    pub(crate) fn insert(
        &self,
        hashing: &Hashing,
        hash: u32,
        slot: u32,
        is_same: impl Fn(u32) -> Result<bool>,
    ) -> Result<()> {
        let [first, second] = self.read(hashing, hash)?;
        for (number, mut bucket) in [first, second] {
            for cell in &mut bucket.cell {
                let Some(other) = slot_in(*cell, hash) else { continue };
                if other == slot {
                    return Ok(());
                }
                if is_same(other)? {
                    *cell = cell_of(slot, hash);
                    return self.table.insert(&number, &bucket);
                }
            }
        }
        let empty = |(_, bucket): &(u32, types::bucket)| {
            bucket.cell.iter().filter(|&&cell| cell == 0).count()
        };
        let (number, mut bucket) = if empty(&first) < empty(&second) { second } else { first };
        let Some(cell) = bucket.cell.iter_mut().find(|cell| **cell == 0) else {
            return Err(Error::IndexFull);
        };
        *cell = cell_of(slot, hash);
        self.table.insert(&number, &bucket)
    }

    /// Removes a slot, if it is in the index.
    pub(crate) fn remove(&self, hashing: &Hashing, hash: u32, slot: u32) -> Result<()> {
        for (number, mut bucket) in self.read(hashing, hash)? {
            if let Some(cell) = bucket.cell.iter_mut().find(|cell| **cell == cell_of(slot, hash)) {
                *cell = 0;
                return self.table.insert(&number, &bucket);
            }
        }
        Ok(())
    }

    /// Number of slots in the index.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let buckets = (0..self.table.max_entries())
            .filter_map(|number| self.table.lookup(&number).expect("a table that can be read"));
        buckets.flat_map(|bucket| bucket.cell).filter(|&cell| cell != 0).count()
    }

    fn read(&self, hashing: &Hashing, hash: u32) -> Result<[(u32, types::bucket); 2]> {
        let [first, second] = hashing.buckets_of(hash);
        let read = |number| Ok((number, self.table.lookup(&number)?.unwrap_or_default()));
        Ok([read(first)?, read(second)?])
    }
}

fn cell_of(slot: u32, hash: u32) -> u32 {
    hash << 24 | (slot + 1)
}

/// Returns the slot of a cell, if the cell has one and the hash does not rule it out.
fn slot_in(cell: u32, hash: u32) -> Option<u32> {
    let slot = (cell & 0x00ff_ffff).checked_sub(1)?;
    (cell == cell_of(slot, hash)).then_some(slot)
}

fn upper_half(number: u64) -> u32 {
    let [a, b, c, d, ..] = number.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}
