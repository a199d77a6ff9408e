use super::*;
use crate::temporary::{MAX_SETS, MAX_WITH_EVICTED, TemporaryLifetimes};

/// A host with temporary addresses and two ISPs whose prefixes last.
fn host() -> World {
    let mut policy = policy(AddressMode::HbaCompatible);
    policy.default.temporary = true;
    let mut world = World::with(policy);
    world.interfaces = BTreeSet::from([1, 2]);
    for number in [1, 2] {
        world.advertise(number, number.try_into().unwrap(), u32::MAX, u32::MAX);
    }
    world.planner.on_restored();
    world.settle();
    world
}

impl World {
    /// Lets time pass, and plans whenever the planner asks for it.
    fn live(&mut self, seconds: u64) {
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            let due = self.planner.poll_timeout().filter(|due| *due <= end);
            let step = due.unwrap_or(end).since(self.now).as_secs() + 1;
            self.advance(step);
            self.settle();
        }
    }

    /// Our addresses on an interface for new traffic.
    fn new_ones(&self, ifindex: u32) -> Vec<Ipv6Addr> {
        let ours = self.ours(ifindex).into_iter().map(|(address, _)| address);
        ours.filter(|address| self.left((ifindex, *address)).0 > 0).collect()
    }

    fn newest(&self, ifindex: u32) -> Ipv6Addr {
        let new = self.new_ones(ifindex);
        assert_eq!(new.len(), 1, "{new:?}");
        new[0]
    }

    fn sets(&self) -> usize {
        self.planner.groups().iter().map(|group| group.sets.len()).sum()
    }
}

#[test]
fn a_set_without_a_key_is_for_new_traffic_for_a_day_at_most() {
    let world = host();
    let groups = world.planner.groups();
    assert!(groups[0].sets[0].set.public_key().is_none());
    let at = (1, world.newest(1));
    let (preferred, valid) = world.left(at);
    assert!((DAY * 6 / 10..=DAY).contains(&preferred), "RFC 8981: MAX_DESYNC_FACTOR: {preferred}");
    assert_eq!(valid, 2 * DAY);
    assert_eq!(world.kinds(2), [(2, Kind::Hba)], "both are in one set");
    let local = world.planner.announced(&world.view());
    assert_eq!(local.temporary.keys().copied().collect::<Vec<_>>(), local.present);
}

#[test]
fn another_set_comes_before_the_end_of_the_one_before_which_stays_until_its_end() {
    let mut world = host();
    let first = world.newest(1);
    let preferred = u64::from(world.left((1, first)).0);
    world.live(preferred - 60);
    assert_eq!(world.newest(1), first);
    world.live(120);
    let second = world.newest(1);
    assert_ne!(second, first);
    let (new, valid) = world.left((1, first));
    assert_eq!(new, 0, "the first is deprecated");
    assert!(u64::from(valid) <= u64::from(2 * DAY) - preferred);
    world.live(u64::from(valid) + 60);
    assert!(!world.addresses.contains_key(&(1, first)), "nothing uses it");
    assert!(world.planner.member(first).is_none(), "and nothing tells of it");
}

#[test]
fn the_one_before_is_for_new_traffic_until_another_is() {
    let mut world = host();
    let first = world.newest(1);
    world.is_detecting = true;
    world.interfaces.insert(3);
    world.advertise(3, 3, u32::MAX, u32::MAX);
    world.settle();
    world.advance(GATHER.as_secs() + RETRY.as_secs());
    world.settle();
    assert_eq!(world.sets(), 2);
    assert!(world.left((1, first)).0 > 0, "detection of the other is going on");
    world.detect(|_| false);
    world.settle();
    assert_eq!(world.left((1, first)).0, 0);
    assert_ne!(world.newest(1), first);
    assert_eq!(world.kinds(3), [(3, Kind::Hba)], "the new network has an address");
}

