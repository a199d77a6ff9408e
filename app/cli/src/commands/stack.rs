mod client;
mod demo;
mod pcap;
mod protocol;
mod script;
mod sockets;
mod tell;
mod up;
mod wire;

use std::io::Write;
use std::process::ExitCode;

use crate::args::StackCommand;

pub(crate) fn stack(command: &StackCommand, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match command {
        StackCommand::Demo(args) => demo::demo(args, out),
        StackCommand::Wire(args) => wire::wire(args, std::io::stdin().lock(), out),
        StackCommand::Up(args) => up::up(args),
        StackCommand::Ping(args) => client::ping(args, out),
        StackCommand::Echo(args) => client::echo(args, out),
        StackCommand::Nc(args) => client::nc(args, out),
        StackCommand::Fetch(args) => client::fetch(args, out),
        StackCommand::Httpd(args) => client::httpd(args, out),
        StackCommand::Netstat(args) => client::netstat(args, out),
        StackCommand::Ifconfig(args) => client::ifconfig(args, out),
        StackCommand::Route(args) => client::route(args, out),
    }
}
