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

mod properties;
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

#[test]
fn both_isps_prefixes_come_into_one_set() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    assert_eq!(world.kinds(1), [(1, Kind::HbaCompatible)]);
    assert_eq!(world.kinds(2), [(2, Kind::HbaCompatible)]);
    assert_eq!(world.left((1, world.only(1))), (1800, 3600));
    // Peers are told all addresses, and nothing is signed.
    let local = world.planner.announced(&world.view());
    assert_eq!(local.present, [world.only(1), world.only(2)].map(Locator));
    let proof = LocalProof::new(1, local, &[], [0; 32]);
    let told = proof.announcement_for(Locator(world.only(1)).as_ulid()).unwrap();
    assert!(told.signature().is_none());
    assert_eq!(told.list().entries.len(), 2);
    assert!(world.settle().is_empty());
}

#[test]
fn each_mode_makes_its_own_kind() {
    for (mode, kind) in [(AddressMode::Cga, Kind::Cga), (AddressMode::Hba, Kind::Hba)] {
        let world = World::with_two(mode);
        assert_eq!(world.kinds(1), [(1, kind)]);
        assert_eq!(world.kinds(2), [(2, kind)]);
    }
    let mut world = World::with_two(AddressMode::Off);
    assert!(world.ours(1).is_empty());
    world.set_by_hand(1, "2001:db8:1::5");
    assert!(world.settle().is_empty(), "not even the kernel's own addresses are touched");
}

#[test]
fn the_first_start_waits_a_moment_for_the_second_prefix_and_no_longer() {
    let mut world = World::new(AddressMode::HbaCompatible);
    world.interfaces = BTreeSet::from([1, 2]);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert!(world.ours(1).is_empty());
    let until = world.planner.poll_timeout().unwrap();
    assert_eq!(until, world.now + GATHER);
    world.advance(1);
    world.advertise(2, 2, 1800, 3600);
    world.settle();
    assert_eq!(world.kinds(2), [(2, Kind::HbaCompatible)]);
    assert_eq!(world.planner.poll_timeout(), None);

    let mut world = World::new(AddressMode::HbaCompatible);
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert!(world.ours(1).is_empty());
    world.advance(2);
    world.settle();
    assert_eq!(world.kinds(1), [(1, Kind::HbaCompatible)]);
}

#[test]
fn a_prefix_that_goes_before_the_first_set_leaves_nothing_due_and_the_next_waits_for_others() {
    let mut world = World::new(AddressMode::HbaCompatible);
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 1, 1);
    world.settle();
    assert!(world.planner.poll_timeout().is_some());
    world.advance(3);
    world.settle();
    assert_eq!(world.planner.poll_timeout(), None);
    world.advertise(1, 2, 1800, 3600);
    world.settle();
    assert_eq!(world.planner.poll_timeout(), Some(world.now + GATHER));
    assert!(world.ours(1).is_empty());
    world.advance(2);
    world.settle();
    assert_eq!(world.kinds(1), [(2, Kind::HbaCompatible)]);
}

#[test]
fn a_set_that_cannot_be_made_is_tried_again_later_and_is_told_of_meanwhile() {
    let mut world = World::new(AddressMode::HbaCompatible);
    // A planner without the key.
    world.planner = Planner::new(world.policy.clone(), BTreeMap::new(), Vec::new(), [7; 32]);
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    for _ in 0..3 {
        world.advance(2);
        world.settle();
        assert_eq!(world.planner.poll_timeout(), Some(world.now + RETRY));
        let [warning] = world.planner.warnings() else { panic!() };
        assert!(warning.starts_with("no addresses are made"), "{warning}");
    }
}