#[test]
fn a_set_that_contexts_use_outlasts_its_time() {
    let mut world = host();
    let (first, beside) = (world.newest(1), world.newest(2));
    world.in_use.insert(first);
    world.live(u64::from(4 * DAY));
    for at in [(1, first), (2, beside)] {
        assert!(
            world.left(at).0 == 0 && world.left(at).1 > 0,
            "a context moves from one to the other"
        );
    }
    // If a link is down for a moment, the kernel removes all addresses.
    world.addresses.retain(|(ifindex, _), _| *ifindex != 1);
    world.planner.on_interfaces_down(&BTreeSet::from([1]));
    world.settle();
    assert!(world.addresses.contains_key(&(1, first)), "the context goes on");
    assert_eq!(world.left((1, first)).0, 0);
    world.in_use.clear();
    world.live(u64::from(DAY));
    assert!(
        !world.addresses.contains_key(&(1, first)) && !world.addresses.contains_key(&(2, beside))
    );
}

#[test]
fn a_restart_keeps_the_sets() {
    let mut world = host();
    world.live(u64::from(DAY) + 60);
    let (ours, newest) = (world.ours(1), world.newest(1));
    world.restart();
    world.advertise(1, 1, u32::MAX, u32::MAX);
    world.advertise(2, 2, u32::MAX, u32::MAX);
    world.settle();
    assert_eq!((world.ours(1), world.newest(1)), (ours, newest));
}

/// Peers of two sets that compare their generations do not learn that the sets are of one host.
#[test]
fn the_generations_of_a_set_begin_at_a_number_of_its_own_that_lasts() {
    let mut world = host();
    let first = world.newest(1);
    world.live(u64::from(DAY) + 60);
    let second = world.newest(1);
    let generations = |world: &World, counter| {
        let local = world.planner.announced(&world.view());
        let proof = LocalProof::new(counter, local, &[], [0; 32]);
        [first, second].map(|one| {
            let told = proof.announcement_for(Locator(one).as_ulid()).unwrap();
            told.list().generation
        })
    };
    let [of_first, of_second] = generations(&world, 7);
    assert!(of_first != of_second && of_first != 7 && of_second != 7);
    world.restart();
    let next = [of_first, of_second].map(|one| one.wrapping_add(1));
    assert_eq!(generations(&world, 8), next, "a newer list is newer for peers of before");
}

#[test]
fn a_clock_that_was_put_back_ends_a_set_for_new_traffic() {
    let lifetimes = TemporaryLifetimes::default();
    let now = Instant::ZERO + Duration::from_secs(50);
    let left = |preferred, valid| {
        let [preferred, valid] = [preferred, valid].map(Duration::from_secs);
        let left = lifetimes.restored(preferred, valid, now).left(now);
        (left.preferred, left.valid)
    };
    assert_eq!(left(3600, 90_000), (3600, 90_000));
    assert_eq!(left(0, 3600), (0, 3600));
    assert_eq!(left(400 * u64::from(DAY), 401 * u64::from(DAY)), (0, 2 * DAY));
    assert_eq!(left(7200, 3600), (3600, 3600));
}

/// The wall clock was set forward, and contexts come back only after the addresses.
#[test]
fn a_set_whose_saved_end_is_past_stays_at_a_restart_until_it_is_known_what_uses_it() {
    for is_used in [true, false] {
        let mut world = host();
        let first = world.newest(1);
        let (now, mut groups) = (world.now, world.planner.groups().to_vec());
        for one in groups.iter_mut().flat_map(|group| &mut group.sets) {
            one.until = world.policy.lifetimes.restored(Duration::ZERO, Duration::ZERO, now);
        }
        let keys = BTreeMap::from([("default".to_owned(), world.key.clone())]);
        world.planner = Planner::new(world.policy.clone(), keys, groups, [8; 32]);
        world.settle();
        world.live(30);
        assert!(world.addresses.contains_key(&(1, first)), "contexts are not back yet");
        assert_eq!(world.left((1, first)).0, 0, "it is deprecated");
        world.in_use.extend(is_used.then_some(first));
        world.planner.on_restored();
        world.settle();
        world.live(u64::from(DAY));
        assert_eq!(world.addresses.contains_key(&(1, first)), is_used);
    }
}

