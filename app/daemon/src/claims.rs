//! Claims: one daemon at a time uses a state directory, one a network namespace, and one a folder for BPF pins.
//!
//! The claims end with the process, however it ends, so nothing is left to be cleared after a crash.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred, connect, socket_with, sockopt,
};
use rustix::process::geteuid;

use crate::store::Store;

/// The claims of this process, for as long as the value lives.
#[derive(Debug)]
pub(crate) struct Claims {
    _state: File,
    /// `None`: a stranger holds the name.
    _namespace: Option<UnixListener>,
    /// `None`: there is no folder.
    _pins: Option<File>,
}

impl Claims {
    /// Takes all, or says which process has one of them and what to do.
    pub(crate) fn take(store: &Store, pin_dir: &Path) -> anyhow::Result<Self> {
        Ok(Self {
            _state: claim_state(store)?,
            _namespace: claim_namespace(NAME)?,
            _pins: claim_pins(pin_dir)?,
        })
    }
}

fn claim_state(store: &Store) -> anyhow::Result<File> {
    let place = store.lock();
    let open = || {
        // The holder's process id stays readable until the lock is ours.
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(&place)
    };
    let mut file = open().with_context(|| place.display().to_string())?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&place).unwrap_or_default();
            bail!(
                "another moorlined{} uses the state directory {}; {WHAT_TO_DO}, or name another \
                 directory with --state-dir",
                in_words(pid.trim().parse().ok()),
                store.directory().display()
            );
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("lock on {}", place.display()));
        }
    }
    // A full disk has no room for the pid. The lock holds all the same, and its message names no process.
    let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    if let Err(error) = written {
        tracing::debug!(%error, "no pid in {}", place.display());
    }
    Ok(file)
}

/// Network namespaces may share a bpffs.
pub(crate) fn claim_pins(pin_dir: &Path) -> anyhow::Result<Option<File>> {
    let folder = match File::open(pin_dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        folder => folder.with_context(|| pin_dir.display().to_string())?,
    };
    match folder.try_lock() {
        Ok(()) => Ok(Some(folder)),
        Err(TryLockError::WouldBlock) => bail!(
            "another moorlined has its BPF programs in {}; {WHAT_TO_DO}, or name another directory \
             with --pin-dir",
            pin_dir.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("lock on {}", pin_dir.display()))
        }
    }
}

/// Rules, routes, `moor0` and programs on uplinks are of the network namespace, and so are abstract names of Unix sockets.
fn claim_namespace(name: &str) -> anyhow::Result<Option<UnixListener>> {
    let address = SocketAddr::from_abstract_name(name)?;
    let error = match UnixListener::bind_addr(&address) {
        Ok(listener) => return Ok(Some(listener)),
        Err(error) => error,
    };
    if error.kind() != std::io::ErrorKind::AddrInUse {
        return Err(error).context("claim on this network namespace");
    }
    // Any user can bind the name, and keep others from connecting to it. Nobody but root, or the user of this process, runs
    // a daemon, and a daemon listens.
    let is_daemon = |holder: &UCred| holder.uid.is_root() || holder.uid == geteuid();
    match holder(name) {
        Ok(holder) if is_daemon(&holder) => bail!(
            "another moorlined{} runs in this network namespace; {WHAT_TO_DO}, or run this one in \
             another namespace",
            in_words(Some(holder.pid.as_raw_nonzero().get()))
        ),
        Ok(holder) => {
            let (uid, pid) = (holder.uid.as_raw(), holder.pid.as_raw_nonzero());
            tracing::warn!(uid, pid, "a process that is no moorlined holds the name @{name}");
        }
        Err(error) => {
            tracing::warn!(%error, "a process that does not answer holds the name @{name}");
        }
    }
    Ok(None)
}

/// The process that bound the name.
///
/// # Errors
/// It does not listen, has ended, or too many others ask it.
fn holder(name: &str) -> Result<UCred, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)?;
    sockopt::socket_peercred(&socket)
}

fn in_words(pid: Option<i32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}

/// Abstract name of the Unix socket that stands for the network namespace.
const NAME: &str = "moorlined";
const WHAT_TO_DO: &str = "stop that one first (`systemctl stop moorlined`, or SIGTERM)";

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>(claimed: anyhow::Result<T>) -> String {
        claimed.err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn a_state_directory_has_one_user_and_its_pid_is_named_until_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("state")).unwrap();
        let first = claim_state(&store).unwrap();
        let said = refused(claim_state(&store));
        let pid = format!("(pid {})", std::process::id());
        assert!(said.contains(&pid) && said.contains("--state-dir"), "{said}");
        drop(first);
        drop(claim_state(&store).unwrap());
        assert_eq!(refused(claim_state(&store)), "");
    }

    #[test]
    fn a_folder_for_pins_has_one_user_until_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        assert!(claim_pins(&folder.path().join("none")).unwrap().is_none());
        let first = claim_pins(folder.path()).unwrap();
        let said = refused(claim_pins(folder.path()));
        assert!(said.contains("--pin-dir"), "{said}");
        drop(first);
        assert!(claim_pins(folder.path()).unwrap().is_some());
    }

    #[test]
    fn a_network_namespace_has_one_daemon_and_its_pid_is_named_until_it_goes() {
        // Not the real name: a daemon of this machine may hold that.
        let name = format!("moorlined-test-{}", std::process::id());
        let first = claim_namespace(&name).unwrap();
        let said = refused(claim_namespace(&name));
        assert!(said.contains(&format!("(pid {})", std::process::id())), "{said}");
        drop(first);
        assert!(claim_namespace(&name).unwrap().is_some());
    }

    #[test]
    fn a_process_that_takes_the_name_and_does_not_listen_keeps_no_daemon_from_starting() {
        let name = format!("moorlined-test-silent-{}", std::process::id());
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        assert!(claim_namespace(&name).unwrap().is_none());
    }
}
