use core::net::Ipv6Addr;

use moorline_types::{ContextId, Locator, SessionId};

use super::*;

const CONTEXT: Mover = Mover::Context(ContextId(1));
const SESSION: Mover = Mover::Session(SessionId(1));

fn path(number: u16) -> LocatorPair {
    let locator = |host| Locator(Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, host));
    LocatorPair::new(locator(1), locator(2))
}

#[test]
fn an_mtu_counts_for_its_path_until_it_is_old() {
    let (mut mtus, start) = (PathMtus::default(), Instant::from_nanos(1));
    assert_eq!((mtus.of(CONTEXT, path(1)), mtus.poll_timeout()), (None, None));
    mtus.note(CONTEXT, path(1), 1400, start);
    let later = start + Duration::from_secs(10);
    mtus.note(SESSION, path(1), 1300, later);
    assert_eq!(mtus.of(CONTEXT, path(1)), Some(1400));
    assert_eq!(mtus.of(CONTEXT, path(2)), None);
    assert_eq!(mtus.of(SESSION, path(1)), Some(1300));

    assert_eq!(mtus.poll_timeout(), Some(start + EXPIRES));
    assert_eq!(mtus.take_expired(start + EXPIRES), [CONTEXT]);
    assert_eq!(mtus.of(CONTEXT, path(1)), None);
    assert_eq!(mtus.of(SESSION, path(1)), Some(1300));
    assert_eq!(mtus.poll_timeout(), Some(later + EXPIRES));

    mtus.forget(SESSION);
    assert_eq!(mtus.of(SESSION, path(1)), None);
    assert_eq!(mtus.take_expired(later + EXPIRES), []);
    assert_eq!(mtus.poll_timeout(), None);
}

#[test]
fn a_stranger_who_tells_of_ever_smaller_ones_comes_to_an_end() {
    let (mut mtus, now) = (PathMtus::default(), Instant::from_nanos(1));
    for mtu in [1492, 1491, 1490, 1489] {
        mtus.note(CONTEXT, path(1), mtu, now);
        assert_eq!(mtus.of(CONTEXT, path(1)), Some(mtu));
    }
    mtus.note(CONTEXT, path(1), 1488, now);
    assert_eq!(mtus.of(CONTEXT, path(1)), Some(MIN_MTU));
    mtus.note(CONTEXT, path(2), 1492, now);
    assert_eq!(mtus.of(CONTEXT, path(2)), Some(1492), "another path");
}
