mod autoconfiguration;
mod detection;
mod properties;
mod temporary;

use super::*;
use alloc::vec;
use moorline_ip::Mac;
use moorline_ip::address::with_interface_id;
use moorline_ip::nd::PrefixInformation;
use rand_core::SeedableRng as _;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const ALONE: Cause = Cause { is_multicast: false, knows_link_layer: false };
const ROUTER_KNOWN: Cause = Cause { is_multicast: true, knows_link_layer: true };

fn start() -> Instant {
    Instant::ZERO + 1000 * SECOND
}

fn config(mode: Mode) -> Config {
    Config { mode, ..Config::new(MAC) }
}

fn addresses(config: Config) -> Addresses {
    Addresses::new(config, ChaCha20Rng::seed_from_u64(5))
}

/// An interface whose link-local address is ready: with one probe, two seconds after [`start`].
fn ready(config: Config) -> Addresses {
    let mut addresses = addresses(config);
    addresses.handle_link(true, start());
    run(&mut addresses, start() + 5 * SECOND);
    assert!(addresses.link_local().is_some());
    outputs(&mut addresses);
    addresses
}

fn after(seconds: u64) -> Instant {
    start() + Duration::from_secs(seconds)
}

fn outputs(addresses: &mut Addresses) -> Vec<Output> {
    core::iter::from_fn(|| addresses.poll_output()).collect()
}

/// Runs all timers up to then; returns the outputs with their times.
fn run(addresses: &mut Addresses, until: Instant) -> Vec<(Instant, Output)> {
    let mut all = vec![];
    while let Some(at) = addresses.poll_timeout().filter(|at| *at <= until) {
        addresses.handle_timeout(at);
        assert!(addresses.poll_timeout().is_none_or(|next| next > at), "a timer that is due stays");
        all.extend(outputs(addresses).into_iter().map(|output| (at, output)));
    }
    all
}

fn net(n: u16) -> Prefix {
    Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 0, n, 0, 0, 0, 0), 64)
}

fn host(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0xff, 0, 0, 0, n)
}

fn information(prefix: Prefix, preferred: Duration, valid: Duration) -> PrefixInformation {
    PrefixInformation { prefix, on_link: true, autonomous: true, valid, preferred }
}

/// Takes an advertisement of a prefix, and returns the outputs that it draws at once.
fn advertise(
    addresses: &mut Addresses,
    n: u16,
    preferred: Duration,
    valid: Duration,
    now: Instant,
) {
    addresses.handle_prefixes([&information(net(n), preferred, valid)], ALONE, now).expect("valid");
}

fn given(address: Ipv6Addr) -> Given {
    let lifetimes = Lifetimes::FOREVER;
    Given { address, prefix_len: 64, is_generated: false, is_optimistic: false, lifetimes }
}

fn of(addresses: &Addresses, origin: Origin) -> Vec<Address> {
    addresses.iter().filter(|one| one.origin == origin).collect()
}

fn probed(outputs: &[Output]) -> Vec<Ipv6Addr> {
    let target = |output: &Output| match output {
        Output::Probe { target, .. } => Some(*target),
        Output::Join(_)
        | Output::Leave(_)
        | Output::Optimistic(_)
        | Output::Ready(_)
        | Output::Duplicate(_)
        | Output::Deprecated(_)
        | Output::Preferred(_)
        | Output::Removed(_)
        | Output::Failed(_)
        | Output::Disabled => None,
    };
    outputs.iter().filter_map(target).collect()
}

fn last_nonce(addresses: &Addresses, address: Ipv6Addr) -> [u8; 6] {
    *addresses.entries[&address].nonces.last().expect("nonce")
}