#[test]
fn no_set_makes_room_before_it_is_known_what_uses_it() {
    for with_time in [false, true] {
        let mut world = host();
        let first = world.newest(1);
        let say = |world: &mut World, numbers: core::ops::Range<u16>| {
            for number in numbers {
                world.say(
                    2,
                    number,
                    Lifetimes { preferred: 1800, valid: 7200 },
                    Origin::Kernel,
                    true,
                );
                world.settle();
                world.live(20);
            }
        };
        say(&mut world, 10..14);
        assert_eq!(world.sets(), MAX_SETS);
        world.restart();
        for number in [1, 2] {
            world.advertise(number, number.try_into().unwrap(), u32::MAX, u32::MAX);
        }
        world.settle();
        say(&mut world, 14..15);
        if with_time {
            world.live(u64::from(DAY));
        }
        assert!(world.addresses.contains_key(&(1, first)), "contexts are not back yet");
        assert!(world.planner.warnings().iter().all(|one| !one.contains("all sets")));
        world.planner.on_restored();
        world.settle();
        world.live(60);
        // A connection without a context may use the address for an hour.
        assert_eq!(world.addresses.contains_key(&(1, first)), !with_time);
    }
}

#[test]
fn a_host_that_comes_back_to_a_network_has_the_set_of_before() {
    let mut world = host();
    let roam = |world: &mut World, number| {
        for other in [1, 2, 3] {
            let is_here = other == number;
            let lifetime = if is_here { u32::MAX } else { 0 };
            world.say(
                1,
                other,
                Lifetimes { preferred: lifetime, valid: lifetime },
                Origin::Kernel,
                true,
            );
        }
        world.addresses.retain(|(ifindex, _), _| *ifindex != 1);
        world.planner.on_interfaces_down(&BTreeSet::from([1]));
        world.settle();
        world.live(30);
        world.newest(1)
    };
    world.interfaces.remove(&2);
    let home = roam(&mut world, 1);
    let away = roam(&mut world, 3);
    assert_eq!((roam(&mut world, 1), world.sets()), (home, 2));
    assert_eq!((roam(&mut world, 3), world.sets()), (away, 2));
    let iids = [home, away].map(|one| one.segments()[4..].to_vec());
    assert_ne!(iids[0], iids[1]);
    let prefixes = |at: usize| world.planner.groups()[0].sets[at].set.locators().len();
    assert_eq!(prefixes(1), 1, "the set of a new network does not tell of another");
}

#[test]
fn routers_that_tell_of_ever_new_prefixes_do_not_take_the_sets_that_are_used() {
    let mut world = host();
    world.in_use.insert(world.newest(1));
    let used = world.newest(1);
    for number in 10..40 {
        world.say(2, number, Lifetimes { preferred: 1800, valid: 7200 }, Origin::Kernel, true);
        world.say(2, number - 1, Lifetimes { preferred: 0, valid: 0 }, Origin::Kernel, true);
        world.settle();
        world.live(20);
        assert!(world.sets() <= MAX_SETS, "{}", world.sets());
    }
    assert!(world.addresses.contains_key(&(1, used)));
    // Contexts use each of the sets.
    let members = |world: &World| -> Vec<Ipv6Addr> {
        let sets = &world.planner.groups()[0].sets;
        sets.iter().map(|one| one.set.locators()[0].0).collect()
    };
    world.in_use = members(&world).into_iter().collect();
    let before = members(&world);
    world.say(2, 50, Lifetimes { preferred: 1800, valid: 7200 }, Origin::Kernel, true);
    world.settle();
    world.live(60);
    assert_eq!(members(&world), before);
    assert!(world.planner.warnings().iter().any(|one| one.contains("may use, all sets")));
    // The time of all sets ends: a new set replaces the oldest.
    world.live(u64::from(DAY));
    assert!(world.sets() <= MAX_SETS && !world.addresses.contains_key(&(1, used)));
}

