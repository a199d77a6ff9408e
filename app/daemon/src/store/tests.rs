use std::net::Ipv6Addr;

use moorline_contexts::Preferences;
use moorline_types::{ContextId, ContextTag, Locator, LocatorPair, Locators, UlidPair};
use moorline_wire::LocatorPreference;

use super::*;

const KEPT: &str = r#"{"boot_id":"this","contexts":[{
    "id":3,"key":{"ulids":{"local":"2001:db8::1","peer":"2001:db8::2"},"forked_instance":0},
    "local_tag":[0,0,0,0,0,5],"peer_tag":[255,0,0,0,0,6],
    "locators":{"local":"2001:db8::1","peer":"2001:db8::2"},"local_locators":["2001:db8::1"],
    "peer":{"locators":["2001:db8::2"],"listed":0,"generation":7,"send_timeout":15000,"preferences":[]},
    "told_preferences":false,"role":"Initiator"}]}"#;

fn contexts(octets: &[u8]) -> Vec<ContextSnapshot> {
    serde_json::from_slice::<SavedState>(octets).expect("contexts").contexts
}

#[test]
fn what_is_kept_of_a_context_is_read_as_it_was_written() {
    let told = LocatorPreference { flags: 1, priority: Some(2), weight: None };
    let [mut context] = <[_; 1]>::try_from(contexts(KEPT.as_bytes())).expect("one context");
    assert_eq!((context.id, context.peer.generation), (ContextId(3), Some(7)));
    assert_eq!(context.peer_tag.octets()[0], 127, "a tag has 47 bits");
    context.peer.listed = 2;
    context.peer.preferences = Preferences::new(&[told, LocatorPreference::default()]);
    context.told_preferences = true;
    context.knows_checks = true;
    let state = SavedState { contexts: vec![context.clone()], ..SavedState::default() };
    let written = serde_json::to_vec(&state).expect("JSON");
    assert_eq!(contexts(&written), [context]);
}

/// Contexts of a host with two addresses, with peers that have two. Every other context has moved.
fn many(count: u32) -> Vec<ContextSnapshot> {
    let [one] = <[_; 1]>::try_from(contexts(KEPT.as_bytes())).expect("one context");
    let at = |isp: u16, high: u16, low: u16| {
        Locator::from(Ipv6Addr::new(0x2001, 0xdb8, isp, high, 0x3c1d, 0x82f7, 0x91ab, low))
    };
    let own = Locators::from([at(0xa1, 0, 1), at(0xa2, 0, 2)]);
    let context = |number: u32| {
        let [high, low] = [number >> 16, number & 0xffff].map(|part| u16::try_from(part).unwrap());
        let peers = [at(0xc, high, low), at(0xd, high, low)];
        let ulids = LocatorPair::new(own[0], peers[0]);
        let tag = |salt: u64| ContextTag::from_bits(u64::from(number + 1) * salt);
        let mut context = one.clone();
        context.id = ContextId(number);
        context.key.ulids = UlidPair::new(ulids.local.as_ulid(), ulids.peer.as_ulid());
        (context.local_tag, context.peer_tag) = (tag(0x6a09_e667_f3bc), tag(0x3c6e_f372_fe94));
        context.locators =
            if number.is_multiple_of(2) { ulids } else { LocatorPair::new(own[1], peers[1]) };
        context.local_locators = own.clone();
        (context.peer.locators, context.peer.listed) = (peers.into(), 2);
        context.knows_checks = true;
        context
    };
    (0..count).map(context).collect()
}

/// Decision 203: a flood of contexts must not write tens of megabytes.
#[test]
fn a_context_takes_less_than_two_hundred_octets_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let all = many(1000);
    store.save_contexts(all.iter().cloned()).unwrap();
    assert_eq!(store.load_state(CONTEXTS).contexts, all);
    assert!(store.len(CONTEXTS) < 200 * 1000, "{} octets", store.len(CONTEXTS));
}

