use super::*;

/// A context as it was written before lengths of lists and preferences were kept.
const BEFORE: &str = r#"{"boot_id":"this","contexts":[{"id":3,"ulids":["2001:db8::1","2001:db8::2"],"tags":[5,6],
    "locators":["2001:db8::1","2001:db8::2"],"local_locators":["2001:db8::1"],"peer_locators":["2001:db8::2"],
    "peer_generation":7,"peer_send_timeout_ms":15000,"initiator":true}]}"#;

fn contexts(octets: &[u8]) -> Vec<ContextSnapshot> {
    match read_state(octets, "this").expect("contexts") {
        SavedState::Contexts(contexts) => contexts,
        other @ (SavedState::Sessions(_) | SavedState::Addresses(_)) => panic!("{other:?}"),
    }
}

#[test]
fn contexts_of_the_version_before_are_read() {
    let [context] = &contexts(BEFORE.as_bytes())[..] else { panic!("one context") };
    assert_eq!((context.id, context.peer.generation), (ContextId(3), Some(7)));
    assert_eq!((context.peer.listed, context.told_preferences), (0, false));
    assert!(context.peer.preferences.is_empty());
}

#[test]
fn what_is_kept_of_a_context_is_read_as_it_was_written() {
    let told = LocatorPreference { flags: 1, priority: Some(2), weight: None };
    let [mut context] = <[_; 1]>::try_from(contexts(BEFORE.as_bytes())).expect("one context");
    context.peer.listed = 2;
    context.peer.preferences = Preferences::new(&[told, LocatorPreference::default()]);
    context.told_preferences = true;
    let written = write_state(&SavedState::Contexts(vec![context.clone()]), "this").expect("JSON");
    assert_eq!(contexts(&written), [context]);
}

/// Power may fail before they are on the disk.
#[test]
fn contexts_and_sessions_of_half_a_file_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let kept = contexts(BEFORE.as_bytes());
    store.save_sessions(std::iter::empty()).unwrap();
    for name in [CONTEXTS, SESSIONS] {
        store.save_contexts(kept.iter().cloned()).unwrap();
        assert_eq!(store.load_contexts(), kept);
        let place = store.place(name);
        let octets = fs::read(&place).unwrap();
        for damaged in [&[][..], &octets[..octets.len() / 2], &[0; 64], b"\xff\xfe"] {
            fs::write(&place, damaged).unwrap();
            let left = if name == CONTEXTS { 0 } else { 1 };
            let found = (store.load_contexts().len(), store.load_sessions().len());
            assert_eq!(found, (left, 0), "{name}");
        }
    }
}

#[test]
fn addresses_of_half_a_file_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.save_addresses(&SavedAddresses::new(1, std::iter::empty())).unwrap();
    assert!(store.load_addresses().unwrap().is_some());
    fs::write(store.addresses(), b"{").unwrap();
    assert!(store.load_addresses().is_err());
}
