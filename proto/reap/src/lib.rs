//! Failure detection and locator pair exploration (RFC 5534).
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod config;
mod event;
mod exploration;
mod machine;
mod message;
mod order;
mod random;
mod records;
mod state;
mod timers;

pub use config::*;
pub use event::{Cause, Event};
pub use machine::Machine;
pub use message::{Message, ProbeIn, ProbeOut, Report, Transmit};
pub use state::State;
pub use timers::{Timer, Timers};
