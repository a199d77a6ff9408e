//! The protocols of a host: Shim6 contexts and ILNP sessions, the owner of each pair of addresses, and the routes and
//! addresses that both protocols need on the host.
//!
//! [`Host`] holds [`Contexts`] and [`Sessions`]. Like them, it is pure. Its inputs are views of the host's links,
//! packets, reports, answers and the time. Its output is one ordered stream of [`Effect`]s from
//! [`Host::poll_effect`]. An executor (a daemon on Linux, the simulator, a test) carries out the effects, and says
//! which of them failed.
//!
//! ```text
//!   links, routers   --> handle_view, handle_advertisement         --+
//!   control packets  --> handle_shim6, handle_ilnp                 --+
//!   data planes      --> handle_shim6_report, handle_ilnp_report   --+--> Host --> poll_effect, poll_timeout
//!   executor         --> handle_done, handle_failed, answer, ...   --+
//!   people, clock    --> shim6_mut, ilnp_mut, handle_timeout       --+
//! ```
//!
//! | module | concern |
//! |---|---|
//! | `host` | inputs of the protocols, and the owner of each pair |
//! | `links` | inputs about links, and their effects |
//! | `following` | keeps rules, addresses, programs and proofs in step with the view |
//! | `health` | uplinks that carry nothing, found by hosts of the operator's choice |
//! | `doubts` | uplinks that carry nothing, found by peers of contexts |
//! | `flaps` | uplinks whose carrier comes and goes |
//! | `uplinks` | moves new connections and sessions away from uplinks that carry nothing |
//! | `batch` | puts outputs of the protocols in an order in which no packet takes a wrong path |
//! | `routing` | the view, and the route of each moved pair |
//! | `path_mtus` | paths that are narrower than the uplinks |
//! | `known` | facts about sessions that the host keeps beside the machine |
//! | `node` | identifiers and locators of ILNP, and the addresses that sessions need |
//! | [`model`] | a model of kernel and data planes, for executors without them |
//! | `moved` | pairs that Shim6 has moved |
//! | `refused` | removals that data planes have refused |
//!
//! A pair of addresses has a context or a session, not both (decision 071). ILNP asks the peer first. As long as it
//! asks, traffic and an I1 of the peer wait. If a context's payload still goes by its ULIDs, the context gives way to
//! a session. A pair whose payload Shim6 has moved stays with Shim6: ILNP sees neither its traffic nor its sockets.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod batch;
mod detours;
mod doubts;
mod effect;
mod flaps;
mod following;
mod health;
mod host;
mod known;
mod links;
pub mod model;
mod moved;
mod node;
mod path_mtus;
mod refused;
mod routing;
mod uplinks;
mod witnesses;

#[cfg(test)]
mod tests;

pub use effect::{Effect, Protocol, SessionAddress};
pub use host::Host;
pub use known::KnownSession;
pub use moorline_contexts::Contexts;
pub use moorline_ilnp::Machine as Sessions;
pub use node::{LocatorRule, Node, Place};
pub use routing::Carriers;
pub use uplinks::Evidence;
