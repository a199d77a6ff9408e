use crate::args::Args;
use anyhow::{Context, bail};
use moorline_api::{BlockingClient, Client, Error};
use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Hands over to `moorlined --reset`: the daemon wrote the journal of its changes, it can read it.
pub(crate) fn reset(args: &Args) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("only root can undo changes to the network: run `sudo moorline reset`");
    }
    refuse_if_running(args)?;
    let own = env::current_exe().ok();
    let daemon = find_daemon(own.as_deref(), env::var_os("PATH").as_deref())
        .context("moorlined is neither next to moorline nor on PATH: put it there")?;
    // On success this process becomes the daemon's, and its exit code is ours.
    let error = Command::new(&daemon).arg("--reset").exec();
    Err(error).with_context(|| format!("cannot run {}", daemon.display()))
}

fn refuse_if_running(args: &Args) -> anyhow::Result<()> {
    match BlockingClient::new(Client::new(&args.socket))?.status() {
        Ok(status) => bail!(
            "moorlined is running (pid {pid}) and its changes are in use. Stop it, and it undoes \
             them itself: `systemctl stop moorlined` or `kill {pid}`",
            pid = status.pid
        ),
        Err(Error::NotRunning { .. }) => Ok(()),
        // A hung or odd daemon is a reason to reset: its lock decides.
        Err(_) => Ok(()),
    }
}

/// The daemon that was installed together with this program comes before others on the path.
fn find_daemon(own: Option<&Path>, path: Option<&OsStr>) -> Option<PathBuf> {
    let beside = own.and_then(Path::parent).map(Path::to_owned);
    let on_path = path.map(|path| env::split_paths(path).collect()).unwrap_or_default();
    beside
        .into_iter()
        .chain::<Vec<_>>(on_path)
        .map(|folder| folder.join("moorlined"))
        .find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, create_dir};

    #[test]
    fn the_daemon_beside_comes_first_then_the_path_then_none() {
        let dir = tempfile::tempdir().unwrap();
        let [beside, first, second] = ["beside", "first", "second"].map(|name| {
            let folder = dir.path().join(name);
            create_dir(&folder).unwrap();
            folder
        });
        let own = beside.join("moorline");
        let path = env::join_paths([&first, &second]).unwrap();
        let find = || find_daemon(Some(&own), Some(&path));

        assert_eq!(find(), None);
        File::create(second.join("moorlined")).unwrap();
        assert_eq!(find(), Some(second.join("moorlined")));
        File::create(beside.join("moorlined")).unwrap();
        assert_eq!(find(), Some(beside.join("moorlined")));
        assert_eq!(find_daemon(None, None), None);
    }
}
