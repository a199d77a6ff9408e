//! Typed access to the maps.

use core::marker::PhantomData;
use std::path::Path;

use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, Object};

use moorline_types::DropReason;

use crate::bound::Bound;
use crate::error::{Error, Result};
use crate::plain::Plain;
use crate::skel::types;

/// Number of attempts to get memory for an element.
const MAX_TRIES: u32 = 100;
/// Number of values that one call reads.
const BATCH: u32 = 1024;

/// The maps that user space accesses, except those of contexts.
pub(crate) struct Tables {
    pub(crate) lives: Table<u32, types::live>,
    pub(crate) locals: Table<types::address, u32>,
    pub(crate) bound: Bound,
    pub(crate) flows: Table<types::pair, types::flow>,
    pub(crate) rules: Table<u32, types::rule>,
    pub(crate) settings: Table<u32, types::settings>,
    pub(crate) drops: MapHandle,
}

impl Tables {
    pub(crate) fn of(object: &Object) -> Result<Self> {
        Ok(Self {
            lives: Table::of(object, "lives")?,
            locals: Table::of(object, "locals")?,
            bound: Bound::of(object)?,
            flows: Table::of(object, "flows")?,
            rules: Table::of(object, "rules")?,
            settings: Table::of(object, "settings")?,
            drops: handle(object, "drops")?,
        })
    }
}

/// Counters of drops that are not zero, each summed over the processors.
pub(crate) fn drops(table: &MapHandle) -> Result<Vec<(DropReason, u64)>> {
    let mut drops = Vec::new();
    for reason in DropReason::ALL {
        let values = table
            .lookup_percpu(&(*reason as u32).to_ne_bytes(), MapFlags::ANY)
            .map_err(|source| Error::Table { action: "read", table: "drops", source })?;
        let counts = values.iter().flatten().filter_map(|value| u64::from_octets(value));
        drops.push((*reason, counts.sum()));
    }
    drops.retain(|(_, count)| *count != 0);
    Ok(drops)
}

pub(crate) fn handle(object: &Object, name: &'static str) -> Result<MapHandle> {
    let map = object.maps().find(|map| map.name() == name).ok_or(Error::Missing(name))?;
    MapHandle::try_from(&map).map_err(Error::Load)
}

/// A hash map or array.
pub(crate) struct Table<K, V> {
    name: &'static str,
    handle: MapHandle,
    types: PhantomData<fn(K) -> V>,
}

impl<K: Plain, V: Plain> Table<K, V> {
    pub(crate) fn of(object: &Object, name: &'static str) -> Result<Self> {
        Ok(Self { name, handle: handle(object, name)?, types: PhantomData })
    }

    /// Opens a table that an earlier process of the same layout has pinned. `None`: there is none.
    pub(crate) fn pinned(name: &'static str, pins: &Path) -> Option<Self> {
        let handle = MapHandle::from_pinned_path(pins.join(name)).ok()?;
        Some(Self { name, handle, types: PhantomData })
    }

    /// Makes a table of one entry whose values have no lock: each locked write fails.
    #[cfg(test)]
    pub(crate) fn without_lock(name: &'static str) -> Self {
        let size = |octets: usize| u32::try_from(octets).unwrap();
        let (key, value) = (size(size_of::<K>()), size(size_of::<V>()));
        let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as u64,
            ..Default::default()
        };
        let kind = libbpf_rs::MapType::Array;
        let handle = MapHandle::create(kind, Some(name), key, value, 1, &options).unwrap();
        Self { name, handle, types: PhantomData }
    }

    fn error(&self, action: &'static str) -> impl FnOnce(libbpf_rs::Error) -> Error {
        let table = self.name;
        move |source| Error::Table { action, table, source }
    }

    pub(crate) fn lookup(&self, key: &K) -> Result<Option<V>> {
        let value =
            self.handle.lookup(key.as_octets(), MapFlags::ANY).map_err(self.error("read"))?;
        Ok(value.as_deref().and_then(V::from_octets))
    }

    pub(crate) fn insert(&self, key: &K, value: &V) -> Result<()> {
        let mut tries = 0;
        loop {
            let done = self.handle.update(key.as_octets(), value.as_octets(), MapFlags::ANY);
            match done {
                // Elements that are not preallocated come from a small store, which the kernel refills a moment
                // later.
                Err(error) if error.kind() == ErrorKind::OutOfMemory && tries < MAX_TRIES => {
                    tries += 1;
                    std::thread::yield_now();
                }
                done => return done.map_err(self.error("write")),
            }
        }
    }

    /// Replaces a value with a lock: no program reads it meanwhile.
    pub(crate) fn insert_locked(&self, key: &K, value: &V) -> Result<()> {
        self.handle
            .update(key.as_octets(), value.as_octets(), MapFlags::LOCK)
            .map_err(self.error("write"))
    }

    /// Removes an entry, if it exists.
    pub(crate) fn remove(&self, key: &K) -> Result<()> {
        match self.handle.delete(key.as_octets()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.error("remove from")(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(crate) fn keys(&self) -> Vec<K> {
        self.handle.keys().filter_map(|key| K::from_octets(&key)).collect()
    }

    /// Returns all values of an array, by index.
    pub(crate) fn all(&self) -> Result<Vec<V>> {
        Ok(self.values()?.collect())
    }

    /// Reads the values of an array, by index.
    pub(crate) fn values(&self) -> Result<impl Iterator<Item = V> + '_> {
        let batches = self.handle.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY);
        let batches = batches.map_err(self.error("read"))?;
        Ok(batches.filter_map(|(_, value)| V::from_octets(&value)))
    }

    pub(crate) fn max_entries(&self) -> u32 {
        self.handle.max_entries()
    }
}
