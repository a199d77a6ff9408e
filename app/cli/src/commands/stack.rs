mod pcap;
mod script;
mod sockets;
mod tell;
mod wire;

use std::io::Write;
use std::process::ExitCode;

use crate::args::StackCommand;

pub(crate) fn stack(command: &StackCommand, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match command {
        StackCommand::Wire(args) => wire::wire(args, std::io::stdin().lock(), out),
    }
}
