//! A model of the kernel's addresses (RFC 4862 s5.5), as far as time and routers change them.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_addresses::{
    AddressFlags, HostView, Lifetimes, PrefixInformation, Uplink, UplinkAddress,
};
use moorline_types::{Instant, Prefix};

/// The links of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    /// Links that are up, each with the time until which its router is a default router.
    links: BTreeMap<u32, Option<Instant>>,
    addresses: BTreeMap<(u32, Ipv6Addr), Held>,
    /// Whether the kernel accepts short valid lifetimes at once (`ra_honor_pio_life`).
    pub(super) honors_zero: bool,
    /// Whether the kernel makes a temporary address beside each one (RFC 8981).
    is_private: bool,
}

/// An address on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) prefix_len: u8,
    /// Whether the kernel has made the address from a router's prefix. Otherwise somebody has set it.
    pub(super) is_made: bool,
    pub(super) flags: AddressFlags,
    pub(super) ends: Ends,
}

/// Time when an address ends for new traffic, and time when it goes; `None` is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) preferred: Option<Instant>,
    pub(super) valid: Option<Instant>,
}

impl Ends {
    pub(super) const NEVER: Self = Self { preferred: None, valid: None };

    pub(super) fn of(lifetimes: Lifetimes, now: Instant) -> Self {
        let end =
            |seconds: u32| (seconds != u32::MAX).then(|| now + Duration::from_secs(seconds.into()));
        Self {
            preferred: end(lifetimes.preferred.min(lifetimes.valid)),
            valid: end(lifetimes.valid),
        }
    }

    pub(super) fn is_for_new(self, now: Instant) -> bool {
        self.preferred.is_none_or(|until| until > now)
    }

    fn left(self, now: Instant) -> Lifetimes {
        let left = |until: Option<Instant>| match until {
            None => u32::MAX,
            Some(until) => u32::try_from(until.since(now).as_secs()).unwrap_or(u32::MAX - 1),
        };
        Lifetimes { preferred: left(self.preferred), valid: left(self.valid) }
    }

    /// Largest distance between the ends of the two; `None` if one of them has an end that the other lacks.
    pub(super) fn distance(self, other: Self, now: Instant) -> Option<Duration> {
        let apart = |one: Option<Instant>, other: Option<Instant>| match (one, other) {
            (None, None) => Some(Duration::ZERO),
            (Some(one), Some(other)) => {
                let (one, other) = (one.max(now), other.max(now));
                Some(one.max(other).since(one.min(other)))
            }
            _ => None,
        };
        Some(apart(self.preferred, other.preferred)?.max(apart(self.valid, other.valid)?))
    }
}

impl Kernel {
    pub(super) fn new(honors_zero: bool, is_private: bool) -> Self {
        Self { honors_zero, is_private, ..Self::default() }
    }

    /// Takes a link up, whose routers have not been heard yet.
    pub(super) fn raise(&mut self, ifindex: u32) {
        self.links.entry(ifindex).or_default();
    }

    /// Takes a link down: its addresses and routes go.
    pub(super) fn lower(&mut self, ifindex: u32) {
        self.links.remove(&ifindex);
        self.addresses.retain(|(at, _), _| *at != ifindex);
    }

    pub(super) fn is_up(&self, ifindex: u32) -> bool {
        self.links.contains_key(&ifindex)
    }

    /// Takes an advertisement. Returns the prefixes that the kernel reports, also those in which it makes no
    /// addresses.
    pub(super) fn handle_advertisement(
        &mut self,
        ifindex: u32,
        router_lifetime: Duration,
        prefixes: &[PrefixInformation],
        now: Instant,
    ) -> Vec<PrefixInformation> {
        let Some(router_until) = self.links.get_mut(&ifindex) else { return Vec::new() };
        *router_until = (!router_lifetime.is_zero()).then(|| now + router_lifetime);
        let is_sound = |one: &&PrefixInformation| one.lifetimes.preferred <= one.lifetimes.valid;
        let believed: Vec<_> = prefixes.iter().filter(is_sound).copied().collect();
        for one in believed.iter().filter(|one| one.autonomous) {
            self.configure(ifindex, *one, now);
        }
        believed
    }