// RFC 4862 s5.3: the link-local address is the first one.
//= rfc8504#6.3-2 (test)
//= rfc7217#5-1 rfc7217#5-3 rfc7217#5-4 (test)
#[test]
fn the_link_local_address_comes_first_and_has_the_identifier_of_the_mode() {
    let mut seen = vec![];
    for mode in [Mode::Eui64, Mode::Stable, Mode::Temporary] {
        let addresses = ready(config(mode));
        let all: Vec<_> = addresses.iter().collect();
        assert_eq!(all.len(), 1);
        let expected = (Origin::LinkLocal, State::Preferred, 64, Lifetimes::FOREVER);
        assert_eq!((all[0].origin, all[0].state, all[0].prefix_len, all[0].lifetimes), expected);
        assert_eq!(addresses.link_local(), Some(all[0].address));
        seen.push(all[0].address);
    }
    assert_eq!(seen[0], "fe80::ff:fe00:1".parse::<Ipv6Addr>().expect("address"));
    assert_eq!(seen[1], seen[2]);
    assert!(seen[1].is_unicast_link_local() && seen[1] != seen[0]);
}

// RFC 7217 s5.
//= rfc7217#5-3 rfc7217#5-5 rfc7217#5-8 rfc7217#5-19 (test)
#[test]
fn stable_identifiers_depend_on_prefix_interface_counter_and_key() {
    let id =
        |n, mac, counter, key| interface_id::stable(net(n), Mac([mac; 6]), counter, &[key; 16]);
    let one = id(1, 1, 0, 1);
    assert_eq!(one, id(1, 1, 0, 1));
    for other in [id(2, 1, 0, 1), id(1, 2, 0, 1), id(1, 1, 1, 1), id(1, 1, 0, 2)] {
        assert_ne!(one, other);
    }
}

// With a configured key, addresses do not depend on the seed; without one they do.
//= rfc7217#5-6 rfc7217#5-7 rfc7217#5-13 rfc7217#5-14 rfc7217#5-15 rfc7217#5-18 (test)
#[test]
fn the_key_is_the_configured_one_or_drawn() {
    let link_local = |secret, seed| {
        let config = Config { secret, ..config(Mode::Stable) };
        let mut addresses = Addresses::new(config, ChaCha20Rng::seed_from_u64(seed));
        addresses.handle_link(true, start());
        of(&addresses, Origin::LinkLocal)[0].address
    };
    assert_eq!(link_local(Some([7; 16]), 1), link_local(Some([7; 16]), 2));
    assert_eq!(link_local(None, 1), link_local(None, 1));
    assert_ne!(link_local(None, 1), link_local(None, 2));
}

// RFC 5453.
//= rfc8981#3.3.1-1 (test)
//= rfc7217#5-16 (test)
#[test]
fn reserved_identifiers_are_known() {
    let is_reserved = |id: u64| interface_id::is_reserved(id.to_be_bytes());
    for id in [0, 0x0200_5eff_fe00_5213, 0xfdff_ffff_ffff_ff80, 0xfdff_ffff_ffff_ffff] {
        assert!(is_reserved(id), "{id:x}");
    }
    for id in [1, 0x0200_5eff_fdff_ffff, 0x0200_5eff_ff00_0000, 0xfdff_ffff_ffff_ff7f, u64::MAX] {
        assert!(!is_reserved(id), "{id:x}");
    }
}

#[test]
fn equal_seeds_and_inputs_give_equal_outputs() {
    let record = |seed| {
        let mut addresses =
            Addresses::new(config(Mode::Temporary), ChaCha20Rng::seed_from_u64(seed));
        addresses.handle_link(true, start());
        advertise(&mut addresses, 1, HOUR, 9 * HOUR, start());
        run(&mut addresses, after(10_000))
    };
    assert_eq!(record(1), record(1));
    assert_ne!(record(1), record(2));
}

