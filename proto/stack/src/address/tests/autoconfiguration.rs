use super::super::autoconfiguration::IDGEN_RETRIES;
use super::*;
use moorline_ip::nd::FOREVER;

fn run_count(addresses: &mut Addresses, until: Instant) -> usize {
    let mut count = 0;
    while let Some(at) = addresses.poll_timeout().filter(|at| *at <= until) {
        addresses.handle_timeout(at);
        count += 1;
    }
    count
}

fn made(addresses: &Addresses) -> Address {
    let all = of(addresses, Origin::Autoconfigured);
    assert_eq!(all.len(), 1);
    all[0]
}

fn stable() -> Addresses {
    ready(config(Mode::Stable))
}

// RFC 4862 s5.5.3 d.
//= rfc8504#6.3-1 (test)
//= rfc4862#5.4-1 rfc4862#5.4-4 rfc4862#5.4-5 rfc4862#5.5-2 (test)
#[test]
fn an_advertised_prefix_gets_an_address_with_its_lifetimes() {
    for mode in [Mode::Eui64, Mode::Stable] {
        let mut addresses = ready(config(mode));
        advertise(&mut addresses, 1, HOUR, 9 * HOUR, after(2));
        let address = made(&addresses);
        assert!(net(1).contains(address.address) && address.prefix_len == 64);
        assert_eq!(address.lifetimes, Lifetimes::from_now(HOUR, 9 * HOUR, after(2)));
        run(&mut addresses, after(5));
        assert_eq!(made(&addresses).state, State::Preferred);
        let eui64 = "2001:db8:0:1:0:ff:fe00:1".parse::<Ipv6Addr>().expect("address");
        assert_eq!(address.address == eui64, mode == Mode::Eui64);
        // Another prefix has another identifier (RFC 7217).
        advertise(&mut addresses, 2, HOUR, 9 * HOUR, after(5));
        let ids: Vec<_> = of(&addresses, Origin::Autoconfigured)
            .iter()
            .map(|one| one.address.to_bits() & u128::from(u64::MAX))
            .collect();
        assert_eq!(ids[0] == ids[1], mode == Mode::Eui64);
    }
}

// RFC 4862 s5.5.3 a to d: options that are ignored.
//= rfc4862#5.5.3-1 rfc4862#5.5.3-2 rfc4862#5.5.3-3 (test)
//= rfc4861#4.6.2-5 (test)
#[test]
fn options_that_have_no_address_in_them_are_ignored() {
    let prefix = |text: &str, length| Prefix::new(text.parse().expect("prefix"), length);
    let good = information(net(1), HOUR, HOUR);
    let silent = [
        PrefixInformation { autonomous: false, ..good },
        PrefixInformation { autonomous: false, prefix: prefix("fe80::", 64), ..good },
        PrefixInformation { valid: Duration::ZERO, preferred: Duration::ZERO, ..good },
    ];
    let bad = [
        PrefixInformation { preferred: HOUR + SECOND, ..good },
        PrefixInformation { preferred: FOREVER, ..good },
        PrefixInformation { prefix: prefix("fe80::", 64), ..good },
        PrefixInformation { prefix: prefix("fe80:1::", 64), ..good },
        PrefixInformation { prefix: prefix("2001:db8::", 63), ..good },
        PrefixInformation { prefix: prefix("2001:db8::", 65), ..good },
        PrefixInformation { prefix: prefix("2001:db8::", 0), ..good },
        PrefixInformation { prefix: prefix("ff05::", 64), ..good },
        PrefixInformation { prefix: prefix("::", 64), ..good },
    ];
    let mut addresses = stable();
    for option in silent {
        assert_eq!(addresses.handle_prefixes([&option], ALONE, start()), Ok(()), "{option:?}");
    }
    for option in bad {
        let result = addresses.handle_prefixes([&option], ALONE, start());
        assert_eq!(result, Err(Drop::AdvertisementValue), "{option:?}");
    }
    assert_eq!((addresses.iter().count(), addresses.prefixes.len()), (1, 1));
    // While the link is down nothing comes from it.
    addresses.handle_link(false, start());
    assert_eq!(addresses.handle_prefixes([&good], ALONE, start()), Ok(()));
    assert_eq!(addresses.iter().count(), 1);
}

