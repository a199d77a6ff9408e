//! Command line of `moorline-lab`.

#[cfg(test)]
mod tests;

use crate::demo::DemoOptions;
use crate::experiment::Choice;
use crate::load::Load;
use crate::soak::Soak;
use clap::{Parser, Subcommand};
use std::path::PathBuf;

/// Demo, simulator and experiments of Moorline.
#[derive(Clone, Debug, Parser)]
#[command(name = "moorline-lab", version, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `moorline-lab` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
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
    /// List the experiments.
    List(FormatArgs),
    /// Carry out an experiment and print what was measured.
    Run(RunArgs),
    /// Send the traffic of correspondents of ILNPv6, real and made up, into the network of a lab (as root).
    ///
    /// The generator of the ILCC study: echo requests from a fixed source, and datagrams of which each has
    /// another identifier, all with a Nonce option and the checksum of ILNP. It goes into network namespaces of
    /// labs and nowhere else; without --from, into one made for it.
    Load(LoadArgs),
    /// Send random but valid sequences of messages of both protocols to a daemon, and watch what it keeps (as root).
    ///
    /// In network namespaces: a daemon with both protocols, a connection to another host whose uplinks fail, and
    /// nodes that talk to the daemon, real ones and made-up ones. Ends with 1 if the daemon gives more to who has
    /// proved nothing than came from there, if its memory grows, if its event loop stands still, or if the
    /// connection does. Watched by the clock, so nothing else should run on the machine.
    Soak(SoakArgs),
    /// Make one page, report.html, of the results in a folder.
    Report(ReportArgs),
}

/// How to show it.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct FormatArgs {
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Where the results are.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// The folder that experiments were told with --out; the page goes there too.
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Print where the page is and what is in it as a JSON object.
    #[arg(long)]
    pub json: bool,
}

/// Which experiment, and where its results go.
#[derive(Clone, Debug, clap::Args)]
pub struct RunArgs {
    /// Print the results as one JSON object.
    #[arg(long, global = true)]
    pub json: bool,
    /// Write NAME.json and the plot, NAME.svg, into this folder.
    #[arg(long, global = true, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Which.
    #[command(subcommand)]
    pub experiment: Choice,
}

/// How to run the demo.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct DemoArgs {
    #[allow(missing_docs, reason = "the text would take the place of the command's in the help")]
    #[command(flatten)]
    pub options: DemoOptions,
    /// Use the simulator even where the real thing could run.
    #[arg(long)]
    pub simulated: bool,
    /// Print the result as one JSON object, and nothing while it runs.
    #[arg(long)]
    pub json: bool,
}

/// What to send.
#[derive(Clone, Debug, clap::Args)]
pub struct LoadArgs {
    #[allow(missing_docs, reason = "the text would take the place of the command's in the help")]
    #[command(flatten)]
    pub load: Load,
    /// Print what was sent as a JSON object.
    #[arg(long)]
    pub json: bool,
}

/// How long to soak, and with which messages.
#[derive(Clone, Debug, clap::Args)]
pub struct SoakArgs {
    #[allow(missing_docs, reason = "the text would take the place of the command's in the help")]
    #[command(flatten)]
    pub soak: Soak,
    /// Print the result as one JSON object.
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
    /// Some or all hosts of made-up plans speak ILNP beside Shim6.
    #[arg(long, conflicts_with = "plan")]
    pub ilnp: bool,
    /// Some or all hosts of made-up plans are host stacks in a process, with their own TCP and UDP.
    #[arg(long, conflicts_with_all = ["plan", "ilnp"])]
    pub stacks: bool,
    /// A host's own addresses beside a host without Moorline, on links whose routers, carriers and people change.
    #[arg(long, conflicts_with_all = ["plan", "ilnp", "stacks", "print_plan", "mermaid"])]
    pub addresses: bool,
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
