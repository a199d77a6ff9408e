use moorline_types::Nid;

use super::*;

fn found() -> Found {
    Found {
        name: DomainName::root(),
        nids: vec![
            NidRecord { preference: 10, nid: Nid(2) },
            NidRecord { preference: 20, nid: Nid(4) },
        ],
        locators: Vec::new(),
        left_out: 0,
        ttl: Duration::from_secs(3600),
    }
}

fn records(l64s: &[(u16, u64)], ttl: u64) -> Records<L64Record> {
    let record = |&(preference, l64): &(u16, u64)| L64Record { preference, l64: L64(l64) };
    let records = l64s.iter().map(record).collect();
    Records { owner: None, records, malformed: 0, ttl: Duration::from_secs(ttl) }
}

fn lp(preference: u16) -> LpRecord {
    LpRecord { preference, name: DomainName::root() }
}

const A: u64 = 0x2001_0db8_0001_0000;
const B: u64 = 0x2001_0db8_0002_0000;
const C: u64 = 0x2001_0db8_0003_0000;

#[test]
fn locators_are_in_order_of_preference_of_pointer_and_record() {
    let mut found = found();
    found.take(records(&[(30, A), (10, B)], 60), None);
    found.take(records(&[(5, C), (1, A)], 90), Some(lp(20)));
    found.finish();
    let order: Vec<_> =
        found.locators.iter().map(|locator| (locator.l64.0, locator.preferences)).collect();
    assert_eq!(order, [(B, (10, None)), (A, (20, Some(1))), (C, (20, Some(5)))]);
    assert_eq!(found.ttl, Duration::from_secs(60), "that of the shortest");
    assert_eq!(found.left_out, 0);
}

//= rfc6742#3.1-3 (test)
#[test]
fn each_identifier_may_be_at_each_locator() {
    let mut found = found();
    found.take(records(&[(10, B), (20, A)], 60), None);
    found.finish();
    let nids: Vec<_> = found.nids.iter().map(|record| record.nid.0).collect();
    let locators: Vec<_> = found.locators.iter().map(|locator| locator.l64.0).collect();
    assert_eq!((nids, locators), (vec![2, 4], vec![B, A]));
}

#[test]
fn what_is_of_no_use_is_left_out_and_counted() {
    let mut found = found();
    let group = NidRecord { preference: 1, nid: Nid(1 << 56) };
    found.take_nids([found.nids.clone(), vec![group]].concat());
    assert_eq!((found.nids.len(), found.left_out), (2, 1));
    found.take(records(&[(1, 0), (1, 0xfe80_0000_0000_0000), (1, 0xff02 << 48), (2, A)], 1), None);
    assert_eq!((found.locators.len(), found.left_out), (1, 4));
}

#[test]
fn an_identifier_that_is_there_twice_counts_once_with_the_better_preference() {
    let mut found = found();
    let nids = [(30, 2), (20, 4), (10, 2)];
    found.take_nids(nids.map(|(preference, nid)| NidRecord { preference, nid: Nid(nid) }).into());
    let order: Vec<_> = found.nids.iter().map(|record| (record.preference, record.nid.0)).collect();
    assert_eq!((order, found.left_out), (vec![(10, 2), (20, 4)], 0));
}

#[test]
fn an_answer_is_bounded() {
    let mut found = found();
    let many: Vec<_> = (0..100).map(|at| (at, A + u64::from(at))).collect();
    found.take(records(&many, 60), None);
    found.finish();
    assert_eq!((found.locators.len(), found.left_out), (MAX_RECORDS, 100 - MAX_RECORDS));
    assert_eq!(found.locators[0].l64, L64(A));
}

#[tokio::test]
async fn an_address_is_no_name() {
    let resolver = Resolver::with_server("[::1]:53".parse().expect("an address")).expect("one");
    for name in ["192.0.2.1", "2001:db8::1", "a..b"] {
        let error = resolver.lookup(name).await.expect_err("no name");
        assert!(matches!(error, LookupError::BadName(_)), "{error}");
    }
}
