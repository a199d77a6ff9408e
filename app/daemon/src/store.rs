use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use moorline_addr::{Outlives, write_private};
use moorline_addresses::TemporaryLifetimes;
use moorline_contexts::ContextSnapshot;
use moorline_ilnp::SessionSnapshot;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use self::sealed::{seal, unseal};
use crate::addresses::{SavedAddresses, moment};

mod dense;
mod sealed;

/// Files in the state directory. Only the daemon can read them, because tags and nonces are secrets.
#[derive(Clone, Debug)]
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

    /// Reads the addresses of the last run. `take` makes the result of the saved addresses. If the file is damaged or
    /// `take` fails, the file before it counts, and if that is damaged too, there are no addresses. A person who
    /// removes the file wants new addresses, so the file before it does not count then.
    ///
    /// # Errors
    /// The file may be whole, and this process cannot read it.
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
            Ok(value) => {
                if value.is_none() {
                    remove_file(&self.place(BEFORE))?;
                }
                return Ok(Loaded { value, damage: None, is_older: false });
            }
            Err(error) if is_of_process(&error) => return Err(error),
            Err(error) => error,
        };
        let older = match read(BEFORE) {
            Err(error) if is_of_process(&error) => return Err(error),
            older => older.unwrap_or_default(),
        };
        // The damaged file stays for people. The next save must not keep it as the file before.
        fs::rename(self.place(ADDRESSES), self.place(ASIDE))?;
        // This run may end before it saves.
        if older.is_some()
            && let Some(octets) = self.read(BEFORE)?
        {
            self.write(ADDRESSES, &octets, Outlives::Machine)?;
        }
        let instead = match older {
            Some(_) => "the addresses of the file before it are in use",
            None => "new addresses are made",
        };
        let damage = format!("{error:#}: the file is {ASIDE} now, and {instead}");
        Ok(Loaded { is_older: older.is_some(), value: older, damage: Some(damage) })
    }

    /// Writes the addresses, and keeps the file that they replace: if the new file is damaged, only the last change is
    /// lost.
    pub(crate) fn save_addresses(&self, addresses: &SavedAddresses) -> anyhow::Result<()> {
        if self.addresses().exists() {
            let before = self.place(BEFORE);
            remove_file(&before)?;
            // A file system without hard links keeps no file before: new addresses matter more.
            if let Err(error) = fs::hard_link(self.addresses(), &before) {
                tracing::debug!(%error, "{}", before.display());
            }
        }
        self.write(ADDRESSES, &seal(addresses)?, Outlives::Machine)
    }

    /// Reads contexts or sessions of the last run, if that run was in this boot. The files are not synced, so a file
    /// may be incomplete after a boot; the result is empty then.
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

    /// Removes the file of contexts or sessions.
    pub(crate) fn remove(&self, name: &str) -> anyhow::Result<()> {
        remove_file(&self.place(name))
    }

    /// Length of a file, octets; zero if there is none.
    pub(crate) fn len(&self, name: &str) -> u64 {
        fs::metadata(self.place(name)).map_or(0, |file| file.len())
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

/// Whether a file could not be read for a reason that is not in the file, such as permissions or too many open files.
/// File systems report a damaged file by other errors ([`DAMAGED`]).
fn is_of_process(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    let number = cause.map(|cause| cause.raw_os_error());
    number.is_some_and(|number| DAMAGED.iter().all(|damaged| number != Some(*damaged as i32)))
}

/// Errors of a medium that has lost the file, and of a file system (ext4, XFS) whose checksums do not fit.
const DAMAGED: [Errno; 4] = [Errno::EIO, Errno::EUCLEAN, Errno::EBADMSG, Errno::ENODATA];

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

/// Result of reading a file of the last run.
#[derive(Debug)]
pub(crate) struct Loaded<T> {
    /// Contents; `None`: there is no file.
    pub value: Option<T>,
    /// Sentence for people on a damaged file.
    pub damage: Option<String>,
    /// The contents are of the file before the last one.
    pub is_older: bool,
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

const ADDRESSES: &str = "addresses.json";
/// Hard link to the file that the last save of [`ADDRESSES`] replaced.
const BEFORE: &str = "addresses.json.before";
/// Damaged file of addresses.
const ASIDE: &str = "addresses.json.damaged";
/// File of the contexts of a run.
pub(crate) const CONTEXTS: &str = "contexts.json";
/// File of the ILNP sessions of a run.
pub(crate) const SESSIONS: &str = "sessions.json";

#[cfg(test)]
mod tests;
