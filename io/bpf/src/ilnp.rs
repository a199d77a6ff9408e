//! The kernel data plane of ILNPv6: programs of their own (`bpf/ilnp.bpf.c`), which a host without ILNP does not
//! load (decision 074).
//!
//! The contract is [`moorline_datapath::ilnp`]. They run in front of the programs of Shim6 on the same interfaces: a
//! packet of an ILNP session is none of Shim6's. Like those, they go on without this process:
//!
//! | table | from | to | written by |
//! |---|---|---|---|
//! | `sessions` | slot, the number of the session | addresses, nonces, deltas of checksums | us, whole and under a lock |
//! | `lives` | slot | times, a nonce that was learned | programs |
//! | `by_pair` | addresses that sockets have | slot | us |
//! | `by_nonce` | identifiers and nonce of what comes | slot | us; programs, of a nonce that they learn |
//! | `by_nids` | identifiers | slots | us |
//! | `remotes` | slot | locators that the correspondent named | us, whole and under a lock |
//! | `uplinks` | locator of ours | its uplink | us |
//! | `candidates` | addresses without a session | when they were reported | programs |
//! | `recent`, `kept`, `shown_last`, `flows_last` | hashes of addresses, slots, nonces, connections | what was found last | programs |
//! | `hops` | hash of a locator pair | its next hop, for a moment | programs |
//! | `bound` | local address | the uplink of that address, if sockets are bound to it | programs; us, of locators that are gone |
//! | `reports`, `controls` | ring buffers: reports, and whole packets for the machine | | programs |
//! | `drops` | reason | count | programs |
//!
//! Packets of moved sessions come to the uplink that they leave by, or take the way to `moor0`, as those of Shim6, but
//! super-packets of TCP leave from either as they are: nothing is added to them that hardware or kernel could not segment. Those of
//! datagrams are segmented behind `moor0`, wherever they come.

mod convert;
mod plane;
mod sessions;
mod settings;

#[cfg(test)]
mod tests;

pub use plane::IlnpDatapath;
pub use settings::IlnpSettings;
