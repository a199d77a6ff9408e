use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use rustix::fs::{Mode, fchmod};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::Semaphore;

use super::server::Server;
use super::session;

/// The control socket, for the user of this process alone. It is removed at the end.
pub(super) struct Control {
    listener: UnixListener,
    _file: SocketFile,
}

/// A socket in the file system.
struct SocketFile(PathBuf);

impl Control {
    /// Opens the socket. A socket that no program listens to is replaced.
    pub(super) async fn bind(path: &Path) -> anyhow::Result<Self> {
        remove_stale(path).await?;
        let listener = listen(path)
            .with_context(|| format!("cannot make the control socket {}", path.display()))?;
        Ok(Self { listener, _file: SocketFile(path.to_owned()) })
    }

    /// Serves clients, each with a task of its own, at most [`MAX_CLIENTS`] at a time.
    pub(super) async fn serve(self, server: Rc<Server>) {
        let room = Arc::new(Semaphore::new(MAX_CLIENTS));
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
            // A client that has left before its turn is no reason to end.
            let Ok((stream, _)) = self.listener.accept().await else { continue };
            let server = Rc::clone(&server);
            tokio::task::spawn_local(async move {
                session::serve(&server, stream).await;
                drop(permit);
            });
        }
    }
}

/// Makes a socket for the user of this process alone. Linux gives the file the mode of the socket, so the mode is right from the
/// beginning.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    fchmod(&socket, Mode::from_raw_mode(0o600))?;
    socket.bind(path)?;
    socket.listen(BACKLOG)
}

/// Removes a socket that no program listens to.
async fn remove_stale(path: &Path) -> anyhow::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        bail!("{} is no socket: name another path with --control", path.display());
    }
    match UnixStream::connect(path).await {
        Ok(_) => bail!(
            "another host has the control socket {}: stop that one first, or name another path with --control",
            path.display()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot use {}", path.display())),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another program may have removed the socket before.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Connections that wait to be accepted.
const BACKLOG: u32 = 128;
/// Largest number of clients at a time; others wait.
const MAX_CLIENTS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::block_on;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_socket_is_for_its_user_and_ends_with_its_host() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("control");
        block_on(async {
            let control = Control::bind(&path).await?;
            assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
            let second = Control::bind(&path).await.err().expect("two hosts").to_string();
            assert!(second.contains("another host"), "{second}");
            drop(control);
            assert!(!path.exists());
            Ok(())
        })
        .expect("control");
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_file_is_not() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("control");
        block_on(async {
            drop(UnixListener::bind(&path)?);
            assert!(path.exists());
            drop(Control::bind(&path).await?);
            std::fs::write(&path, "precious")?;
            let refused = Control::bind(&path).await.err().expect("a file").to_string();
            assert!(refused.contains("is no socket"), "{refused}");
            assert_eq!(std::fs::read(&path)?, b"precious");
            Ok(())
        })
        .expect("control");
    }
}