#[test]
fn a_later_prefix_gets_a_cga_of_the_same_key() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let before = [world.only(1), world.only(2)];
    world.advertise(2, 3, 600, 1200);
    world.settle();
    assert_eq!(world.kinds(2), [(2, Kind::HbaCompatible), (3, Kind::Cga)]);
    assert!(before.iter().all(|old| world.planner.member(*old).is_some()));
    let [set] = &world.planner.groups()[0].sets[..] else { panic!() };
    let cga = world.planner.announced(&world.view()).cgas.remove(0);
    assert_eq!(set.set.public_key().as_ref(), Some(cga.public_key()));
    assert!(world.planner.warnings().is_empty());
}

#[test]
fn a_fixed_set_takes_no_later_prefix_and_says_so() {
    let mut world = World::with_two(AddressMode::Hba);
    world.advertise(2, 3, 600, 1200);
    world.settle();
    assert_eq!(world.kinds(2), [(2, Kind::Hba)]);
    let [warning] = world.planner.warnings() else { panic!() };
    assert!(warning.starts_with("up2: 2001:db8:3::/64 is not in the HBA set"), "{warning}");
    assert!(warning.ends_with("Set addresses = \"hba-compatible\"."), "{warning}");
}

#[test]
fn the_next_start_has_the_same_addresses() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    world.advertise(1, 3, 600, 1200);
    world.settle();
    let before: Vec<_> = [1, 2].map(|at| world.ours(at)).concat();
    // The daemon has stopped in order: no address is left on the interfaces.
    world.restart();
    world.addresses.clear();
    world.advertise(2, 2, 1800, 3600);
    world.settle();
    for (ifindex, number) in [(1, 1), (1, 3)] {
        world.advertise(ifindex, number, 1800, 3600);
    }
    world.settle();
    assert_eq!([1, 2].map(|at| world.ours(at)).concat(), before);
}

#[test]
fn what_a_crash_left_stays_until_routers_have_spoken() {
    let mut world = World::with_two(AddressMode::Cga);
    let before = world.addresses.keys().copied().collect::<Vec<_>>();
    world.restart();
    let actions: Vec<_> = world.settle().into_iter().flat_map(|plan| plan.actions).collect();
    let asked = [1, 2].map(|ifindex| Action::Solicit { ifindex });
    assert_eq!(actions, asked, "nothing else");
    world.advertise(1, 1, 1800, 3600);
    world.advertise(2, 2, 1800, 3600);
    world.settle();
    assert_eq!(world.addresses.keys().copied().collect::<Vec<_>>(), before);
}

#[test]
fn what_a_crash_left_without_an_end_gets_one_where_routers_say_nothing() {
    let mut world = World::with_two(AddressMode::Cga);
    let at = (1, world.only(1));
    world.addresses.get_mut(&at).unwrap().until = Until::FOREVER;
    world.restart();
    let view = world.view();
    let seen = Seen { view: &view, at: world.now, advertised: &[] };
    for action in world.planner.plan(&seen, world.now).actions {
        world.planner.on_done(&action, world.now);
    }
    assert_eq!(world.planner.poll_timeout(), Some(world.now + ANSWERS), "nothing else happens");
    world.advance(ANSWERS.as_secs());
    world.settle();
    assert_eq!(world.left(at), (0, 7200));
}

#[test]
fn lifetimes_follow_the_routers() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let at = (1, world.only(1));
    world.advance(1000);
    assert_eq!(world.left(at), (800, 2600));
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert_eq!(world.left(at), (1800, 3600));
    assert!(world.settle().is_empty());
    // No router renews the prefix.
    world.advance(1801);
    world.settle();
    assert_eq!(world.left(at).0, 0);
    assert!(world.view().candidates.iter().any(|one| one.ifindex == 1), "deprecated");
    world.advance(1800);
    world.settle();
    assert!(world.ours(1).is_empty());
    // The prefix comes back, and its address is the same.
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert_eq!(world.only(1), at.1);
}

