use super::doctor::{Closing, close_firewall};
use super::programs::find_program;
use crate::args::{Args, DownArgs};
use anyhow::{Context, bail};
use moorline_api::{BlockingClient, Client, Down, EventsQuery};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};

/// Runs `moorline down`: tells a running daemon to restore the host and end. Then `moorlined --reset` removes the remaining
/// changes, which it finds by their marks. Last, the command removes the rules of `moorline doctor --fix` from the firewall.
///
/// The command writes nothing to `out` before the host is restored: a closed output or a full disk would stop the command
/// half-way.
pub(crate) fn down(args: &Args, down: &DownArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("only root can undo changes to the network: run `sudo moorline down`");
    }
    let daemon = find_program("moorlined")
        .context("moorlined is neither next to moorline nor on PATH: put it there")?;
    let folders = match end_running(args)? {
        Some(Down { state_dir, pin_dir }) => {
            DownArgs { state_dir: Some(state_dir), pin_dir: Some(pin_dir) }
        }
        None => {
            tell_of_folders(&args.socket, down);
            down.clone()
        }
    };
    let status = command(&daemon, &args.socket, &folders)
        .status()
        .with_context(|| format!("cannot run {}", daemon.display()))?;
    if !status.success() {
        // A daemon that does not answer may still run, and needs these rules for its messages.
        tell(
            "rules of `moorline doctor --fix`, if there are any, stay until `moorline down` succeeds",
        );
        return Ok(exit_code(status));
    }
    match close_firewall() {
        Ok(Closing::Closed) => {
            writeln!(out, "The rules of `moorline doctor --fix` are gone from the firewall.")?;
        }
        Ok(Closing::NothingToClose) => {}
        Ok(Closing::Unread(why)) => tell(&format!(
            "the firewall could not be read: {why}. If `moorline doctor --fix` has opened it, its rules stay"
        )),
        Err(error) => {
            tell(&format!("rules of `moorline doctor --fix` stay: {error:#}"));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which folders a command looks in that no daemon has told.
fn tell_of_folders(socket: &Path, down: &DownArgs) {
    if down.state_dir.is_none() || down.pin_dir.is_none() {
        tell(&format!(
            "no daemon answers on {}: what a killed one left is undone, if its folders were the usual ones. Others are \
             named with --state-dir and --pin-dir",
            socket.display()
        ));
    }
}

/// Writes a line to standard error, and ignores errors; `eprintln!` would panic.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "moorline: {line}");
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

fn command(daemon: &Path, socket: &Path, folders: &DownArgs) -> Command {
    let mut command = Command::new(daemon);
    command.arg("--reset").arg("--socket").arg(socket);
    let folders = [("--state-dir", &folders.state_dir), ("--pin-dir", &folders.pin_dir)];
    for (option, folder) in folders {
        if let Some(folder) = folder {
            command.arg(option).arg(folder);
        }
    }
    command
}

/// Ends the running daemon. Returns the daemon's folders; none if no daemon answered.
fn end_running(args: &Args) -> anyhow::Result<Option<Down>> {
    let events = BlockingClient::new(Client::new(&args.socket))?;
    let query = EventsQuery { since: Some(u64::MAX), follow: Some(true) };
    let coming = match events.events(query) {
        Ok(coming) => coming,
        // No daemon runs, or a daemon runs without an answer. In the second case the daemon holds the lock, and `moorlined
        // --reset` names its pid.
        Err(_) => return Ok(None),
    };
    let folders = BlockingClient::new(Client::new(&args.socket))?.down()?;
    // Wait for the end of the daemon: the event stream ends with the process.
    coming.for_each(drop);
    Ok(Some(folders))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn the_daemon_is_told_its_socket_and_its_folders_only_if_they_are_others() {
        let given = |state_dir: Option<&str>, pin_dir: Option<&str>| {
            let [state_dir, pin_dir] = [state_dir, pin_dir].map(|dir| dir.map(PathBuf::from));
            let command =
                command(Path::new("moorlined"), Path::new("/s"), &DownArgs { state_dir, pin_dir });
            command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(given(None, None), ["--reset", "--socket", "/s"]);
        assert_eq!(given(Some("/a"), None), ["--reset", "--socket", "/s", "--state-dir", "/a"]);
        assert_eq!(given(None, Some("/b")), ["--reset", "--socket", "/s", "--pin-dir", "/b"]);
    }
}
