use super::super::temporary::{POSTPONED, TEMP_IDGEN_RETRIES};
use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn temporaries(addresses: &Addresses) -> Vec<Address> {
    of(addresses, Origin::Temporary)
}

fn with_prefix(seed: u64) -> Addresses {
    let mut addresses = Addresses::new(config(Mode::Temporary), ChaCha20Rng::seed_from_u64(seed));
    addresses.handle_link(true, start());
    run(&mut addresses, after(2));
    advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, after(2));
    addresses
}

// RFC 8981 s3.4, s3.8.
//= rfc8504#6.4-1 (test)
//= rfc8981#3.4-1 rfc8981#3.4-2 rfc8981#3.4-3 rfc8981#3.4-6 rfc8981#3.4-7 (test)
//= rfc7217#5-2 (test)
#[test]
fn a_prefix_gets_a_stable_and_a_temporary_address() {
    let mut ends = vec![];
    for seed in 0..50 {
        let mut addresses = with_prefix(seed);
        assert_eq!(of(&addresses, Origin::Autoconfigured).len(), 1);
        let made = temporaries(&addresses);
        assert_eq!((made.len(), made[0].is_temporary(), made[0].prefix_len), (1, true, 64));
        let Lifetimes { preferred, valid } = made[0].lifetimes;
        assert_eq!(valid, Some(after(2) + 2 * DAY));
        // TEMP_PREFERRED_LIFETIME less DESYNC_FACTOR, which is at most 0.4 of it.
        let preferred = preferred.expect("end").since(after(2));
        assert!(preferred <= DAY && preferred >= DAY / 5 * 3);
        ends.push(preferred);
        let probes = probed(&outputs(&mut addresses));
        assert!(probes.contains(&made[0].address), "a temporary address is checked too");
        // The link-local prefix has none.
        assert!(!made[0].address.is_unicast_link_local());
    }
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), 50);
    assert!(ends[0] < DAY / 10 * 7 && ends[49] > DAY / 10 * 9);
}

//= rfc8504#6.4-2 (test)
//= rfc8981#3.7-1 rfc8981#3.7-2 (test)
//= rfc6724#5-8 (test)
#[test]
fn other_modes_make_no_temporary_address() {
    for mode in [Mode::Eui64, Mode::Stable] {
        let mut addresses = ready(config(mode));
        advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, after(2));
        assert_eq!((temporaries(&addresses), addresses.iter().count()), (vec![], 2));
    }
}

// RFC 8981 s3.4, steps 4 and 5.
//= rfc8981#3.4-4 rfc8981#3.4-5 (test)
#[test]
fn the_lifetimes_of_the_prefix_bound_those_of_the_address() {
    // 2 + 3 * 1 * 1 seconds.
    let advance = addresses(config(Mode::Temporary)).regen_advance();
    assert_eq!(advance, 5 * SECOND);
    for (preferred, valid, is_made) in [
        (HOUR, 3 * HOUR, true),
        (advance + SECOND, 3 * HOUR, true),
        (advance, 3 * HOUR, false),
        (Duration::ZERO, 3 * HOUR, false),
    ] {
        let mut addresses = ready(config(Mode::Temporary));
        advertise(&mut addresses, 1, preferred, valid, after(2));
        let expected = Lifetimes::from_now(preferred, valid, after(2));
        let made: Vec<_> = temporaries(&addresses).iter().map(|one| one.lifetimes).collect();
        assert_eq!(made, if is_made { vec![expected] } else { vec![] });
        // The next advertisement of the prefix may bring one at once.
        advertise(&mut addresses, 1, HOUR, 3 * HOUR, after(3));
        assert_eq!(temporaries(&addresses).len(), 1);
    }
}

// RFC 8981 s3.4, steps 1 and 2.
//= rfc8981#3.4-1 (test)
#[test]
fn advertisements_never_prolong_a_temporary_address_beyond_its_bounds() {
    let mut addresses = with_prefix(1);
    let made = temporaries(&addresses)[0];
    for hours in 1..14 {
        let now = after(2) + Duration::from_secs(3600 * hours);
        run(&mut addresses, now);
        advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, now);
        assert_eq!(temporaries(&addresses)[0].lifetimes, made.lifetimes);
        // A shorter time is taken, and given back.
        advertise(&mut addresses, 1, SECOND, 3 * HOUR, now);
        let short = temporaries(&addresses)[0].lifetimes;
        assert_eq!(short, Lifetimes::from_now(SECOND, 3 * HOUR, now));
        advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, now);
    }
    assert_eq!(temporaries(&addresses).len(), 1);
}

