//! Logged errors and panics of hosts, as findings of a run.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{Debug, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span, subscriber};

thread_local! {
    static LOGGED: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
}

/// Runs `run` and keeps logged errors for [`next`]. Other log messages are dropped.
pub(super) fn collecting<T>(run: impl FnOnce() -> T) -> T {
    LOGGED.with_borrow_mut(VecDeque::clear);
    subscriber::with_default(Collector, run)
}

/// The next logged error.
pub(super) fn next() -> Option<String> {
    LOGGED.with_borrow_mut(VecDeque::pop_front)
}

/// The message of a panic.
pub(super) fn words_of(panic: &(dyn Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word").to_owned()
}

struct Collector;

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(event.metadata().target().to_owned());
        event.record(&mut words);
        LOGGED.with_borrow_mut(|logged| logged.push_back(words.0));
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string does not fail.
        let _ = write!(self.0, " {field}={value:?}");
    }
}
