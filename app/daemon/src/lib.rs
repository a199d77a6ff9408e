//! The Moorline daemon.
//!
//! The daemon is a shell around [`moorline_host::Host`]. It passes control packets, reports of the data planes, views of the
//! kernel and the time to the host, and executes the effects of the host.
//!
//! | module | concern |
//! |---|---|
//! | `args`, `config` | command line, configuration file |
//! | `shell` | main loop: one thread, one task that owns all state |
//! | `effects` | execution of the host's effects: data plane entries, routes, addresses, messages |
//! | `shim6` | Shim6 between core, data plane and network |
//! | `ilnp` | ILNPv6 between core, data plane and network |
//! | `takeover` | takeover of the contexts of the last run, before the daemon is ready or in slices |
//! | `signals` | signals of the service manager |
//! | `claims` | locks: one daemon per state directory, network namespace and pin folder |
//! | `ending` | end of a run: keep everything for the next run, or restore the host |
//! | `addresses` | our addresses: generation, files, configuration of the host, proofs for peers |
//! | `uplinks` | programs on the uplinks, and events of uplinks |
//! | `health` | probes of `uplink-probes` |
//! | `deaf` | interfaces that are no uplinks because this host forwards |
//! | `neighbors` | lost routers |
//! | `moor` | the interfaces `moor0` and `moor1` |
//! | `path_mtu` | path MTU in the routes of moved pairs |
//! | `unbound` | path MTU for sockets without a source address |
//! | `paths` | path requests and rules: switch, pin, prefer, avoid |
//! | `ranker` | order of pairs from an external server |
//! | `triggers` | trigger rules, and reload of the configuration |
//! | `usage` | quiet contexts: whether a socket needs them |
//! | `notice` | notices to TCP after a move, so that TCP retransmits at once |
//! | `introduce` | advertisements of our addresses to routers |
//! | `privileges` | reduction of capabilities after set-up |
//! | `events`, `tell` | journal of events, and their lines in the log |
//! | `server`, `views`, `readiness` | control socket and its answers |
//! | `turns` | lengths of the turns of the event loop |
//! | `troubles` | failed effects that the host tries again |
//! | `store` | files that survive a crash: addresses, contexts, sessions |
#![forbid(unsafe_code)]

mod addresses;
mod args;
mod claims;
mod clock;
mod config;
mod deaf;
mod effects;
mod ending;
mod events;
mod excluded;
mod health;
mod ilnp;
mod introduce;
mod log_limit;
mod moor;
mod neighbors;
mod notice;
mod path_mtu;
mod paths;
mod privileges;
mod ranker;
mod readiness;
mod saving;
mod server;
mod shell;
mod shim6;
mod signals;
mod start;
mod store;
mod survey;
mod takeover;
mod tell;
mod triggers;
mod troubles;
mod turns;
mod unbound;
mod uplinks;
mod usage;
mod views;

pub use args::Args;
pub use config::{
    AddressSettings, Config, CongestionConfig, IlnpConfig, KeySource, RankerConfig, SetSource,
    TriggerConfig,
};
pub use ending::reset;
pub use shell::run;
pub use store::{SavedState, read_addresses};
