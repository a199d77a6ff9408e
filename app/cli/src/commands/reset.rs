use crate::args::{Args, ResetArgs};
use anyhow::{Context, bail};
use moorline_api::{BlockingClient, Client, Error};
use std::env;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Hands over to `moorlined --reset`: the daemon wrote the journal of its changes, it can read it.
pub(crate) fn reset(args: &Args, reset: &ResetArgs) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("only root can undo changes to the network: run `sudo moorline reset`");
    }
    refuse_if_running(args)?;
    let own = env::current_exe().ok();
    let daemon = find_daemon(own.as_deref(), env::var_os("PATH").as_deref())
        .context("moorlined is neither next to moorline nor on PATH: put it there")?;
    // On success this process becomes the daemon's, and its exit code is ours.
    let error = command(&daemon, reset).exec();
    Err(error).with_context(|| format!("cannot run {}", daemon.display()))
}

fn command(daemon: &Path, reset: &ResetArgs) -> Command {
    let mut command = Command::new(daemon);
    command.arg("--reset");
    let folders = [("--state-dir", &reset.state_dir), ("--pin-dir", &reset.pin_dir)];
    for (option, folder) in folders {
        if let Some(folder) = folder {
            command.arg(option).arg(folder);
        }
    }
    command
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
    #[test]
    fn the_daemon_is_told_its_folders_only_if_they_are_others() {
        let given = |state_dir: Option<&str>, pin_dir: Option<&str>| {
            let [state_dir, pin_dir] = [state_dir, pin_dir].map(|dir| dir.map(PathBuf::from));
            let command = command(Path::new("moorlined"), &ResetArgs { state_dir, pin_dir });
            command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(given(None, None), ["--reset"]);
        assert_eq!(given(Some("/a"), None), ["--reset", "--state-dir", "/a"]);
        assert_eq!(given(None, Some("/b")), ["--reset", "--pin-dir", "/b"]);
    }
}