#[test]
fn the_hosts_own_temporary_addresses_are_told_of_once() {
    let mut world = World::with_two(AddressMode::HbaCompatible);
    assert!(world.planner.warnings().is_empty());
    let own = Own {
        flags: AddressFlags::TEMPORARY,
        until: world.addresses.values().next().unwrap().until,
    };
    let told = |world: &mut World| {
        let view = world.view();
        let advertised: Vec<_> = world.table.prefixes().collect();
        let seen = Seen { view: &view, at: world.now, advertised: &advertised };
        let plan = world.planner.plan(&seen, world.now);
        (
            plan.notes.len(),
            world.planner.warnings().iter().filter(|one| one.contains("temporary = true")).count(),
        )
    };
    world.addresses.insert((1, address("2001:db8:1::7e")), own);
    assert_eq!(told(&mut world), (1, 1));
    assert_eq!(told(&mut world), (0, 1), "the log has it once");
    world.planner.policy.is_temporary_said = true;
    assert_eq!(told(&mut world), (0, 0), "a person has decided");
}

#[test]
fn duplicates_leave_room_for_the_sets_after_them() {
    let mut world = host();
    world.is_detecting = true;
    for _ in 0..10 {
        let first = world.newest(1);
        let left = u64::from(world.left((1, first)).0);
        world.live(left - 2);
        // The first two of three addresses are taken.
        for times in 0..3 {
            let new: Vec<_> = world
                .addresses
                .iter()
                .filter(|(_, own)| own.flags.contains(AddressFlags::TENTATIVE))
                .map(|(at, _)| at.1)
                .collect();
            world.detect(|address| {
                times < 2 && new.contains(&address) && address.segments()[2] == 1
            });
            world.settle();
        }
        world.live(20);
        assert_ne!(world.newest(1), first);
        assert!(world.sets() <= MAX_WITH_EVICTED, "{}", world.sets());
    }
}

/// A router advertises ever new prefixes, and withdraws the one before. Connections without a context use the earlier
/// addresses.
#[test]
fn no_prefixes_of_routers_take_the_addresses_of_connections_without_a_context_within_an_hour() {
    let mut world = host();
    let first = world.newest(1);
    for number in 10..180 {
        world.say(2, number, Lifetimes { preferred: 1800, valid: 7200 }, Origin::Kernel, true);
        world.say(2, number - 1, Lifetimes { preferred: 0, valid: 0 }, Origin::Kernel, true);
        world.settle();
        world.live(20);
        assert!(world.addresses.contains_key(&(1, first)), "prefix {number}");
    }
    assert_eq!(world.sets(), MAX_SETS);
    let [warning] = world.planner.warnings() else { panic!("{:?}", world.planner.warnings()) };
    assert!(warning.contains("no addresses are made for new prefixes"), "{warning}");
    world.live(300);
    assert_eq!(world.planner.warnings(), [""; 0], "the last prefix has its address");
    assert!(!world.addresses.contains_key(&(1, first)));
}

/// The addresses in earlier networks have gone with their prefixes.
#[test]
fn a_host_that_goes_from_network_to_network_has_a_set_in_each() {
    let mut world = host();
    world.interfaces = BTreeSet::from([1]);
    for number in 10..20 {
        let before = if number == 10 { 1 } else { number - 1 };
        world.say(1, before, Lifetimes { preferred: 0, valid: 0 }, Origin::Kernel, true);
        world.say(1, number, Lifetimes { preferred: 1800, valid: 7200 }, Origin::Kernel, true);
        world.settle();
        world.live(20);
        let newest = Locator(world.newest(1)).prefix();
        assert_eq!(newest[5], u8::try_from(number).unwrap(), "{newest:?}");
    }
}

const DAY: u32 = 24 * 60 * 60;
