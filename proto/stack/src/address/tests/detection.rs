use super::super::autoconfiguration::{IDGEN_DELAY, IDGEN_RETRIES};
use super::super::detection::{MAX_MULTICAST_SOLICIT, MAX_NONCES};
use super::*;

fn probing(config: Config) -> Addresses {
    let mut addresses = ready(config);
    addresses.add(&given(host(1)), start()).expect("room");
    outputs(&mut addresses);
    addresses
}

fn solicit(
    addresses: &mut Addresses,
    target: Ipv6Addr,
    nonce: Option<&[u8]>,
) -> Result<Reply, Drop> {
    addresses.handle_solicitation(target, true, nonce, start())
}

// RFC 4862 s5.4.2: the delay before the first message of an interface.
//= rfc4862#5.4.2-1 rfc4862#5.4.2-2 (test)
#[test]
fn the_first_probe_has_a_random_delay_up_to_a_second() {
    let mut delays = vec![];
    for seed in 0..50 {
        let mut addresses = Addresses::new(config(Mode::Stable), ChaCha20Rng::seed_from_u64(seed));
        addresses.handle_link(true, start());
        assert!(outputs(&mut addresses).is_empty());
        let all = run(&mut addresses, after(9));
        let [(join_at, join), (probe_at, Output::Probe { target, nonce: Some(_) }), (end, ready)] =
            all.as_slice()
        else {
            panic!("{all:?}");
        };
        assert_eq!(join, &Output::Join(solicited_node(*target)));
        assert_eq!(ready, &Output::Ready(*target));
        assert_eq!((join_at, end.since(*probe_at)), (probe_at, SECOND));
        delays.push(probe_at.since(start()));
    }
    assert!(delays.iter().all(|delay| *delay <= SECOND));
    assert!(delays.iter().any(|delay| *delay > SECOND / 2));
    assert!(delays.iter().any(|delay| *delay < SECOND / 2));
}

// RFC 4862 s5.4.2: DupAddrDetectTransmits probes, RetransTimer apart; zero turns detection off (s5.1).
//= rfc7527#3.1-1 (test)
//= rfc4862#5.1-1 (test)
#[test]
fn the_number_of_probes_and_their_time_are_configurable() {
    for (transmits, expected) in [(0, vec![]), (1, vec![0]), (3, vec![0, 5, 10])] {
        let config = Config { dad_transmits: transmits, dad_nonce: false, ..config(Mode::Stable) };
        let mut addresses = ready(config);
        addresses.set_retrans_timer(5 * SECOND);
        addresses.add(&given(host(1)), start()).expect("room");
        let mut all: Vec<_> =
            outputs(&mut addresses).into_iter().map(|output| (start(), output)).collect();
        all.extend(run(&mut addresses, after(99)));
        let probe = Output::Probe { target: host(1), nonce: None };
        let times: Vec<_> =
            all.iter().filter(|(_, output)| *output == probe).map(|(at, _)| *at).collect();
        assert_eq!(times, expected.into_iter().map(after).collect::<Vec<_>>());
        let end = after(u64::from(transmits) * 5);
        assert_eq!(all.last(), Some(&(end, Output::Ready(host(1)))));
        assert_eq!(all[0].1, Output::Join(solicited_node(host(1))));
    }
}

