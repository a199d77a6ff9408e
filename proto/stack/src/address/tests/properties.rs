use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap as Map;

#[derive(Clone, Debug)]
enum Op {
    Advertise(u16, u64, u64, bool),
    Add(u16, bool),
    Remove(u16),
    /// A message of another node about an address, by its place in the list.
    Solicit(usize, bool),
    Loop(usize),
    Conflict(usize),
    Link(bool),
    Forget,
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let time = || prop_oneof![Just(0), 1..20_u64, 3000..10_000_u64, 80_000..300_000_u64];
    prop_oneof![
        4 => (0..5_u16, time(), time(), any::<bool>())
            .prop_map(|(n, preferred, valid, is_multicast)| Op::Advertise(n, preferred, valid, is_multicast)),
        1 => (0..20_u16, any::<bool>()).prop_map(|(n, is_generated)| Op::Add(n, is_generated)),
        1 => (0..20_u16).prop_map(Op::Remove),
        2 => (0..20_usize, any::<bool>()).prop_map(|(at, is_probe)| Op::Solicit(at, is_probe)),
        1 => (0..20_usize).prop_map(Op::Loop),
        2 => (0..20_usize).prop_map(Op::Conflict),
        1 => any::<bool>().prop_map(Op::Link),
        1 => Just(Op::Forget),
        4 => time().prop_map(Op::Wait),
    ]
}

fn modes() -> impl Strategy<Value = Config> {
    let mode = prop_oneof![Just(Mode::Eui64), Just(Mode::Stable), Just(Mode::Temporary)];
    (mode, any::<bool>(), any::<bool>(), 0..3_u8).prop_map(
        |(mode, optimistic, dad_nonce, transmits)| Config {
            optimistic,
            dad_nonce,
            dad_transmits: transmits,
            ..config(mode)
        },
    )
}

/// Belief of a host that reads all outputs.
#[derive(Default)]
struct Model {
    groups: Map<Ipv6Addr, usize>,
    assigned: Map<Ipv6Addr, ()>,
}

impl Model {
    fn read(&mut self, addresses: &mut Addresses) {
        for output in outputs(addresses) {
            match output {
                Output::Join(group) => *self.groups.entry(group).or_default() += 1,
                Output::Leave(group) => {
                    let count = self.groups.get_mut(&group).expect("left, but not joined");
                    *count -= 1;
                    self.groups.retain(|_, count| *count > 0);
                }
                Output::Probe { target, .. } => {
                    let group = solicited_node(target);
                    assert!(self.groups.contains_key(&group), "a probe before the group is joined");
                }
                Output::Optimistic(address) | Output::Ready(address) => {
                    self.assigned.insert(address, ());
                }
                Output::Removed(address) => {
                    self.assigned.remove(&address);
                }
                Output::Duplicate(_)
                | Output::Deprecated(_)
                | Output::Preferred(_)
                | Output::Failed(_)
                | Output::Disabled => {}
            }
        }
    }

    fn check(&self, addresses: &Addresses) {
        // An address is tentative again after the link came back; so it may be less than what was assigned.
        for one in addresses.iter().filter(|one| one.state.is_assigned()) {
            assert!(self.assigned.contains_key(&one.address), "nobody was told of {one:?}");
            let group = solicited_node(one.address);
            assert!(self.groups.contains_key(&group), "the group of {one:?} is not joined");
        }
        let all = addresses.iter().count();
        assert!(self.groups.values().sum::<usize>() <= all && all <= MAX_ADDRESSES);
        for n in 0..5 {
            let here = addresses.iter().filter(|one| net(n).contains(one.address));
            assert!(here.count() <= MAX_ADDRESSES_OF_PREFIX);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn outputs_agree_with_states_and_nothing_outlives_its_time(
        config in modes(),
        ops in proptest::collection::vec(op(), 0..80),
    ) {
        let mut addresses = addresses(config);
        let (mut model, mut now) = (Model::default(), start());
        addresses.handle_link(true, now);
        for op in ops {
            let nth = |addresses: &Addresses, at: usize| {
                let count = addresses.iter().count().max(1);
                addresses.iter().nth(at % count).map(|one| one.address)
            };
            match op {
                Op::Advertise(n, preferred, valid, is_multicast) => {
                    let cause = Cause { is_multicast, knows_link_layer: true };
                    let [preferred, valid] = [preferred, valid].map(Duration::from_secs);
                    let option = information(net(n), preferred, valid);
                    let result = addresses.handle_prefixes([&option], cause, now);
                    prop_assert!(result.is_ok() || preferred > valid);
                }
                Op::Add(n, is_generated) => {
                    let lifetimes = Lifetimes::from_now(50 * SECOND, 99 * SECOND, now);
                    let one = Given { is_generated, lifetimes, ..given(host(n)) };
                    let result = addresses.add(&one, now);
                    prop_assert!(result.is_ok() || result == Err(Drop::PrefixLimit));
                }
                Op::Remove(n) => addresses.remove(host(n), now),
                Op::Solicit(at, is_probe) => if let Some(address) = nth(&addresses, at) {
                    let result = addresses.handle_solicitation(address, is_probe, None, now);
                    prop_assert!(result.is_ok());
                },
                Op::Loop(at) => if let Some(address) = nth(&addresses, at) {
                    let nonce = addresses.entries[&address].nonces.last().copied();
                    if let Some(nonce) = nonce {
                        let result = addresses.handle_solicitation(address, true, Some(&nonce), now);
                        prop_assert_eq!(result, Ok(Reply::Ignore));
                        prop_assert!(addresses.state(address).is_some());
                    }
                },
                Op::Conflict(at) => if let Some(address) = nth(&addresses, at) {
                    prop_assert!(addresses.handle_advertisement(address, now));
                },
                Op::Link(is_up) => addresses.handle_link(is_up, now),
                Op::Forget => addresses.forget(now),
                Op::Wait(seconds) => {
                    now = now + Duration::from_secs(seconds);
                    while let Some(at) = addresses.poll_timeout().filter(|at| *at <= now) {
                        addresses.handle_timeout(at);
                        prop_assert!(addresses.poll_timeout().is_none_or(|next| next > at));
                        model.read(&mut addresses);
                    }
                }
            }
            model.read(&mut addresses);
            model.check(&addresses);
            let is_over = |one: &Address| one.lifetimes.valid.is_some_and(|end| end < now);
            prop_assert!(!addresses.iter().any(|one| is_over(&one)));
        }
    }
}
