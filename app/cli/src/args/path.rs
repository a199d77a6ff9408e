use std::net::Ipv6Addr;

use clap::{Args, Subcommand};
use moorline_api::{Net, Scope};

use super::FormatArgs;

/// What `moorline path` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum PathCommand {
    /// Show the pairs that each context can use, and the rules in force.
    List(FormatArgs),
    /// Use a pair now, once it has answered a probe; it is guarded there as anywhere.
    #[command(alias = "put")]
    Switch(SwitchArgs),
    /// Stay on a pair, or wherever contexts are, while that works: no rule or policy moves them.
    Pin(PinArgs),
    /// Take a pin back.
    Unpin(ScopeArgs),
    /// Use all pairs at once: each flow takes one, or the one that its packet mark (SO_MARK) names.
    Spread(SpreadArgs),
    /// Rather use these pairs: for new contexts, when going back, and in the order of trying.
    Prefer(RuleArgs),
    /// Use these pairs only when no other works.
    Avoid(RuleArgs),
    /// Take `prefer` or `avoid` back.
    Neutral(RuleArgs),
}

/// Which contexts.
#[derive(Clone, Copy, Debug, Args)]
pub struct ScopeArgs {
    /// Number of a context, address or prefix of peers, or `all`.
    #[arg(long = "for", value_name = "SCOPE", default_value = "all")]
    pub scope: Scope,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Whether to spread, and for which contexts.
#[derive(Clone, Copy, Debug, Args)]
pub struct SpreadArgs {
    /// `on` or `off`.
    #[arg(value_parser = clap::builder::BoolishValueParser::new(), action = clap::ArgAction::Set)]
    pub on: bool,
    /// Which contexts.
    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// Which pair, and for which contexts.
#[derive(Clone, Copy, Debug, Args)]
pub struct SwitchArgs {
    /// Our end: the source of what we send.
    pub local: Ipv6Addr,
    /// The peer's end.
    pub peer: Ipv6Addr,
    /// Without --for all contexts that can use the pair.
    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// Which pair, if not the current one, and for which contexts.
#[derive(Clone, Copy, Debug, Args)]
pub struct PinArgs {
    /// Our end; without it contexts stay where they are.
    #[arg(requires = "peer")]
    pub local: Option<Ipv6Addr>,
    /// The peer's end.
    pub peer: Option<Ipv6Addr>,
    /// Which contexts.
    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// Which pairs, and for which contexts. Until the daemon stops; `[[paths]]` in the configuration lasts.
#[derive(Clone, Debug, Args)]
pub struct RuleArgs {
    /// Our end: name of an uplink, an address or a prefix; `any` for all.
    pub local: String,
    /// The peer's end: an address or a prefix; all if left out.
    pub peer: Option<Net>,
    /// Tell peers, so that they send to our addresses accordingly (RFC 5533 s5.15.3).
    #[arg(long)]
    pub tell_peer: bool,
    /// Which contexts.
    #[command(flatten)]
    pub scope: ScopeArgs,
}
