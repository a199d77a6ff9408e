use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use moorline_types::{Instant, Locator};

use crate::advertised::{AdvertisedPrefixes, Advertisement};
use crate::plan::{Plan, Planner, RETRY, Seen};
use crate::prefixes;
use crate::view::{HostView, Uplink};

/// The addresses that a host should have, and the time of the next look: the [`Planner`] with the prefixes that
/// routers advertise.
#[derive(Clone, Debug)]
pub struct Addressing {
    /// The planner.
    pub planner: Planner,
    /// The known prefixes and routers.
    pub advertised: AdvertisedPrefixes,
    /// Time of the next look at the latest.
    due: Option<Instant>,
    /// Time of the last look at the prefixes.
    looked_at: Instant,
}

impl Addressing {
    /// Begins before any router has been heard.
    #[must_use]
    pub fn new(planner: Planner) -> Self {
        Self { planner, advertised: AdvertisedPrefixes::new(), due: None, looked_at: Instant::ZERO }
    }

    /// Takes a Router Advertisement, from a router or from the kernel. One Router Advertisement comes in several
    /// parts, from both.
    pub fn handle_advertisement(&mut self, said: &Advertisement, now: Instant) {
        self.advertised.handle_advertisement(said, now);
        self.look_again(now + SETTLE);
    }

    /// Notes that interfaces were down, perhaps for a moment only. The kernel has removed all their addresses, and
    /// begins again with the prefixes of their routers.
    pub fn handle_interfaces_down(&mut self, down: &BTreeSet<u32>) {
        self.advertised.retain_interfaces(|ifindex| !down.contains(&ifindex));
        self.planner.on_interfaces_down(down);
    }

    /// Notes that an action has failed: the same is planned again.
    pub fn handle_failed(&mut self, now: Instant) {
        self.look_again(now + RETRY);
    }

    /// Makes [`Self::plan`] due at this time at the latest.
    pub fn look_again(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Time when [`Self::plan`] is due, if nothing happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let advertised = self.advertised.poll_timeout(self.looked_at);
        [self.due, self.planner.poll_timeout(), advertised].into_iter().flatten().min()
    }

    /// The actions that are due now, by the view of `at`. Prefixes are kept for all interfaces of the view, because
    /// an interface may lack nothing but a default route.
    pub fn plan(&mut self, view: &HostView, at: Instant, now: Instant) -> Plan {
        (self.due, self.looked_at) = (None, now);
        self.advertised.handle_timeout(now);
        let all = view.uplinks.iter().chain(&view.candidates).chain(&view.bare);
        let interfaces: BTreeMap<_, _> = all.map(|one| (one.ifindex, &one.addresses[..])).collect();
        self.advertised.retain_interfaces(|ifindex| interfaces.contains_key(&ifindex));
        let is_ours = |address: Locator| self.planner.member(address.0).is_some();
        self.advertised.set_held(prefixes::held(interfaces.into_iter(), at, &is_ours));
        let advertised: Vec<_> = self.advertised.prefixes().collect();
        self.planner.plan(&Seen { view, at, advertised: &advertised }, now)
    }

    /// Sets the routers that advertise the prefixes of an uplink.
    pub fn tell_advertisers(&self, uplink: &mut Uplink) {
        let prefixes = self.advertised.prefixes().filter(|one| one.ifindex == uplink.ifindex);
        let advertisers = prefixes.flat_map(|one| {
            let routers = self.advertised.routers_of(one.ifindex, one.prefix);
            routers.map(move |router| (one.prefix, router))
        });
        uplink.advertisers = advertisers.collect();
    }
}

/// Time within which advertisements are handled together.
const SETTLE: Duration = Duration::from_millis(50);
