//! Files that are there whole or not at all.

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

/// Writes a file that anybody may read, over the old one if there is one. What is no file, such as
/// `/dev/stdout` or a pipe, is written to and not replaced.
///
/// # Errors
///
/// [`Error::Write`], and the old file stays.
pub fn write_public(path: &Path, octets: &[u8]) -> Result<(), Error> {
    if is_special(path) {
        let write = || OpenOptions::new().write(true).open(path)?.write_all(octets);
        return write().map_err(|error| failed(path, error));
    }
    write(path, octets, PUBLIC, Over::Old(Outlives::Machine))
}

/// Whether [`write_public`] would find a folder that takes files, so that it is known before hours
/// of work and not after them.
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

/// Writes a file that anybody may read. A file that is there already stays, and is an error.
///
/// # Errors
///
/// [`Error::Write`].
pub fn write_new_public(path: &Path, octets: &[u8]) -> Result<(), Error> {
    write(path, octets, PUBLIC, Over::Nothing)
}

/// Writes a file for the owner alone. A file that is there already stays, and is an error.
///
/// # Errors
///
/// [`Error::Write`].
pub fn write_new_private(path: &Path, octets: &[u8]) -> Result<(), Error> {
    write(path, octets, PRIVATE, Over::Nothing)
}

/// Writes a file for the owner alone, over the old one if there is one.
///
/// # Errors
///
/// [`Error::Write`], and the old file stays.
pub fn write_private(path: &Path, octets: &[u8], outlives: Outlives) -> Result<(), Error> {
    write(path, octets, PRIVATE, Over::Old(outlives))
}

/// Reads a whole file into memory that is wiped, with its mode.
pub(crate) fn read(path: &Path, max: usize) -> Result<(Zeroizing<Vec<u8>>, u32), Error> {
    let failed = |error| Error::Read { path: path.to_owned(), error };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    // All the room at once: growing would leave copies behind.
    let mut octets = Zeroizing::new(Vec::with_capacity(max + 1));
    file.take(max as u64 + 1).read_to_end(&mut octets).map_err(failed)?;
    if octets.len() > max {
        return Err(Error::FileTooLong { path: path.to_owned(), max });
    }
    Ok((octets, mode))
}

/// The ends that a file outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlives {
    /// The process, however it ends: what waits for the disk is the kernel's, and nobody waits with it.
    Process,
    /// The machine, whose power may fail.
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
        // Made for the owner alone, so the octets are never more open than they are meant to be.
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

/// A device or a pipe: root could rename a file over it.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Without the name of the temporary file, which says nothing to anybody.
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
