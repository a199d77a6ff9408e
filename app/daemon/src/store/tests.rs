use moorline_contexts::Preferences;
use moorline_types::ContextId;
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
    let state = SavedState { contexts: vec![context.clone()], ..SavedState::default() };
    let written = serde_json::to_vec(&state).expect("JSON");
    assert_eq!(contexts(&written), [context]);
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

#[test]
fn addresses_of_half_a_file_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.save_addresses(&SavedAddresses::new(1, std::iter::empty(), moment())).unwrap();
    assert!(store.load_addresses().unwrap().is_some());
    fs::write(store.addresses(), b"{").unwrap();
    assert!(store.load_addresses().is_err());
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
