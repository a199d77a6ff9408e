//! The Moorline daemon.
//!
//! A shell around [`moorline_contexts::Contexts`]: it feeds the machine with control packets, reports of the
//! data plane, changes of the host's addresses and the time, and carries out what comes back.
//!
//! | module | concern |
//! |---|---|
//! | `args`, `config` | command line, configuration file |
//! | `shell` | the main loop: one thread, one task that owns everything |
//! | `shim6` | Shim6 between core, data plane and network |
//! | `ilnp` | ILNPv6 between core, data plane and network |
//! | `signals` | what the service manager wants |
//! | `claims` | what one daemon alone may use: state directory, network namespace |
//! | `ending` | how a run ends: keeping everything for the next run, restoring the host |
//! | `addresses` | our addresses: made, kept on disk, put on the host, proved to peers |
//! | `uplinks` | programs on the uplinks, and what is told of them |
//! | `protect` | carries out updates: data plane entries, routes, kept ULIDs |
//! | `path_mtu` | has the routes of moved pairs know the MTU of a path |
//! | `unbound` | has sockets without an address know the MTU of a path |
//! | `paths` | what people and programs want of paths: put, pin, prefer, avoid |
//! | `ranker` | asks somebody outside for the order of pairs |
//! | `triggers` | which traffic earns a context, read again while running |
//! | `notice` | has TCP go on at once after a move |
//! | `introduce` | has routers know our addresses before they need them |
//! | `privileges` | gives up what is not needed once all is set up |
//! | `events`, `server` | journal of events, control socket |
//! | `store` | what survives a crash: addresses, contexts, sessions |
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
mod moor;
mod neighbors;
mod notice;
mod path_mtu;
mod paths;
mod privileges;
mod ranker;
mod readiness;
mod server;
mod shell;
mod shim6;
mod signals;
mod store;
mod tell;
mod triggers;
mod troubles;
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