// RFC 4862 s5.4.2: the delay is for advertisements that other hosts may have got too.
//= rfc4862#5.4.2-3 (test)
#[test]
fn a_multicast_advertisement_draws_a_delayed_probe_and_a_unicast_one_does_not() {
    for is_multicast in [false, true] {
        let mut addresses = stable();
        let cause = Cause { is_multicast, knows_link_layer: true };
        addresses
            .handle_prefixes([&information(net(1), HOUR, HOUR)], cause, after(2))
            .expect("valid");
        let address = made(&addresses).address;
        assert_eq!(probed(&outputs(&mut addresses)).is_empty(), is_multicast);
        let all = run(&mut addresses, after(9));
        let (at, output) = all.last().expect("ready");
        assert_eq!(output, &Output::Ready(address));
        assert_eq!(*at > after(3), is_multicast);
        assert!(*at <= after(4));
    }
}

// RFC 4862 s5.5.3 e: preferred lifetimes are always reset; valid ones by the two-hour rule.
#[test]
fn the_valid_lifetime_is_shortened_to_two_hours_at_most() {
    const NONE: Duration = Duration::ZERO;
    let (minute, two) = (Duration::from_secs(60), TWO_HOURS);
    let cases = [
        // Remaining, advertised, then.
        (9 * HOUR, 8 * HOUR, 8 * HOUR),
        (9 * HOUR, 10 * HOUR, 10 * HOUR),
        (9 * HOUR, FOREVER, FOREVER),
        (9 * HOUR, two + SECOND, two + SECOND),
        (9 * HOUR, two, two),
        (9 * HOUR, minute, two),
        (9 * HOUR, NONE, two),
        (FOREVER, minute, two),
        (FOREVER, 9 * HOUR, 9 * HOUR),
        (two, minute, two),
        (two, NONE, two),
        (two, two, two),
        (HOUR, minute, HOUR),
        (HOUR, HOUR, HOUR),
        (HOUR, HOUR + SECOND, HOUR + SECOND),
        (HOUR, NONE, HOUR),
    ];
    for (remaining, advertised, then) in cases {
        let mut addresses = stable();
        advertise(&mut addresses, 1, minute, remaining, after(2));
        let first = made(&addresses);
        let preferred = SECOND.min(advertised);
        advertise(&mut addresses, 1, preferred, advertised, after(2));
        let expected = Lifetimes::from_now(preferred, then, after(2));
        let second = made(&addresses);
        assert_eq!(second.lifetimes, expected, "{remaining:?} {advertised:?}");
        assert_eq!(second.address, first.address);
    }
}

#[test]
fn a_flood_of_short_lifetimes_takes_no_address_before_its_time() {
    let mut addresses = stable();
    advertise(&mut addresses, 1, HOUR, 9 * HOUR, after(2));
    for n in 0..1000 {
        advertise(&mut addresses, 1, Duration::ZERO, Duration::ZERO, after(3 + n));
    }
    run(&mut addresses, after(3) + TWO_HOURS - SECOND);
    assert_eq!(made(&addresses).state, State::Deprecated);
    run(&mut addresses, after(3) + TWO_HOURS);
    assert!(of(&addresses, Origin::Autoconfigured).is_empty());
    assert_eq!(addresses.prefixes.len(), 1);
}

// RFC 4862 s5.5.4: renumbering.
#[test]
fn a_prefix_is_deprecated_preferred_again_and_removed() {
    let mut addresses = stable();
    advertise(&mut addresses, 1, HOUR, HOUR, after(2));
    run(&mut addresses, after(9));
    let address = made(&addresses).address;
    advertise(&mut addresses, 1, Duration::ZERO, HOUR, after(10));
    assert_eq!(outputs(&mut addresses), [Output::Deprecated(address)]);
    advertise(&mut addresses, 1, Duration::ZERO, HOUR, after(11));
    assert_eq!(outputs(&mut addresses), []);
    advertise(&mut addresses, 1, SECOND, HOUR, after(12));
    assert_eq!(outputs(&mut addresses), [Output::Preferred(address)]);
    let group = solicited_node(address);
    let end = after(12) + HOUR;
    let expected = [
        (after(13), Output::Deprecated(address)),
        (end, Output::Leave(group)),
        (end, Output::Removed(address)),
    ];
    assert_eq!(run(&mut addresses, end), expected);
    assert_eq!(addresses.poll_timeout(), None);
    // The prefix can come again, and the address is the same.
    advertise(&mut addresses, 1, HOUR, HOUR, end);
    assert_eq!(made(&addresses).address, address);
}

