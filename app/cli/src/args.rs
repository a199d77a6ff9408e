mod addr;
#[cfg(feature = "dns")]
mod dns_records;
#[cfg(feature = "dns")]
mod ilnp;
mod lab;
mod path;

pub(crate) use addr::{
    AddrCommand, BenchArgs, ConvertArgs, Form, GenerateArgs, KeyCommand, KeyGenerateArgs,
    KeyImportArgs, KeyShowArgs, ShowArgs, VerifyArgs,
};
#[cfg(feature = "dns")]
pub(crate) use dns_records::DnsRecordsArgs;
#[cfg(feature = "dns")]
pub(crate) use ilnp::{IlnpCommand, IlnpRecordsArgs, LookupArgs};
pub(crate) use lab::{ExperimentArgs, LabCommand, LoadArgs, ReportArgs, RunArgs};
pub(crate) use path::{PathCommand, RuleArgs};

use clap::{Parser, Subcommand};
use moorline_api::{DEFAULT_SOCKET, SOCKET_ENV};
use moorline_lab::demo::{DemoOptions, Protocol};
use std::path::PathBuf;
use std::time::Duration;

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
    /// Show a TCP transfer that survives the death of its ISP, and one that does not.
    ///
    /// Two hosts with two ISPs each are made out of network namespaces; nothing of this machine's
    /// network is touched. Needs root; without it the simulator runs the same scenario.
    Demo(DemoArgs),
    /// Play networks that fail in the simulator: the same seed gives the same run.
    ///
    /// Networks, traffic and failures are made up from the seed, or come from a plan. Each run is held
    /// against what Moorline promises; one that breaks a rule is told, and a single one is shown as a
    /// message sequence chart. Ends with 1 if a rule was broken.
    Sim(SimArgs),
    /// Make, verify and show addresses that prove whose they are.
    #[command(subcommand)]
    Addr(AddrCommand),
    /// Make, show and import the keys of such addresses.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Carry out experiments that measure Moorline, and plot them.
    #[command(subcommand)]
    Lab(LabCommand),
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

/// How to run the demo.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct DemoArgs {
    /// What keeps the connections alive: shim6, over an ISP that dies silently, or ilnp, on a host that is cut off from its
    /// ISP.
    #[arg(long, value_name = "PROTOCOL", default_value_t)]
    pub protocol: Protocol,
    /// Silence that counts as failure (RFC 5534: Send Timeout); of no account for ilnp.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = send_timeout)]
    pub send_timeout: Duration,
    /// Octets a second of each program, for machines that are slow or emulated.
    #[arg(long, value_name = "OCTETS", default_value_t = DemoOptions::RATE, hide = true)]
    pub rate: u64,
    /// Use the simulator even where the real thing could run.
    #[arg(long)]
    pub simulated: bool,
    /// Print the result as one JSON object, and nothing while it runs.
    #[arg(long)]
    pub json: bool,
}

/// What to simulate.
#[derive(Clone, Debug, clap::Args)]
pub struct SimArgs {
    /// How many runs.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub seeds: u64,
    /// Seed of the first; the next ones count up.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub first_seed: u64,
    /// Play this plan (TOML, see docs/simulator.md) with each seed, not one made up from it.
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Print the plan of the first seed as TOML, to change it and play it again; plays nothing.
    #[arg(long, conflicts_with_all = ["json", "trace", "mermaid"])]
    pub print_plan: bool,
    /// Print the message sequence chart of the first seed even if it broke no rule.
    #[arg(long, conflicts_with = "json")]
    pub trace: bool,
    /// Print charts as Mermaid.
    #[arg(long, conflicts_with = "json")]
    pub mermaid: bool,
    /// Print the result as one JSON object, and nothing while it runs.
    #[arg(long)]
    pub json: bool,
}

/// A Send Timeout that the daemon takes too.
fn send_timeout(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write for example 500ms"))?;
    if (Duration::from_millis(200)..=Duration::from_secs(100)).contains(&span) {
        Ok(span)
    } else {
        Err("outside 200ms to 100s".into())
    }
}
