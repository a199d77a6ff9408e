//! Claims: only one daemon at a time uses a state directory, a network namespace, or a folder of BPF pins.
//!
//! A claim ends with its process, also after a crash, so no claim needs clean-up.

use std::fs::{self, File, TryLockError};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, UCred, connect, socket_with, sockopt,
};
use rustix::process::geteuid;

use crate::store::Store;

/// Claims of this process. Dropping the value ends the claims.
#[derive(Debug)]
pub(crate) struct Claims {
    _state: File,
    /// `None` if a process that is not a daemon holds the name.
    _namespace: Option<UnixListener>,
    /// `None` if the folder does not exist.
    _pins: Option<File>,
}

impl Claims {
    /// Takes all claims. If another process holds a claim, the error names the process and gives advice.
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
    let Some(file) = store.folder().claim()? else {
        let pid = fs::read_to_string(&place).unwrap_or_default();
        bail!(
            "another moorlined{} uses the state directory {}; {WHAT_TO_DO}, or name another \
             directory with --state-dir",
            in_words(pid.trim().parse().ok()),
            store.directory().display()
        );
    };
    Ok(file)
}

/// Claims the pin folder, because network namespaces may share a bpffs.
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

/// Claims the network namespace by an abstract name of a Unix socket. Rules, routes, `moor0` and programs on uplinks belong
/// to the namespace, and so do abstract names.
fn claim_namespace(name: &str) -> anyhow::Result<Option<UnixListener>> {
    let address = SocketAddr::from_abstract_name(name)?;
    let error = match UnixListener::bind_addr(&address) {
        Ok(listener) => return Ok(Some(listener)),
        Err(error) => error,
    };
    if error.kind() != std::io::ErrorKind::AddrInUse {
        return Err(error).context("claim on this network namespace");
    }
    // Any user can bind the name, and prevent connections to it. Only root, or the user of this process, runs a daemon, and
    // a daemon listens on the name.
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

/// Returns the process that bound the name.
///
/// # Errors
/// The process does not listen, has ended, or has too many waiting connections.
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
        // Use another name than the daemon's, because a daemon of this machine may hold it.
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