// RFC 8981 s3.5, s3.6, s3.8: "a maximum of three concurrent temporary addresses", and one that is preferred.
//= rfc8981#3.5-1 rfc8981#3.5-3 rfc8981#3.6-1 rfc8981#3.6-2 (test)
#[test]
fn a_new_address_comes_before_the_old_one_is_deprecated() {
    for seed in 0..5 {
        let mut addresses = with_prefix(seed);
        run(&mut addresses, after(10));
        let mut seen = std::collections::BTreeSet::new();
        let end = after(2) + 20 * DAY;
        while let Some(at) = addresses.poll_timeout().filter(|at| *at <= end) {
            addresses.handle_timeout(at);
            let made = temporaries(&addresses);
            let preferred = made.iter().filter(|one| one.state == State::Preferred).count();
            assert!(made.len() <= 4 && (1..=2).contains(&preferred), "{made:?}");
            seen.extend(made.iter().map(|one| one.address));
        }
        assert!((20..=34).contains(&seen.len()), "{}", seen.len());
        outputs(&mut addresses);
    }
}

//= rfc8981#3.5-4 (test)
#[test]
fn a_new_address_begins_regen_advance_before_the_end_of_the_old_one() {
    let mut addresses = with_prefix(1);
    run(&mut addresses, after(10));
    let end = temporaries(&addresses)[0].lifetimes.preferred.expect("end");
    run(&mut addresses, end - 5 * SECOND - Duration::from_nanos(1));
    assert_eq!(temporaries(&addresses).len(), 1);
    run(&mut addresses, end - 5 * SECOND);
    assert_eq!(temporaries(&addresses).len(), 2);
    run(&mut addresses, end - SECOND);
    assert!(temporaries(&addresses).iter().all(|one| one.state == State::Preferred));
}

// RFC 8981 s3.5: none in response to an option with a preferred lifetime of zero; and none if the prefix ends too.
//= rfc8981#3.5-2 (test)
#[test]
fn a_prefix_that_ends_gets_no_new_address() {
    let mut addresses = with_prefix(1);
    run(&mut addresses, after(10));
    advertise(&mut addresses, 1, Duration::ZERO, 30 * DAY, after(10));
    assert_eq!(temporaries(&addresses).len(), 1);
    assert_eq!(temporaries(&addresses)[0].state, State::Deprecated);
    run(&mut addresses, after(10) + DAY);
    assert_eq!(temporaries(&addresses).len(), 1);
    let mut addresses = ready(config(Mode::Temporary));
    advertise(&mut addresses, 1, HOUR, 3 * HOUR, after(2));
    run(&mut addresses, after(2) + HOUR);
    assert_eq!(temporaries(&addresses).len(), 1);
    // An advertisement in the last seconds brings one, unless it prolongs the old one.
    advertise(&mut addresses, 1, HOUR, 3 * HOUR, after(3) + HOUR);
    assert_eq!(
        (temporaries(&addresses).len(), temporaries(&addresses)[0].state),
        (1, State::Preferred)
    );
}

// RFC 8981 s3.4, step 7.
//= rfc8981#3.4-8 rfc8981#3.4-9 rfc8981#3.4-10 (test)
#[test]
fn temporary_addresses_that_are_duplicates_are_followed_by_three_others() {
    let mut addresses = with_prefix(1);
    let mut tried = std::collections::BTreeSet::new();
    outputs(&mut addresses);
    for n in 0..20 {
        for one in temporaries(&addresses) {
            tried.insert(one.address);
            addresses.handle_advertisement(one.address, after(2 + n));
            run(&mut addresses, after(2 + n));
        }
        advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, after(2 + n));
    }
    assert_eq!(tried.len(), 1 + usize::from(TEMP_IDGEN_RETRIES));
    assert_eq!(of(&addresses, Origin::Autoconfigured).len(), 1);
    // "for the duration of the host's attachment to the network".
    run(&mut addresses, after(30) + DAY);
    advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, after(30) + DAY);
    assert!(temporaries(&addresses).is_empty());
    addresses.handle_link(false, after(31) + DAY);
    addresses.handle_link(true, after(31) + DAY);
    advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, after(31) + DAY);
    assert_eq!(temporaries(&addresses).len(), 1);
}

