mod sessions;

use std::fs;
use std::io::{self, Write as _};
use std::net::Ipv6Addr;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use moorline_contexts::{ContextSnapshot, Key, PeerSet, Preferences, Role};
use moorline_ilnp::SessionSnapshot;
use moorline_types::{ContextId, ContextTag, LocatorPair, Ulid, UlidPair};
use moorline_wire::LocatorPreference;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::addresses::SavedAddresses;
use sessions::SavedSession;

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

    /// The journal of changes to the host.
    pub(crate) fn journal(&self) -> PathBuf {
        self.directory.join("journal.json")
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

    /// The addresses of the last run.
    pub(crate) fn load_addresses(&self) -> anyhow::Result<Option<SavedAddresses>> {
        self.load(ADDRESSES).context("remove it to get new addresses")
    }

    pub(crate) fn save_addresses(&self, addresses: &SavedAddresses) -> anyhow::Result<()> {
        self.save(ADDRESSES, addresses, Outlives::Boot)
    }

    /// The contexts of the last run, if it was since this boot.
    pub(crate) fn load_contexts(&self) -> Vec<ContextSnapshot> {
        self.load_kept(CONTEXTS).contexts(&boot_id())
    }

    pub(crate) fn save_contexts(
        &self,
        contexts: impl Iterator<Item = ContextSnapshot>,
    ) -> anyhow::Result<()> {
        self.save(CONTEXTS, &Kept::of_contexts(contexts, boot_id()), Outlives::Process)
    }

    /// Of no use once the host is restored.
    pub(crate) fn remove_kept(&self) -> anyhow::Result<()> {
        self.remove(CONTEXTS)?;
        self.remove_sessions()
    }

    /// The ILNP sessions of the last run, if it was since this boot.
    pub(crate) fn load_sessions(&self) -> Vec<SessionSnapshot> {
        self.load_kept(SESSIONS).sessions(&boot_id())
    }

    pub(crate) fn save_sessions(
        &self,
        sessions: impl Iterator<Item = SessionSnapshot>,
    ) -> anyhow::Result<()> {
        self.save(SESSIONS, &Kept::of_sessions(sessions, boot_id()), Outlives::Process)
    }

    pub(crate) fn remove_sessions(&self) -> anyhow::Result<()> {
        self.remove(SESSIONS)
    }

    fn remove(&self, name: &str) -> anyhow::Result<()> {
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

    /// What does not outlive a boot may be half a file after one: then there is none.
    fn load_kept(&self, name: &str) -> Kept {
        let kept = self.load(name).unwrap_or_else(|error| {
            tracing::warn!("not taken over from the run before: {error:#}");
            None
        });
        kept.unwrap_or_default()
    }

    fn load<T: DeserializeOwned>(&self, name: &str) -> anyhow::Result<Option<T>> {
        let place = self.place(name);
        let text = match fs::read(&place) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| place.display().to_string()),
        };
        let value = serde_json::from_slice(&text).with_context(|| place.display().to_string())?;
        Ok(Some(value))
    }

    /// Writes beside and renames: the old file or the new one is there, never half of one, for as long as it has to be.
    fn save<T: Serialize>(&self, name: &str, value: &T, outlives: Outlives) -> anyhow::Result<()> {
        let place = self.place(name);
        let octets = serde_json::to_vec(value).with_context(|| place.display().to_string())?;
        let write = || -> io::Result<()> {
            let directory = fs::File::open(&self.directory)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(&octets)?;
            if outlives == Outlives::Boot {
                file.as_file().sync_all()?;
            }
            file.persist(&place)?;
            match outlives {
                Outlives::Boot => directory.sync_all(),
                Outlives::Process => Ok(()),
            }
        };
        // Without the name of the temporary file, which says nothing to anybody.
        let plain = |error: io::Error| {
            error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
        };
        write().map_err(plain).with_context(|| place.display().to_string())
    }
}

/// What a file is still good for after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlives {
    /// The daemon, however it ends: what waits for the disk is the kernel's, and nobody waits with it.
    Process,
    /// The machine, whose power may fail.
    Boot,
}

fn make_private_folder(folder: &Path) -> anyhow::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("state directory {}", folder.display()))
}

/// What a file of the state directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedState {
    /// Contexts of the last run.
    Contexts(Vec<ContextSnapshot>),
    /// ILNP sessions of the last run.
    Sessions(Vec<SessionSnapshot>),
    /// So many groups of addresses.
    Addresses(usize),
}

/// Reads the contents of a file of the state directory as the daemon does at its start, whichever file it
/// is. Contexts and sessions are there if they are of the machine that names itself so since it was started.
///
/// # Errors
/// It is none of them.
pub fn read_state(octets: &[u8], boot_id: &str) -> anyhow::Result<SavedState> {
    if let Ok(kept) = serde_json::from_slice::<Kept>(octets) {
        return Ok(match &kept.contexts {
            Some(_) => SavedState::Contexts(kept.contexts(boot_id)),
            None => SavedState::Sessions(kept.sessions(boot_id)),
        });
    }
    let addresses = serde_json::from_slice::<SavedAddresses>(octets)?;
    Ok(SavedState::Addresses(addresses.into_groups(|_| None)?.len()))
}

