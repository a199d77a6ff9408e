use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::Context as _;
use moorline_addr::{Outlives, write_private};
use rustix::process::geteuid;

/// A folder with files that only their user can read.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Opens a folder. If the folder does not exist, it is made with the mode 0700. If it exists and is empty, or is of an
    /// earlier run and only its user could write to it, it gets that mode.
    ///
    /// # Errors
    /// The folder cannot be made, it belongs to another user, or other users have access to it and it may hold files of others.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder
            .recursive(true)
            .mode(PRIVATE)
            .create(path)
            .and_then(|()| close(path, geteuid().as_raw()))
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

/// Takes the access of other users than `user` to a folder away.
fn close(path: &Path, user: u32) -> io::Result<()> {
    let folder = fs::metadata(path)?;
    belongs(&folder, "it", user)?;
    let lock = match fs::symlink_metadata(path.join(LOCK)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        lock => Some(lock?),
    };
    lock.as_ref().map_or(Ok(()), |lock| belongs(lock, LOCK, user))?;
    let mode = folder.mode() & 0o7777;
    if mode & OF_OTHERS == 0 {
        return Ok(());
    }
    let refused = |reason: &str| {
        let remedy = "name an empty directory, or set its mode to 0700";
        Err(io::Error::other(format!(
            "other users have access to it (mode {mode:04o}), and {reason}: {remedy}"
        )))
    };
    // A folder such as /tmp is not for one program alone.
    if mode & STICKY != 0 {
        return refused("its sticky bit says that they share it");
    }
    let is_empty = || fs::read_dir(path).map(|mut files| files.next().is_none());
    let is_writable = mode & WRITE_OF_OTHERS != 0;
    if !is_empty()? && is_writable {
        return refused("its files may be theirs");
    }
    if !is_empty()? && lock.is_none() {
        return refused("it holds other files");
    }
    fs::set_permissions(path, fs::Permissions::from_mode(PRIVATE))?;
    // Other users may have made files until now.
    if is_writable && !is_empty()? {
        return refused("files have just come in");
    }
    Ok(())
}

/// Refuses what belongs to another user.
fn belongs(file: &fs::Metadata, name: &str, user: u32) -> io::Result<()> {
    match file.uid() {
        uid if uid == user => Ok(()),
        uid => Err(io::Error::other(format!(
            "{name} belongs to the user with number {uid}, and this process runs as number {user}"
        ))),
    }
}

/// Mode of a folder for its user alone.
const PRIVATE: u32 = 0o700;
/// Mode bits of the access of other users, and of their right to make files.
const OF_OTHERS: u32 = 0o077;
const WRITE_OF_OTHERS: u32 = 0o022;
/// Mode bit of folders that users share (`chmod(2)`).
const STICKY: u32 = 0o1000;

/// Name of the file whose lock the process that uses the folder holds.
pub const LOCK: &str = "moorlined.lock";

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    }

    #[test]
    fn a_folder_is_for_its_user_alone_whoever_made_it() {
        let outer = tempfile::tempdir().expect("a folder");
        let path = outer.path().join("state");
        Folder::open(&path).expect("made");
        assert_eq!(mode(&path), 0o700);
        for (file, open) in [(None, 0o777), (Some(LOCK), 0o750), (Some(LOCK), 0o701)] {
            set_mode(&path, open);
            file.into_iter().for_each(|file| fs::write(path.join(file), "").expect("a file"));
            Folder::open(&path).expect("empty, or of an earlier run");
            assert_eq!(mode(&path), 0o700);
        }
    }

    #[test]
    fn a_folder_that_others_use_keeps_its_mode_and_is_refused() {
        let outer = tempfile::tempdir().expect("a folder");
        fs::write(outer.path().join("file"), "").expect("a file");
        set_mode(outer.path(), 0o755);
        let error = Folder::open(outer.path()).expect_err("of others");
        assert!(format!("{error:#}").contains("mode 0755"), "{error:#}");
        assert_eq!(mode(outer.path()), 0o755);
        fs::write(outer.path().join(LOCK), "").expect("a file");
        set_mode(outer.path(), 0o1777);
        Folder::open(outer.path()).expect_err("users share it");
        assert_eq!(mode(outer.path()), 0o1777);
        set_mode(outer.path(), 0o700);
        Folder::open(outer.path()).expect("private");
    }

    /// Users with the right to write to a folder can make the file that an earlier run leaves, and any other file.
    #[test]
    fn a_folder_that_others_may_write_to_is_refused_unless_it_is_empty() {
        let outer = tempfile::tempdir().expect("a folder");
        fs::write(outer.path().join(LOCK), "").expect("a file");
        for open in [0o770, 0o702] {
            set_mode(outer.path(), open);
            let error = Folder::open(outer.path()).expect_err("of others");
            assert!(format!("{error:#}").contains("may be theirs"), "{error:#}");
            assert_eq!(mode(outer.path()), open);
        }
        fs::remove_file(outer.path().join(LOCK)).expect("ours");
        set_mode(outer.path(), 0o1777);
        let error = Folder::open(outer.path()).expect_err("users share it");
        assert!(format!("{error:#}").contains("sticky"), "{error:#}");
    }

    #[test]
    fn a_folder_of_another_user_is_refused_whatever_its_mode() {
        let outer = tempfile::tempdir().expect("a folder");
        let (us, another) = (geteuid().as_raw(), geteuid().as_raw() + 1);
        for open in [0o700, 0o755] {
            set_mode(outer.path(), open);
            let error = close(outer.path(), another).expect_err("of another user");
            assert!(error.to_string().starts_with("it belongs"), "{error}");
            assert_eq!(mode(outer.path()), open);
        }
        let lock = outer.path().join(LOCK);
        fs::write(&lock, "").expect("a file");
        let lock = fs::metadata(&lock).expect("there");
        belongs(&lock, LOCK, another).expect_err("of another user");
        close(outer.path(), us).expect("ours");
        // Only root may give a file away.
        if us == 0 {
            std::os::unix::fs::chown(outer.path().join(LOCK), Some(another), None).expect("root");
            let error = close(outer.path(), us).expect_err("the lock is of another user");
            assert!(error.to_string().starts_with(LOCK), "{error}");
        }
    }
}
