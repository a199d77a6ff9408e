use alloc::borrow::ToOwned as _;
use alloc::string::ToString as _;
use alloc::vec;
use std::sync::OnceLock;

use moorline_cga::{LocalProof, RsaKey, Signer as _};

use super::sets::GATHER;
use super::*;
use crate::advertised::{AdvertisedPrefixes, Advertisement, Origin, PrefixInformation};
use crate::group::Kind;
use crate::policy::PartOfRule;
use crate::policy::tests::policy;
use crate::view::DefaultRoute;

mod lifetimes;
mod others;
mod places;
mod properties;
mod sets;
mod temporary;

/// A host whose kernel executes the plan, on a virtual clock.
struct World {
    planner: Planner,
    key: PublicKey,
    policy: AddressPolicy,
    table: AdvertisedPrefixes,
    interfaces: BTreeSet<u32>,
    /// Interfaces without Neighbor Discovery.
    tunnels: BTreeSet<u32>,
    addresses: BTreeMap<(u32, Ipv6Addr), Own>,
    /// Addresses with a prefix of 128 bits, as DHCPv6 gives them.
    singles: BTreeSet<Ipv6Addr>,
    /// Whether new addresses are tentative until [`World::detect`].
    is_detecting: bool,
    in_use: BTreeSet<Ipv6Addr>,
    now: Instant,
}

#[derive(Clone, Copy)]
struct Own {
    flags: AddressFlags,
    until: Until,
}

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// The prefix 2001:db8:N::/64.
fn prefix(number: u16) -> [u8; 8] {
    Locator(Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0)).prefix()
}

impl World {
    fn new(mode: AddressMode) -> Self {
        Self::with(policy(mode))
    }

    fn with(policy: AddressPolicy) -> Self {
        static KEY: OnceLock<PublicKey> = OnceLock::new();
        let make = || RsaKey::generate(1024, &mut [7; 32]).unwrap().public_key().clone();
        let key = KEY.get_or_init(make).clone();
        let keys = BTreeMap::from([("default".to_owned(), key.clone())]);
        Self {
            planner: Planner::new(policy.clone(), keys, Vec::new(), [7; 32]),
            key,
            policy,
            table: AdvertisedPrefixes::new(),
            interfaces: BTreeSet::new(),
            tunnels: BTreeSet::new(),
            addresses: BTreeMap::new(),
            singles: BTreeSet::new(),
            is_detecting: false,
            in_use: BTreeSet::new(),
            now: Instant::ZERO + Duration::from_secs(1000),
        }
    }

    /// A host with two ISPs, after the first plans.
    fn with_two(mode: AddressMode) -> Self {
        let mut world = Self::new(mode);
        world.interfaces = BTreeSet::from([1, 2]);
        world.advertise(1, 1, 1800, 3600);
        world.advertise(2, 2, 1800, 3600);
        world.settle();
        world
    }

    /// Restarts the daemon with the groups on disk.
    fn restart(&mut self) {
        let kept = self.planner.groups().iter().cloned();
        let groups = kept.map(|group| Group { given_up: Vec::new(), ..group }).collect();
        let keys = BTreeMap::from([("default".to_owned(), self.key.clone())]);
        self.planner = Planner::new(self.policy.clone(), keys, groups, [8; 32]);
        self.table = AdvertisedPrefixes::new();
    }

    /// Has a router of the link advertise 2001:db8:NUMBER::/64.
    fn advertise(&mut self, ifindex: u32, number: u16, preferred: u32, valid: u32) {
        self.say(ifindex, number, Lifetimes { preferred, valid }, Origin::Kernel, false);
    }