// RFC 4862 s5.4.3, s5.4.4, RFC 7527 s4.2: each state and each message.
//= rfc8504#6.3-4 (test)
//= rfc4429#3.3-7 rfc4429#3.3-9 rfc4429#3.3-10 (test)
//= rfc7527#4.1-1 rfc7527#4.2-3 rfc7527#4.2-4 (test)
//= rfc4862#5.4.3-1 rfc4862#5.4.5-1 (test)
//= rfc4861#7.2.3-1 (test)
#[test]
fn each_message_in_each_state_has_its_effect() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Event {
        Resolution,
        Probe,
        ProbeWithNonce,
        OwnProbe,
        Advertisement,
    }
    #[derive(Debug, PartialEq)]
    enum Effect {
        Ignored,
        Answered(bool),
        Gone,
    }
    use Effect::{Answered, Gone, Ignored};
    let table = [
        // Event, then effects if the address is tentative, optimistic, preferred, deprecated.
        (Event::Resolution, [Ignored, Answered(false), Answered(true), Answered(true)]),
        (Event::Probe, [Gone, Gone, Answered(true), Answered(true)]),
        (Event::ProbeWithNonce, [Gone, Gone, Answered(true), Answered(true)]),
        (Event::OwnProbe, [Ignored, Ignored, Ignored, Ignored]),
        (Event::Advertisement, [Gone, Gone, Ignored, Ignored]),
    ];
    let states = [State::Tentative, State::Optimistic, State::Preferred, State::Deprecated];
    for (event, effects) in table {
        for (state, expected) in states.into_iter().zip(effects) {
            let mut addresses = ready(Config { optimistic: true, ..config(Mode::Stable) });
            addresses.knows_router = state == State::Optimistic;
            let end = start() + 10 * SECOND;
            let preferred = if state == State::Deprecated { Some(start()) } else { Some(end) };
            let lifetimes = Lifetimes { preferred, valid: None };
            let one = Given { lifetimes, is_generated: true, ..given(host(1)) };
            addresses.add(&one, start()).expect("room");
            if matches!(state, State::Preferred | State::Deprecated) {
                run(&mut addresses, after(5));
            }
            assert_eq!(addresses.state(host(1)), Some(state));
            outputs(&mut addresses);
            let own = last_nonce(&addresses, host(1));
            let solicitation = match event {
                Event::Resolution => Some((false, None)),
                Event::Probe => Some((true, None)),
                Event::ProbeWithNonce => Some((true, Some(&[9; 6][..]))),
                Event::OwnProbe => Some((true, Some(&own[..]))),
                Event::Advertisement => None,
            };
            let reply = match solicitation {
                Some((is_unspecified, nonce)) => addresses
                    .handle_solicitation(host(1), is_unspecified, nonce, after(5))
                    .expect("ours"),
                None => {
                    assert!(addresses.handle_advertisement(host(1), after(5)));
                    Reply::Ignore
                }
            };
            let effect = match (reply, addresses.state(host(1))) {
                (Reply::Answer { overrides }, Some(_)) => Answered(overrides),
                (Reply::Ignore, Some(_)) => Ignored,
                (_, None) => Gone,
            };
            assert_eq!(effect, expected, "{event:?} {state:?}");
            let is_told = outputs(&mut addresses).contains(&Output::Duplicate(host(1)));
            assert_eq!(is_told, expected == Gone);
        }
    }
}

//= rfc4861#7.2.3-1 (test)
#[test]
fn messages_about_other_addresses_are_not_ours() {
    let mut addresses = probing(config(Mode::Stable));
    assert_eq!(solicit(&mut addresses, host(2), None), Err(Drop::NotOurs));
    assert!(!addresses.handle_advertisement(host(2), start()));
    assert_eq!(outputs(&mut addresses), []);
}

// RFC 4862 s5.4.3: a solicitation before the first own one.
//= rfc4862#5.4.2-4 (test)
#[test]
fn an_address_can_be_a_duplicate_before_its_first_probe() {
    for is_advertisement in [false, true] {
        let mut addresses = addresses(config(Mode::Stable));
        addresses.handle_link(true, start());
        let address = of(&addresses, Origin::LinkLocal)[0].address;
        if is_advertisement {
            addresses.handle_advertisement(address, start());
        } else {
            solicit(&mut addresses, address, None).expect("ours");
        }
        // The group is not joined yet, so it is not left.
        assert_eq!(outputs(&mut addresses), [Output::Duplicate(address)]);
    }
}

// Without nonces no own probe is known: RFC 4862 s5.4.3, for links that send nothing back.
#[test]
fn without_nonces_each_probe_of_the_address_is_of_another_node() {
    let mut addresses = probing(Config { dad_nonce: false, ..config(Mode::Stable) });
    solicit(&mut addresses, host(1), Some(&[0; 6])).expect("ours");
    let expected = [Output::Duplicate(host(1)), Output::Leave(solicited_node(host(1)))];
    assert_eq!(outputs(&mut addresses), expected);
}

