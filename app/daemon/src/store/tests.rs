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
    assert_eq!((context.id, context.peer_generation), (ContextId(3), Some(7)));
    assert_eq!((context.peer_listed, context.told_preferences), (0, false));
    assert!(context.peer_preferences.is_empty());
}

#[test]
fn what_is_kept_of_a_context_is_read_as_it_was_written() {
    let told = LocatorPreference { flags: 1, priority: Some(2), weight: None };
    let [mut context] = <[_; 1]>::try_from(contexts(BEFORE.as_bytes())).expect("one context");
    context.peer_listed = 2;
    context.peer_preferences = vec![told, LocatorPreference::default()];
    context.told_preferences = true;
    let written = write_state(&SavedState::Contexts(vec![context.clone()]), "this").expect("JSON");
    assert_eq!(contexts(&written), [context]);
}
