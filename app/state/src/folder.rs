use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::Context as _;
use moorline_addr::{Outlives, write_private};

/// A folder with files that only their user can read.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Opens a folder. If the folder does not exist, it is made with the mode 0700.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("state directory {}", path.display()))?;
        Ok(Self(path.to_owned()))
    }

    /// Path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Path of the file with this name.
    #[must_use]
    pub fn place(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Takes the folder for this process, until the file is dropped. The file has the number of the process. Returns `None` if
    /// another process has the folder.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn claim(&self) -> anyhow::Result<Option<File>> {
        let place = self.place(LOCK);
        let mut options = File::options();
        // The file has the number of the process that has the folder, so it is not truncated.
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&place).with_context(|| place.display().to_string())?;
        match file.try_lock() {
            Ok(()) => {
                // If the disk is full, the file has no number. The lock still holds, and the message of another process
                // names none.
                let written = file.set_len(0).and_then(|()| writeln!(file, "{}", process::id()));
                if let Err(error) = written {
                    tracing::debug!(%error, "no pid in {}", place.display());
                }
                Ok(Some(file))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("lock on {}", place.display()))
            }
        }
    }

    /// Reads a file; `None` if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        match fs::read(self.place(name)) {
            Ok(octets) => Ok(Some(octets)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| self.place(name).display().to_string()),
        }
    }

    /// Writes a file with the mode 0600. A failure leaves the old file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, name: &str, octets: &[u8], outlives: Outlives) -> anyhow::Result<()> {
        Ok(write_private(&self.place(name), octets, outlives)?)
    }

    /// Removes a file that may not be there.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        match fs::remove_file(self.place(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(error).with_context(|| self.place(name).display().to_string())
            }
            _ => Ok(()),
        }
    }
}

/// Name of the file whose lock the process that uses the folder holds.
pub const LOCK: &str = "moorlined.lock";
