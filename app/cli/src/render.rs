//! What a person reads, from values alone: no clock, no terminal.

mod contexts;
mod events;
mod status;
mod table;
pub mod units;

pub use contexts::contexts;
pub use events::event;
pub use status::status;

#[cfg(test)]
mod tests;