/// A peer may have withdrawn the current locator or the ULID, and so may this host.
#[test]
fn addresses_outside_of_the_lists_are_kept() {
    let [other, strange] =
        [7, 8].map(|last| Locator::from(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, last)));
    let mut all = many(3);
    all[0].locators = LocatorPair::new(other, strange);
    all[1].key.ulids = UlidPair::new(strange.as_ulid(), other.as_ulid());
    all[1].key.forked_instance = 9;
    all[2].local_locators = Locators::default();
    all[2].role = moorline_contexts::Role::Responder;
    all[2].peer.send_timeout = std::time::Duration::from_secs(3).into();
    let state = SavedState { contexts: all, ..SavedState::default() };
    let written = serde_json::to_vec(&state).expect("JSON");
    assert_eq!(contexts(&written), state.contexts);
}

#[test]
fn a_place_outside_of_its_list_is_no_context() {
    let state = SavedState { contexts: many(2), ..SavedState::default() };
    let written = serde_json::to_string(&state).expect("JSON");
    for (good, bad) in [
        ("\"from\":1", "\"from\":2"),
        ("\"to\":1", "\"to\":9"),
        ("\"id\":1,", "\"id\":1,\"own\":1,"),
    ] {
        assert!(written.contains(good), "{written}");
        let broken = written.replace(good, bad);
        assert!(serde_json::from_str::<SavedState>(&broken).is_err(), "{bad}");
    }
}

#[test]
fn what_is_kept_of_a_session_is_read_as_it_was_written() {
    let kept = r#"{"boot_id":"this","sessions":[{
        "pair":{"local":{"l64":2306139568115548160,"nid":10},"remote":{"l64":2306139572410515456,"nid":11}},
        "wire":[2306139568115613696,2306139572410515456],
        "nonces":[{"Short":[1,2,3,4]},{"Long":[1,2,3,4,5,6,7,8,9,10,11,12]}],
        "why":"WeProposed","is_guest":false,"checksum":"nid-only","peer":5,"agreed":true,"settled":true,
        "remote":[{"l64":2306139572410515456,"preference":100,"expires":12345}],"taken":7,"sent":9}]}"#;
    let state: SavedState = serde_json::from_str(kept).expect("a session");
    let [session] = &state.sessions[..] else { panic!("{state:?}") };
    assert_eq!(session.nonces.1.octets().len(), 12);
    let written = serde_json::to_vec(&state).expect("JSON");
    assert_eq!(serde_json::from_slice::<SavedState>(&written).expect("a session"), state);
}

/// A power failure can leave an incomplete file.
#[test]
fn contexts_and_sessions_of_half_a_file_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let kept = contexts(KEPT.as_bytes());
    store.save_sessions(std::iter::empty()).unwrap();
    for name in [CONTEXTS, SESSIONS] {
        store.save_contexts(kept.iter().cloned()).unwrap();
        assert_eq!(store.load_state(CONTEXTS).contexts, kept);
        let place = store.place(name);
        let octets = fs::read(&place).unwrap();
        for damaged in [&[][..], &octets[..octets.len() / 2], &[0; 64], b"\xff\xfe"] {
            fs::write(&place, damaged).unwrap();
            let left = if name == CONTEXTS { 0 } else { 1 };
            let contexts = store.load_state(CONTEXTS).contexts;
            let found = (contexts.len(), store.load_state(SESSIONS).sessions.len());
            assert_eq!(found, (left, 0), "{name}");
        }
    }
}

fn save(store: &Store, generation: u32) {
    store.save_addresses(&SavedAddresses::new(generation, std::iter::empty(), moment())).unwrap();
}

/// The generation of the file that is taken, and whether a person is told of damage.
fn load(store: &Store) -> (Option<u32>, bool) {
    let loaded = store.load_addresses(|saved| Ok(saved.generation)).unwrap();
    assert!(!loaded.is_older || loaded.damage.is_some());
    (loaded.value, loaded.damage.is_some())
}