//= rfc8504#6.3-5 (test)
//= rfc7527#4.1-4 (test)
//= rfc4862#5.4-1 rfc4862#5.4-3 (test)
//= rfc4861#7.2.1-2 (test)
#[test]
fn a_given_address_is_probed_at_once_and_stays_until_it_is_removed() {
    let mut addresses = ready(config(Mode::Stable));
    addresses.add(&given(host(1)), start()).expect("room");
    let group = solicited_node(host(1));
    let nonce = Some(last_nonce(&addresses, host(1)));
    let expected = [Output::Join(group), Output::Probe { target: host(1), nonce }];
    assert_eq!(outputs(&mut addresses), expected);
    assert_eq!(addresses.state(host(1)), Some(State::Tentative));
    // RFC 4862 s5.4: packets to a tentative address are discarded.
    assert!(!addresses.is_ours(host(1)));
    assert_eq!(run(&mut addresses, after(99)), [(after(1), Output::Ready(host(1)))]);
    assert!(addresses.is_ours(host(1)) && !addresses.is_ours(host(2)));
    assert_eq!(addresses.poll_timeout(), None);
    addresses.remove(host(1), after(99));
    addresses.remove(host(2), after(99));
    assert_eq!(outputs(&mut addresses), [Output::Leave(group), Output::Removed(host(1))]);
    assert!(!addresses.is_ours(host(1)));
}

// RFC 4862 s5.5.4.
#[test]
fn an_address_is_deprecated_and_removed_by_its_lifetimes() {
    let mut addresses = ready(config(Mode::Stable));
    let lifetimes = |preferred, valid| Lifetimes::from_now(preferred, valid, start());
    let one = Given { lifetimes: lifetimes(10 * SECOND, 20 * SECOND), ..given(host(1)) };
    addresses.add(&one, start()).expect("room");
    run(&mut addresses, after(9));
    assert_eq!(addresses.state(host(1)), Some(State::Preferred));
    assert_eq!(run(&mut addresses, after(10)), [(after(10), Output::Deprecated(host(1)))]);
    assert_eq!(addresses.state(host(1)), Some(State::Deprecated));
    assert!(addresses.is_ours(host(1)));
    // The caller may prolong it.
    let longer = Given { lifetimes: lifetimes(15 * SECOND, 20 * SECOND), ..one };
    addresses.add(&longer, after(11)).expect("room");
    assert_eq!(outputs(&mut addresses), [Output::Preferred(host(1))]);
    let group = solicited_node(host(1));
    let expected = [
        (after(15), Output::Deprecated(host(1))),
        (after(20), Output::Leave(group)),
        (after(20), Output::Removed(host(1))),
    ];
    assert_eq!(run(&mut addresses, after(99)), expected);
    assert_eq!(addresses.state(host(1)), None);
    // An address that is deprecated from its beginning.
    let old = Given { lifetimes: lifetimes(Duration::ZERO, HOUR), ..given(host(2)) };
    addresses.add(&old, start()).expect("room");
    run(&mut addresses, after(1));
    assert_eq!(addresses.state(host(2)), Some(State::Deprecated));
}

#[test]
fn addresses_that_no_host_has_are_refused() {
    let mut addresses = ready(config(Mode::Stable));
    for text in ["ff02::1", "::", "::1"] {
        let bad = given(text.parse().expect("address"));
        assert_eq!(addresses.add(&bad, start()), Err(Drop::BadSource));
    }
    assert_eq!((addresses.iter().count(), outputs(&mut addresses)), (1, vec![]));
}

// The bounds MAX_ADDRESSES and MAX_ADDRESSES_OF_PREFIX.
//= rfc8504#6.2-2 rfc8504#6.2-3 (test)
#[test]
fn addresses_are_bounded_in_a_prefix_and_in_all() {
    let mut addresses = ready(config(Mode::Stable));
    for n in 0..16 {
        addresses.add(&given(host(n)), start()).expect("room");
    }
    assert_eq!(addresses.add(&given(host(16)), start()), Err(Drop::PrefixLimit));
    addresses.add(&given(host(3)), start()).expect("an address that is there");
    for n in 0..47 {
        addresses.add(&given(with_id(n, 1)), start()).expect("room");
    }
    assert_eq!(addresses.iter().count(), MAX_ADDRESSES);
    assert_eq!(addresses.add(&given(with_id(47, 1)), start()), Err(Drop::PrefixLimit));
    addresses.remove(host(0), start());
    addresses.add(&given(with_id(47, 1)), start()).expect("room");
}