#[test]
fn renumbering_deprecates_the_old_address_and_a_withdrawal_takes_it() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let old = (1, world.only(1));
    world.advertise(1, 1, 0, 3600);
    world.advertise(1, 3, 1800, 3600);
    world.settle();
    assert_eq!(world.left(old), (0, 3600));
    assert_eq!(world.kinds(1), [(1, Kind::HbaCompatible), (3, Kind::Cga)]);
    let new = world.ours(1)[1].0;
    let present = world.planner.announced(&world.view()).present;
    assert_eq!(present[..1], [Locator(new)], "what is for new traffic comes first");
    assert_eq!(present.last(), Some(&Locator(old.1)));

    // RFC 4862 s5.5.3 e: not less than the remaining time, two hours at most.
    world.advertise(1, 1, 0, 0);
    world.settle();
    assert_eq!(world.left(old), (0, 3600));
    world.say(1, 1, Lifetimes { preferred: 0, valid: 0 }, Origin::Kernel, true);
    world.settle();
    assert_eq!(world.only(1), new, "where the host honours it, it is gone at once");
    // Peers can still know this host by the old address.
    assert!(world.planner.member(old.1).is_some());
}

#[test]
fn a_long_lifetime_is_cut_to_two_hours_by_a_withdrawal() {
    let mut world = World::new(AddressMode::Cga);
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 86_400, 172_800);
    world.settle();
    world.advertise(1, 1, 0, 0);
    world.settle();
    assert_eq!(world.left((1, world.only(1))), (0, 7200));
}

#[test]
fn prefixes_of_addresses_set_by_hand_count_and_have_no_end() {
    let mut world = World::new(AddressMode::HbaCompatible);
    world.interfaces = BTreeSet::from([1, 2]);
    world.set_by_hand(1, "2001:db8:1::5");
    world.set_by_hand(2, "2001:db8:2::5");
    world.settle();
    assert_eq!(world.kinds(1), [(1, Kind::HbaCompatible)]);
    assert_eq!(world.left((1, world.only(1))), (u32::MAX, u32::MAX));
    // Routers advertise the same prefix and withdraw it: the address that a person has set stays.
    world.advertise(1, 1, 600, 1200);
    world.settle();
    assert_eq!(world.left((1, world.only(1))), (u32::MAX, u32::MAX));
}

/// The server of a VPN drops packets from addresses that it has not assigned.
#[test]
fn an_address_set_by_hand_on_a_tunnel_gives_a_prefix_only_where_a_person_asks_for_it() {
    let asked = PartOfRule { mode: Some(AddressMode::Cga), ..PartOfRule::default() };
    let named = PartOfRule { set: Some("other".to_owned()), ..PartOfRule::default() };
    let of_interface =
        |part: PartOfRule| (BTreeMap::from([("up2".to_owned(), part)]), BTreeMap::new());
    let of_prefix = (BTreeMap::new(), BTreeMap::from([(prefix(2), asked.clone())]));
    let nothing = (BTreeMap::new(), BTreeMap::new());
    let cases = [(nothing, 0), (of_interface(named), 0), (of_interface(asked), 1), (of_prefix, 1)];
    for ((interfaces, prefixes), made) in cases {
        let mut world =
            World::with(AddressPolicy { interfaces, prefixes, ..policy(AddressMode::Cga) });
        world.interfaces = BTreeSet::from([1, 2]);
        world.tunnels = BTreeSet::from([2]);
        world.set_by_hand(1, "2001:db8:1::5");
        world.set_by_hand(2, "2001:db8:2::5");
        world.settle();
        assert_eq!(world.ours(1).len(), 1);
        assert_eq!(world.ours(2).len(), made);
    }
}

/// A PPP link of an ISP has no neighbors either, and gets its prefix from a router.
#[test]
fn a_prefix_that_the_router_of_a_tunnel_advertises_is_like_others() {
    let mut world = World::new(AddressMode::Cga);
    (world.interfaces, world.tunnels) = (BTreeSet::from([1]), BTreeSet::from([1]));
    world.advertise(1, 1, 600, 1200);
    world.settle();
    assert_eq!(world.ours(1).len(), 1);
}

