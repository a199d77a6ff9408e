//! The kernel data plane: loads the eBPF programs of `bpf/`, attaches them to interfaces, and exchanges data with
//! them.
//!
//! The contract is [`moorline_datapath::shim6`]; the programs execute it without this process. Only this library
//! writes the tables with decisions of the core. Only programs write the tables with their notes:
//!
//! | table | from | to | written by |
//! |---|---|---|---|
//! | `by_ulids`, `by_tag` | ULID pair, local tag | slot: the number of the context | this library |
//! | `by_quote` | locators and peer tag of contexts that have moved | slot, for ICMPv6 errors | this library |
//! | `hash_keys` | | keys of these three | this library |
//! | `contexts` | slot | addresses, tags, durations | this library, whole and under a lock |
//! | `more_peers` | slot | peer locators beyond the room in `contexts` | this library |
//! | `paths` | slot and number | a locator pair besides the current one | this library |
//! | `locals` | address | its uplink | this library |
//! | `lives` | slot | times, counters | programs |
//! | `segments` | hash of a flow | last segment of its TCP | programs |
//! | `labels` | hash of a flow | flow label of the datagrams that answer it | programs |
//! | `congestions` | slot, if asked for | counters of congestion | programs |
//! | `groups` | slot / 32 | one `bpf_timer` | programs |
//! | `recent` | hash of a ULID pair | slot that was found last | programs |
//! | `ways` | slot | cache: how packets of a moved context leave | programs |
//! | `origins` | hash of a local tag | cache: how packets with the tag arrive | programs |
//! | `hops` | hash of a locator pair | cache: its next hop | programs |
//! | `bound` | local address | the uplink of that address, if sockets are bound to it | programs; this library removes addresses that are gone |
//! | `flows` | address pair | octets, age: the trigger | programs |
//! | `rules` | number | a trigger rule: two sets, one in force | this library |
//! | `senders` | port | cgroups of the socket that last sent from it | programs |
//! | `reports` | ring buffer to the core | | programs |
//! | `drops` | reason | count | programs |
//!
//! Super-packets of moved traffic go over the veth pair `moor0` and `moor1`, where the kernel segments them: the
//! program on `moor1` inserts the payload header and redirects to the uplink. On `moor0`, the program does so for
//! packets that are no super-packets. If routes lead moved traffic to `moor0`, the caller should make such a route
//! before the context moves, and remove it after the context has moved back: a packet of a context that has not moved
//! leaves `moor1` as it is. If there is no segmentation path, a super-packet of a moved context at an uplink is
//! dropped and counted.
//!
//! Received TCP segments without their header go over the pair in the other direction, from `moor1` to `moor0`, where
//! the kernel merges them (GRO). From there they go to the ingress of their uplink again, as payload that has not
//! moved.
//!
//! [`StalledSockets`] is independent of this: its own program, run on demand, lists the TCP sockets that wait for a
//! retransmission timer.

mod attach;
mod bound;
mod contexts;
mod control;
mod convert;
mod datapath;
mod error;
pub mod ilnp;
mod index;
mod load;
mod pins;
mod plain;
mod qdisc;
mod reports;
mod rings;
mod settings;
mod skel;
mod stalled;
mod tables;

#[cfg(test)]
mod tests;

pub use contexts::LeftContexts;
pub use datapath::Datapath;
pub use error::{Error, Result};
pub use settings::{AttachMode, Settings};
pub use stalled::{StalledSocket, StalledSockets};
