//! The host behind the lock: the stack alone, or the stack with Shim6 beneath it.

use moorline_ip::PacketBuf;
use moorline_protected::{self as protected, News, Saved};
use moorline_stack::stack::{Event, Stack, WireConfig, WireId};
use moorline_types::Instant;

/// A host.
pub(crate) enum Node {
    /// The stack.
    Plain(Box<Stack>),
    /// The stack with Shim6 beneath it.
    Protected(Box<protected::Host>),
}

impl Node {
    pub(crate) const fn stack(&self) -> &Stack {
        match self {
            Self::Plain(stack) => stack,
            Self::Protected(host) => host.stack(),
        }
    }

    pub(crate) const fn protected(&self) -> Option<&protected::Host> {
        match self {
            Self::Plain(_) => None,
            Self::Protected(host) => Some(host),
        }
    }

    /// Calls a function of the stack, and does what follows from the call.
    pub(crate) fn call<T>(&mut self, now: Instant, call: impl FnOnce(&mut Stack) -> T) -> T {
        match self {
            Self::Plain(stack) => call(stack),
            Self::Protected(host) => host.with_stack(now, call),
        }
    }

    pub(crate) fn add_wire(&mut self, config: WireConfig, now: Instant) -> WireId {
        match self {
            Self::Plain(stack) => {
                let id = stack.add_wire(config, now);
                stack.set_cuts_segments(id, true);
                id
            }
            Self::Protected(host) => host.add_wire(config, now),
        }
    }

    pub(crate) fn handle_link(&mut self, wire: WireId, is_up: bool, now: Instant) {
        match self {
            Self::Plain(stack) => stack.handle_link(wire, is_up, now),
            Self::Protected(host) => host.handle_link(wire, is_up, now),
        }
    }

    pub(crate) fn handle_frame(&mut self, wire: WireId, frame: PacketBuf, now: Instant) {
        match self {
            Self::Plain(stack) => stack.handle_frame(wire, frame, now),
            Self::Protected(host) => host.handle_frame(wire, frame, now),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match self {
            Self::Plain(stack) => stack.handle_timeout(now),
            Self::Protected(host) => host.handle_timeout(now),
        }
    }

    /// Ends all sessions of ILNP, and tells the correspondents.
    pub(crate) fn end_sessions(&mut self, now: Instant) {
        match self {
            Self::Plain(_) => {}
            Self::Protected(host) => host.end_sessions(now),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Plain(stack) => stack.poll_timeout(),
            Self::Protected(host) => host.poll_timeout(),
        }
    }

    pub(crate) fn poll_frame(&mut self) -> Option<(WireId, PacketBuf)> {
        match self {
            Self::Plain(stack) => stack.poll_frame(),
            Self::Protected(host) => host.poll_frame(),
        }
    }

    /// Takes the memory of a frame that is on its way. A protected host has no large frames.
    pub(crate) fn recycle(&mut self, sent: PacketBuf) {
        match self {
            Self::Plain(stack) => stack.recycle(sent),
            Self::Protected(_) => {}
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::Plain(stack) => stack.poll_event(),
            Self::Protected(host) => host.poll_event(),
        }
    }

    pub(crate) fn poll_news(&mut self) -> Option<News> {
        match self {
            Self::Plain(_) => None,
            Self::Protected(host) => host.poll_news(),
        }
    }

    pub(crate) fn has_unsaved(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Protected(host) => host.has_unsaved(),
        }
    }

    pub(crate) fn poll_save(&mut self) -> Option<Saved> {
        match self {
            Self::Plain(_) => None,
            Self::Protected(host) => host.poll_save(),
        }
    }

    pub(crate) fn handle_saved(&mut self, now: Instant) {
        match self {
            Self::Plain(_) => {}
            Self::Protected(host) => host.handle_saved(now),
        }
    }
}
