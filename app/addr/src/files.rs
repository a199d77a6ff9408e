//! Atomic writing of files: a reader sees the old file or the complete new file.

use crate::Error;
use rustix::fs::{Access, access};
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::Path,
};
use tempfile::NamedTempFile;
use zeroize::Zeroizing;

/// Writes a file that everybody may read, in place of the old file. If the path is a device or pipe, such as
/// `/dev/stdout`, the function writes to it and does not replace it.
///
/// # Errors
///
/// [`Error::Write`]; the old file stays.
pub fn write_public(path: &Path, octets: &[u8]) -> Result<(), Error> {
    if is_special(path) {
        let write = || OpenOptions::new().write(true).open(path)?.write_all(octets);
        return write().map_err(|error| failed(path, error));
    }
    write(path, octets, PUBLIC, Over::Old(Outlives::Machine))
}

/// Checks that [`write_public`] can create a file in the folder, so that a long search does not fail at its end.
///
/// # Errors
///
/// [`Error::Write`].
pub fn check_public(path: &Path) -> Result<(), Error> {
    let check = || -> io::Result<()> {
        if path.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if !is_special(path) {
            access(folder_of(path), Access::WRITE_OK | Access::EXEC_OK)?;
        }
        Ok(())
    };
    check().map_err(|error| failed(path, error))
}

/// Writes a new file that everybody may read. If the file exists, it stays, and the function fails.
///
/// # Errors
///
/// [`Error::Write`].
pub fn write_new_public(path: &Path, octets: &[u8]) -> Result<(), Error> {
    write(path, octets, PUBLIC, Over::Nothing)
}

/// Writes a new file that only its owner may read. If the file exists, it stays, and the function fails.
///
/// # Errors
///
/// [`Error::Write`].
pub fn write_new_private(path: &Path, octets: &[u8]) -> Result<(), Error> {
    write(path, octets, PRIVATE, Over::Nothing)
}

/// Writes a file that only its owner may read, in place of the old file.
///
/// # Errors
///
/// [`Error::Write`]; the old file stays.
pub fn write_private(path: &Path, octets: &[u8], outlives: Outlives) -> Result<(), Error> {
    write(path, octets, PRIVATE, Over::Old(outlives))
}

/// Reads a whole file into memory that is wiped on drop, and returns its mode, too.
pub(crate) fn read(path: &Path, max: usize) -> Result<(Zeroizing<Vec<u8>>, u32), Error> {
    let failed = |error| Error::Read { path: path.to_owned(), error };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    // Reserve the maximum: growth would leave copies of the secret in memory.
    let mut octets = Zeroizing::new(Vec::with_capacity(max + 1));
    file.take(max as u64 + 1).read_to_end(&mut octets).map_err(failed)?;
    if octets.len() > max {
        return Err(Error::FileTooLong { path: path.to_owned(), max });
    }
    Ok((octets, mode))
}

/// Failures that a written file survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlives {
    /// End of the process: the kernel writes the data to the disk later, and the caller does not wait.
    Process,
    /// Power failure of the machine: the caller waits until the data is on the disk.
    Machine,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Old(Outlives),
    Nothing,
}

fn write(path: &Path, octets: &[u8], mode: u32, over: Over) -> Result<(), Error> {
    let folder = folder_of(path);
    let write = || -> io::Result<()> {
        let folder_itself = File::open(folder)?;
        // The temporary file has mode 0600, so no other user can read the octets before the mode is set.
        let mut file = NamedTempFile::new_in(folder)?;
        file.as_file_mut().write_all(octets)?;
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        let is_synced = over != Over::Old(Outlives::Process);
        if is_synced {
            file.as_file().sync_all()?;
        }
        match over {
            Over::Old(_) => file.persist(path)?,
            Over::Nothing => file.persist_noclobber(path)?,
        };
        if is_synced { folder_itself.sync_all() } else { Ok(()) }
    };
    write().map_err(|error| failed(path, error))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether the path is a device or a pipe, which a rename by root would replace.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Makes an error with the target's path instead of the temporary file's.
fn failed(path: &Path, error: io::Error) -> Error {
    let code = error.raw_os_error();
    let plain = code.map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
    Error::Write { path: path.to_owned(), error: plain }
}

const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_files_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        write_new_private(&path, b"secret").unwrap();
        let (octets, mode) = read(&path, 100).unwrap();
        assert_eq!((&octets[..], mode & 0o7777), (&b"secret"[..], 0o600));
    }

    #[test]
    fn new_files_do_not_replace_old_ones_and_public_ones_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_public(&path, b"old").unwrap();
        let error = write_new_private(&path, b"new").unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot write {}: File exists (os error 17)", path.display())
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write_public(&path, b"newer").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"newer");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else stays");
    }

    #[test]
    fn a_missing_folder_is_told_with_the_path_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none").join("file");
        let expected =
            format!("cannot write {}: No such file or directory (os error 2)", path.display());
        assert_eq!(write_public(&path, b"").unwrap_err().to_string(), expected);
    }

    #[test]
    fn what_is_no_file_is_written_to_and_stays_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        check_public(&path).unwrap();
        let error = write_public(&path, b"octets").unwrap_err();
        let expected = "No space left on device (os error 28)";
        assert_eq!(error.to_string(), format!("cannot write {}: {expected}", path.display()));
        assert!(path.is_symlink() && is_special(&path));
        let error = write_public(folder.path(), b"octets").unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
    }

    #[test]
    fn a_place_that_takes_no_file_is_known_beforehand() {
        let folder = tempfile::tempdir().unwrap();
        check_public(&folder.path().join("file")).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        for wrong in [folder.path().join("none/file"), folder.path().to_owned()] {
            assert!(matches!(check_public(&wrong), Err(Error::Write { .. })), "{wrong:?}");
        }
    }

    #[test]
    fn long_files_are_refused_at_the_cap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_public(&path, &[0; 11]).unwrap();
        assert!(read(&path, 11).is_ok());
        assert!(matches!(read(&path, 10), Err(Error::FileTooLong { max: 10, .. })));
    }
}
