//! Text output for people. The functions depend on values alone: no clock, no terminal.

mod addr;
mod addresses;
mod cause;
mod contexts;
mod doctor;
mod events;
mod ilcc;
#[cfg(feature = "dns")]
mod ilnp;
mod paths;
mod status;

pub(crate) use addr::{generated, key, params, progress, rates, verdict};
pub use addresses::addresses;
pub use contexts::contexts;
pub use doctor::doctor;
pub use events::event;
pub use ilcc::ilcc;
#[cfg(feature = "dns")]
pub use ilnp::found;
pub use paths::{path_answer, paths};
pub use status::status;

use moorline_api::{Pair, Proof};
use std::fmt::Display;

/// Formats a cell with a line for each element.
fn lines<T>(all: &[T], line: impl FnMut(&T) -> String) -> String {
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Formats a cell with both ends of a pair.
fn ends(pair: Pair) -> String {
    format!("{}\n{}", pair.local, pair.peer)
}

fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Formats the proof of an address, and whether the address is temporary.
fn proof(proof: &Proof, temporary: bool) -> String {
    if temporary { format!("{proof}, temporary") } else { proof.to_string() }
}

fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests;
