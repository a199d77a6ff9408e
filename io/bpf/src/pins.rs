//! The folder in a bpffs that keeps tables and programs when the process ends.
//!
//! `<pin dir>/layout-<hash>/` holds the tables of a version by name, and tcx links as `link-<ifindex>-<hook>`.
//! Classic tc has nothing to pin, so folders mark its filters: `filter-<ifindex>-<hook>`. A bpffs cannot hold plain
//! files. `<pin dir>/layout-ilnp/` has the links and marks of the programs of ILNP, but no tables: each process fills
//! those anew. `<pin dir>/clsact-<ifindex>` marks a qdisc that a process made for Shim6 or ILNP.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::error::{Error, Result};
use crate::skel::LAYOUT;

/// `BPF_FS_MAGIC` of `linux/magic.h`.
const BPF_FS_MAGIC: rustix::fs::FsWord = 0xcafe_4a11;
/// Prefix of the names of our folders.
const PREFIX: &str = "layout-";
/// Suffix of folders whose tables have another size.
const ASIDE: &str = "-before";
/// The place where the system mounts its bpffs, or expects it.
const SYSTEM_BPFFS: &str = "/sys/fs/bpf";
/// Mode of our folders: other users must not hold the lock on them.
const MODE: u32 = 0o700;

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Pins { action, path, source }
}

/// Makes the folder for this layout, and mounts a bpffs if there is none. Also returns the folders of other layouts,
/// whose programs stay at work until [`remove_stale`].
pub(crate) fn prepare(pin_dir: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    ensure_bpffs(pin_dir)?;
    let ours = of_layout(pin_dir);
    let mut stale = folders(pin_dir)?;
    stale.retain(|folder| *folder != ours && *folder != of_ilnp(pin_dir));
    create(&ours)?;
    Ok((ours, stale))
}

/// Moves the pins of this layout aside, like those of another layout, and makes the folder anew.
pub(crate) fn set_aside(ours: &Path) -> Result<PathBuf> {
    let mut name = ours.as_os_str().to_owned();
    name.push(ASIDE);
    let aside = PathBuf::from(name);
    // A process ended before it removed these pins.
    crate::attach::detach_replaced(&aside, ours);
    remove_tree(&aside)?;
    fs::rename(ours, &aside).map_err(failed("rename", ours))?;
    create(ours)?;
    Ok(aside)
}

/// Detaches the programs of another layout, except filters that ours have replaced, and removes its pins.
pub(crate) fn remove_stale(stale: &Path, ours: &Path) -> Result<()> {
    tracing::info!(path = %stale.display(), "removing pins of another version");
    crate::attach::detach_replaced(stale, ours);
    remove_tree(stale)
}

/// Folder of the tables and links of this layout.
pub(crate) fn of_layout(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("{PREFIX}{LAYOUT}"))
}

/// Folder of the links and marks of ILNP.
pub(crate) fn of_ilnp(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("{PREFIX}ilnp"))
}

/// Folders of all layouts in the pin folder.
pub(crate) fn folders(pin_dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(pin_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("read", pin_dir))?,
    };
    // A bpffs of its own also holds files of the kernel; a shared one also holds files of others.
    let ours =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    Ok(ours.map(|entry| entry.path()).collect())
}

/// Makes the folder in a bpffs, which the function mounts if there is none.
pub(crate) fn ensure_bpffs(pin_dir: &Path) -> Result<()> {
    if pin_dir.starts_with(SYSTEM_BPFFS) {
        mount_bpffs(Path::new(SYSTEM_BPFFS))?;
        create(pin_dir)?;
    } else {
        create(pin_dir)?;
        mount_bpffs(pin_dir)?;
    }
    close_to_others(pin_dir)
}

/// Restricts the mode of a folder, which may exist already. The folder of the system keeps its mode: it holds pins of
/// others too.
fn close_to_others(path: &Path) -> Result<()> {
    if path == Path::new(SYSTEM_BPFFS) {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(MODE)).map_err(failed("close", path))
}

/// Whether the folder has the tables of a process. It may have only links: if somebody removes the pins of a process,
/// the process still pins new links.
pub(crate) fn has_tables(folder: &Path) -> bool {
    folder.join("settings").exists()
}

fn is_bpffs(path: &Path) -> bool {
    statfs(path).is_ok_and(|stat| stat.f_type == BPF_FS_MAGIC)
}

fn mount_bpffs(path: &Path) -> Result<()> {
    if is_bpffs(path) {
        return Ok(());
    }
    mount("bpf", path, "bpf", MountFlags::empty(), Some(c"mode=0700"))
        .map_err(io::Error::from)
        .map_err(failed("mount a bpffs on", path))
}

/// Makes a folder with access for us only, with its parents; no error if it exists.
pub(crate) fn create(path: &Path) -> Result<()> {
    fs::DirBuilder::new().recursive(true).mode(MODE).create(path).map_err(failed("create", path))
}

/// Removes the folder and all pins in it.
pub(crate) fn remove_tree(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes the pin folder, and the bpffs if it was mounted only for this folder.
pub(crate) fn remove_root(pin_dir: &Path) -> Result<()> {
    if !pin_dir.starts_with(SYSTEM_BPFFS) && is_mount_root(pin_dir) && is_bpffs(pin_dir) {
        unmount(pin_dir, UnmountFlags::DETACH)
            .map_err(io::Error::from)
            .map_err(failed("unmount", pin_dir))?;
    }
    // Files of others stay, and the folder then stays too.
    let _ = fs::remove_dir(pin_dir);
    Ok(())
}

fn is_mount_root(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &Path| fs::metadata(path).map(|data| data.dev()).ok();
    path.parent().is_some_and(|parent| device(path) != device(parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datapath;

    #[test]
    fn folders_with_links_alone_are_nothing_to_go_on_with() {
        let dir = tempfile::tempdir().unwrap();
        let has_pins = || Datapath::has_pins(dir.path());
        assert!(!has_pins());
        let links = dir.path().join("layout-1/link-2-ingress");
        create(&links).unwrap();
        create(&of_ilnp(dir.path())).unwrap();
        assert!(!has_pins());
        create(&dir.path().join("layout-2/settings")).unwrap();
        assert!(has_pins());
    }

    #[test]
    fn a_folder_of_an_earlier_version_is_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let folder = dir.path().join("new/pins");
        create(&folder).unwrap();
        assert_eq!(mode(&folder), MODE);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        create(&folder).unwrap();
        assert_eq!(mode(&folder), 0o755, "why that is needed");
        close_to_others(&folder).unwrap();
        assert_eq!(mode(&folder), MODE);
    }
}