/// Writes contexts or sessions as the daemon does; of addresses nothing.
///
/// # Errors
/// None that is known.
pub fn write_state(state: &SavedState, boot_id: &str) -> anyhow::Result<Vec<u8>> {
    let boot_id = boot_id.to_owned();
    let kept = match state {
        SavedState::Contexts(contexts) => Kept::of_contexts(contexts.iter().cloned(), boot_id),
        SavedState::Sessions(sessions) => Kept::of_sessions(sessions.iter().cloned(), boot_id),
        SavedState::Addresses(_) => return Ok(Vec::new()),
    };
    Ok(serde_json::to_vec(&kept)?)
}

/// A file of what does not outlive a boot: contexts or sessions.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    boot_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contexts: Option<Vec<SavedContext>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sessions: Option<Vec<SavedSession>>,
}

impl Kept {
    fn of_contexts(contexts: impl Iterator<Item = ContextSnapshot>, boot_id: String) -> Self {
        let contexts = Some(contexts.map(SavedContext::from_snapshot).collect());
        Self { boot_id, contexts, sessions: None }
    }

    fn of_sessions(sessions: impl Iterator<Item = SessionSnapshot>, boot_id: String) -> Self {
        let sessions = Some(sessions.map(SavedSession::from_snapshot).collect());
        Self { boot_id, contexts: None, sessions }
    }

    fn contexts(self, boot_id: &str) -> Vec<ContextSnapshot> {
        let contexts = self.contexts.filter(|_| self.boot_id == boot_id);
        contexts.into_iter().flatten().map(SavedContext::into_snapshot).collect()
    }

    /// What cannot be a session is left out.
    fn sessions(self, boot_id: &str) -> Vec<SessionSnapshot> {
        let sessions = self.sessions.filter(|_| self.boot_id == boot_id);
        sessions.into_iter().flatten().filter_map(SavedSession::into_snapshot).collect()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedContext {
    id: u32,
    ulids: (Ipv6Addr, Ipv6Addr),
    tags: (u64, u64),
    locators: (Ipv6Addr, Ipv6Addr),
    local_locators: Vec<Ipv6Addr>,
    peer_locators: Vec<Ipv6Addr>,
    peer_generation: Option<u32>,
    /// Contexts of versions without it are put right by the peer's next list.
    #[serde(default)]
    peer_listed: u8,
    /// Flags, priority, weight.
    #[serde(default)]
    peer_preferences: Vec<(u8, Option<u8>, Option<u8>)>,
    peer_send_timeout_ms: u64,
    #[serde(default)]
    told_preferences: bool,
    initiator: bool,
    #[serde(default)]
    forked_instance: u32,
}

impl SavedContext {
    fn from_snapshot(context: ContextSnapshot) -> Self {
        Self {
            id: context.id.0,
            ulids: (context.key.ulids.local.0, context.key.ulids.peer.0),
            tags: (context.local_tag.bits(), context.peer_tag.bits()),
            locators: (context.locators.local.0, context.locators.peer.0),
            local_locators: context.local_locators.iter().map(|locator| locator.0).collect(),
            peer_locators: context.peer.locators.iter().map(|locator| locator.0).collect(),
            peer_generation: context.peer.generation,
            peer_listed: context.peer.listed,
            peer_preferences: context
                .peer
                .preferences
                .iter()
                .map(|told| (told.flags, told.priority, told.weight))
                .collect(),
            peer_send_timeout_ms: crate::clock::millis(context.peer.send_timeout.into()),
            told_preferences: context.told_preferences,
            initiator: context.role == Role::Initiator,
            forked_instance: context.key.forked_instance,
        }
    }

    fn into_snapshot(self) -> ContextSnapshot {
        let preferences = self.peer_preferences.into_iter();
        let preferences: Vec<_> = preferences
            .map(|(flags, priority, weight)| LocatorPreference { flags, priority, weight })
            .collect();
        let ulids = UlidPair::new(Ulid(self.ulids.0), Ulid(self.ulids.1));
        ContextSnapshot {
            id: ContextId(self.id),
            key: Key { ulids, forked_instance: self.forked_instance },
            local_tag: ContextTag::from_bits(self.tags.0),
            peer_tag: ContextTag::from_bits(self.tags.1),
            locators: LocatorPair::new(self.locators.0.into(), self.locators.1.into()),
            local_locators: self.local_locators.into_iter().map(Into::into).collect(),
            peer: PeerSet {
                locators: self.peer_locators.into_iter().map(Into::into).collect(),
                listed: self.peer_listed,
                generation: self.peer_generation,
                send_timeout: Duration::from_millis(self.peer_send_timeout_ms).into(),
                preferences: Preferences::new(&preferences),
                has_lost_ulid: false,
            },
            told_preferences: self.told_preferences,
            role: if self.initiator { Role::Initiator } else { Role::Responder },
        }
    }
}

/// Sockets do not outlive a boot, so neither do contexts.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

const ADDRESSES: &str = "addresses.json";
const CONTEXTS: &str = "contexts.json";
const SESSIONS: &str = "sessions.json";

#[cfg(test)]
mod tests;
