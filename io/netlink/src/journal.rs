use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

/// Changes made to the host and not undone yet, on disk before they are made.
///
/// Each write replaces the whole file, so that it is never half written. The changes of an earlier
/// boot, or of another network namespace, are not there any more and are left out on opening. The
/// file goes away with the last change.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    document: Document,
}

/// A change that the journal keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Record {
    /// Rules with this protocol number were made.
    Rules {
        /// The lowest priority of our range.
        base: u32,
        /// The number.
        protocol: u8,
    },
    /// Routes with this protocol number were put into this table.
    Table {
        /// The table.
        table: u32,
        /// The number.
        protocol: u8,
    },
    /// A link was made, and its peer.
    Link {
        /// Name of the first.
        name: String,
        /// Name of the second.
        peer: String,
    },
    /// An address was put on an interface that is not ours.
    Address {
        /// Index of the interface.
        ifindex: u32,
        /// The address.
        address: Ipv6Addr,
        /// Length of its prefix, bits.
        prefix_len: u8,
    },
    /// A system control of an interface that is not ours was set: by an earlier version, for this one sets none.
    Control {
        /// Index of the interface.
        ifindex: u32,
        /// Its name under `/proc/sys/net/ipv6/conf/INTERFACE`.
        control: String,
        /// What it was.
        before: String,
        /// What it was set to.
        ours: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: u32,
    boot: String,
    namespace: String,
    changes: Vec<Record>,
}

impl Journal {
    /// Reads what an earlier process left, or starts an empty journal.
    ///
    /// # Errors
    /// The file is there but cannot be read, or is no journal of this version.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let here = Document::here();
        let octets = match fs::read(&path) {
            Ok(octets) => octets,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self { path, document: here });
            }
            Err(source) => return Err(Error::JournalUnreadable { path, source }),
        };
        let malformed = |reason| Error::JournalMalformed { path: path.clone(), reason };
        let found: Document =
            serde_json::from_slice(&octets).map_err(|error| malformed(error.to_string()))?;
        if found.version != VERSION {
            return Err(malformed(format!("version {}, not {VERSION}", found.version)));
        }
        let document = if (&found.boot, &found.namespace) == (&here.boot, &here.namespace) {
            found
        } else {
            tracing::info!(
                path = %path.display(),
                changes = found.changes.len(),
                "journal of another boot or network namespace: its changes are gone"
            );
            here
        };
        Ok(Self { path, document })
    }

    /// The changes not undone, in the order they were made.
    #[must_use]
    pub fn changes(&self) -> &[Record] {
        &self.document.changes
    }

    /// Writes a change down; nothing happens if it is there already.
    pub(crate) fn record(&mut self, change: Record) -> Result<(), Error> {
        if self.document.changes.contains(&change) {
            return Ok(());
        }
        self.document.changes.push(change);
        let written = self.write();
        if written.is_err() {
            self.document.changes.pop();
        }
        written
    }

    /// Takes a change out after it was undone.
    pub(crate) fn forget(&mut self, change: &Record) -> Result<(), Error> {
        self.forget_all(|one| one == change)
    }

    /// Takes out all changes that this is true for.
    pub(crate) fn forget_all(&mut self, undone: impl Fn(&Record) -> bool) -> Result<(), Error> {
        let before = self.document.changes.len();
        self.document.changes.retain(|change| !undone(change));
        if self.document.changes.len() == before { Ok(()) } else { self.write() }
    }

    fn write(&self) -> Result<(), Error> {
        let failed = |source| Error::JournalUnwritable { path: self.path.clone(), source };
        if self.document.changes.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
                _ => Ok(()),
            };
        }
        replace(&self.path, &self.document).map_err(failed)
    }
}

impl Document {
    fn here() -> Self {
        Self { version: VERSION, boot: boot(), namespace: namespace(), changes: Vec::new() }
    }
}

/// Makes a new file in the same folder, then renames it: readers see the old one or the new one.
fn replace(path: &Path, document: &Document) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let mut file = File::create(&fresh)?;
    serde_json::to_writer_pretty(&mut file, document)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(folder)?.sync_all()
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// The namespace of this thread, as the kernel names it: `net:[4026531840]`.
fn namespace() -> String {
    let link = fs::read_link("/proc/thread-self/ns/net").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

const VERSION: u32 = 1;

#[cfg(test)]
mod tests;