// RFC 7527 s4.1.
//= rfc8504#6.3-6 (test)
//= rfc7527#4.1-2 (test)
#[test]
fn own_probes_that_come_back_draw_three_more_until_none_comes_back() {
    let mut addresses = probing(config(Mode::Stable));
    // The only probe comes back, and of the next three the last one.
    for (probes, end) in [(1, after(1)), (3, after(4))] {
        assert_eq!(addresses.entries[&host(1)].nonces.len(), if probes == 1 { 1 } else { 2 });
        run(&mut addresses, end - SECOND);
        let nonce = last_nonce(&addresses, host(1));
        assert_eq!(solicit(&mut addresses, host(1), Some(&nonce)), Ok(Reply::Ignore));
        let all: Vec<_> = run(&mut addresses, end).into_iter().map(|(_, output)| output).collect();
        assert_eq!(probed(&all), [host(1)], "a round begins");
    }
    // Of the next three the first two come back. The last one does not: this ends the probes.
    for _ in 0..2 {
        let nonce = last_nonce(&addresses, host(1));
        solicit(&mut addresses, host(1), Some(&nonce)).expect("ours");
        let at = addresses.poll_timeout().expect("probing");
        addresses.handle_timeout(at);
        assert_eq!(probed(&outputs(&mut addresses)), [host(1)]);
    }
    let nonce = last_nonce(&addresses, host(1));
    assert_eq!(run(&mut addresses, after(99)), [(after(7), Output::Ready(host(1)))]);
    // RFC 7527 s4.1: "each Enhanced DAD probe uses a different nonce."
    let mut nonces = addresses.entries[&host(1)].nonces.clone();
    nonces.sort_unstable();
    nonces.dedup();
    assert_eq!(nonces.len(), 1 + 2 * usize::from(MAX_MULTICAST_SOLICIT));
    // A probe that comes back late is known still, and needs no answer.
    assert_eq!(solicit(&mut addresses, host(1), Some(&nonce)), Ok(Reply::Ignore));
    assert_eq!(addresses.state(host(1)), Some(State::Preferred));
}

// The bound MAX_NONCES.
#[test]
fn nonces_are_bounded_while_probes_come_back_for_ever() {
    let mut addresses = probing(config(Mode::Stable));
    for _ in 0..100 {
        let nonce = last_nonce(&addresses, host(1));
        solicit(&mut addresses, host(1), Some(&nonce)).expect("ours");
        let at = addresses.poll_timeout().expect("probing");
        addresses.handle_timeout(at);
        assert!(addresses.entries[&host(1)].nonces.len() <= MAX_NONCES);
    }
    assert_eq!(addresses.state(host(1)), Some(State::Tentative));
    assert_eq!(addresses.entries[&host(1)].nonces.len(), MAX_NONCES);
}

// Pitfall 6 of host_stack.md: the caller raises its collision count.
#[test]
fn an_address_of_the_caller_that_is_a_duplicate_is_not_replaced() {
    for is_generated in [false, true] {
        let mut addresses = ready(config(Mode::Temporary));
        addresses.add(&Given { is_generated, ..given(host(1)) }, start()).expect("room");
        outputs(&mut addresses);
        solicit(&mut addresses, host(1), None).expect("ours");
        let expected = [Output::Duplicate(host(1)), Output::Leave(solicited_node(host(1)))];
        assert_eq!(outputs(&mut addresses), expected);
        assert_eq!((addresses.iter().count(), addresses.poll_timeout()), (1, None));
    }
}

