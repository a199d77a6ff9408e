use super::*;
use moorline_cga::Signer;
use std::{fs, path::PathBuf, sync::atomic::AtomicBool};
use tempfile::TempDir;

const A: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0];
const B: [u8; 8] = [0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0];

fn key() -> PublicKey {
    crate::generate_key(1024).unwrap().public_key().clone()
}

fn set() -> Request {
    Request {
        prefixes: vec![A, B],
        hba: true,
        key: None,
        sec: Sec::ONE,
        start: None,
        seed: None,
        shard: Shard::WHOLE,
    }
}

fn cga(key: &PublicKey) -> Request {
    Request { prefixes: vec![A], hba: false, key: Some(key.clone()), ..set() }
}

fn a_file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.json");
    (folder, path)
}

#[test]
fn what_makes_no_sense_is_refused_before_the_search() {
    let refused = |request: &Request| request.resolve(None).unwrap_err();
    assert!(matches!(refused(&Request { hba: false, ..set() }), Error::NoKey));
    assert!(matches!(refused(&Request { prefixes: vec![A, B], ..cga(&key()) }), Error::OnePrefix));
    let shard = Shard::new(0, 2).unwrap();
    assert!(matches!(refused(&Request { shard, ..set() }), Error::NoSeed));
    for wrong in [
        Request { prefixes: vec![], ..set() },
        Request { prefixes: vec![A, A], ..set() },
        Request { sec: Sec::MAX, ..set() },
    ] {
        assert!(matches!(refused(&wrong), Error::Generate(_)));
    }
}

//= rfc3972#4-2 rfc3972#7.3-1 (test)
#[test]
fn two_requests_draw_different_octets_and_two_with_a_seed_the_same() {
    let job = |request: &Request| request.resolve(None).unwrap().job;
    let (one, other) = (job(&set()), job(&set()));
    assert_ne!(one.start, other.start);
    assert_ne!(one.key, other.key);
    let seeded = Request { seed: Some([1; 32]), ..set() };
    assert_eq!(job(&seeded), job(&seeded));
    let other = job(&Request { seed: Some([2; 32]), ..set() });
    assert_ne!(job(&seeded).start, other.start);
    assert_ne!(job(&seeded).key, other.key);
}

#[test]
fn shards_with_a_key_agree_without_being_told() {
    let key = key();
    let start = |index, request: &Request| {
        let shard = Shard::new(index, 2).unwrap();
        Request { shard, ..request.clone() }.resolve(None).unwrap().job.start
    };
    assert_eq!(start(0, &cga(&key)), start(1, &cga(&key)));
    let other_sec = Request { sec: Sec::TWO, ..cga(&key) };
    assert_ne!(start(0, &cga(&key)), start(0, &other_sec));
    let told = Request { start: Some([5; 16]), ..cga(&key) };
    assert_eq!(start(1, &told), [5; 16]);
}

#[test]
fn a_state_brings_back_what_was_drawn() {
    let key = key();
    let with_key = Request { key: Some(key.clone()), ..set() };
    for request in [set(), with_key, cga(&key)] {
        let (_folder, path) = a_file();
        let search = request.resolve(Some(&path)).unwrap();
        // A search writes its state when it begins.
        let found = search.run(&AtomicBool::new(false), |_| ()).unwrap();
        let again = request.resolve(Some(&path)).unwrap();
        assert_eq!(again.job, search.job);
        let found_again = again.run(&AtomicBool::new(false), |_| ()).unwrap();
        assert_eq!(found_again.addresses, found.addresses);
    }
}

#[test]
fn the_state_of_another_search_is_refused_and_the_difference_told() {
    let (_folder, path) = a_file();
    let key = key();
    let begun = Request { seed: Some([1; 32]), ..set() };
    begun.resolve(Some(&path)).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
    let shard = Shard::new(1, 2).unwrap();
    for (request, expected) in [
        (Request { shard, ..begun.clone() }, "shard"),
        (Request { sec: Sec::ZERO, ..begun.clone() }, "Sec"),
        (Request { start: Some([1; 16]), ..begun.clone() }, "start"),
        (Request { prefixes: vec![B, A], ..begun.clone() }, "list of prefixes"),
        (Request { key: Some(key.clone()), ..begun.clone() }, "key"),
        (Request { seed: Some([2; 32]), ..begun.clone() }, "key"),
        (cga(&key), "kind of address"),
    ] {
        match request.resolve(Some(&path)) {
            Err(Error::OtherSearch { what, .. }) => assert_eq!(what, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    assert!(begun.resolve(Some(&path)).is_ok());
}

#[test]
fn what_is_no_state_is_told() {
    let (_folder, path) = a_file();
    set().resolve(Some(&path)).unwrap().run(&AtomicBool::new(false), |_| ()).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    let sec = "\"sec\": 1";
    for bad in [
        String::new(),
        "{}".to_owned(),
        good.replace("moorline-search-1", "moorline-search-9"),
        good.replace(sec, "\"sec\": 9"),
        good.replace(sec, "\"sec\": 3"),
        good.replace("\"hba\": true", "\"hba\": false"),
        good.replace("\"chunk-tries\": 4096", "\"chunk-tries\": 4095"),
        good.replace("2001:db8:1::/64", "2001:db8::/32"),
        good.replace("0/1", "1/1"),
    ] {
        assert_ne!(bad, good);
        fs::write(&path, &bad).unwrap();
        let error = set().resolve(Some(&path)).unwrap_err().to_string();
        let begins = format!("{} is no state of a search: ", path.display());
        assert!(error.starts_with(&begins), "{error}");
    }
}