fn with_id(n: u16, id: u8) -> Ipv6Addr {
    with_interface_id(net(n).address(), [0, 0, 0, 0, 0, 0, 0, id])
}

#[test]
fn a_link_that_comes_back_has_all_addresses_checked_again() {
    let mut addresses = ready(config(Mode::Stable));
    addresses.add(&given(host(1)), after(2)).expect("room");
    advertise(&mut addresses, 1, HOUR, 9 * HOUR, after(2));
    run(&mut addresses, after(5));
    let before: Vec<_> = addresses.iter().map(|one| one.address).collect();
    addresses.add(&given(host(2)), after(5)).expect("room");
    outputs(&mut addresses);
    addresses.handle_link(false, after(5));
    // What was assigned stays so, and what was not does not become so.
    assert!(before.iter().all(|address| addresses.is_ours(*address)));
    assert!(run(&mut addresses, after(50)).is_empty());
    assert_eq!(addresses.state(host(2)), Some(State::Tentative));
    addresses.handle_link(true, after(60));
    assert!(addresses.iter().all(|one| one.state == State::Tentative));
    let all: Vec<_> = run(&mut addresses, after(70)).into_iter().map(|(_, one)| one).collect();
    let mut targets = probed(&all);
    targets.sort_unstable();
    let now: Vec<_> = addresses.iter().map(|one| one.address).collect();
    assert_eq!(targets, now);
    assert_eq!(now.len(), before.len() + 1);
    // The groups are joined already.
    assert!(!all.iter().any(|output| matches!(output, Output::Join(_))), "{all:?}");
    assert!(addresses.iter().all(|one| one.state == State::Preferred));
}

// RFC 8981 s3.6.
//= rfc8981#3.6-5 (test)
#[test]
fn on_another_link_only_the_addresses_of_the_caller_stay() {
    let mut addresses = ready(config(Mode::Temporary));
    addresses.add(&given(host(1)), after(2)).expect("room");
    advertise(&mut addresses, 1, 24 * HOUR, 48 * HOUR, after(2));
    run(&mut addresses, after(5));
    let temporary = of(&addresses, Origin::Temporary)[0].address;
    addresses.forget(after(6));
    assert!(outputs(&mut addresses).contains(&Output::Removed(temporary)));
    run(&mut addresses, after(10));
    let origins: Vec<_> = addresses.iter().map(|one| one.origin).collect();
    assert_eq!(origins, [Origin::Manual, Origin::LinkLocal]);
    advertise(&mut addresses, 1, 24 * HOUR, 48 * HOUR, after(10));
    assert_ne!(of(&addresses, Origin::Temporary)[0].address, temporary);
}

// RFC 7217 s5: an identifier that is in use is handled "in the same way as the case of duplicate addresses".
//= rfc7217#5-17 (test)
#[test]
fn an_identifier_that_is_in_use_counts_as_a_duplicate() {
    let with_key = Config { secret: Some([7; 16]), ..config(Mode::Stable) };
    let made = |taken: Option<Ipv6Addr>| {
        let mut addresses = ready(with_key);
        if let Some(address) = taken {
            addresses.add(&given(address), start()).expect("room");
        }
        advertise(&mut addresses, 1, HOUR, HOUR, after(3));
        of(&addresses, Origin::Autoconfigured)[0].address
    };
    let first = made(None);
    let second = made(Some(first));
    let id = interface_id::stable(net(1), with_key.mac, 1, &[7; 16]);
    assert_eq!(second, with_interface_id(net(1).address(), id));
    assert_ne!(first, second);
}
