//! The folder in a bpffs that outlives the process.
//!
//! `<pin dir>/layout-<hash>/` holds the tables of a version by name, tcx links as `link-<ifindex>-<hook>`, and for classic tc,
//! which has nothing to pin, folders as marks: `filter-<ifindex>-<hook>`. A bpffs holds no plain files.
//! `<pin dir>/layout-ilnp/` has the same for the programs of ILNP, but no tables: those are filled anew by each
//! process. `<pin dir>/clsact-<ifindex>` marks a qdisc that we made for either of them.

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
/// What the names of our folders begin with.
const PREFIX: &str = "layout-";
/// Suffix of folders whose tables have another size.
const ASIDE: &str = "-before";
/// Where the system has its bpffs, or wants it.
const SYSTEM_BPFFS: &str = "/sys/fs/bpf";
/// Of our folders: others must not hold the lock on them.
const MODE: u32 = 0o700;

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Pins { action, path, source }
}

/// Makes the folder for this layout, and mounts a bpffs if there is none. With the folders of other layouts, whose programs
/// are at work until [`remove_stale`].
pub(crate) fn prepare(pin_dir: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    ensure_bpffs(pin_dir)?;
    let ours = pin_dir.join(format!("{PREFIX}{LAYOUT}"));
    let mut stale = folders(pin_dir)?;
    stale.retain(|folder| *folder != ours && *folder != of_ilnp(pin_dir));
    create(&ours)?;
    Ok((ours, stale))
}

/// Puts the pins of this layout among those of others, and makes the folder anew.
pub(crate) fn set_aside(ours: &Path) -> Result<PathBuf> {
    let mut name = ours.as_os_str().to_owned();
    name.push(ASIDE);
    let aside = PathBuf::from(name);
    // Of a process that has ended before it removed them.
    crate::attach::detach_replaced(&aside, ours);
    remove_tree(&aside)?;
    fs::rename(ours, &aside).map_err(failed("rename", ours))?;
    create(ours)?;
    Ok(aside)
}

/// Takes off the programs of another layout, but for filters that ours have replaced, and removes its pins.
pub(crate) fn remove_stale(stale: &Path, ours: &Path) -> Result<()> {
    tracing::info!(path = %stale.display(), "removing pins of another version");
    crate::attach::detach_replaced(stale, ours);
    remove_tree(stale)
}

/// The folder of what ILNP has attached.
pub(crate) fn of_ilnp(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("{PREFIX}ilnp"))
}

/// All layouts that are pinned in the folder.
pub(crate) fn folders(pin_dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(pin_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("read", pin_dir))?,
    };
    // A bpffs of its own holds files of the kernel too, a shared one other people's.
    let ours =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    Ok(ours.map(|entry| entry.path()).collect())
}

/// Makes the folder in a bpffs, which it mounts if there is none.
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

/// A folder that is there already may have another mode. The system's folder keeps its mode: it has pins of others, too.
fn close_to_others(path: &Path) -> Result<()> {
    if path == Path::new(SYSTEM_BPFFS) {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(MODE)).map_err(failed("close", path))
}

/// Whether the folder has the tables of a process. Links alone may be there: a process whose pins somebody has removed goes on pinning
/// these.
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

/// Makes a folder for us alone, and what leads to it; no error if it is there.
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

/// Removes the pin folder itself, and the bpffs if it was mounted just for it.
pub(crate) fn remove_root(pin_dir: &Path) -> Result<()> {
    if !pin_dir.starts_with(SYSTEM_BPFFS) && is_mount_root(pin_dir) && is_bpffs(pin_dir) {
        unmount(pin_dir, UnmountFlags::DETACH)
            .map_err(io::Error::from)
            .map_err(failed("unmount", pin_dir))?;
    }
    // What is not ours stays, and so does the folder then.
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
