//! The kernel data plane of ILNPv6: separate programs (`bpf/ilnp.bpf.c`), which a host without ILNP does not load
//! (decision 074).
//!
//! The contract is [`moorline_datapath::ilnp`]. The programs run in front of those of Shim6 on the same interfaces:
//! Shim6 does not handle packets of ILNP sessions. They too stay at work without this process:
//!
//! | table | from | to | written by |
//! |---|---|---|---|
//! | `sessions` | slot: the number of the session | addresses, nonces, deltas of checksums | this library, whole and under a lock |
//! | `lives` | slot | times, a nonce that was learned | programs |
//! | `by_pair` | addresses of sockets | slot | this library |
//! | `by_nonce` | identifiers and nonce in received packets | slot | this library; programs, if they learn a nonce |
//! | `by_nids` | identifiers | slots | this library |
//! | `remotes` | slot | locators that the correspondent named | this library, whole and under a lock |
//! | `uplinks` | locator of this host | its uplink | this library |
//! | `candidates` | addresses without a session | time of the last report | programs |
//! | `segments`, `labels` | hash of a flow | last segment of its TCP; flow label of the datagrams that answer it | programs |
//! | `fragments` | addresses and Identification of a first fragment from another locator | slot | programs |
//! | `recent`, `kept`, `shown_last`, `flows_last` | hashes of addresses, slots, nonces, connections | sessions that were found last | programs |
//! | `hops` | hash of a locator pair | cache: its next hop | programs |
//! | `bound` | local address | the uplink of that address, if sockets are bound to it | programs; this library removes locators that are gone |
//! | `reports`, `controls` | ring buffers: reports, and whole packets for the machine | | programs |
//! | `drops` | reason | count | programs |
//!
//! Packets of moved sessions come to the uplink by which they leave, or to `moor0`, like those of Shim6.
//! Super-packets of TCP leave from either without segmentation: the programs add nothing that hardware or kernel
//! could not segment. Super-packets of datagrams are segmented behind `moor0`, wherever they come from.

mod convert;
mod plane;
mod sessions;
mod settings;

#[cfg(test)]
mod tests;

pub use plane::IlnpDatapath;
pub use settings::IlnpSettings;
