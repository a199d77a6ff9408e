//! The protocols of a host: Shim6 contexts and ILNP sessions, and which of the two a pair of addresses belongs to.
//!
//! [`Host`] holds [`Contexts`] and [`Sessions`]. It is pure, as they are: packets, reports, answers and the time go in; one ordered
//! stream of [`Effect`]s comes out of [`Host::poll_effect`]. Who executes the effects is another matter: a daemon on Linux, the
//! simulator, a test.
//!
//! ```text
//!   control packets  --> handle_shim6, handle_ilnp                 --+
//!   data planes      --> handle_shim6_report, handle_ilnp_report   --+--> Host --> poll_effect, poll_timeout
//!   addresses, clock --> shim6_mut, ilnp_mut, handle_timeout       --+
//! ```
//!
//! A pair of addresses has a context or a session, not both (decision 071). ILNP asks the peer first. As long as it asks, traffic and
//! an I1 of the peer wait. A context whose payload still goes by its ULIDs makes room for a session. A pair whose payload
//! Shim6 has moved stays with Shim6: ILNP sees neither its traffic nor its sockets.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod effect;
mod host;
mod moved;

#[cfg(test)]
mod tests;

pub use effect::Effect;
pub use host::Host;
pub use moorline_contexts::Contexts;
pub use moorline_ilnp::Machine as Sessions;