    fn say(
        &mut self,
        ifindex: u32,
        number: u16,
        lifetimes: Lifetimes,
        origin: Origin,
        honors_zero: bool,
    ) {
        let prefix = Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0), 64);
        let information = PrefixInformation { prefix, on_link: true, autonomous: true, lifetimes };
        let said = Advertisement { ifindex, origin, prefixes: vec![information], honors_zero };
        self.table.handle_advertisement(&said, self.now);
    }

    fn set_by_hand(&mut self, ifindex: u32, text: &str) {
        let own = Own { flags: AddressFlags::PERMANENT, until: Until::FOREVER };
        self.addresses.insert((ifindex, address(text)), own);
    }

    fn view(&self) -> HostView {
        let mut view = HostView { in_use: self.in_use.clone(), ..HostView::default() };
        for ifindex in &self.interfaces {
            let uplink = self.interface(*ifindex);
            let is_uplink = uplink.addresses.iter().any(|own| own.preferred);
            if is_uplink { view.uplinks.push(uplink) } else { view.candidates.push(uplink) }
        }
        view
    }

    fn interface(&self, ifindex: u32) -> Uplink {
        let of = self.addresses.iter().filter(|((at, _), _)| *at == ifindex);
        let addresses = of.map(|((_, address), own)| {
            let lifetimes = own.until.left(self.now);
            let prefix_len = if self.singles.contains(address) { 128 } else { 64 };
            let mut shown = UplinkAddress::new(*address, prefix_len, own.flags, lifetimes);
            shown.preferred &= lifetimes.preferred > 0;
            shown
        });
        Uplink {
            default_routes: vec![DefaultRoute::new(1024 * ifindex, None)],
            addresses: addresses.collect(),
            has_neighbors: !self.tunnels.contains(&ifindex),
            ..Uplink::new(ifindex, format!("up{ifindex}"))
        }
    }

    /// Plans and executes until nothing is left to do.
    fn settle(&mut self) -> Vec<Plan> {
        let mut plans = Vec::new();
        loop {
            let (view, advertised) = (self.view(), self.table.prefixes().collect::<Vec<_>>());
            let seen = Seen { view: &view, at: self.now, advertised: &advertised };
            let plan = self.planner.plan(&seen, self.now);
            if plan.actions.is_empty() && !plan.is_changed {
                return plans;
            }
            for action in &plan.actions {
                self.carry_out(action);
                self.planner.on_done(action, self.now);
            }
            plans.push(plan);
            assert!(plans.len() < 10, "it does not settle: {plans:?}");
        }
    }

    fn carry_out(&mut self, action: &Action) {
        match *action {
            Action::Solicit { .. } => {}
            Action::Add { ifindex, address, preferred } => {
                let tentative = if self.is_detecting { AddressFlags::TENTATIVE.0 } else { 0 };
                let flags = AddressFlags(AddressFlags::PERMANENT.0 | tentative);
                let until = Until::of(Lifetimes { preferred, valid: u32::MAX }, self.now);
                let own = Own { flags, until };
                assert!(self.addresses.insert((ifindex, address), own).is_none());
            }
            Action::SetLifetimes { ifindex, address, lifetimes } => {
                assert!(lifetimes.valid > 0, "the kernel refuses that");
                let until = Until::of(lifetimes, self.now);
                let flags = AddressFlags(0);
                self.addresses.insert((ifindex, address), Own { flags, until });
            }
            Action::Remove { ifindex, address } => {
                assert!(self.addresses.remove(&(ifindex, address)).is_some());
            }
        }
    }

    /// Ends duplicate address detection with these addresses taken. The kernel removes a duplicate that has
    /// lifetimes.
    fn detect(&mut self, is_taken: impl Fn(Ipv6Addr) -> bool) {
        for ((_, address), own) in &mut self.addresses {
            if own.flags.contains(AddressFlags::TENTATIVE) {
                assert_eq!(own.until.valid, None, "the kernel would remove a duplicate");
                let failed = if is_taken(*address) { AddressFlags::DAD_FAILED.0 } else { 0 };
                own.flags = AddressFlags(AddressFlags::PERMANENT.0 | failed);
            }
        }
    }

    fn advance(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
        let now = self.now;
        self.table.handle_timeout(now);
        self.addresses.retain(|_, own| !own.until.is_over(now));
    }

    /// Our addresses on an interface, with their proofs.
    fn ours(&self, ifindex: u32) -> Vec<(Ipv6Addr, Kind)> {
        let of = self.addresses.keys().filter(|(at, _)| *at == ifindex);
        of.filter_map(|(_, address)| Some((*address, self.planner.member(*address)?.kind)))
            .collect()
    }

    fn kinds(&self, ifindex: u32) -> Vec<(u16, Kind)> {
        let number = |address: Ipv6Addr| address.segments()[2];
        self.ours(ifindex).into_iter().map(|(address, kind)| (number(address), kind)).collect()
    }

    fn left(&self, at: (u32, Ipv6Addr)) -> (u32, u32) {
        let left = self.addresses[&at].until.left(self.now);
        (left.preferred, left.valid)
    }

    fn only(&self, ifindex: u32) -> Ipv6Addr {
        let ours = self.ours(ifindex);
        assert_eq!(ours.len(), 1, "{ours:?}");
        ours[0].0
    }
}
