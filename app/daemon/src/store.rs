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

use self::sealed::{seal, unseal};
use crate::addresses::{SavedAddresses, moment};

mod sealed;

/// Files under the state directory, readable by the daemon only: tags and nonces are secrets.
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

    /// The file that the daemon in charge of this directory keeps locked.
    pub(crate) fn lock(&self) -> PathBuf {
        self.place("moorlined.lock")
    }

    /// Removes the directory, if it holds nothing but the lock.
    pub(crate) fn discard(self) -> anyhow::Result<()> {
        let (lock, directory) = (self.lock(), self.directory);
        let removed = fs::remove_file(lock).and_then(|()| fs::remove_dir(&directory));
        removed.with_context(|| format!("state directory {}", directory.display()))
    }

    /// The folder of the keys that are made here.
    pub(crate) fn keys(&self) -> anyhow::Result<PathBuf> {
        let folder = self.place("keys");
        make_private_folder(&folder)?;
        Ok(folder)
    }

    /// Where our addresses are kept.
    pub(crate) fn addresses(&self) -> PathBuf {
        self.place(ADDRESSES)
    }

    /// The addresses of the last run, as `take` makes them of what was saved: those of the file, or if the file is damaged, those of the file
    /// before it. Without the file, and with two damaged ones, there are none.
    pub(crate) fn load_addresses<T>(
        &self,
        take: impl Fn(SavedAddresses) -> anyhow::Result<T>,
    ) -> anyhow::Result<Loaded<T>> {
        let read = |name| {
            let Some(octets) = self.read(name)? else { return Ok(None) };
            unseal(&octets)
                .and_then(&take)
                .map(Some)
                .with_context(|| format!("{name} in {}", self.directory.display()))
        };
        let error = match read(ADDRESSES) {
            Ok(value) => return Ok(Loaded { value, damage: None, is_older: false }),
            Err(error) => error,
        };
        // For people. The next file that is written is put before one that is whole.
        fs::rename(self.place(ADDRESSES), self.place(ASIDE))?;
        let older = read(BEFORE).unwrap_or_default();
        let instead = match older {
            Some(_) => "the addresses of the file before it are in use",
            None => "new addresses are made",
        };
        let damage = format!("{error:#}: the file is {ASIDE} now, and {instead}");
        Ok(Loaded { is_older: older.is_some(), value: older, damage: Some(damage) })
    }

    /// Keeps the file before, too: a damaged file costs what has changed since then, and not all addresses.
    pub(crate) fn save_addresses(&self, addresses: &SavedAddresses) -> anyhow::Result<()> {
        if self.addresses().exists() {
            let before = self.place(BEFORE);
            remove_file(&before)?;
            fs::hard_link(self.addresses(), &before)
                .with_context(|| before.display().to_string())?;
        }
        self.write(ADDRESSES, &seal(addresses)?, Outlives::Machine)
    }

    /// Contexts or sessions of the last run, if the run was since this boot. A file that does not outlive a boot may be half there after
    /// one: then there are none.
    pub(crate) fn load_state(&self, name: &str) -> SavedState {
        let read = self.read(name).and_then(|octets| {
            let state = octets.map(|octets| unseal::<SavedState>(&octets));
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
        self.write(name, &seal(&state)?, Outlives::Process)
    }

    /// Removes contexts or sessions, which are of no use any more.
    pub(crate) fn remove(&self, name: &str) -> anyhow::Result<()> {
        remove_file(&self.place(name))
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

/// Removes a file that may not be there.
fn remove_file(place: &Path) -> anyhow::Result<()> {
    match fs::remove_file(place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| place.display().to_string())
        }
        _ => Ok(()),
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

/// A file of the last run.
#[derive(Debug)]
pub(crate) struct Loaded<T> {
    /// Its contents; `None`: there is none.
    pub value: Option<T>,
    /// A sentence for people on a damaged file.
    pub damage: Option<String>,
    /// Whether the contents are of an earlier file than the last one.
    pub is_older: bool,
}

/// The contexts or the sessions of a run, which do not outlive a boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// The boot that the run was of.
    pub boot_id: String,
    /// Contexts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contexts: Vec<ContextSnapshot>,
    /// ILNP sessions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionSnapshot>,
}

/// Reads the file of our addresses as the daemon does at its start. Result: how many groups of addresses there are.
///
/// # Errors
/// The file is no such one.
pub fn read_addresses(octets: &[u8]) -> anyhow::Result<usize> {
    let addresses: SavedAddresses = unseal(octets)?;
    Ok(addresses.into_groups(|_| None, &TemporaryLifetimes::default(), moment())?.len())
}

/// Sockets do not outlive a boot, so neither do contexts.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

const ADDRESSES: &str = "addresses.json";
/// The file before the last one.
const BEFORE: &str = "addresses.json.before";
/// A file that was damaged.
const ASIDE: &str = "addresses.json.damaged";
/// The contexts of a run.
pub(crate) const CONTEXTS: &str = "contexts.json";
/// The ILNP sessions of a run.
pub(crate) const SESSIONS: &str = "sessions.json";

#[cfg(test)]
mod tests;
