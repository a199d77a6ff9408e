//! An IPv6 host in user space whose connections survive when an ISP fails: the host stack of [`moorline_stack`], with the
//! protocols of [`moorline_host`] and the data plane of [`moorline_plane`] beneath it.
//!
//! ```text
//!        sockets: UDP, TCP, Echo                                      Stack
//!          | source address, path MTU, fragments       ^
//!          v                                           |
//!        Planes (ILNP, Shim6): ULIDs become locators, and back        <--> moorline_host::Host: sessions, contexts, REAP, HBAs
//!          | next hop by source (RFC 8028), neighbor   ^ filter by address
//!          v                                           |              Stack
//!        frames of the wires
//! ```
//!
//! A [`Host`] is driven like a [`Stack`](moorline_stack::stack::Stack), by functions with the same names. It has no clock, socket
//! or randomness of its own: equal seeds and inputs give equal frames.
//!
//! | module | concern |
//! |---|---|
//! | `host` | inputs and outputs, and the order between the parts |
//! | `sockets` | the calls on sockets, and what ILNP asks about them |
//! | `packets` | packets between the upper layers and the wires |
//! | `routers` | routers that do not answer |
//! | `view` | the links of the stack, as [`moorline_host::Host`] wants to see them |
//! | `effects` | executes the effects of [`moorline_host::Host`] on the stack and the planes |
//! | [`world`] | links, routers and ISPs in virtual time, for tests and demonstrations |
//!
//! **Addresses.** The stack makes a link-local address. All global ones are hash-based addresses (RFC 5535) over the
//! prefixes that routers have advertised in the first seconds. If another node has one of them, the host raises the collision
//! count of the set, at most twice.
//!
//! **ILNP.** With [`Config::ilnp`] the interface identifiers of these addresses are identifiers, and the prefixes are locators. A
//! session needs an address for its identifier at each locator. These addresses are deprecated and optimistic (RFC 4429), and neither
//! ULIDs nor locators of Shim6.
//!
//! **Path MTU.** The path of a pair of ULIDs that has moved is the path of its locators, less the octets of the payload header or the
//! nonce. A Packet Too Big about a packet with a payload header or nonce lowers it (RFC 5533 s8).
//!
//! **TCP** is told of each move: it sends what is unacknowledged at once on the new pair of locators. Its word that the
//! peer is reachable confirms the router of the locators, not that of the ULIDs.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod config;
mod effects;
mod host;
mod packets;
mod routers;
mod sockets;
mod view;
pub mod world;

pub use config::Config;
pub use host::{Host, MAX_NEWS, News, Saved};
