use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use moorline_addr::Outlives;
use moorline_addresses::TemporaryLifetimes;
use moorline_contexts::ContextSnapshot;
use moorline_ilnp::SessionSnapshot;
use moorline_state::{Folder, LOCK, SavedAddresses, seal, unseal};
use serde::{Deserialize, Serialize};

use crate::addresses::moment;

mod dense;

/// Files in the state directory. Only the daemon can read them, because tags and nonces are secrets.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    folder: Folder,
}

impl Store {
    pub(crate) fn open(directory: &Path) -> anyhow::Result<Self> {
        Ok(Self { folder: Folder::open(directory)? })
    }

    pub(crate) fn directory(&self) -> &Path {
        self.folder.path()
    }

    /// The folder, which has the file of our addresses.
    pub(crate) const fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the path of the lock file; the daemon that uses the directory holds its lock.
    pub(crate) fn lock(&self) -> PathBuf {
        self.folder.place(LOCK)
    }

    /// Removes the directory, if it has no file but the lock.
    pub(crate) fn discard(self) -> anyhow::Result<()> {
        let (lock, directory) = (self.lock(), self.directory().to_owned());
        let removed = fs::remove_file(lock).and_then(|()| fs::remove_dir(&directory));
        removed.with_context(|| format!("state directory {}", directory.display()))
    }

    /// Returns the folder of own keys.
    pub(crate) fn keys(&self) -> anyhow::Result<PathBuf> {
        let folder = Folder::open(&self.folder.place("keys"))?;
        Ok(folder.path().to_owned())
    }

    /// Reads contexts or sessions of the last run, if that run was in this boot. The files are not synced, so a file
    /// may be incomplete after a boot; the result has nothing but the damage then.
    pub(crate) fn load_state(&self, name: &str) -> SavedState {
        let read = self.folder.read(name).and_then(|octets| {
            let state = octets.map(|octets| unseal::<SavedState>(&octets));
            state.transpose().with_context(|| self.folder.place(name).display().to_string())
        });
        let state = read.unwrap_or_else(|error| {
            tracing::warn!("not taken over from the run before: {error:#}");
            let damage = format!("not taken over from the run before, and lost: {error:#}");
            Some(SavedState { boot_id: boot_id(), damage: Some(damage), ..SavedState::default() })
        });
        state.filter(|state| state.boot_id == boot_id()).unwrap_or_default()
    }

    pub(crate) fn save_contexts(
        &self,
        contexts: impl Iterator<Item = ContextSnapshot>,
    ) -> anyhow::Result<()> {
        let contexts = contexts.collect();
        self.save_state(CONTEXTS, SavedState { contexts, ..SavedState::default() })
    }

    pub(crate) fn save_sessions(
        &self,
        sessions: impl Iterator<Item = SessionSnapshot>,
    ) -> anyhow::Result<()> {
        let sessions = sessions.collect();
        self.save_state(SESSIONS, SavedState { sessions, ..SavedState::default() })
    }

    fn save_state(&self, name: &str, state: SavedState) -> anyhow::Result<()> {
        let state = SavedState { boot_id: boot_id(), ..state };
        self.folder.write(name, &seal(&state)?, Outlives::Process)
    }

    /// Removes the file of contexts or sessions.
    pub(crate) fn remove(&self, name: &str) -> anyhow::Result<()> {
        self.folder.remove(name)
    }

    /// Length of a file, octets; zero if there is none.
    pub(crate) fn len(&self, name: &str) -> u64 {
        fs::metadata(self.folder.place(name)).map_or(0, |file| file.len())
    }
}

/// Contexts or sessions of a run, which are valid only in the same boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// Id of the boot.
    pub boot_id: String,
    /// Contexts.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "dense")]
    pub contexts: Vec<ContextSnapshot>,
    /// ILNP sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionSnapshot>,
    /// Sentence for people on a file that could not be read; it is in no file.
    #[serde(skip)]
    pub damage: Option<String>,
}

/// Reads the file of our addresses as the daemon does at its start. Returns the number of groups of addresses.
///
/// # Errors
/// The octets are not such a file.
pub fn read_addresses(octets: &[u8]) -> anyhow::Result<usize> {
    let addresses: SavedAddresses = unseal(octets)?;
    Ok(addresses.into_groups(|_| None, &TemporaryLifetimes::default(), moment())?.len())
}

/// Returns the id of this boot. Sockets end at a boot, so contexts of another boot are useless.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// File of the contexts of a run.
pub(crate) const CONTEXTS: &str = "contexts.json";
/// File of the ILNP sessions of a run.
pub(crate) const SESSIONS: &str = "sessions.json";

#[cfg(test)]
pub(crate) mod tests;
