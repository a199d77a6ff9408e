use moorline_types::{ContextId, SessionId};

use super::*;

const CONTEXT: Mover = Mover::Context(ContextId(1));
const SESSION: Mover = Mover::Session(SessionId(1));

#[test]
fn an_mtu_counts_until_it_is_old_or_the_path_is_another() {
    let (mut mtus, start) = (PathMtus::default(), Instant::now());
    assert_eq!((mtus.of(CONTEXT), mtus.poll_timeout()), (None, None));
    assert!(mtus.note(CONTEXT, 1400, start));
    let later = start + Duration::from_secs(10);
    assert!(mtus.note(SESSION, 1300, later));
    assert_eq!((mtus.of(CONTEXT), mtus.of(SESSION)), (Some(1400), Some(1300)));

    assert_eq!(mtus.poll_timeout(), Some(start + EXPIRES));
    assert_eq!(mtus.take_expired(start + EXPIRES), [CONTEXT]);
    assert_eq!((mtus.of(CONTEXT), mtus.of(SESSION)), (None, Some(1300)));
    assert_eq!(mtus.poll_timeout(), Some(later + EXPIRES));

    mtus.forget([SESSION]);
    assert_eq!(mtus.of(SESSION), None);
    assert_eq!(mtus.take_expired(later + EXPIRES), []);
    assert_eq!(mtus.poll_timeout(), None);
}

#[test]
fn what_is_told_again_is_no_news_and_counts_longer() {
    let (mut mtus, start) = (PathMtus::default(), Instant::now());
    assert!(mtus.note(CONTEXT, 1400, start));
    let later = start + Duration::from_secs(10);
    assert!(!mtus.note(CONTEXT, 1400, later));
    assert_eq!(mtus.take_expired(start + EXPIRES), []);
    assert!(mtus.note(CONTEXT, 1300, later));
    assert_eq!(mtus.take_expired(later + EXPIRES), [CONTEXT]);
}
