use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Waker};
use std::time::Instant as Clock;

use moorline_stack::stack::Event;
use moorline_stack::tcp::{self, ListenerId, TcpId};
use moorline_stack::udp::UdpId;

use crate::Outcome;

/// Tasks that wait for sockets, by what they wait for.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) tcp: BTreeMap<TcpId, Directions>,
    pub(crate) listeners: BTreeMap<ListenerId, Tasks>,
    pub(crate) udp: BTreeMap<UdpId, Tasks>,
    pub(crate) pings: BTreeMap<u16, Pings>,
}

/// Tasks that wait for a connection.
#[derive(Default)]
pub(crate) struct Directions {
    /// There is something to read, or the connection is over.
    pub(crate) readable: Tasks,
    /// There is room, the connection is established, or it is over.
    pub(crate) writable: Tasks,
}

/// The Echo Requests of a [`Pinger`](crate::Pinger), and their outcomes.
#[derive(Default)]
pub(crate) struct Pings {
    /// Times of the requests by their sequence numbers.
    pub(crate) sent: BTreeMap<u16, Clock>,
    pub(crate) outcomes: VecDeque<Outcome>,
    pub(crate) tasks: Tasks,
}

/// Tasks, each once.
#[derive(Default)]
pub(crate) struct Tasks(Vec<Waker>);

impl Tasks {
    /// Adds the task of this context.
    pub(crate) fn add(&mut self, context: &Context<'_>) {
        if !self.0.iter().any(|task| task.will_wake(context.waker())) {
            self.0.push(context.waker().clone());
        }
    }

    /// Hands the tasks over to `woken`.
    fn wake(&mut self, woken: &mut Vec<Waker>) {
        woken.append(&mut self.0);
    }
}

impl Waiting {
    /// Hands the tasks that wait for the event over to `woken`.
    pub(crate) fn handle(&mut self, event: &Event, woken: &mut Vec<Waker>) {
        match event {
            Event::Tcp(event) => self.handle_tcp(*event, woken),
            Event::Udp(socket) => {
                if let Some(tasks) = self.udp.get_mut(socket) {
                    tasks.wake(woken);
                }
            }
            Event::EchoReply(reply) => {
                let Some(pings) = self.pings.get_mut(&reply.identifier) else { return };
                let rtt = pings.sent.get(&reply.sequence).map(Clock::elapsed).unwrap_or_default();
                pings.note(Outcome::Reply { reply: *reply, rtt }, woken);
            }
            Event::EchoError { identifier, sequence, from, cause, .. } => {
                let Some(pings) = self.pings.get_mut(identifier) else { return };
                let error = Outcome::Error { sequence: *sequence, from: *from, cause: *cause };
                pings.note(error, woken);
            }
            Event::AddressReady(..)
            | Event::AddressDuplicate(..)
            | Event::AddressDeprecated(..)
            | Event::AddressRemoved(..)
            | Event::Disabled(_)
            | Event::RouterFound(..)
            | Event::RouterLost(..)
            | Event::RouterUnreachable(..)
            | Event::DnsChanged(_)
            | Event::UdpError { .. }
            | Event::PathMtu(..) => {}
        }
    }

    fn handle_tcp(&mut self, event: tcp::Event, woken: &mut Vec<Waker>) {
        let mut wake = |id, is_readable: bool, is_writable: bool| {
            let Some(directions) = self.tcp.get_mut(&id) else { return };
            if is_readable {
                directions.readable.wake(woken);
            }
            if is_writable {
                directions.writable.wake(woken);
            }
        };
        match event {
            tcp::Event::Readable(id) => wake(id, true, false),
            tcp::Event::Writable(id) => wake(id, false, true),
            tcp::Event::Established(id) | tcp::Event::Closed(id, _) => wake(id, true, true),
            tcp::Event::Acceptable(id) => {
                if let Some(tasks) = self.listeners.get_mut(&id) {
                    tasks.wake(woken);
                }
            }
            tcp::Event::Reachable(_) => {}
        }
    }
}

impl Pings {
    /// Keeps an outcome. A program that does not take them loses the oldest one, as there may be many for one request to a group.
    fn note(&mut self, outcome: Outcome, woken: &mut Vec<Waker>) {
        if self.outcomes.len() == MAX_OUTCOMES {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back(outcome);
        self.tasks.wake(woken);
    }
}

/// Largest number of outcomes of a [`Pinger`](crate::Pinger) that wait for the program.
const MAX_OUTCOMES: usize = 1024;
