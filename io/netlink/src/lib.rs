//! Reads the state of the host's network and changes it, over netlink.
//!
//! **Reading.** An uplink is an interface that is neither the loopback nor ours, is up, and has a global IPv6 address
//! in use and a default route in the main table. [`Netlink::view`] reads all uplinks as a
//! [`HostView`](moorline_addresses::HostView). [`Netlink::monitor`] keeps a second socket on the link, address and
//! route groups, and gives a fresh view with typed [`Change`]s whenever these matter. A notice of the kernel is only
//! a hint to read again: the monitor always compares whole dumps, so a lost notice (ENOBUFS) costs only another dump.
//!
//! **Routers.** [`Netlink::advertisements`] receives the prefixes that routers advertise in two ways. The kernel
//! tells of each prefix that it has accepted. A raw socket tells which router sent it, and hears advertisements that
//! the kernel ignores. [`AdvertisedPrefixes`](moorline_addresses::AdvertisedPrefixes) keeps the prefixes that hold.
//! The kernel goes on making its own addresses; with [`Netlink::ensure_labels`], new connections prefer ours.
//!
//! [`Netlink::reachability`] tells which neighbours the kernel has given up. [`connected_pairs`] lists the address
//! pairs of connected sockets.
//!
//! [`Netlink::give_up_neighbors`] drops packets that wait for a router behind a link without a carrier.
//!
//! **Changing.** Each change of the daemon goes through [`Netlink`], is idempotent, and carries a mark: our protocol
//! number on routes, rules and addresses, our group on links. A system control cannot carry a mark, so a label marks
//! its interface before the control is changed, and as long as it is changed. So [`Netlink::undo_all`] restores the
//! host, whether it is called at exit or, after a crash, by another process.
//!
//! **Routing.** These kinds of rules exist, in this order:
//!
//! | priority | rule | why |
//! |---|---|---|
//! | base | of a socket that is bound to an uplink: go on at base + 2 | its packets may have moved, too |
//! | base + 1 | to leave by an uplink: go on at base + 4 | packets that the programs redirect there have been to `moor0` |
//! | base + 2 | TCP: table of moved pairs whose TCP has no header | its segments may have their full length |
//! | base + 3 | all: table of moved pairs | a moved ULID pair goes to `moor0`, whatever other rules say |
//! | base + 4 | all: no action; on a router with too many routes to follow, main table without its default routes | where base + 1 goes on; there, specific routes stay in force |
//! | 32765 | from a prefix: its table | RFC 8028: the uplink to which the source belongs, else unreachable |
//! | 32765 | all but TCP: table of unbound routes, `from ::/128` | sockets without an address know the MTU of a path |
//! | 32766 | all: main table | other sources |
//!
//! The kernel caches routes in sockets, and a route that is added to one table does not invalidate routes that were
//! found in another. After such a change, an address is put on `moor0` for a moment: when an IPv6 address is removed,
//! the kernel looks up each cached route again.

#![forbid(unsafe_code)]

mod address;
mod advertisements;
mod control;
mod error;
mod ethtool;
mod event;
mod exchange;
mod handle;
mod labels;
mod look;
mod message;
mod monitor;
mod moor;
mod moved;
mod preferred;
mod reachability;
mod row;
mod rules;
mod settings;
mod sockets;
mod unbound;
mod undo;
mod view;

pub use address::AddressSpec;
pub use advertisements::Advertisements;
pub use control::{is_deaf, is_interface};
pub use error::Error;
pub use event::{Change, ChangeKind};
pub use handle::Netlink;
pub use look::{HostRule, Look, Takes, look};
pub use monitor::{Monitor, Notice};
pub use moor::MoorLinks;
pub use reachability::{Neighbor, Reachability};
pub use rules::SourceRules;
pub use settings::{LINK_NAMES, MAIN_PRIORITY, MAX_PREFIXES, MOVED_PRIORITY, PREFIX_PRIORITY};
pub use sockets::{ConnectedSocket, connected_pairs, connected_sockets};
pub use undo::Undone;
