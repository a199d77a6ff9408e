//! Receives Router Advertisements: from the kernel, and from routers themselves.

use crate::control::control_of;
use crate::error::Error;
use crate::exchange::Bulletin;
use crate::handle::Netlink;
use crate::row::{Row, read_u32};
use moorline_addresses::{
    AUTONOMOUS, Advertisement, Envelope, Lifetimes, ON_LINK, Origin, PREFIX_INFORMATION,
    PrefixInformation, read_advertisement,
};
use moorline_link::{Datagram, Icmp6Sender, RouterSocket};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Advertisements of routers on the links of the host, in the order in which they come in.
///
/// The kernel tells of prefixes that it has accepted (`RTM_NEWPREFIX`), whether it makes addresses in them or not. A
/// raw socket receives the advertisements themselves: they name the router, and they include those that the kernel
/// ignores (`accept_ra=0`, or a host that forwards).
pub struct Advertisements {
    kernel: Bulletin,
    routers: RouterSocket,
    asking: Icmp6Sender,
    solicitations: Solicitations,
}

/// Limits solicitations to [`MAX_SOLICITATIONS`] for each request, and to one in [`SOLICITATION_INTERVAL`] on each
/// link.
#[derive(Debug, Default)]
struct Solicitations(BTreeMap<u32, Solicitation>);

#[derive(Clone, Copy, Debug)]
struct Solicitation {
    /// Earliest time of the next solicitation.
    next: Instant,
    /// Solicitations that are still to be sent.
    left: u32,
}

impl Solicitations {
    /// Starts to solicit the routers of a link, or starts again.
    fn start(&mut self, ifindex: u32, now: Instant) {
        self.0.retain(|_, one| one.left > 0 || now < one.next);
        let fresh = Solicitation { next: now, left: 0 };
        self.0.entry(ifindex).or_insert(fresh).left = MAX_SOLICITATIONS;
    }

    /// Time and link of the next solicitation.
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

    /// Stops soliciting, as a router has advertised. An advertisement before the first solicitation does not count.
    fn on_answer(&mut self, ifindex: u32) {
        if let Some(one) = self.0.get_mut(&ifindex).filter(|one| one.left < MAX_SOLICITATIONS) {
            one.left = 0;
        }
    }
}

