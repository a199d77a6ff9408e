//! Listening to routers: what the kernel says of them, and what they say themselves.

use crate::attributes::Row;
use crate::control;
use crate::error::Error;
use crate::exchange::messages;
use crate::handle::Netlink;
use crate::ndp::read_kernel_prefix;
use crate::router_socket::RouterSocket;
use moorline_addresses::{Advertisement, read_advertisement};
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
    solicitations: Solicitations,
}

/// Limits solicitations to [`MAX_SOLICITATIONS`] for each request, and to one in [`SOLICITATION_INTERVAL`] for each link.
#[derive(Debug, Default)]
struct Solicitations(BTreeMap<u32, Solicitation>);

#[derive(Clone, Copy, Debug)]
struct Solicitation {
    /// The next one leaves no earlier.
    next: Instant,
    /// Solicitations that are still to be sent.
    left: u32,
}

impl Solicitations {
    /// Asks the routers of a link, or asks them anew.
    fn start(&mut self, ifindex: u32, now: Instant) {
        self.0.retain(|_, one| one.left > 0 || now < one.next);
        let fresh = Solicitation { next: now, left: 0 };
        self.0.entry(ifindex).or_insert(fresh).left = MAX_SOLICITATIONS;
    }

    /// The next solicitation, and its link.
    fn due(&self) -> Option<(Instant, u32)> {
        let waiting = self.0.iter().filter(|(_, one)| one.left > 0);
        waiting.map(|(ifindex, one)| (one.next, *ifindex)).min()
    }

    fn on_sent(&mut self, ifindex: u32, now: Instant) {
        if let Some(one) = self.0.get_mut(&ifindex) {
            one.left = one.left.saturating_sub(1);
            one.next = now + SOLICITATION_INTERVAL;
        }
    }

    /// A router has advertised. One that did so before it was asked is asked nevertheless.
    fn on_answer(&mut self, ifindex: u32) {
        if let Some(one) = self.0.get_mut(&ifindex).filter(|one| one.left < MAX_SOLICITATIONS) {
            one.left = 0;
        }
    }
}

impl fmt::Debug for Advertisements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waiting, solicitations, .. } = self;
        let mut shown = f.debug_struct("Advertisements");
        shown.field("waiting", waiting).field("solicitations", solicitations);
        shown.finish_non_exhaustive()
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
            solicitations: Solicitations::default(),
        })
    }
}

impl Advertisements {
    /// Asks the routers of a link to advertise, up to three times until one does (RFC 4861 s6.3.7). The first
    /// solicitation leaves now, or 4 s after the last one of an earlier request.
    pub fn solicit(&mut self, ifindex: u32) {
        self.solicitations.start(ifindex, Instant::now());
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
            let due = self.solicitations.due();
            let (at, ifindex) = due.unwrap_or((Instant::now(), 0));
            tokio::select! {
                notice = self.kernel.recv_from_full() => self.take_notice(notice.map(|told| told.0)),
                heard = self.routers.receive() => {
                    let (envelope, message) = heard.map_err(Error::Routers)?;
                    let read = read_advertisement(envelope, message);
                    self.solicitations.on_answer(envelope.ifindex);
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
        self.solicitations.on_sent(ifindex, Instant::now());
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a link whose routers are asked each time that this says so; gives when solicitations left, in seconds.
    fn sent(asked_at: impl Fn(u64) -> bool, answered_at: Option<u64>) -> Vec<u64> {
        let start = Instant::now();
        let mut solicitations = Solicitations::default();
        let mut sent = Vec::new();
        for second in 0..60 {
            let now = start + Duration::from_secs(second);
            if asked_at(second) {
                solicitations.start(7, now);
            }
            if solicitations.due().is_some_and(|(at, _)| at <= now) {
                solicitations.on_sent(7, now);
                sent.push(second);
            }
            if answered_at == Some(second) {
                solicitations.on_answer(7);
            }
        }
        sent
    }

    #[test]
    fn a_link_is_asked_three_times_four_seconds_apart_or_until_a_router_answers() {
        assert_eq!(sent(|second| second == 0, None), [0, 4, 8]);
        assert_eq!(sent(|second| second == 0, Some(5)), [0, 4]);
    }

    #[test]
    fn a_link_that_flaps_is_asked_three_times_more_and_not_more_often() {
        assert_eq!(sent(|second| second < 10, None), [0, 4, 8, 12, 16, 20]);
        assert_eq!(sent(|second| second == 0 || second == 2, Some(1)), [0, 4, 8, 12]);
    }

    #[test]
    fn links_that_are_not_asked_any_more_are_forgotten() {
        let start = Instant::now();
        let mut solicitations = Solicitations::default();
        for ifindex in 0..100 {
            let now = start + SOLICITATION_INTERVAL * ifindex;
            solicitations.start(ifindex, now);
            solicitations.on_sent(ifindex, now);
            solicitations.on_answer(ifindex);
        }
        assert_eq!(solicitations.0.len(), 1);
    }
}