// RFC 7217 s6, and the limit of its tries through advertisements that come again and again.
//= rfc7217#6-4 (test)
#[test]
fn duplicates_in_a_prefix_end_its_tries() {
    for (mode, tries) in [(Mode::Eui64, 1), (Mode::Stable, 1 + usize::from(IDGEN_RETRIES))] {
        let mut addresses = ready(config(mode));
        let (mut tried, mut now) = (vec![], after(2));
        for _ in 0..20 {
            advertise(&mut addresses, 1, HOUR, HOUR, now);
            run(&mut addresses, now);
            for one in of(&addresses, Origin::Autoconfigured) {
                tried.push(one.address);
                addresses.handle_advertisement(one.address, now);
            }
            now = now + SECOND;
        }
        assert_eq!(tried.len(), tries);
        let failed =
            outputs(&mut addresses).into_iter().filter(|one| *one == Output::Failed(net(1)));
        assert_eq!(failed.count(), 1);
        assert!(!addresses.is_disabled() && addresses.link_local().is_some());
        // The failure is forgotten when the prefix ends.
        run(&mut addresses, now + HOUR);
        advertise(&mut addresses, 1, HOUR, HOUR, now + HOUR);
        assert_eq!(made(&addresses).address, tried[0]);
    }
}

#[test]
fn an_address_that_the_caller_has_is_not_made_a_second_time() {
    for mode in [Mode::Eui64, Mode::Stable] {
        let mut addresses = ready(config(mode));
        advertise(&mut addresses, 1, HOUR, HOUR, after(2));
        let address = made(&addresses).address;
        addresses.add(&given(address), after(2)).expect("there");
        run(&mut addresses, after(9));
        advertise(&mut addresses, 1, SECOND, SECOND, after(9));
        run(&mut addresses, after(99));
        // Its lifetimes are those of the caller.
        let own = of(&addresses, Origin::Manual);
        assert_eq!((own.len(), own[0].address, own[0].state), (1, address, State::Preferred));
        assert_eq!(own[0].lifetimes, Lifetimes::FOREVER);
        assert_eq!(of(&addresses, Origin::Autoconfigured), []);
    }
}

// The bounds MAX_PREFIXES and MAX_AUTOCONFIGURED: a flood leaves room for the caller, and removes nothing.
#[test]
fn a_flood_of_prefixes_removes_nothing_and_leaves_room() {
    for (mode, in_all) in [(Mode::Stable, 1 + MAX_PREFIXES), (Mode::Temporary, MAX_AUTOCONFIGURED)]
    {
        let mut addresses = ready(config(mode));
        advertise(&mut addresses, 0, 24 * HOUR, 48 * HOUR, after(2));
        run(&mut addresses, after(5));
        let first: Vec<_> = addresses.iter().map(|one| one.address).collect();
        let mut refused = 0;
        for n in 1..500 {
            let option = information(net(n), 24 * HOUR, 48 * HOUR);
            match addresses.handle_prefixes([&option], ALONE, after(5)) {
                Ok(()) => {}
                Err(reason) => {
                    assert_eq!(reason, Drop::PrefixLimit);
                    refused += 1;
                }
            }
        }
        assert!(refused >= 468, "{refused}");
        assert_eq!(addresses.iter().count(), in_all);
        assert!(addresses.prefixes.len() <= 1 + MAX_PREFIXES);
        assert!(first.iter().all(|address| addresses.is_ours(*address)));
        for n in 0..16 {
            addresses.add(&given(host(n)), after(5)).expect("room for the caller");
        }
        // A day and more with a full table: nothing spins, and nothing is above a bound.
        // At most a try each minute for each temporary address, for a day less the least DESYNC_FACTOR.
        let tries = run_count(&mut addresses, after(5) + 50 * HOUR);
        assert!(tries < 16 * 60 * 10, "{tries}");
        assert_eq!(of(&addresses, Origin::Manual).len(), 16);
    }
}
