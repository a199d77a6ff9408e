use super::programs::find_program;
use crate::args::LabArgs;
use anyhow::Context;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Replaces this process by `moorline-lab`. That program has demo, simulator and experiments, which a server does not need.
pub(crate) fn lab(command: Option<&str>, args: &LabArgs) -> anyhow::Result<ExitCode> {
    let program = find_program("moorline-lab").context(
        "demo, simulator and experiments are a program of their own, moorline-lab, which is neither next to moorline nor on \
         PATH: in the source tree, `make build` makes it and `make install-lab` installs it",
    )?;
    let error = Command::new(&program).args(command).args(&args.args).exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
