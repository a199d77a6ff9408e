use core::ops::RangeInclusive;
use core::time::Duration;

use moorline_ip::nd::RouterAdvertisement;

use crate::Drop;

/// Parameters of the link (RFC 4861 s6.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// `CurHopLimit`.
    pub hop_limit: u8,
    /// `BaseReachableTime`.
    pub base_reachable_time: Duration,
    /// `RetransTimer`.
    pub retrans_timer: Duration,
    /// `LinkMTU` in octets.
    pub mtu: u32,
    link_mtu: u32,
    default_hop_limit: u8,
}

impl Parameters {
    /// The values for a link with this MTU in octets, and with this hop limit, before a router says others.
    /// An MTU under 1,280 counts as 1,280.
    //= rfc8200#5-2
    #[must_use]
    pub const fn new(link_mtu: u32, hop_limit: u8) -> Self {
        // RFC 8200 s5: links "must be configured to have an MTU of at least 1280 octets".
        let link_mtu = if link_mtu < MIN_MTU { MIN_MTU } else { link_mtu };
        Self {
            hop_limit,
            base_reachable_time: REACHABLE_TIME,
            retrans_timer: RETRANS_TIMER,
            mtu: link_mtu,
            link_mtu,
            default_hop_limit: hop_limit,
        }
    }

    /// The values before a router has said others.
    pub(super) const fn at_first(&self) -> Self {
        Self::new(self.link_mtu, self.default_hop_limit)
    }

    /// Takes the fields of an advertisement. Zero says nothing (RFC 4861 s6.3.4).
    ///
    /// # Errors
    /// [`Drop::AdvertisementValue`] if a time is out of range. The other fields are taken.
    //= rfc4862#5.6-1
    //= rfc4861#6.3.4-2 rfc4861#6.3.4-6 rfc4861#6.3.4-7 rfc4861#6.3.4-10
    pub(super) fn update(&mut self, advertisement: &RouterAdvertisement) -> Result<(), Drop> {
        if advertisement.hop_limit != 0 {
            self.hop_limit = advertisement.hop_limit;
        }
        let reachable = accept(advertisement.reachable_time, REACHABLE_TIMES);
        let retrans = accept(advertisement.retrans_timer, RETRANS_TIMERS);
        self.base_reachable_time = reachable.ok().flatten().unwrap_or(self.base_reachable_time);
        self.retrans_timer = retrans.ok().flatten().unwrap_or(self.retrans_timer);
        reachable.and(retrans).map(|_| ())
    }

    /// Takes the MTU of an option, in octets.
    ///
    /// # Errors
    /// [`Drop::AdvertisementValue`] if it is under 1,280, or above the MTU that the link has by its kind.
    //= rfc4861#6.3.4-16
    pub(super) fn update_mtu(&mut self, mtu: u32) -> Result<(), Drop> {
        if !(MIN_MTU..=self.link_mtu).contains(&mtu) {
            return Err(Drop::AdvertisementValue);
        }
        self.mtu = mtu;
        Ok(())
    }
}

fn accept(time: Duration, range: RangeInclusive<Duration>) -> Result<Option<Duration>, Drop> {
    if time.is_zero() {
        return Ok(None);
    }
    if range.contains(&time) { Ok(Some(time)) } else { Err(Drop::AdvertisementValue) }
}

/// `REACHABLE_TIME` (RFC 4861 s10).
const REACHABLE_TIME: Duration = Duration::from_secs(30);
/// `RETRANS_TIMER` (RFC 4861 s10).
const RETRANS_TIMER: Duration = Duration::from_secs(1);
/// Values of Reachable Time that routers may send are at most an hour (RFC 4861 s6.2.1).
const REACHABLE_TIMES: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(3600);
/// Values of Retrans Timer that the host takes. RFC 4861 has no limits. A shorter time would be a flood of solicitations,
/// and a longer one would keep addresses tentative for as long as somebody likes. Not configurable.
const RETRANS_TIMERS: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(60);
/// Least MTU of IPv6 (RFC 8200 s5).
const MIN_MTU: u32 = 1280;
