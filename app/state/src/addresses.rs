use std::fs;
use std::io;

use anyhow::Context as _;
use moorline_addr::Outlives;
use moorline_addresses::{Group, Rule, TemporaryLifetimes};
use moorline_cga::{LocalProof, PublicKey};
use rustix::io::Errno;

use crate::folder::Folder;
use crate::saved::{Moment, SavedAddresses};
use crate::sealed::{seal, unseal};

/// Result of reading a file of the last run.
#[derive(Debug)]
pub struct Loaded<T> {
    /// Contents; `None`: there is no file.
    pub value: Option<T>,
    /// Sentence for people on a damaged file.
    pub damage: Option<String>,
    /// The contents are of the file before the last one.
    pub is_older: bool,
}

/// The addresses of the host, so that the next run has them again.
impl Folder {
    /// Reads the addresses of the last run. `take` makes the result of the saved addresses. If the file is damaged or
    /// `take` fails, the file before it counts, and if that is damaged too, there are no addresses. A person who
    /// removes the file wants new addresses, so the file before it does not count then.
    ///
    /// # Errors
    /// The file may be whole, and this process cannot read it.
    pub fn load_addresses<T>(
        &self,
        take: impl Fn(SavedAddresses) -> anyhow::Result<T>,
    ) -> anyhow::Result<Loaded<T>> {
        let read = |name| {
            let Some(octets) = self.read(name)? else { return Ok(None) };
            unseal(&octets)
                .and_then(&take)
                .map(Some)
                .with_context(|| format!("{name} in {}", self.path().display()))
        };
        let error = match read(ADDRESSES) {
            Ok(value) => {
                if value.is_none() {
                    self.remove(BEFORE)?;
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
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save_addresses(&self, addresses: &SavedAddresses) -> anyhow::Result<()> {
        if self.place(ADDRESSES).exists() {
            let before = self.place(BEFORE);
            self.remove(BEFORE)?;
            // A file system without hard links keeps no file before: new addresses matter more.
            if let Err(error) = fs::hard_link(self.place(ADDRESSES), &before) {
                tracing::debug!(%error, "{}", before.display());
            }
        }
        self.write(ADDRESSES, &seal(addresses)?, Outlives::Machine)
    }
}

/// The addresses of the last run.
#[derive(Debug)]
pub struct Kept {
    /// Generation of locator lists (RFC 5533 s5.15.2) to begin with: later than those of the last run. `None` without a file.
    pub generation: Option<u32>,
    /// Parameters of the addresses.
    pub groups: Vec<Group>,
    /// Sentence for people on a damaged file.
    pub damage: Option<String>,
}

impl Folder {
    /// Reads the addresses of the last run, as groups.
    ///
    /// # Errors
    /// As [`Folder::load_addresses`].
    pub fn load_groups(
        &self,
        key_of: impl Fn(&Rule) -> Option<PublicKey>,
        lifetimes: &TemporaryLifetimes,
        at: Moment,
    ) -> anyhow::Result<Kept> {
        let loaded = self.load_addresses(|saved| {
            let generation = saved.generation;
            Ok((generation, saved.into_groups(&key_of, lifetimes, at)?))
        })?;
        let later = if loaded.is_older { GENERATIONS_OF_A_FILE } else { GENERATIONS_UNSAVED };
        let (generation, groups) = loaded.value.unzip();
        Ok(Kept {
            generation: generation.map(|generation| generation.wrapping_add(later)),
            groups: groups.unwrap_or_default(),
            damage: loaded.damage,
        })
    }
}

/// Whether a file could not be read for a reason that is not in the file, such as permissions or too many open files.
/// File systems report a damaged file by other errors ([`DAMAGED`]).
fn is_of_process(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    let number = cause.map(|cause| cause.raw_os_error());
    number
        .is_some_and(|number| DAMAGED.iter().all(|damaged| number != Some(damaged.raw_os_error())))
}

/// Errors of a medium that has lost the file, and of a file system (ext4, XFS) whose checksums do not fit.
const DAMAGED: [Errno; 4] = [Errno::IO, Errno::UCLEAN, Errno::BADMSG, Errno::NODATA];

/// Name of the file of addresses.
pub const ADDRESSES: &str = "addresses.json";
/// Hard link to the file that the last save of [`ADDRESSES`] replaced.
const BEFORE: &str = "addresses.json.before";
/// Damaged file of addresses.
const ASIDE: &str = "addresses.json.damaged";
/// Generations between that of the file and the first one of the next run: enough for 1,024 changes while the disk accepts
/// no write.
const GENERATIONS_UNSAVED: u32 = 1024 * LocalProof::GENERATIONS;
/// The same for the file of the last but one save. Many saves have come between them.
const GENERATIONS_OF_A_FILE: u32 = 1 << 16;

#[cfg(test)]
mod tests;
