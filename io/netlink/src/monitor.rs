//! Monitors changes of the host.

use crate::error::Error;
use crate::event::Change;
use crate::exchange::Bulletin;
use crate::handle::Netlink;
use crate::message::table;
use crate::moor::moor_ifindex;
use crate::row::Row;
use crate::settings::{PROTOCOL, UNBOUND_TABLE};
use crate::view::{IFF_UP, Interfaces, is_our_link};
use futures_util::FutureExt;
use moorline_addresses::{HostView, MAX_SPECIFIC};
use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Monitor of changes on the host's uplinks.
pub struct Monitor {
    netlink: Netlink,
    socket: Bulletin,
    /// State of the tables when they were last read.
    before: Interfaces,
    /// When the tables may be read again.
    read_again_at: Instant,
    /// Whether the tables may have changed since.
    is_due: bool,
    /// Whether notices were lost, and interfaces whose routes were taken, for the next notice.
    resynced: bool,
    routes_taken: BTreeSet<u32>,
}

/// Notice that the host has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The new view of the host.
    pub view: HostView,
    /// The differences, losses first. May be empty if only lifetimes changed.
    pub changes: Vec<Change>,
    /// Whether the kernel has lost notices since the last one: several changes may then appear as one.
    pub resynced: bool,
    /// Whether only routes other than default routes differ.
    pub only_specific: bool,
    /// Interfaces from which the kernel has removed routes of ours: each was down, perhaps only for a moment that the
    /// view does not show.
    pub routes_taken: BTreeSet<u32>,
}

impl Netlink {
    /// Starts a monitor; a host has one. It also reports changes that this handle makes to uplinks (addresses).
    ///
    /// # Errors
    /// No socket can be opened, or the kernel's tables cannot be read.
    pub async fn monitor(&self) -> Result<Monitor, Error> {
        // The subscription comes before the first reading, so no change is missed.
        let socket = Bulletin::of(&GROUPS)?;
        Ok(Monitor {
            netlink: self.clone(),
            socket,
            before: self.interfaces(&Interfaces::default())?,
            read_again_at: Instant::now(),
            is_due: false,
            resynced: false,
            routes_taken: BTreeSet::new(),
        })
    }
}

impl Monitor {
    /// The view of the host that was read last.
    #[must_use]
    pub const fn view(&self) -> &HostView {
        &self.before.view
    }

    /// Waits for the next change. Can be cancelled.
    pub async fn next(&mut self) -> Notice {
        loop {
            while !self.is_due {
                self.is_due = tokio::select! {
                    first = self.socket.next() => self.look_at(first),
                    () = self.netlink.untold.notified() => true,
                };
            }
            // The first notice of a burst causes a reading at once; the others cause one reading a little later. Any node on a
            // link can have the kernel add routes, so readings of many routes have longer pauses.
            sleep_until(self.read_again_at).await;
            while let Some(more) = self.socket.next().now_or_never() {
                self.look_at(more);
            }
            let began = Instant::now();
            let read = self.netlink.interfaces(&self.before);
            self.is_due = false;
            self.read_again_at = began + MIN_INTERVAL.max(began.elapsed() * REST);
            match read {
                Ok(now) => {
                    if let Some(notice) = self.take_notice(now) {
                        return notice;
                    }
                }
                // This is transient, as dumps are: the next notice causes another try.
                Err(error) => {
                    tracing::warn!(%error, "cannot read the state of the uplinks");
                    self.resynced = true;
                }
            }
        }
    }

    /// Returns a notice, if the host has changed.
    fn take_notice(&mut self, now: Interfaces) -> Option<Notice> {
        let must_tell = self.resynced || !self.routes_taken.is_empty();
        let old = mem::replace(&mut self.before, now);
        let view = self.before.view.clone();
        if old.view == view && !must_tell {
            return None;
        }
        let changes = self.before.changes_since(&old);
        let rest = HostView { specific: old.view.specific.clone(), ..view.clone() };
        let only_specific = !must_tell && rest == old.view;
        let resynced = mem::take(&mut self.resynced);
        let routes_taken = mem::take(&mut self.routes_taken);
        Some(Notice { view, changes, resynced, only_specific, routes_taken })
    }

    /// Whether a received notice may concern the uplinks, or our own objects.
    fn look_at(&mut self, received: io::Result<(u32, Row)>) -> bool {
        match received {
            Ok((port, row)) => {
                let taken = if port == KERNEL { taken_from(&row) } else { None };
                self.routes_taken.extend(taken);
                taken.is_some() || self.is_relevant(&row)
            }
            Err(error) => {
                // ENOBUFS: the kernel had more to tell than the socket could hold.
                tracing::debug!(%error, "notices were lost: reading everything again");
                self.resynced = true;
                true
            }
        }
    }

    fn is_relevant(&self, row: &Row) -> bool {
        match row.kind {
            // A change of our own pair matters only if one of its links goes, or if the pair was not complete.
            libc::RTM_NEWLINK if row.header_u32(8) & IFF_UP != 0 && self.before.view.has_moor => {
                !is_our_link(row)
            }
            libc::RTM_NEWLINK | libc::RTM_DELLINK => true,
            libc::RTM_NEWADDR | libc::RTM_DELADDR => moor_ifindex().ok() != Some(row.header_u32(4)),
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                let is_default = row.byte(1) == 0;
                let are_few = self.before.view.specific.len() <= MAX_SPECIFIC;
                table(row) == u32::from(libc::RT_TABLE_MAIN) && (is_default || are_few)
            }
            _ => false,
        }
    }
}

/// Interface of a route of ours that the kernel has removed. Notices of expired routes do not name an interface.
fn taken_from(row: &Row) -> Option<u32> {
    let is_lasting = row.u32(libc::RTA_TABLE) != Some(UNBOUND_TABLE);
    let is_ours = row.kind == libc::RTM_DELROUTE && row.byte(5) == PROTOCOL && is_lasting;
    row.u32(libc::RTA_OIF).filter(|_| is_ours)
}

const GROUPS: [u32; 3] = [libc::RTNLGRP_LINK, libc::RTNLGRP_IPV6_IFADDR, libc::RTNLGRP_IPV6_ROUTE];
/// Port of the kernel, for changes that it makes by itself. For other changes, the notice has the port of the
/// process.
const KERNEL: u32 = 0;
/// Shortest time from one reading of the tables to the next, in lengths of the reading.
const REST: u32 = 4;
/// Shortest time between two readings of the tables. A burst (an interface that goes down with all its routes) comes
/// in within a millisecond or two.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
