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
    (context.peer.listed, context.peer.signed) = (2, 1);
    context.peer.preferences = Preferences::new(&[told, LocatorPreference::default()]);
    context.told_preferences = true;
    context.knows_checks = true;
    context.cause = Some(moorline_contexts::Cause::Suspicion);
    let state = SavedState { contexts: vec![context.clone()], ..SavedState::default() };
    let written = serde_json::to_vec(&state).expect("JSON");
    assert_eq!(contexts(&written), [context]);
}

/// Contexts of a host with two addresses, with peers that have two. Every other context has moved.
pub(crate) fn many(count: u32) -> Vec<ContextSnapshot> {
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
        context.locators = ulids;
        if !number.is_multiple_of(2) {
            context.locators = LocatorPair::new(own[1], peers[1]);
            context.cause = Some(moorline_contexts::Cause::ProbeOperational);
        }
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

/// A daemon of an earlier version takes over after one of a later version.
#[test]
fn a_session_with_words_of_a_later_version_does_not_take_the_others_with_it() {
    let session = crate::ilnp::again::tests::session;
    let state = SavedState { sessions: (0..3).map(session).collect(), ..SavedState::default() };
    let mut written = serde_json::to_value(&state).expect("JSON");
    written["sessions"][0]["why"] = "OfLater".into();
    written["sessions"][1]["checksum"] = serde_json::json!({ "of-later": 5 });
    let read: SavedState = serde_json::from_value(written).expect("sessions");
    let known = read.sessions.iter().map(|one| (one.why.is_some(), one.checksum.is_some()));
    assert_eq!(known.collect::<Vec<_>>(), [(false, true), (true, false), (true, true)]);
    assert_eq!(read.sessions[2], state.sessions[2]);
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
        let place = store.folder.place(name);
        let octets = fs::read(&place).unwrap();
        for damaged in [&[][..], &octets[..octets.len() / 2], &[0; 64], b"\xff\xfe"] {
            fs::write(&place, damaged).unwrap();
            let left = if name == CONTEXTS { 0 } else { 1 };
            let contexts = store.load_state(CONTEXTS).contexts;
            let found = (contexts.len(), store.load_state(SESSIONS).sessions.len());
            assert_eq!(found, (left, 0), "{name}");
            let damage = store.load_state(name).damage.expect("a person is told");
            assert!(damage.contains(name) && damage.contains("lost"), "{damage}");
        }
    }
}

/// One that stays JSON: a tag, a locator.
#[test]
fn contexts_with_a_wrong_octet_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.save_contexts(contexts(KEPT.as_bytes()).into_iter()).unwrap();
    let text = fs::read_to_string(store.folder.place(CONTEXTS)).unwrap();
    let (tag, other) = ("\"tags\":\"000000000005", "\"tags\":\"000000000004");
    assert!(text.contains(tag), "{text}");
    fs::write(store.folder.place(CONTEXTS), text.replace(tag, other)).unwrap();
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
