//! The kernel data plane: loads the eBPF programs of `bpf/`, puts them on interfaces, talks to them.
//!
//! The contract is [`moorline_datapath::shim6`]; the programs carry it out without this process. Everything the
//! core decided is in tables that only this library writes, everything the programs noted in tables that
//! only programs write:
//!
//! | table | from | to | written by |
//! |---|---|---|---|
//! | `by_ulids`, `by_tag` | ULID pair, local tag | slot, the number of the context | us |
//! | `by_quote` | locators and peer tag of what has moved | slot, for ICMPv6 errors | us |
//! | `hash_keys` | | keys of these three | us |
//! | `contexts` | slot | addresses, tags, durations | us, whole and under a lock |
//! | `more_peers` | slot | peer locators beyond the room in `contexts` | us |
//! | `paths` | slot and number | a locator pair besides the current one | us |
//! | `locals` | address | its uplink | us |
//! | `lives` | slot | times, counters | programs |
//! | `segments` | hash of a flow | what its TCP has sent | programs |
//! | `congestions` | slot, if asked for | counters of congestion | programs |
//! | `groups` | slot / 32 | one `bpf_timer` | programs |
//! | `recent` | hash of a ULID pair | slot that was found last | programs |
//! | `ways` | slot | how packets that have moved leave, for a moment | programs |
//! | `origins` | hash of a local tag | what packets with the tag come with | programs |
//! | `hops` | hash of a locator pair | its next hop, for a moment | programs |
//! | `bound` | local address | the uplink of that address, if sockets are bound to it | programs; us, of addresses that are gone |
//! | `flows` | address pair | octets, age: the trigger | programs |
//! | `rules` | number | a trigger rule: two sets, one in force | us |
//! | `senders` | port | cgroups of the socket that sent from it last | programs |
//! | `reports` | ring buffer to the core | | programs |
//! | `drops` | reason | count | programs |
//!
//! Moved traffic takes the way over the veth pair `moor0` and `moor1`, where the kernel segments it: the program on `moor1`
//! puts the payload header in and redirects to the uplink. What is no super-packet gets that on `moor0` already. Whoever moves a context should
//! make the route to `moor0` first and take it away last: what comes over `moor1` without being moved leaves
//! as it is, but a super-packet of a moved context at an uplink can only be dropped and counted.
//!
//! TCP that has come in and lost its header goes the other way over the pair, from `moor1` to `moor0`, where the kernel puts
//! segments together (GRO), and from there to the ingress of its uplink once more, as payload that has not moved.
//!
//! [`StalledSockets`] is apart from all that: a program of its own, run on demand, lists the TCP sockets
//! that wait for a retransmission timer.

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

pub use datapath::Datapath;
pub use error::{Error, Result};
pub use settings::{AttachMode, Settings};
pub use stalled::{StalledSocket, StalledSockets};