// RFC 4862 s5.4.5.
//= rfc4862#5.4.5-3 (test)
#[test]
fn a_duplicate_of_the_link_local_address_from_the_mac_address_stops_ipv6() {
    let mut addresses = addresses(config(Mode::Eui64));
    addresses.handle_link(true, start());
    run(&mut addresses, after(1));
    addresses.add(&given(host(1)), after(1)).expect("room");
    advertise(&mut addresses, 1, HOUR, 9 * HOUR, after(1));
    let address = of(&addresses, Origin::LinkLocal)[0].address;
    outputs(&mut addresses);
    // The link-local address is probed still, or has just become ready.
    addresses.handle_link(true, after(3));
    run(&mut addresses, after(4));
    assert!(addresses.handle_advertisement(address, after(4)));
    let all = outputs(&mut addresses);
    assert_eq!(all[0], Output::Duplicate(address));
    assert_eq!(all.last(), Some(&Output::Disabled));
    assert_eq!(all.iter().filter(|one| matches!(one, Output::Leave(_))).count(), 3);
    assert!(addresses.is_disabled());
    assert_eq!((addresses.iter().count(), addresses.link_local()), (0, None));
    assert!(!addresses.is_ours(host(1)));
    // Nothing happens any more.
    advertise(&mut addresses, 1, HOUR, 9 * HOUR, after(5));
    addresses.add(&given(host(2)), after(5)).expect("room");
    assert_eq!(solicit(&mut addresses, host(1), None), Err(Drop::NotOurs));
    assert_eq!((outputs(&mut addresses), addresses.poll_timeout()), (vec![], None));
    // The link comes back: so do the addresses of the caller and the link-local one.
    addresses.handle_link(false, after(6));
    addresses.handle_link(true, after(7));
    run(&mut addresses, after(10));
    assert!(!addresses.is_disabled() && addresses.is_ours(host(1)) && addresses.is_ours(host(2)));
    assert_eq!(addresses.link_local(), Some(address));
}

// RFC 7217 s6: IDGEN_RETRIES, IDGEN_DELAY.
//= rfc7217#5-11 rfc7217#6-1 rfc7217#6-2 rfc7217#6-3 rfc7217#6-4 rfc7217#6-7 (test)
//= rfc4862#5.4.5-4 (test)
#[test]
fn stable_addresses_that_are_duplicates_are_followed_by_three_others() {
    let mut addresses = addresses(config(Mode::Stable));
    addresses.handle_link(true, start());
    let mut tried = vec![];
    let mut now = start();
    for retry in 0..=IDGEN_RETRIES {
        let address = of(&addresses, Origin::LinkLocal)[0].address;
        tried.push(address);
        addresses.handle_advertisement(address, now);
        assert!(of(&addresses, Origin::LinkLocal).is_empty());
        let is_last = retry == IDGEN_RETRIES;
        assert_eq!(outputs(&mut addresses).contains(&Output::Failed(LINK_LOCAL)), is_last);
        if is_last {
            break;
        }
        let at = addresses.poll_timeout().expect("retry");
        assert!(at <= now + IDGEN_DELAY);
        now = at;
        addresses.handle_timeout(now);
    }
    assert_eq!(addresses.poll_timeout(), None);
    assert!(run(&mut addresses, after(9999)).is_empty());
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried.len(), 4);
    // RFC 4862 s5.4.5: IPv6 goes on. And the link is another chance.
    assert!(!addresses.is_disabled());
    addresses.handle_link(false, after(10_000));
    addresses.handle_link(true, after(10_000));
    run(&mut addresses, after(10_002));
    assert!(addresses.link_local().is_some_and(|address| tried.contains(&address)));
}

//= rfc7217#5-18 (test)
#[test]
fn the_address_after_a_duplicate_is_used_when_the_link_comes_back() {
    let mut addresses = addresses(config(Mode::Stable));
    addresses.handle_link(true, start());
    let first = of(&addresses, Origin::LinkLocal)[0].address;
    addresses.handle_advertisement(first, start());
    run(&mut addresses, after(9));
    let second = addresses.link_local().expect("assigned");
    assert_ne!(first, second);
    addresses.handle_link(false, after(10));
    addresses.handle_link(true, after(11));
    run(&mut addresses, after(19));
    assert_eq!(addresses.link_local(), Some(second));
}

