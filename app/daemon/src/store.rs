use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use moorline_addr::{Outlives, write_private};
use moorline_addresses::TemporaryLifetimes;
use moorline_contexts::ContextSnapshot;
use moorline_ilnp::SessionSnapshot;
use serde::{Deserialize, Serialize};

use crate::addresses::{SavedAddresses, moment};

/// Files in the state directory. Only the daemon can read them, because tags and nonces are secrets.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
}

impl Store {
    pub(crate) fn open(directory: &Path) -> anyhow::Result<Self> {
        make_private_folder(directory)?;
        Ok(Self { directory: directory.to_owned() })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the lock file; the daemon that uses the directory holds its lock.
    pub(crate) fn lock(&self) -> PathBuf {
        self.place("moorlined.lock")
    }

    /// Removes the directory, if it has no file but the lock.
    pub(crate) fn discard(self) -> anyhow::Result<()> {
        let (lock, directory) = (self.lock(), self.directory);
        let removed = fs::remove_file(lock).and_then(|()| fs::remove_dir(&directory));
        removed.with_context(|| format!("state directory {}", directory.display()))
    }

    /// Returns the folder of own keys.
    pub(crate) fn keys(&self) -> anyhow::Result<PathBuf> {
        let folder = self.place("keys");
        make_private_folder(&folder)?;
        Ok(folder)
    }

    /// Returns the path of the file of our addresses.
    pub(crate) fn addresses(&self) -> PathBuf {
        self.place(ADDRESSES)
    }

    /// Reads the addresses of the last run.
    pub(crate) fn load_addresses(&self) -> anyhow::Result<Option<SavedAddresses>> {
        let Some(octets) = self.read(ADDRESSES)? else { return Ok(None) };
        let read = serde_json::from_slice(&octets).map(Some);
        read.with_context(|| {
            format!("{}: remove it to get new addresses", self.addresses().display())
        })
    }

    pub(crate) fn save_addresses(&self, addresses: &SavedAddresses) -> anyhow::Result<()> {
        self.write(ADDRESSES, &serde_json::to_vec(addresses)?, Outlives::Machine)
    }

    /// Reads contexts or sessions of the last run, if that run was in this boot. The files are not synced, so a file may be
    /// incomplete after a boot; the result is empty then.
    pub(crate) fn load_state(&self, name: &str) -> SavedState {
        let read = self.read(name).and_then(|octets| {
            let state = octets.map(|octets| serde_json::from_slice::<SavedState>(&octets));
            state.transpose().with_context(|| self.place(name).display().to_string())
        });
        let state = read.unwrap_or_else(|error| {
            tracing::warn!("not taken over from the run before: {error:#}");
            None
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
        self.write(name, &serde_json::to_vec(&state)?, Outlives::Process)
    }

    /// Removes the file of contexts or sessions.
    pub(crate) fn remove(&self, name: &str) -> anyhow::Result<()> {
        match fs::remove_file(self.place(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| self.place(name).display().to_string())
            }
            _ => Ok(()),
        }
    }

    fn place(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        match fs::read(self.place(name)) {
            Ok(octets) => Ok(Some(octets)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| self.place(name).display().to_string()),
        }
    }

    fn write(&self, name: &str, octets: &[u8], outlives: Outlives) -> anyhow::Result<()> {
        Ok(write_private(&self.place(name), octets, outlives)?)
    }
}

fn make_private_folder(folder: &Path) -> anyhow::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("state directory {}", folder.display()))
}

/// Contexts or sessions of a run, which are valid only in the same boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// Id of the boot.
    pub boot_id: String,
    /// Contexts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<ContextSnapshot>,
    /// ILNP sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionSnapshot>,
}

/// Reads the file of our addresses as the daemon does at its start. Returns the number of groups of addresses.
///
/// # Errors
/// The octets are not such a file.
pub fn read_addresses(octets: &[u8]) -> anyhow::Result<usize> {
    let addresses: SavedAddresses = serde_json::from_slice(octets)?;
    Ok(addresses.into_groups(|_| None, &TemporaryLifetimes::default(), moment())?.len())
}

/// Returns the id of this boot. Sockets end at a boot, so contexts of another boot are useless.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

const ADDRESSES: &str = "addresses.json";
/// File of the contexts of a run.
pub(crate) const CONTEXTS: &str = "contexts.json";
/// File of the ILNP sessions of a run.
pub(crate) const SESSIONS: &str = "sessions.json";

#[cfg(test)]
mod tests;
