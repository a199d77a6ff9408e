//! Removes all remains of labs: the guardian of a running lab, and the sweep of dead labs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;
use std::{collections::BTreeSet, process, thread, time::Instant};

use anyhow::Context as _;

use crate::netns::NETNS_DIR;

/// A process that removes the lab when the `Guardian` is dropped or this process ends.
///
/// A lab is only ever removed by its guardian or by [`clean`], which run the same script. So every run tests the way
/// that matters after a crash.
#[derive(Debug)]
pub(crate) struct Guardian {
    child: Child,
    pipe: Option<ChildStdin>,
    /// Locked while the lab lives. [`clean`] tests the lock.
    _lock: File,
}

impl Guardian {
    /// Starts the guardian of a lab that is about to be built.
    pub(crate) fn start(directory: &Path, namespaces: &[String]) -> anyhow::Result<Self> {
        let _turn = take_turn()?;
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let lock = File::create(directory.join(LOCK)).context("create the lab's lock")?;
        lock.try_lock().context("lock the lab")?;
        let mut child = sweeper(directory, namespaces).spawn().context("start the guardian")?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe, _lock: lock })
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let end = Instant::now() + SWEEP_LIMIT;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
    }
}

/// Name of the next lab of this process: `moor-<pid>`, then `moor-<pid>.1` and so on.
pub(crate) fn next_name() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let pid = process::id();
    match NEXT.fetch_add(1, Ordering::Relaxed) {
        0 => format!("{PREFIX}{pid}"),
        n => format!("{PREFIX}{pid}.{n}"),
    }
}

/// Directory of a lab: its lock, and the files of its daemons.
pub(crate) fn directory(lab: &str) -> PathBuf {
    Path::new(LABS_DIR).join(lab)
}

/// Removes the remains of dead labs and gives their names. Labs of running processes stay.
///
/// # Errors
/// The remains could not be listed or removed.
pub fn clean() -> anyhow::Result<Vec<String>> {
    let _turn = take_turn()?;
    let namespaces = names_in(NETNS_DIR)?;
    let mut labs: BTreeSet<String> = names_in(LABS_DIR)?;
    labs.extend(namespaces.iter().filter_map(|name| lab_of(name)).map(str::to_owned));
    labs.retain(|lab| is_dead(lab));
    for lab in &labs {
        let own: Vec<String> =
            namespaces.iter().filter(|name| lab_of(name) == Some(lab)).cloned().collect();
        sweeper(&directory(lab), &own)
            .stdin(Stdio::null())
            .status()
            .with_context(|| format!("remove {lab}"))?;
    }
    Ok(labs.into_iter().collect())
}

/// Namespaces of running labs.
///
/// # Errors
/// The namespaces could not be listed.
pub fn living() -> anyhow::Result<Vec<String>> {
    let _turn = take_turn()?;
    let is_living = |name: &String| lab_of(name).is_some_and(|lab| !is_dead(lab));
    Ok(names_in(NETNS_DIR)?.into_iter().filter(is_living).collect())
}

/// The lab of a namespace: `moor-17.1` of `moor-17.1-isp1`. `None` for a namespace of another program.
fn lab_of(namespace: &str) -> Option<&str> {
    let (id, _node) = namespace.strip_prefix(PREFIX)?.split_once('-')?;
    let is_id = id.starts_with(|c: char| c.is_ascii_digit())
        && id.chars().all(|c| c.is_ascii_digit() || c == '.');
    is_id.then(|| &namespace[..PREFIX.len() + id.len()])
}

/// Takes a lock, so that one process at a time sweeps or starts a lab: a half-built lab would look dead.
fn take_turn() -> anyhow::Result<File> {
    fs::create_dir_all(LABS_DIR).context(LABS_DIR)?;
    let directory = File::open(LABS_DIR).context(LABS_DIR)?;
    directory.lock().context("lock the labs")?;
    Ok(directory)
}

fn is_dead(lab: &str) -> bool {
    !File::open(directory(lab).join(LOCK)).is_ok_and(|lock| lock.try_lock().is_err())
}

fn names_in(directory: &str) -> anyhow::Result<BTreeSet<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error).context(directory.to_owned()),
    };
    let name = |entry: io::Result<fs::DirEntry>| {
        entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect::<io::Result<_>>().context(directory.to_owned())
}

fn sweeper(directory: &Path, namespaces: &[String]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", include_str!("sweep.sh"), "moorline-lab-guardian"]);
    command.arg(directory).args(namespaces.iter().map(OsStr::new));
    // The guardian has its own process group: Ctrl-C at the terminal ends the lab, and the guardian must outlive the
    // lab.
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    command
}

const PREFIX: &str = "moor-";
const LABS_DIR: &str = "/run/moorline-lab";
/// File with the value that a kernel-wide setting had before a lab changed it. `sweep.sh` names the file, too.
pub(crate) const KEPT_SETTING: &str = "/run/moorline-lab.bpf_stats_enabled";
const LOCK: &str = "lock";
/// Time for which a drop waits for the guardian. After that, the guardian finishes alone.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_labs_are_recognised() {
        assert_eq!(lab_of("moor-17-a"), Some("moor-17"));
        assert_eq!(lab_of("moor-17.2-isp1"), Some("moor-17.2"));
        for other in ["moor-a", "moor--a", "moor-x7-a", "moorline", "mynet", "moor-17"] {
            assert_eq!(lab_of(other), None, "{other}");
        }
    }

    #[test]
    fn a_second_lab_of_a_process_has_another_name() {
        assert_ne!(next_name(), next_name());
    }
}
