//! What a person reads, from values alone: no clock, no terminal.

mod addr;
mod addresses;
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

#[cfg(test)]
mod tests;