// RFC 4429 s3.1, s3.3.
//= rfc4429#3.1-1 rfc4429#3.1-2 rfc4429#3.2-5 rfc4429#3.3-1 rfc4429#3.3-2 rfc4429#3.3-4 (test)
//= rfc4429#3.3-5 rfc4429#3.3-6 (test)
#[test]
fn addresses_are_optimistic_only_if_a_router_is_known_and_they_are_not_manual() {
    let optimistic = Config { optimistic: true, ..config(Mode::Stable) };
    for (config, cause, expected) in [
        (optimistic, ROUTER_KNOWN, State::Optimistic),
        (optimistic, ALONE, State::Tentative),
        (config(Mode::Stable), ROUTER_KNOWN, State::Tentative),
    ] {
        let mut addresses = ready(config);
        addresses
            .handle_prefixes([&information(net(1), HOUR, HOUR)], cause, start())
            .expect("valid");
        let made = of(&addresses, Origin::Autoconfigured)[0];
        assert_eq!(made.state, expected);
        if expected == State::Optimistic {
            // Without a delay, though the advertisement was multicast.
            let all = outputs(&mut addresses);
            let join = Output::Join(solicited_node(made.address));
            assert_eq!(all[..2], [Output::Optimistic(made.address), join]);
            assert_eq!(probed(&all), [made.address]);
            assert!(addresses.is_ours(made.address));
        }
        for (is_generated, n) in [(false, 1), (true, 2)] {
            addresses.add(&Given { is_generated, ..given(host(n)) }, start()).expect("room");
            let is_optimistic = addresses.state(host(n)) == Some(State::Optimistic);
            assert_eq!(is_optimistic, is_generated && expected == State::Optimistic);
        }
        run(&mut addresses, after(3));
        assert!(addresses.iter().all(|one| one.state == State::Preferred));
    }
}

// RFC 4429 s3.3: an optimistic address that is a duplicate is deconfigured.
//= rfc4429#3.3-8 (test)
#[test]
fn an_optimistic_address_that_is_a_duplicate_is_removed() {
    let mut addresses = ready(Config { optimistic: true, ..config(Mode::Stable) });
    addresses.knows_router = true;
    addresses.add(&Given { is_generated: true, ..given(host(1)) }, start()).expect("room");
    outputs(&mut addresses);
    solicit(&mut addresses, host(1), None).expect("ours");
    let group = solicited_node(host(1));
    let expected = [Output::Duplicate(host(1)), Output::Leave(group), Output::Removed(host(1))];
    assert_eq!(outputs(&mut addresses), expected);
}

// RFC 4429 s3.2.
//= rfc4429#3.2-1 rfc4429#3.2-2 rfc4429#3.2-4 (test)
#[test]
fn an_optimistic_link_local_address_is_no_source_of_messages() {
    let mut addresses = ready(Config { optimistic: true, ..config(Mode::Stable) });
    let first = addresses.link_local().expect("assigned");
    addresses
        .handle_prefixes([&information(net(1), HOUR, HOUR)], ROUTER_KNOWN, start())
        .expect("valid");
    addresses.remove(first, start());
    let other = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
    addresses.add(&Given { is_generated: true, ..given(other) }, start()).expect("room");
    assert_eq!(addresses.state(other), Some(State::Optimistic));
    assert_eq!(addresses.link_local(), None);
    run(&mut addresses, after(3));
    assert_eq!(addresses.link_local(), Some(other));
}

/// The caller may want an address at once that new connections do not use.
#[test]
fn a_deprecated_address_that_the_caller_wants_at_once_is_ours_while_it_is_probed() {
    let mut addresses = ready(config(Mode::Stable));
    addresses.knows_router = true;
    let lifetimes = Lifetimes::from_now(Duration::ZERO, HOUR, start());
    let one = Given { is_generated: true, is_optimistic: true, lifetimes, ..given(host(1)) };
    addresses.add(&one, start()).expect("room");
    addresses.add(&Given { is_generated: true, ..given(host(2)) }, start()).expect("room");
    assert_eq!(addresses.state(host(1)), Some(State::Optimistic));
    assert_eq!(addresses.state(host(2)), Some(State::Tentative), "the settings say no");
    let shown = addresses.iter().find(|one| one.address == host(1)).expect("the address");
    assert!(shown.state == State::Deprecated && addresses.is_ours(host(1)));
    run(&mut addresses, after(3));
    assert_eq!(addresses.state(host(1)), Some(State::Deprecated));
}
