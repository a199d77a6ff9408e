use super::doctor::close_firewall;
use super::programs::find_program;
use crate::args::{Args, DownArgs};
use anyhow::{Context, bail};
use moorline_api::{BlockingClient, Client, Down, EventsQuery};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Has a running daemon restore the host and end, then runs `moorlined --reset` for what is left: the daemon wrote the journal
/// of its changes, it can read it. Takes the rules of `moorline doctor --fix` out of the firewall, too.
pub(crate) fn down(args: &Args, down: &DownArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    if !rustix::process::geteuid().is_root() {
        bail!("only root can undo changes to the network: run `sudo moorline down`");
    }
    let folders = match end_running(args)? {
        Some(Down { state_dir, pin_dir }) => {
            DownArgs { state_dir: Some(state_dir), pin_dir: Some(pin_dir) }
        }
        None => down.clone(),
    };
    // After the daemon: until then the rules let its messages in.
    match close_firewall() {
        Ok(true) => {
            writeln!(out, "The rules of `moorline doctor --fix` are gone from the firewall.")?;
            out.flush()?;
        }
        Ok(false) => {}
        Err(error) => eprintln!("moorline: rules of `moorline doctor --fix` stay: {error:#}"),
    }
    let daemon = find_program("moorlined")
        .context("moorlined is neither next to moorline nor on PATH: put it there")?;
    // On success this process becomes the daemon's, and its exit code is ours.
    let error = command(&daemon, &args.socket, &folders).exec();
    Err(error).with_context(|| format!("cannot run {}", daemon.display()))
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

/// The folders of the daemon that has ended; none if there was no daemon.
fn end_running(args: &Args) -> anyhow::Result<Option<Down>> {
    let events = BlockingClient::new(Client::new(&args.socket))?;
    let query = EventsQuery { since: Some(u64::MAX), follow: Some(true) };
    let coming = match events.events(query) {
        Ok(coming) => coming,
        // Nobody is there; or a daemon that does not answer, but holds the lock: `moorlined --reset` names its pid.
        Err(_) => return Ok(None),
    };
    let folders = BlockingClient::new(Client::new(&args.socket))?.down()?;
    // The stream ends with the process.
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
