//! Changes of the host as they happen.

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

/// Watches what changes on the host's uplinks.
pub struct Monitor {
    netlink: Netlink,
    socket: Bulletin,
    /// As the tables were read last.
    before: Interfaces,
    read_at: Instant,
    /// The tables may be others by now.
    is_due: bool,
    /// For the next notice.
    resynced: bool,
    routes_taken: BTreeSet<u32>,
}

/// The host is different now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How it is.
    pub view: HostView,
    /// What is different, bad news first. May be empty if only lifetimes changed.
    pub changes: Vec<Change>,
    /// Whether the kernel had lost notices since the last one: several changes may have become one.
    pub resynced: bool,
    /// Whether nothing is different but routes that are no default routes.
    pub only_specific: bool,
    /// Interfaces whose routes of ours the kernel has taken away: each was down, if only for a moment that the view does
    /// not show.
    pub routes_taken: BTreeSet<u32>,
}

impl Netlink {
    /// Starts watching; a host has one monitor. Changes that this handle makes itself to uplinks (addresses) are told, too.
    ///
    /// # Errors
    /// No socket, or the kernel's tables cannot be read.
    pub async fn monitor(&self) -> Result<Monitor, Error> {
        // Subscribed before the first reading: nothing can fall in between.
        let socket = Bulletin::of(&GROUPS)?;
        Ok(Monitor {
            netlink: self.clone(),
            socket,
            before: self.interfaces()?,
            read_at: Instant::now() - MIN_INTERVAL,
            is_due: false,
            resynced: false,
            routes_taken: BTreeSet::new(),
        })
    }
}

impl Monitor {
    /// The host as it was read last.
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
            // The first of a burst is read at once, the rest of it together a little later.
            sleep_until(self.read_at + MIN_INTERVAL).await;
            while let Some(more) = self.socket.next().now_or_never() {
                self.look_at(more);
            }
            (self.is_due, self.read_at) = (false, Instant::now());
            match self.netlink.interfaces() {
                Ok(now) => {
                    if let Some(notice) = self.take_notice(now) {
                        return notice;
                    }
                }
                // Transient, as everything with dumps is: the next notice tries again.
                Err(error) => {
                    tracing::warn!(%error, "cannot read the state of the uplinks");
                    self.resynced = true;
                }
            }
        }
    }

    /// What is different now, if anything is.
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

    /// Whether something that was received may have changed the uplinks, or what we have to do with them.
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
            // A change of our own pair matters only when a link of it goes, or when the pair was not whole.
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

/// The interface of a route of ours that is gone. Routes that expire say nothing of their interface.
fn taken_from(row: &Row) -> Option<u32> {
    let is_lasting = row.u32(libc::RTA_TABLE) != Some(UNBOUND_TABLE);
    let is_ours = row.kind == libc::RTM_DELROUTE && row.byte(5) == PROTOCOL && is_lasting;
    row.u32(libc::RTA_OIF).filter(|_| is_ours)
}

const GROUPS: [u32; 3] = [libc::RTNLGRP_LINK, libc::RTNLGRP_IPV6_IFADDR, libc::RTNLGRP_IPV6_ROUTE];
/// Port of who changes something of its own accord; who is asked to by a process names that.
const KERNEL: u32 = 0;
/// Tables are not read more often than this: a burst (an interface going down with all its routes)
/// comes in within a millisecond or two.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
