//! Properties of a host's own addresses, beside a model of the kernel.

use proptest::prelude::*;

use super::*;

/// Event at a host. Prefixes and interfaces have numbers.
#[derive(Clone, Debug)]
enum Op {
    /// A router advertises a prefix: preferred and valid lifetime, seconds.
    Advertise(u32, u16, u32, u32),
    Advance(u64),
    /// A person sets an address.
    Set(u32, u16),
    /// A person removes an address that a person has set.
    Unset(u32, u16),
    /// The kernel makes a temporary address beside the one of a prefix.
    MakeTemporary(u32, u16),
    /// A link goes down with all its addresses, and comes back.
    Flap(u32),
    Restart,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let lifetime = || prop::sample::select(vec![0, 60, 1800, 7200, 90_000, u32::MAX]);
    let interface = || 1..3_u32;
    let number = || 1..4_u16;
    let op = prop_oneof![
        5 => (interface(), number(), lifetime(), lifetime())
            .prop_map(|(at, number, one, other)| Op::Advertise(at, number, one.min(other), one.max(other))),
        3 => prop::sample::select(vec![1, 30, 61, 1801, 7300]).prop_map(Op::Advance),
        1 => (interface(), number()).prop_map(|(at, number)| Op::Set(at, number)),
        1 => (interface(), number()).prop_map(|(at, number)| Op::Unset(at, number)),
        1 => (interface(), number()).prop_map(|(at, number)| Op::MakeTemporary(at, number)),
        1 => interface().prop_map(Op::Flap),
        1 => Just(Op::Restart),
    ];
    prop::collection::vec(op, 1..25)
}

fn of(number: u16, last: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, last)
}

/// Last groups of addresses: made by the kernel, temporary, set by hand.
const KERNEL: u16 = 0x77;
const TEMPORARY: u16 = 0x78;
const BY_HAND: u16 = 0x5;

impl World {
    fn do_op(&mut self, op: &Op) {
        match *op {
            Op::Advertise(at, number, preferred, valid) => {
                self.advertise(at, number, preferred, valid);
                self.kernel_hears((at, of(number, KERNEL)), Lifetimes { preferred, valid });
            }
            Op::Advance(seconds) => self.advance(seconds),
            Op::Set(at, number) => {
                let own = Own { flags: AddressFlags::PERMANENT, until: Until::FOREVER };
                self.addresses.insert((at, of(number, BY_HAND)), own);
            }
            Op::Unset(at, number) => drop(self.addresses.remove(&(at, of(number, BY_HAND)))),
            Op::MakeTemporary(at, number) => {
                if let Some(public) = self.addresses.get(&(at, of(number, KERNEL))).copied() {
                    let own = Own { flags: AddressFlags::TEMPORARY, ..public };
                    self.addresses.insert((at, of(number, TEMPORARY)), own);
                }
            }
            Op::Flap(at) => {
                self.addresses.retain(|(ifindex, _), _| *ifindex != at);
                self.interfaces.remove(&at);
                self.table.retain_interfaces(|ifindex| ifindex != at);
                self.settle();
                self.interfaces.insert(at);
            }
            Op::Restart => self.restart(),
        }
    }

    /// Takes the lifetimes of an advertisement by RFC 4862 s5.5.3 d and e, as Linux does.
    fn kernel_hears(&mut self, at: (u32, Ipv6Addr), said: Lifetimes) {
        let mut valid = said.valid;
        if let Some(own) = self.addresses.get(&at) {
            let stored = own.until.left(self.now).valid;
            if valid <= TWO_HOURS && valid <= stored {
                valid = stored.min(TWO_HOURS);
            }
        }
        if valid > 0 {
            let lifetimes = Lifetimes { preferred: said.preferred.min(valid), valid };
            let own = Own { flags: AddressFlags(0), until: Until::of(lifetimes, self.now) };
            self.addresses.insert(at, own);
        }
    }

    fn is_ours(&self, address: Ipv6Addr) -> bool {
        self.planner.member(address).is_some()
    }

    /// All addresses except ours, with their ends.
    fn others(&self) -> Vec<((u32, Ipv6Addr), Until)> {
        let others = self.addresses.iter().filter(|((_, address), _)| !self.is_ours(*address));
        others.map(|(at, own)| (*at, own.until)).collect()
    }

    /// Checks that each address of ours ends with the kernel's address in the same prefix, or sooner. An address
    /// beside one that a person has set is left out.
    fn check_lifetimes(&self) {
        for (&(at, address), own) in self.addresses.iter().filter(|((_, a), _)| self.is_ours(*a)) {
            let number = address.segments()[2];
            if self.addresses.contains_key(&(at, of(number, BY_HAND))) {
                continue;
            }
            let kernels = self.addresses.get(&(at, of(number, KERNEL)));
            let kernels = kernels.unwrap_or_else(|| panic!("{address} on {at} has outlived them"));
            let is_later = |ours: Option<Instant>, theirs: Option<Instant>| match (ours, theirs) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(ours), Some(theirs)) => ours > theirs.max(self.now) + Duration::from_secs(4),
            };
            let (ours, theirs) = (own.until, kernels.until);
            assert!(!is_later(ours.preferred, theirs.preferred), "{address}: {ours:?} {theirs:?}");
            assert!(!is_later(ours.valid, theirs.valid), "{address}: {ours:?} {theirs:?}");
        }
    }

    /// Checks that an address of others comes after ours if ours can replace it, and only then.
    fn check_outranked(&mut self) {
        let (view, advertised) = (self.view(), self.table.prefixes().collect::<Vec<_>>());
        let seen = Seen { view: &view, at: self.now, advertised: &advertised };
        let outranked = self.planner.plan(&seen, self.now).outranked;
        for ((at, address), _) in self.others() {
            let has_better = self.addresses.iter().any(|((on, ours), own)| {
                let is_near = *on == at && Locator(*ours).prefix() == Locator(address).prefix();
                is_near && self.is_ours(*ours) && own.until.left(self.now).preferred > 0
            });
            assert_eq!(outranked.contains(&(at, address)), has_better, "{address} on {at}");
        }
        assert!(outranked.iter().all(|(_, address)| !self.is_ours(*address)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_hosts_own_addresses_are_left_alone_and_ours_last_no_longer(ops in ops()) {
        let mut world = World::new(AddressMode::Cga);
        world.interfaces = BTreeSet::from([1, 2]);
        for op in &ops {
            world.do_op(op);
            let before = world.others();
            for plan in world.settle() {
                for action in plan.actions {
                    match action {
                        Action::Solicit { .. } => {}
                        Action::Add { address, .. }
                        | Action::SetLifetimes { address, .. }
                        | Action::Remove { address, .. } => prop_assert!(world.is_ours(address)),
                    }
                }
            }
            prop_assert_eq!(world.others(), before);
            world.check_lifetimes();
            world.check_outranked();
        }
    }
}

/// Two hours in seconds.
const TWO_HOURS: u32 = 7200;
