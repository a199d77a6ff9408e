//! Diagnosis: causes that prevent protection on this host, and between this host and a peer.
//!
//! **The host.** [`collect`] reads all [`Facts`] once: kernel, daemon, uplinks, routing rules, firewall. [`examine`] makes
//! findings from these facts alone, so a test can describe any host. The examination walks the firewall's rules with model
//! packets: a new and an established message of protocol 140, and a Packet Too Big of an established flow. If a rule matches
//! on a property that the model packet does not have (an address, a mark), the result is uncertain, and the finding is less
//! severe.
//!
//! **The peer.** [`probe::run`] sends test packets on each pair of addresses and returns a verdict for each. The program
//! builds each packet from the IPv6 header on, so that this host does not change it. [`examine_peer`] makes findings from
//! the verdicts.
//!
//! | module | concern |
//! |---|---|
//! | `facts`, `collect` | facts about the host, and their sources |
//! | `checks` | findings from facts |
//! | `firewall` | rules of nftables that drop packets of Moorline |
//! | `icmpv6` | numbers of ICMPv6 messages |
//! | `fix` | rules that open the host's own firewall for Moorline |
//! | `probe` | test packets: construction, sending, matching of answers and errors |
//! | `unheard` | missing answers that a firewall of this host or the peer explains |
//! | `ways` | pairs of addresses to test with a peer |
//! | `peer` | findings from verdicts |
#![forbid(unsafe_code)]

mod checks;
mod collect;
mod facts;
mod finding;
mod firewall;
mod fix;
mod icmpv6;
mod peer;
pub mod probe;
mod unheard;
mod ways;

pub use checks::examine;
pub use collect::{collect, firewall};
pub use facts::{Answers, Daemon, Facts, Firewall, Kernel};
pub use finding::{Finding, Report, Severity};
pub use fix::{COMMENT, Fix, fixes, undoing};
pub use peer::{examine_peer, explain_half_open};
pub use unheard::explain_silence;
pub use ways::ways;