    /// Sets the addresses of a prefix by RFC 4862 s5.5.3 d and e.
    fn configure(&mut self, ifindex: u32, said: PrefixInformation, now: Instant) {
        let said_ends = Ends::of(said.lifetimes, now);
        let public = (ifindex, address_in(said.prefix, PUBLIC));
        let Some(held) = self.addresses.get_mut(&public) else {
            if said.lifetimes.valid > 0 {
                let held =
                    Held { prefix_len: 64, is_made: true, flags: AddressFlags(0), ends: said_ends };
                self.addresses.insert(public, held);
                if self.is_private {
                    let preferred = said.lifetimes.preferred.min(TEMPORARY.preferred);
                    let valid = said.lifetimes.valid.min(TEMPORARY.valid);
                    let ends = Ends::of(Lifetimes { preferred, valid }, now);
                    let private = (ifindex, address_in(said.prefix, PRIVATE));
                    let held = Held { flags: AddressFlags::TEMPORARY, ends, ..held };
                    self.addresses.insert(private, held);
                }
            }
            return;
        };
        let guarded = Some(now + TWO_HOURS);
        let is_later = |one: Option<Instant>, than: Option<Instant>| match (one, than) {
            (None, than) => than.is_some(),
            (Some(_), None) => false,
            (Some(one), Some(than)) => one > than,
        };
        held.ends.preferred = said_ends.preferred;
        let (said, stored) = (said_ends.valid, held.ends.valid);
        if self.honors_zero || is_later(said, guarded) || is_later(said, stored) {
            held.ends.valid = said;
        } else if is_later(stored, guarded) {
            held.ends.valid = guarded;
        }
        if held.ends.valid.is_some_and(|until| until <= now) {
            self.addresses.remove(&public);
        }
    }

    /// Sets an address, like a person, a DHCPv6 client or Moorline.
    pub(super) fn set(&mut self, ifindex: u32, address: Ipv6Addr, held: Held) {
        if self.is_up(ifindex) {
            self.addresses.insert((ifindex, address), held);
        }
    }

    pub(super) fn unset(&mut self, ifindex: u32, address: Ipv6Addr) -> bool {
        self.addresses.remove(&(ifindex, address)).is_some()
    }

    pub(super) fn change(
        &mut self,
        ifindex: u32,
        address: Ipv6Addr,
        to: impl FnOnce(&mut Held),
    ) -> bool {
        self.addresses.get_mut(&(ifindex, address)).map(to).is_some()
    }

    /// Removes expired addresses and routers.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.addresses.retain(|_, held| held.ends.valid.is_none_or(|until| until > now));
        for router_until in self.links.values_mut() {
            router_until.take_if(|until| *until <= now);
        }
    }

    /// Time when the next address is deprecated or goes, or the next router ends.
    pub(super) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let ends = self.addresses.values().flat_map(|held| [held.ends.preferred, held.ends.valid]);
        let ends = ends.chain(self.links.values().copied());
        ends.flatten().filter(|until| *until > now).min()
    }

    /// All addresses, by link.
    pub(super) fn addresses(&self) -> impl Iterator<Item = ((u32, Ipv6Addr), Held)> + '_ {
        self.addresses.iter().map(|(at, held)| (*at, *held))
    }

    /// The view as netlink reports it.
    pub(super) fn view(&self, now: Instant) -> HostView {
        let mut view = HostView::default();
        for (&ifindex, router_until) in &self.links {
            let name = format!("wan{ifindex}");
            let of_link = self.addresses().filter(|((at, _), _)| *at == ifindex);
            let addresses = of_link.map(|((_, address), held)| held.told(address, now)).collect();
            if router_until.is_none() {
                view.bare.push(Uplink { addresses, ..Uplink::new(ifindex, name) });
                continue;
            }
            let router = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
            let uplink = Uplink { addresses, ..Uplink::new(ifindex, name).reached(router, []) };
            let is_uplink = uplink.addresses.iter().any(|own| own.preferred);
            if is_uplink { view.uplinks.push(uplink) } else { view.candidates.push(uplink) }
        }
        view
    }
}

impl Held {
    fn told(&self, address: Ipv6Addr, now: Instant) -> UplinkAddress {
        let is_over = self.ends.preferred.is_some_and(|until| until <= now);
        let deprecated = if is_over { AddressFlags::DEPRECATED.0 } else { 0 };
        let permanent =
            if self.ends.valid.is_none() && !self.is_made { AddressFlags::PERMANENT.0 } else { 0 };
        let flags = AddressFlags(self.flags.0 | deprecated | permanent);
        UplinkAddress::new(address, self.prefix_len, flags, self.ends.left(now))
    }
}

/// The address with this interface identifier.
pub(super) fn address_in(prefix: Prefix, identifier: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(prefix.address().to_bits() | u128::from(identifier))
}

/// Identifiers of the kernel's addresses: from the link-layer address, and temporary.
pub(super) const PUBLIC: u64 = 0x0200_00ff_fe00_0001;
const PRIVATE: u64 = 0x1d3a_9b4c_5e6f_7081;
/// Lifetimes of a temporary address (RFC 8981 s3.8).
const TEMPORARY: Lifetimes = Lifetimes { preferred: 86_400, valid: 2 * 86_400 };
/// Smallest lifetime by RFC 4862 s5.5.3 e.
const TWO_HOURS: Duration = Duration::from_secs(2 * 60 * 60);