#[test]
fn an_address_that_is_unique_ends_the_count_of_duplicates() {
    let mut addresses = with_prefix(1);
    let mut now = after(2);
    for _ in 0..10 {
        let newest = temporaries(&addresses).into_iter().find(|one| one.state == State::Tentative);
        addresses.handle_advertisement(newest.expect("new").address, now);
        run(&mut addresses, now + 4 * SECOND);
        let preferred =
            temporaries(&addresses).iter().filter_map(|one| one.lifetimes.preferred).max();
        now = preferred.expect("address") - 5 * SECOND;
        run(&mut addresses, now);
    }
}

#[test]
fn a_temporary_address_that_finds_no_room_is_counted_and_tried_later() {
    let mut addresses = ready(config(Mode::Temporary));
    for n in 0..15 {
        addresses.add(&given(with_id(1, n)), after(2)).expect("room");
    }
    advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, after(2));
    assert_eq!((temporaries(&addresses).len(), addresses.drops().of(Drop::PrefixLimit)), (0, 1));
    assert_eq!(of(&addresses, Origin::Autoconfigured).len(), 1);
    addresses.remove(with_id(1, 3), after(3));
    advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, after(3));
    assert_eq!(temporaries(&addresses).len(), 1);
    // With no room for the next one, a try each minute.
    let due = temporaries(&addresses)[0].lifetimes.preferred.expect("end") - 5 * SECOND;
    run(&mut addresses, due + 10 * POSTPONED);
    assert_eq!(addresses.drops().of(Drop::PrefixLimit), 1 + 11);
    addresses.remove(with_id(1, 4), due + 10 * POSTPONED);
    run(&mut addresses, due + 11 * POSTPONED);
    assert_eq!(temporaries(&addresses).len(), 2);
}

// RFC 8981 s3.3.1.
//= rfc8981#3.3.1-1 (test)
#[test]
fn drawn_identifiers_are_neither_reserved_nor_in_use() {
    let mut addresses = ready(config(Mode::Temporary));
    let prefix = net(1);
    let mut twin = addresses.clone();
    let [first, second] = [(); 2].map(|()| twin.draw_address(prefix).expect("an address"));
    assert_ne!(first, second);
    let taken = Entry::new(64, Origin::Manual, Lifetimes::FOREVER, start());
    addresses.entries.insert(first, taken);
    assert_eq!(addresses.draw_address(prefix), Some(second));
}

// RFC 8981 s3.6, s3.8.
//= rfc8981#3.6-3 rfc8981#3.6-4 rfc8981#3.8-1 (test)
#[test]
fn the_preferred_lifetime_is_smaller_than_the_valid_one() {
    for (preferred, valid) in [(HOUR, 2 * HOUR), (9 * HOUR, 2 * HOUR), (2 * HOUR, 2 * HOUR)] {
        let temporary = TemporaryLifetimes { preferred, valid };
        let mut addresses = ready(Config { temporary, ..config(Mode::Temporary) });
        advertise(&mut addresses, 1, 30 * DAY, 30 * DAY, after(2));
        let made = temporaries(&addresses)[0].lifetimes;
        assert_eq!(made.valid, Some(after(2) + valid));
        assert!(made.preferred < made.valid);
        assert!(made.preferred <= Some(after(2) + preferred));
    }
}

// RFC 8981 s3.8: DESYNC_FACTOR is "smaller than (TEMP_PREFERRED_LIFETIME - REGEN_ADVANCE)".
//= rfc8981#3.8-2 (test)
#[test]
fn short_lifetimes_leave_room_for_the_next_address() {
    for seed in 0..50 {
        let temporary = TemporaryLifetimes { preferred: 7 * SECOND, valid: HOUR };
        let config = Config { temporary, ..config(Mode::Temporary) };
        let mut addresses = Addresses::new(config, ChaCha20Rng::seed_from_u64(seed));
        let bounds = addresses.draw_bounds(after(0));
        assert!(bounds.preferred > Some(after(0) + addresses.regen_advance()));
    }
}
