//! Changes of the host as they happen.

use crate::attributes::Row;
use crate::error::Error;
use crate::event::Change;
use crate::exchange::messages;
use crate::handle::Netlink;
use crate::view::{Interfaces, MAX_SPECIFIC};
use futures_util::FutureExt;
use moorline_addresses::HostView;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};
use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// A stream of what changes on the host's uplinks. Ends its task when dropped.
#[derive(Debug)]
pub struct Monitor {
    view: HostView,
    notices: mpsc::Receiver<Notice>,
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

impl Monitor {
    /// How the host was when the monitor started; every later change gives a notice.
    #[must_use]
    pub const fn initial_view(&self) -> &HostView {
        &self.view
    }

    /// Waits for the next change; `None` if the host cannot be watched any more. Can be cancelled.
    pub async fn next(&mut self) -> Option<Notice> {
        self.notices.recv().await
    }
}

impl Netlink {
    /// Starts watching; a host has one monitor. Changes that this handle makes itself to uplinks (addresses) are told, too.
    ///
    /// # Errors
    /// No socket, or the kernel's tables cannot be read.
    pub async fn monitor(&self) -> Result<Monitor, Error> {
        // Subscribed before the first reading: nothing can fall in between.
        let socket = subscribe().map_err(Error::Open)?;
        let before = self.interfaces().await?;
        let view = before.view();
        let (sender, notices) = mpsc::channel(QUEUE);
        let netlink = self.clone();
        let watcher = Watcher {
            netlink,
            socket,
            before,
            sender,
            resynced: false,
            routes_taken: BTreeSet::new(),
        };
        tokio::spawn(watcher.run());
        Ok(Monitor { view, notices })
    }
}

fn subscribe() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    let groups = GROUPS.iter().fold(0, |all, group| all | 1 << (group - 1));
    socket.socket_mut().bind(&SocketAddr::new(0, groups))?;
    Ok(socket)
}

struct Watcher {
    netlink: Netlink,
    socket: TokioSocket,
    before: Interfaces,
    sender: mpsc::Sender<Notice>,
    /// For the next notice.
    resynced: bool,
    routes_taken: BTreeSet<u32>,
}

impl Watcher {
    async fn run(mut self) {
        let mut read_at = Instant::now() - MIN_INTERVAL;
        loop {
            let mut matters = tokio::select! {
                first = self.socket.recv_from_full() => self.look_at(first),
                () = self.netlink.untold.notified() => true,
                () = self.sender.closed() => return,
            };
            if matters {
                // The first of a burst is read at once, the rest of it together a little later.
                sleep_until(read_at + MIN_INTERVAL).await;
            }
            while let Some(more) = self.socket.recv_from_full().now_or_never() {
                matters |= self.look_at(more);
            }
            if !matters {
                continue;
            }
            read_at = Instant::now();
            match self.netlink.interfaces().await {
                Ok(now) => {
                    if !self.tell(now).await {
                        return;
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

    /// False when nobody listens any more.
    async fn tell(&mut self, now: Interfaces) -> bool {
        let must_tell = self.resynced || !self.routes_taken.is_empty();
        if now == self.before && !must_tell {
            return true;
        }
        let changes = now.changes_since(&self.before);
        let (old, view) = (self.before.view(), now.view());
        self.before = now;
        if changes.is_empty() && old == view && !must_tell {
            return true;
        }
        let rest = HostView { specific: old.specific.clone(), ..view.clone() };
        let only_specific = !must_tell && changes.is_empty() && rest == old;
        let resynced = mem::take(&mut self.resynced);
        let routes_taken = mem::take(&mut self.routes_taken);
        let notice = Notice { view, changes, resynced, only_specific, routes_taken };
        self.sender.send(notice).await.is_ok()
    }

    /// Whether something that was received may have changed the uplinks, or what we have to do with them.
    fn look_at(&mut self, received: io::Result<(Vec<u8>, SocketAddr)>) -> bool {
        match received {
            Ok((octets, _)) => messages(&octets).fold(false, |matters, message| {
                let row = Row::parse(message.message_type(), message.payload());
                let is_by_kernel = message.port_number() == KERNEL;
                let taken = row.as_ref().filter(|_| is_by_kernel).and_then(|r| self.taken_from(r));
                self.routes_taken.extend(taken);
                matters | taken.is_some() | row.is_none_or(|row| self.is_relevant(&row))
            }),
            Err(error) => {
                // ENOBUFS: the kernel had more to tell than the socket could hold.
                tracing::debug!(%error, "notices were lost: reading everything again");
                self.resynced = true;
                true
            }
        }
    }

    /// The interface of a route of ours that is gone. Routes that expire say nothing of their interface.
    fn taken_from(&self, row: &Row) -> Option<u32> {
        let settings = &self.netlink.settings;
        let is_lasting = row.u32(libc::RTA_TABLE) != Some(settings.unbound_table());
        let is_ours =
            row.kind == libc::RTM_DELROUTE && row.byte(5) == settings.protocol && is_lasting;
        row.u32(libc::RTA_OIF).filter(|_| is_ours)
    }

    fn is_relevant(&self, row: &Row) -> bool {
        let settings = &self.netlink.settings;
        match row.kind {
            // A change of our own pair matters only when a link of it goes, or when the pair was not whole.
            libc::RTM_NEWLINK if row.header_u32(8) & IFF_UP != 0 && self.before.has_moor => {
                row.text(libc::IFLA_IFNAME).is_none_or(|name| !settings.is_our_link(&name))
            }
            libc::RTM_NEWLINK | libc::RTM_DELLINK => true,
            libc::RTM_NEWADDR | libc::RTM_DELADDR => {
                self.netlink.moor_ifindex() != Some(row.header_u32(4))
            }
            libc::RTM_NEWROUTE | libc::RTM_DELROUTE => {
                let table = row.u32(libc::RTA_TABLE).unwrap_or_else(|| row.byte(4).into());
                let is_default = row.byte(1) == 0;
                let are_few = self.before.specific.len() <= MAX_SPECIFIC;
                table == u32::from(libc::RT_TABLE_MAIN) && (is_default || are_few)
            }
            _ => false,
        }
    }
}

const IFF_UP: u32 = libc::IFF_UP.cast_unsigned();
/// Links, IPv6 addresses, IPv6 routes (`RTNLGRP_*`).
const GROUPS: [u32; 3] = [1, 9, 11];
/// Port of who changes something of its own accord; who is asked to by a process names that.
const KERNEL: u32 = 0;
/// Notices that may wait for a slow listener; then the kernel's queue fills, and a resync follows.
const QUEUE: usize = 16;
/// Tables are not read more often than this: a burst (an interface going down with all its routes)
/// comes in within a millisecond or two.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
