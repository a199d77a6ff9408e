//! What targets of machines and data planes have in common.

/// All that is polled: as many as `limit`, more than a step may ever bring, mean that it does not come to an end.
pub(crate) fn polled<T>(limit: usize, poll: impl FnMut() -> Option<T>) -> Vec<T> {
    let all: Vec<T> = std::iter::from_fn(poll).take(limit).collect();
    assert!(all.len() < limit, "a queue without end");
    all
}