#[test]
fn a_network_manager_that_listens_itself_is_followed_by_its_addresses() {
    let mut world = World::new(AddressMode::Cga);
    world.interfaces = BTreeSet::from([1]);
    let lifetimes = Lifetimes { preferred: 600, valid: 1200 };
    let router =
        Origin::Router { address: address("fe80::1"), lifetime: Duration::from_secs(1800) };
    world.say(1, 1, lifetimes, router, false);
    world.settle();
    assert!(world.ours(1).is_empty(), "nobody on the host believes that router");
    let own = Own { flags: AddressFlags(0), until: Until::of(lifetimes, world.now) };
    world.addresses.insert((1, address("2001:db8:1::77")), own);
    world.settle();
    let at = (1, world.only(1));
    assert_eq!(world.left(at), (600, 1200));
    world.advance(500);
    let own = Own { flags: AddressFlags(0), until: Until::of(lifetimes, world.now) };
    world.addresses.insert((1, address("2001:db8:1::77")), own);
    world.settle();
    assert_eq!(world.left(at), (600, 1200));
}

#[test]
fn single_addresses_of_dhcp_make_no_prefix() {
    let mut world = World::new(AddressMode::Cga);
    world.interfaces = BTreeSet::from([1]);
    world.set_by_hand(1, "2001:db8:1::5");
    let mut view = world.view();
    view.uplinks[0].addresses[0].prefix_len = 128;
    let plan = world.planner.plan(&Seen { view: &view, at: world.now, advertised: &[] }, world.now);
    assert_eq!(plan.actions, [Action::Solicit { ifindex: 1 }]);
    let [warning] = world.planner.warnings() else { panic!() };
    assert!(warning.starts_with("up1: there is no prefix of 64 bits"), "{warning}");
}

#[test]
fn connections_of_another_uplink_can_move_to_a_single_address() {
    for (mode, is_told) in [(AddressMode::HbaCompatible, true), (AddressMode::Hba, false)] {
        let mut world = World::new(mode);
        world.interfaces = BTreeSet::from([1, 2]);
        world.advertise(1, 1, 1800, 3600);
        let single = address("2001:db8:2::5");
        world.singles.insert(single);
        world.set_by_hand(2, "2001:db8:2::5");
        world.settle();
        world.advance(GATHER.as_secs());
        world.settle();
        let key = RsaKey::generate(1024, &mut [7; 32]).unwrap();
        let local = world.planner.announced(&world.view());
        assert!(local.present.contains(&Locator(single)), "{mode:?}");
        let proof = LocalProof::new(1, local, &[&key], [1; 32]);
        let ours = world.only(1);
        assert_eq!(proof.locators_for(Locator(ours).as_ulid()).contains(&Locator(single)), is_told);
        assert_eq!(proof.lists(Locator(single)), is_told);
        let [warning] = world.planner.warnings() else { panic!() };
        assert_eq!(warning.contains("those of other uplinks can move to it"), is_told, "{warning}");
        assert!(warning.starts_with("up2: "), "{warning}");
    }
}

#[test]
fn a_duplicate_of_a_cga_is_replaced_twice_and_then_given_up() {
    let mut world = World::new(AddressMode::Cga);
    world.is_detecting = true;
    world.interfaces = BTreeSet::from([1]);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    let mut seen = BTreeSet::new();
    for round in 0..3 {
        let tentative = world.only(1);
        assert_eq!(world.planner.member(tentative).unwrap().collision_count, round);
        assert!(seen.insert(tentative));
        world.detect(|address| address == tentative);
        let plans = world.settle();
        let [Note::Duplicate { text, address }] = &plans[0].notes[..] else { panic!() };
        assert_eq!(*address, tentative);
        let ending = if round < 2 { "going on to the next" } else { "the third time: giving up" };
        assert!(text.ends_with(ending), "{text}");
        assert!(plans[0].is_changed, "the count is kept");
    }
    assert!(world.ours(1).is_empty());
    let [warning] = world.planner.warnings() else { panic!() };
    assert!(warning.starts_with("up1: another host has had three addresses of ours"), "{warning}");
    assert!(world.settle().is_empty());
}

