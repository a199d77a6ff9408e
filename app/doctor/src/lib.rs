//! What stops protection on this host, and between it and a peer.
//!
//! **The host.** [`Facts`] are collected once ([`collect`]): kernel, daemon, uplinks, routing rules, firewall.
//! [`examine`] looks for what is wrong in them and nowhere else, so that a test can put any host together.
//! The firewall's rules are walked as a packet would walk them: one of protocol 140 that begins something new,
//! and a Packet Too Big about something that goes on. What a rule asks and the packet does not tell (an address, a
//! mark) makes what follows uncertain, and the finding milder.
//!
//! **The peer.** [`probe::run`] sends test packets on each pair of addresses and says what came of each; a pair's
//! packets are built whole, from the IPv6 header on, so that nothing on this host changes them.
//! [`examine_peer`] says what the verdicts mean.
//!
//! | module | concern |
//! |---|---|
//! | `facts`, `collect` | what is known of the host, and where it comes from |
//! | `checks` | facts to findings |
//! | `firewall` | which rules of nftables drop what Moorline needs |
//! | `icmpv6` | numbers of ICMPv6 messages |
//! | `fix` | rules that open the host's own firewall for Moorline |
//! | `probe` | test packets: made, sent, recognized when they or errors come back |
//! | `unheard` | silence that a firewall of the ends explains |
//! | `ways` | which pairs of addresses are tried with a peer |
//! | `peer` | verdicts to findings |
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