#[test]
fn a_file_of_addresses_with_any_wrong_octet_gives_way_to_the_file_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    save(&store, 1);
    save(&store, 2);
    let whole = fs::read(store.addresses()).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(store.addresses(), damaged).unwrap();
        assert_eq!(load(&store), (Some(1), true), "octet {at}");
        assert_eq!(load(&store), (Some(1), false), "and at the next start, octet {at}");
    }
    save(&store, 3);
    assert_eq!(load(&store), (Some(3), false), "it is written anew");
    fs::write(store.addresses(), "{").unwrap();
    assert_eq!(load(&store), (Some(1), true), "what was damaged is not kept as the file before");
}

#[test]
fn a_file_before_that_cannot_be_read_now_is_not_taken_for_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    save(&store, 1);
    save(&store, 2);
    fs::write(store.addresses(), "{").unwrap();
    let (before, away) = (store.place(BEFORE), folder.path().join("away"));
    fs::rename(&before, &away).unwrap();
    fs::create_dir(&before).unwrap();
    let loaded = store.load_addresses(|_| Ok(()));
    assert!(loaded.is_err(), "the start fails: {loaded:?}");
    fs::remove_dir(&before).unwrap();
    fs::rename(&away, &before).unwrap();
    assert_eq!(load(&store), (Some(1), true), "and the next start finds all as it was");
}

#[test]
fn without_a_whole_file_there_are_no_addresses_and_a_removed_one_comes_not_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    assert_eq!(load(&store), (None, false));
    fs::write(store.addresses(), "{").unwrap();
    assert_eq!(load(&store), (None, true));
    save(&store, 1);
    save(&store, 2);
    fs::remove_file(store.addresses()).unwrap();
    assert_eq!(load(&store), (None, false));
    save(&store, 3);
    fs::write(store.addresses(), "{").unwrap();
    assert_eq!(load(&store), (None, true), "addresses from before the removal");
}

/// A folder in place of the file stands for all errors that say nothing of the contents.
#[test]
fn a_file_that_cannot_be_read_now_is_not_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    save(&store, 1);
    save(&store, 2);
    let moved = folder.path().join("moved");
    fs::rename(store.addresses(), &moved).unwrap();
    fs::create_dir(store.addresses()).unwrap();
    store.load_addresses(|saved| Ok(saved.generation)).unwrap_err();
    fs::remove_dir(store.addresses()).unwrap();
    fs::rename(&moved, store.addresses()).unwrap();
    assert_eq!(load(&store), (Some(2), false));
    let lost = |number: Errno| anyhow::Error::new(io::Error::from(number)).context("addresses");
    assert_eq!(
        [Errno::EIO, Errno::EMFILE].map(|number| is_of_process(&lost(number))),
        [false, true]
    );
}

#[test]
fn files_of_earlier_versions_have_no_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let saved = SavedAddresses::new(7, std::iter::empty(), moment());
    fs::write(store.addresses(), serde_json::to_vec(&saved).unwrap()).unwrap();
    assert_eq!(load(&store), (Some(7), false));
}

/// One that stays JSON: a tag, a locator.
#[test]
fn contexts_with_a_wrong_octet_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.save_contexts(contexts(KEPT.as_bytes()).into_iter()).unwrap();
    let text = fs::read_to_string(store.place(CONTEXTS)).unwrap();
    let (tag, other) = ("\"tags\":\"000000000005", "\"tags\":\"000000000004");
    assert!(text.contains(tag), "{text}");
    fs::write(store.place(CONTEXTS), text.replace(tag, other)).unwrap();
    assert_eq!(store.load_state(CONTEXTS).contexts, []);
}

#[test]
fn a_directory_without_state_is_discarded_with_its_lock() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let store = Store::open(&state).unwrap();
    fs::write(store.lock(), "").unwrap();
    store.discard().unwrap();
    assert!(!state.exists());
}