#[test]
fn a_duplicate_in_a_set_changes_the_whole_set_and_keeps_the_old_one_for_its_contexts() {
    for mode in [AddressMode::Hba, AddressMode::HbaCompatible] {
        let mut world = World::new(mode);
        world.is_detecting = true;
        world.interfaces = BTreeSet::from([1, 2]);
        world.advertise(1, 1, 1800, 3600);
        world.advertise(2, 2, 1800, 3600);
        world.settle();
        let [first, second] = [world.only(1), world.only(2)];
        world.detect(|address| address == first);
        world.settle();
        // RFC 5535 s6 step 6.4.
        let replaced = world.only(1);
        assert_ne!(replaced, first);
        assert_eq!(world.planner.member(replaced).unwrap().collision_count, 1);
        assert_eq!(world.ours(2).len(), 2);
        world.detect(|_| false);
        world.settle();
        assert_eq!(world.left((1, replaced)), (1800, 3600));
        assert_eq!(world.left((2, second)).0, 0, "not for new traffic");
        let former = world.planner.member(second).unwrap();
        assert!(former.is_former && former.collision_count == 0);
        let local = world.planner.announced(&world.view());
        assert_eq!(local.sets.len(), 2);
        assert_eq!(local.present.last(), Some(&Locator(second)));
        world.restart();
        assert_eq!(world.planner.member(replaced).unwrap().collision_count, 1);
    }
}

#[test]
fn an_address_that_a_person_takes_away_stays_away_until_the_interface_comes_back() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let at = (1, world.only(1));
    world.addresses.remove(&at);
    for _ in 0..4 {
        world.settle();
        assert!(world.ours(1).is_empty(), "not when its lifetimes are over, either");
        world.advance(1200);
        world.advertise(1, 1, 1800, 3600);
    }
    world.interfaces.remove(&1);
    world.settle();
    world.interfaces.insert(1);
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert_eq!(world.only(1), at.1);
}

#[test]
fn an_interface_that_flaps_brings_back_no_address_that_a_person_took_from_another() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    let (by_hand, by_kernel) = ((1, world.only(1)), (2, world.only(2)));
    world.addresses.remove(&by_hand);
    world.settle();
    assert_eq!(world.planner.taken_away(), [("up1".to_owned(), by_hand.1)]);
    world.addresses.remove(&by_kernel);
    world.planner.on_interfaces_down(&BTreeSet::from([2]));
    world.settle();
    assert_eq!((world.ours(1), world.only(2)), (vec![], by_kernel.1));
    assert_eq!(world.planner.taken_away().len(), 1);
    world.set_by_hand(1, &by_hand.1.to_string());
    world.settle();
    assert_eq!(world.planner.taken_away(), []);
    assert_eq!(world.left(by_hand), (1800, 3600), "it is ours again");
}

#[test]
fn the_cga_of_an_address_in_use_outlives_many_networks() {
    let mut world = World::with_two(AddressMode::Cga);
    let (used, unused) = (world.only(1), world.only(2));
    world.in_use.insert(used);
    let roam = |world: &mut World, numbers: core::ops::Range<u16>| {
        for number in numbers {
            world.advance(3601);
            world.advertise(1, number, 1800, 3600);
            world.settle();
        }
    };
    roam(&mut world, 10..50);
    assert!(world.planner.member(unused).is_some(), "it is not known yet what is in use");
    world.planner.on_restored();
    roam(&mut world, 50..60);
    assert!(world.planner.member(used).is_some());
    assert!(world.planner.member(unused).is_none());
}

#[test]
fn an_address_that_the_kernel_took_a_moment_too_early_comes_back() {
    let mut world = World::with_two(AddressMode::Cga);
    let at = (1, world.only(1));
    world.advance(3598);
    world.addresses.remove(&at);
    world.settle();
    world.advertise(1, 1, 1800, 3600);
    world.settle();
    assert_eq!(world.only(1), at.1);
}

