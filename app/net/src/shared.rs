use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant as Clock};

use moorline_ip::PacketBuf;
use moorline_stack::stack::{self, WireId};
use moorline_types::Instant;
use tokio::sync::{Notify, broadcast, watch};

use crate::node::Node;
use crate::waiting::Waiting;
use crate::{Event, Interface};

/// State that the handle of a host, its sockets and its tasks share.
pub(crate) struct Shared {
    state: Mutex<State>,
    start: Clock,
    /// The time of the next timer has come nearer.
    timer: Notify,
    /// There are addresses to save.
    pub(crate) unsaved: Notify,
    /// Sentence for people on a damaged file of addresses.
    pub(crate) damage: Option<String>,
    pub(crate) events: broadcast::Sender<Event>,
    /// Becomes true at the end of the host. Each task has a receiver until it has ended.
    pub(crate) end: watch::Sender<bool>,
}

/// The host, behind a lock.
pub(crate) struct State {
    pub(crate) node: Node,
    pub(crate) waiting: Waiting,
    pub(crate) ports: Vec<Port>,
    /// Until when the task of the timers sleeps.
    due: Option<Instant>,
    woken: Vec<Waker>,
}

/// Where frames wait for the task of their wire.
pub(crate) struct Port {
    pub(crate) interface: Interface,
    pub(crate) frames: VecDeque<PacketBuf>,
    pub(crate) ready: Arc<Notify>,
}

impl Shared {
    pub(crate) fn new(node: Node, damage: Option<String>, start: Clock) -> Self {
        Self {
            state: Mutex::new(State {
                node,
                waiting: Waiting::default(),
                ports: Vec::new(),
                due: None,
                woken: Vec::new(),
            }),
            start,
            timer: Notify::new(),
            unsaved: Notify::new(),
            damage,
            events: broadcast::Sender::new(EVENTS),
            end: watch::Sender::new(false),
        }
    }

    /// Calls the host, and hands on what the call has caused.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        let result = call(&mut state, self.now());
        state.hand_out_frames();
        while let Some(event) = state.node.poll_event() {
            let State { waiting, woken, .. } = &mut *state;
            waiting.handle(&event, woken);
            if !matches!(event, stack::Event::Tcp(_) | stack::Event::Udp(_)) {
                // There may be nobody to hear it.
                let _ = self.events.send(Event::Stack(event));
            }
        }
        self.hand_out_news(&mut state);
        if state.node.poll_timeout().is_some_and(|due| state.due.is_none_or(|known| due < known)) {
            self.timer.notify_one();
        }
        let woken = std::mem::take(&mut state.woken);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Hands on the news of Shim6, and that addresses have to be saved.
    fn hand_out_news(&self, state: &mut State) {
        while let Some(news) = state.node.poll_news() {
            // There may be nobody to hear it.
            let _ = self.events.send(Event::Shim6(news));
        }
        if state.node.has_unsaved() {
            self.unsaved.notify_one();
        }
    }

    /// Looks at the host, without a change.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&State, Instant) -> T) -> T {
        let state = self.lock();
        look(&state, self.now())
    }

    /// Does what is due, each time that something is, until the end of the host.
    pub(crate) async fn keep_time(&self) {
        let mut end = self.end.subscribe();
        loop {
            let due = {
                let mut state = self.lock();
                state.due = state.node.poll_timeout();
                state.due
            };
            let timer = async {
                match due {
                    Some(due) => {
                        let due = self.start + Duration::from_nanos(due.as_nanos());
                        tokio::time::sleep_until(due.into()).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = timer => self.with(|state, now| state.node.handle_timeout(now)),
                () = self.timer.notified() => {}
                _ = end.wait_for(|is_over| *is_over) => return,
            }
        }
    }

    /// Takes the state of a link, and tells of it.
    pub(crate) fn set_link(&self, wire: WireId, is_up: bool) {
        self.with(|state, now| {
            state.node.handle_link(wire, is_up, now);
            if let Some(port) = state.port(wire) {
                port.interface.is_up = is_up;
                port.frames.clear();
            }
        });
        // There may be nobody to hear it.
        let _ = self.events.send(Event::Link { wire, is_up });
    }

    fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of a task is reported where it happens. The host has no state that a panic of its caller could break.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(crate) fn port(&mut self, wire: WireId) -> Option<&mut Port> {
        self.ports.iter_mut().find(|port| port.interface.wire == wire)
    }

    /// Puts the frames of the host where the tasks of the wires take them. A frame that finds the queue full is lost, as in any
    /// adapter.
    fn hand_out_frames(&mut self) {
        while let Some((wire, frame)) = self.node.poll_frame() {
            let Some(port) = self.port(wire) else { continue };
            if !port.interface.is_up {
                continue;
            }
            if port.frames.len() == QUEUE {
                port.interface.lost += 1;
                continue;
            }
            port.frames.push_back(frame);
            port.ready.notify_one();
        }
    }
}

/// Largest number of frames that wait for room on a wire.
const QUEUE: usize = 1024;
/// Number of events that a slow receiver may be behind.
const EVENTS: usize = 1024;
