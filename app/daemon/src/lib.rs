//! The Moorline daemon.
//!
//! A shell around [`moorline_host::Host`]: it feeds the machine with control packets, reports of the
//! data plane, changes of the host's addresses and the time, and carries out what comes back.
//!
//! | module | concern |
//! |---|---|
//! | `args`, `config` | command line, configuration file |
//! | `shell` | the main loop: one thread, one task that owns everything |
//! | `uplinks` | follows links, addresses and routes |
//! | `local` | the HBA set: what the host machine is told of our side |
//! | `protect` | carries out updates: data plane entries, routes, kept ULIDs |
//! | `privileges` | gives up what is not needed once all is set up |
//! | `events`, `server` | journal of events, control socket |
//! | `store` | what survives a crash: HBA set, contexts |
#![forbid(unsafe_code)]

mod args;
mod clock;
mod config;
mod events;
mod local;
mod privileges;
mod protect;
mod server;
mod shell;
mod store;
mod uplinks;
mod views;

pub use args::Args;
pub use config::{AddressMode, Config};
pub use shell::{reset, run};