/// The address would exist for a moment only, and without an end.
#[test]
fn no_address_is_put_on_for_the_last_seconds_of_its_prefix() {
    let mut world = World::with_two(AddressMode::Cga);
    let at = (1, world.only(1));
    world.advance(3598);
    world.addresses.remove(&at);
    world.settle();
    assert_eq!(world.ours(1), []);
}

#[test]
fn addresses_on_a_link_without_a_default_route_follow_its_routers_all_the_same() {
    let mut world = World::with_two(AddressMode::Cga);
    let address = world.only(1);
    world.advance(900);
    world.advertise(1, 1, 1800, 3600);
    let mut view = world.view();
    let uplink = view.uplinks.remove(0);
    assert_eq!(uplink.ifindex, 1);
    view.bare.push(Uplink { default_routes: Vec::new(), gateway: None, ..uplink });
    let advertised: Vec<_> = world.table.prefixes().collect();
    let seen = Seen { view: &view, at: world.now, advertised: &advertised };
    let plan = world.planner.plan(&seen, world.now);
    let lifetimes = Lifetimes { preferred: 1800, valid: 3600 };
    assert_eq!(plan.actions, [Action::SetLifetimes { ifindex: 1, address, lifetimes }]);
}

#[test]
fn interfaces_may_have_sets_and_modes_of_their_own() {
    let mut policy = policy(AddressMode::HbaCompatible);
    for (name, mode, set) in
        [("up3", AddressMode::Hba, "servers"), ("up4", AddressMode::Off, "default")]
    {
        let part =
            PartOfRule { mode: Some(mode), set: Some(set.to_owned()), ..PartOfRule::default() };
        policy.interfaces.insert(name.to_owned(), part);
    }
    let mut world = World::with(policy);
    world.interfaces = BTreeSet::from([1, 2, 3, 4]);
    world.set_by_hand(4, "2001:db8:4::5");
    for ifindex in 1..=3 {
        world.advertise(ifindex, u16::try_from(ifindex).unwrap(), 1800, 3600);
    }
    world.settle();
    world.advance(2);
    world.settle();
    assert_eq!(world.kinds(2), [(2, Kind::HbaCompatible)]);
    assert_eq!(world.kinds(3), [(3, Kind::Hba)]);
    assert!(world.kinds(4).is_empty());
    assert_eq!(world.planner.groups().len(), 2);
    let by_hand = Locator(address("2001:db8:4::5"));
    let present = world.planner.announced(&world.view()).present;
    assert!(present.contains(&by_hand), "a key can sign for it: {present:?}");
}

#[test]
fn a_prefix_on_two_interfaces_gives_one_address() {
    let mut world = World::new(AddressMode::Cga);
    world.interfaces = BTreeSet::from([1, 2]);
    world.advertise(1, 1, 1800, 3600);
    world.advertise(2, 1, 1800, 3600);
    world.settle();
    assert_eq!((world.ours(1).len(), world.ours(2).len()), (1, 0));
    assert!(world.planner.groups()[0].address(prefix(1)).is_some());
}

/// Any node on the first link can advertise the prefix there.
#[test]
fn an_address_stays_on_its_link_while_routers_there_go_on_whoever_else_advertises_the_prefix() {
    let mut world = World::with_two(AddressMode::Cga);
    let address = world.only(2);
    world.advertise(1, 2, 86_400, 86_400);
    world.settle();
    assert_eq!(world.only(2), address);
    assert!(!world.addresses.contains_key(&(1, address)));
    let kinds = world.kinds(1);
    assert_eq!(kinds.len(), 1, "{kinds:?}");
    // The router of the second link withdraws the prefix.
    world.advertise(2, 2, 0, 7200);
    world.settle();
    assert!(world.addresses.contains_key(&(1, address)));
}
