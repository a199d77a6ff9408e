//! Shared parts of the targets of machines and data planes.

/// Polls until `None`. Panics at `limit` values, which are more than a step may cause: the queue has no end.
pub(crate) fn polled<T>(limit: usize, poll: impl FnMut() -> Option<T>) -> Vec<T> {
    let all: Vec<T> = std::iter::from_fn(poll).take(limit).collect();
    assert!(all.len() < limit, "a queue without end");
    all
}
