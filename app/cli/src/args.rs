mod addr;
#[cfg(feature = "dns")]
mod ilnp;
mod path;
mod stack;
mod stack_control;

pub(crate) use addr::{
    AddrCommand, BenchArgs, ConvertArgs, Form, GenerateArgs, KeyCommand, KeyGenerateArgs,
    KeyImportArgs, KeyShowArgs, ShowArgs, VerifyArgs,
};
#[cfg(feature = "dns")]
pub(crate) use ilnp::{DnsRecordsArgs, IlnpCommand, IlnpRecordsArgs, LookupArgs};
pub(crate) use path::{PathCommand, RuleArgs};
pub(crate) use stack::{AddressForm, DemoArgs, StackCommand, WireArgs};
pub(crate) use stack_control::{
    EchoArgs, FetchArgs, HttpdArgs, NcArgs, NetstatArgs, PingArgs, ShowStackArgs, UpArgs,
};

use clap::{Parser, Subcommand};
use moorline_api::{DEFAULT_SOCKET, SOCKET_ENV};
use std::ffi::OsString;
use std::path::PathBuf;

/// Keeps connections alive while the addresses under them change.
#[derive(Clone, Debug, Parser)]
#[command(name = "moorline", version, max_term_width = 100)]
pub struct Args {
    /// Socket of the daemon.
    #[arg(long, global = true, value_name = "PATH", env = SOCKET_ENV, default_value = DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `moorline` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show the daemon at a glance: uplinks, contexts, drops, warnings.
    Status(FormatArgs),
    /// Show every context: its addresses, the pair in use, why and since when.
    Contexts(FormatArgs),
    /// Show ILNP's correspondents: identifiers, locators, state, why admitted; to root, nonces.
    Ilcc(FormatArgs),
    /// Show what happened, oldest first.
    Events(EventsArgs),
    /// Show and choose the pairs of addresses that contexts use.
    #[command(subcommand)]
    Path(PathCommand),
    /// Print the AAAA records that peers need to reach this host at addresses that can move.
    ///
    /// Connections to this host are protected if they are made to one of these addresses. They are lines of a zone
    /// file; addresses that prove nothing are left out, with the reason as a comment. Ends with 1 if there is none.
    #[cfg(feature = "dns")]
    DnsRecords(DnsRecordsArgs),
    /// Tell the DNS of this host's ILNP identifiers and locators, and look peers up (RFC 6742).
    #[cfg(feature = "dns")]
    #[command(subcommand)]
    Ilnp(IlnpCommand),
    /// Say what stops protection on this host, or between it and a peer, and what to do.
    ///
    /// Looks at uplinks, addresses, routing rules, the firewall, the kernel and the daemon. With a peer (as root)
    /// sends it test packets from each of our addresses to each of its own that are known: plain, of protocol
    /// 140, with options, in fragments, of several sizes; where ILNP is on, of its ICMPv6 types. That takes a few seconds, up to a minute where much is
    /// lost. Ends with 0 if nothing stops protection, 1 if something does, 2 if it could not look.
    Doctor(DoctorArgs),
    /// End Moorline on this host: stop the daemon and undo every change (as root).
    ///
    /// Asks a running daemon to restore the host and to end. Without one, undoes what an earlier run left behind: a daemon that was
    /// stopped or killed leaves everything in place for the next run.
    #[command(alias = "reset")]
    Down(DownArgs),
    /// Show a TCP transfer that survives the death of its ISP, and one that does not (a part of moorline-lab).
    Demo(LabArgs),
    /// Play networks that fail in the simulator: the same seed gives the same run (a part of moorline-lab).
    Sim(LabArgs),
    /// Make, verify and show addresses that prove whose they are.
    #[command(subcommand)]
    Addr(AddrCommand),
    /// Make, show and import the keys of such addresses.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Run an IPv6 host in a process (docs/stack.md).
    #[command(subcommand)]
    Stack(StackCommand),
    /// Carry out experiments that measure Moorline, and plot them (a part of moorline-lab).
    Lab(LabArgs),
}

/// Arguments that go to `moorline-lab` as they are.
#[derive(Clone, Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct LabArgs {
    /// Its arguments; `--help` shows them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub args: Vec<OsString>,
}

/// How to show it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct FormatArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Which events, and how to show them.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct EventsArgs {
    /// Go on with events as they happen, until Ctrl-C.
    #[arg(long, short)]
    pub follow: bool,
    /// Only events after this number.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub since: u64,
    /// Print one JSON object per line.
    #[arg(long)]
    pub json: bool,
}

/// What to look at, and how to show it.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorArgs {
    /// Address or name of a peer to try.
    pub peer: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Open this host's firewall for what Moorline needs: show the commands, ask, run them, and look again (as root).
    #[arg(long, conflicts_with_all = ["json", "peer"])]
    pub fix: bool,
    /// Take out the rules that --fix has put in (as root).
    #[arg(long, conflicts_with_all = ["json", "peer", "fix"])]
    pub unfix: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
}

/// Where the daemon kept what is to be undone, if it was started with other folders and does not run.
#[derive(Clone, Debug, clap::Args)]
pub struct DownArgs {
    /// `--state-dir` of the daemon.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// `--pin-dir` of the daemon.
    #[arg(long, value_name = "DIR")]
    pub pin_dir: Option<PathBuf>,
}
