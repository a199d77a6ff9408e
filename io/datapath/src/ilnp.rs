//! The kernel data plane of ILNPv6: programs of their own (`bpf/ilnp.bpf.c`), which a host without ILNP does not
//! load.
//!
//! The contract is [`moorline_ilnp::datapath`]. They run in front of the programs of Shim6 on the same interfaces: a
//! packet of an ILNP session is none of Shim6's.

mod plane;

pub use plane::{IlnpDatapath, IlnpSettings, Wanted};
