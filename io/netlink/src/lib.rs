//! What the daemon learns from the host and does to it, over netlink.
//!
//! **Learning.** An uplink is an interface, neither the loopback nor ours, that is up, has a global
//! IPv6 address in use and a default route in the main table. [`Netlink::view`] reads all of them as
//! a [`HostView`](moorline_addresses::HostView); [`Netlink::monitor`] keeps a second socket on the link, address and route groups
//! and gives a fresh view with typed [`Change`]s whenever they matter. Notices are only a hint to
//! read again: the state compared is always a whole dump, so a lost notice (ENOBUFS) costs nothing
//! but another dump.
//!
//! **Routers.** [`Netlink::advertisements`] hears what routers say of prefixes: from the kernel, which
//! tells of each it has believed, and on a raw socket, for who said it and where the kernel does not
//! listen. [`AdvertisedPrefixes`](moorline_addresses::AdvertisedPrefixes) keeps what holds. The kernel goes on making addresses of its own; with
//! [`Netlink::ensure_labels`] new connections prefer ours to them.
//!
//! [`Netlink::reachability`] hears which neighbours the kernel has given up, and
//! [`connected_pairs`] asks which addresses the sockets are connected between.
//!
//! [`Netlink::give_up_neighbors`] drops what waits for a router behind a link without a carrier.
//!
//! **Doing.** Everything the daemon changes goes through [`Netlink`], is idempotent, and carries a
//! mark: routes, rules and addresses our protocol number, links our group. A system control cannot bear one, so a label
//! marks its interface before the control is changed, and for as long as it is. So
//! [`Netlink::undo_all`] leaves the host as it was, whether it is called at exit or, after a crash,
//! by another process.
//!
//! **Routing.** These kinds of rules, looked at in this order:
//!
//! | priority | rule | why |
//! |---|---|---|
//! | base | of a socket that is bound to an uplink: go on at base + 2 | its packets may have moved, too |
//! | base + 1 | to leave by an uplink: go on at base + 4 | what the programs redirect there has been to `moor0` |
//! | base + 2 | TCP: table of moved pairs whose TCP has no header | its segments may be as long as ever |
//! | base + 3 | all: table of moved pairs | a moved ULID pair goes to `moor0`, whatever else holds |
//! | base + 4 | all: main table, but not its default routes | connected and specific routes stay in force |
//! | base + 10 + i | from prefix i: table i | RFC 8028: the uplink that the source belongs to, else unreachable |
//! | 32765 | all but TCP: table of unbound routes, `from ::/128` | sockets without an address know the MTU of a path |
//! | 32766 | all: main table | sources that are none of ours |
//!
//! The kernel caches routes in sockets, and a route added to one table does not invalidate what was
//! looked up in another. After such changes an address is put on `moor0` for a moment: taking an
//! IPv6 address away makes the kernel look up every cached route again.

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
pub use reachability::{LostNeighbor, Reachability};
pub use rules::SourceRules;
pub use settings::{LINK_NAMES, MAIN_PRIORITY, MAX_PREFIXES, MOVED_PRIORITY, PREFIX_PRIORITY};
pub use sockets::{ConnectedSocket, connected_pairs, connected_sockets};
pub use undo::Undone;
