//! Listening to routers: what the kernel says of them, and what they say themselves.

use crate::advertised::Advertisement;
use crate::attributes::Row;
use crate::control;
use crate::error::Error;
use crate::exchange::messages;
use crate::handle::Netlink;
use crate::ndp::{read_advertisement, read_kernel_prefix};
use crate::router_socket::RouterSocket;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket, AsyncSocketExt, TokioSocket};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Everything that routers say on the links of the host, as it comes in.
///
/// The kernel tells of prefixes that it has believed (`RTM_NEWPREFIX`), whether it makes addresses in
/// them or not. Who advertises them, and what it does not believe (`accept_ra=0`, a host that
/// forwards), is heard on a raw socket.
pub struct Advertisements {
    kernel: TokioSocket,
    routers: RouterSocket,
    waiting: VecDeque<Advertisement>,
    solicited: BTreeMap<u32, Solicitation>,
}

/// A link that is being asked for its routers.
#[derive(Clone, Copy, Debug)]
struct Solicitation {
    at: Instant,
    sent: u32,
}

impl fmt::Debug for Advertisements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiting, solicited, .. } = self;
        let mut shown = f.debug_struct("Advertisements");
        shown.field("waiting", waiting).field("solicited", solicited).finish_non_exhaustive()
    }
}

impl Netlink {
    /// Starts listening to routers.
    ///
    /// # Errors
    /// No socket to be had: the raw one needs CAP_NET_RAW.
    pub fn advertisements(&self) -> Result<Advertisements, Error> {
        Ok(Advertisements {
            kernel: subscribe().map_err(Error::Open)?,
            routers: RouterSocket::open().map_err(Error::OpenRaw)?,
            waiting: VecDeque::new(),
            solicited: BTreeMap::new(),
        })
    }
}

impl Advertisements {
    /// Asks the routers of a link to advertise now, up to three times until one does (RFC 4861 s6.3.7).
    pub fn solicit(&mut self, ifindex: u32) {
        self.solicited.insert(ifindex, Solicitation { at: Instant::now(), sent: 0 });
    }

    /// Waits for the next. Can be cancelled.
    ///
    /// # Errors
    /// A socket does not work any more.
    pub async fn next(&mut self) -> Result<Advertisement, Error> {
        loop {
            if let Some(mut next) = self.waiting.pop_front() {
                next.honors_zero = control::honors_zero(next.ifindex);
                return Ok(next);
            }
            let due = self.solicited.iter().map(|(ifindex, one)| (one.at, *ifindex)).min();
            let (at, ifindex) = due.unwrap_or((Instant::now(), 0));
            tokio::select! {
                notice = self.kernel.recv_from_full() => self.take_notice(notice.map(|told| told.0)),
                heard = self.routers.receive() => {
                    let (envelope, message) = heard.map_err(Error::Routers)?;
                    let read = read_advertisement(envelope, message);
                    // One that was on its way before we asked is no answer.
                    self.solicited.retain(|ifindex, one| *ifindex != envelope.ifindex || one.sent == 0);
                    self.waiting.extend(read);
                }
                () = sleep_until(at), if due.is_some() => self.send_solicitation(ifindex),
            }
        }
    }

    fn take_notice(&mut self, notice: io::Result<Vec<u8>>) {
        match notice {
            Ok(octets) => self.waiting.extend(messages(&octets).filter_map(|message| {
                let row = Row::parse(message.message_type(), message.payload())?;
                read_kernel_prefix(&row)
            })),
            // ENOBUFS. Routers repeat themselves, so nothing is lost for long.
            Err(error) => tracing::debug!(%error, "notices of prefixes were lost"),
        }
    }

    fn send_solicitation(&mut self, ifindex: u32) {
        if let Err(error) = self.routers.solicit(ifindex) {
            // Before the link-local address is there, or without a carrier.
            tracing::debug!(%error, ifindex, "cannot solicit routers");
        }
        if let Some(one) = self.solicited.get_mut(&ifindex) {
            one.sent += 1;
            one.at += SOLICITATION_INTERVAL;
            if one.sent >= MAX_SOLICITATIONS {
                self.solicited.remove(&ifindex);
            }
        }
    }
}

fn subscribe() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind_auto()?;
    socket.socket_mut().add_membership(libc::RTNLGRP_IPV6_PREFIX)?;
    Ok(socket)
}

/// RFC 4861 s10; not configurable.
const MAX_SOLICITATIONS: u32 = 3;
/// RFC 4861 s10: seconds; not configurable.
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