impl Netlink {
    /// Starts to listen to routers.
    ///
    /// # Errors
    /// No socket can be opened: the raw one needs CAP_NET_RAW.
    pub fn advertisements(&self) -> Result<Advertisements, Error> {
        Ok(Advertisements {
            kernel: Bulletin::of(&[libc::RTNLGRP_IPV6_PREFIX])?,
            routers: RouterSocket::open().map_err(Error::OpenRaw)?,
            asking: Icmp6Sender::open().map_err(Error::OpenRaw)?,
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

    /// Waits for the next advertisement. Can be cancelled.
    ///
    /// # Errors
    /// A socket no longer works.
    pub async fn next(&mut self) -> Result<Advertisement, Error> {
        loop {
            let due = self.solicitations.due();
            let (at, to_ask) = due.unwrap_or((Instant::now(), 0));
            let said = tokio::select! {
                told = self.kernel.next() => match told {
                    Ok((_, row)) => read_kernel_prefix(&row),
                    Err(error) => {
                        // ENOBUFS. Routers repeat their advertisements, so a loss is made up soon.
                        tracing::debug!(%error, "notices of prefixes were lost");
                        None
                    }
                },
                heard = self.routers.receive() => {
                    let (heard, message) = heard.map_err(Error::refused("listen to routers"))?;
                    let Datagram { ifindex, source, hop_limit, .. } = heard;
                    self.solicitations.on_answer(ifindex);
                    read_advertisement(Envelope { ifindex, source, hop_limit }, message)
                }
                () = sleep_until(at), if due.is_some() => {
                    if let Err(error) = self.asking.solicit(to_ask) {
                        // There is no link-local address yet, or no carrier.
                        tracing::debug!(%error, ifindex = to_ask, "cannot solicit routers");
                    }
                    self.solicitations.on_sent(to_ask, Instant::now());
                    None
                }
            };
            if let Some(mut said) = said {
                // Whether addresses on the interface become invalid at once when a router says so.
                let honors = control_of(said.ifindex, "ra_honor_pio_life");
                said.honors_zero = honors.as_deref() == Some("1");
                return Ok(said);
            }
        }
    }
}

/// Reads `RTM_NEWPREFIX`: a Prefix Information option that the kernel has accepted.
fn read_kernel_prefix(row: &Row) -> Option<Advertisement> {
    let is_prefix = row.kind == libc::RTM_NEWPREFIX && row.is_ipv6();
    let cache = row.attribute(PREFIX_CACHEINFO)?;
    let information = PrefixInformation {
        prefix: row.prefix(PREFIX_ADDRESS, 9)?,
        on_link: row.byte(10) & (IF_PREFIX_ONLINK | ON_LINK) != 0,
        autonomous: row.byte(10) & (IF_PREFIX_AUTOCONF | AUTONOMOUS) != 0,
        lifetimes: Lifetimes { preferred: read_u32(cache)?, valid: read_u32(cache.get(4..)?)? },
    };
    (is_prefix && row.byte(8) == PREFIX_INFORMATION).then(|| Advertisement {
        ifindex: row.header_u32(4),
        origin: Origin::Kernel,
        prefixes: vec![information],
        honors_zero: false,
    })
}

const PREFIX_ADDRESS: u16 = 1;
const PREFIX_CACHEINFO: u16 = 2;
/// Flags in the kernel's notice up to Linux 6.7; later kernels use those of the option.
const IF_PREFIX_ONLINK: u8 = 1;
const IF_PREFIX_AUTOCONF: u8 = 2;

/// Solicitations for one request (RFC 4861 s10); not configurable.
const MAX_SOLICITATIONS: u32 = 3;
/// Seconds between solicitations (RFC 4861 s10); not configurable.
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_types::Prefix;
    use std::net::Ipv6Addr;

    /// A notice with `struct prefixmsg` and its attributes.
    fn notice(kind: u8, flags: u8) -> Row {
        let mut octets = vec![10, 0, 0, 0];
        octets.extend(7u32.to_ne_bytes());
        octets.extend([kind, 64, flags, 0]);
        octets.extend(20u16.to_ne_bytes());
        octets.extend(1u16.to_ne_bytes());
        octets.extend("2001:db8:1::".parse::<Ipv6Addr>().unwrap().octets());
        octets.extend(12u16.to_ne_bytes());
        octets.extend(2u16.to_ne_bytes());
        octets.extend(50u32.to_ne_bytes());
        octets.extend(100u32.to_ne_bytes());
        Row::parse(libc::RTM_NEWPREFIX, &octets).unwrap()
    }

    #[test]
    fn the_kernels_notice_says_the_same_of_one_prefix() {
        let read = read_kernel_prefix(&notice(3, 1)).unwrap();
        assert_eq!((read.ifindex, read.origin), (7, Origin::Kernel));
        let expected = PrefixInformation {
            prefix: Prefix::new("2001:db8:1::".parse().unwrap(), 64),
            on_link: true,
            autonomous: false,
            lifetimes: Lifetimes { valid: 100, preferred: 50 },
        };
        assert_eq!(read.prefixes, [expected]);
        // Linux up to 6.7 has flags of its own, later kernels use those of the option.
        for (flags, on_link, autonomous) in [
            (0, false, false),
            (2, false, true),
            (3, true, true),
            (0x40, false, true),
            (0x80, true, false),
        ] {
            let [only] = read_kernel_prefix(&notice(3, flags)).unwrap().prefixes[..] else {
                panic!()
            };
            assert_eq!((only.on_link, only.autonomous), (on_link, autonomous), "{flags:#x}");
        }
        assert_eq!(read_kernel_prefix(&notice(5, 1)), None);
    }

    /// Simulates a link whose routers are solicited whenever `asked_at` says so. Returns the times of the
    /// solicitations in seconds.
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
