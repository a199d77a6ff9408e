use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant as Clock};

use moorline_ip::{Mac, PacketBuf};
use moorline_stack::stack::{Event, Stack, WireId};
use moorline_stack::tcp::{self, ListenerId, TcpId};
use moorline_stack::udp::UdpId;
use moorline_types::Instant;
use moorline_wires::Counts;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};

use super::super::protocol::EchoOutcome;
use super::super::tell;

/// A host, and the clients that wait for its events. Tasks of one thread share it.
pub(super) struct Host {
    stack: RefCell<Stack>,
    wire: WireId,
    /// Text of the wire, link-layer address, and MTU.
    interface: (String, Mac, u32),
    start: Clock,
    wake: Notify,
    waiting: RefCell<Waiting>,
    counts: Cell<Counts>,
    lost: Cell<u64>,
    is_up: Cell<bool>,
}

/// Clients by what they wait for.
#[derive(Default)]
struct Waiting {
    tcp: BTreeMap<TcpId, Rc<Ready>>,
    listeners: BTreeMap<ListenerId, Rc<Ready>>,
    udp: BTreeMap<UdpId, Rc<Ready>>,
    pings: BTreeMap<u16, mpsc::Sender<EchoOutcome>>,
    /// Times of Echo Requests by identifier and sequence number.
    pinged: BTreeMap<(u16, u16), Clock>,
    /// Accepted connections that no client has taken yet, by their numbers.
    accepted: BTreeMap<u64, TcpId>,
    next: u64,
}

/// Says that a call on a socket may succeed now.
#[derive(Default)]
pub(super) struct Ready {
    /// There is something to read or to accept, or the socket is over.
    pub(super) readable: Notify,
    /// There is room, the connection is established, or it is over.
    pub(super) writable: Notify,
}

impl Host {
    pub(super) fn new(stack: Stack, wire: WireId, interface: (String, Mac, u32)) -> Self {
        Self {
            stack: RefCell::new(stack),
            wire,
            interface,
            start: Clock::now(),
            wake: Notify::new(),
            waiting: RefCell::default(),
            counts: Cell::default(),
            lost: Cell::default(),
            is_up: Cell::new(true),
        }
    }

    /// The time of the host.
    pub(super) fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }

    /// The stack, for one call. The driver sends what the call has caused.
    pub(super) fn stack(&self) -> RefMut<'_, Stack> {
        self.wake.notify_one();
        self.stack.borrow_mut()
    }

    /// Waits until a client has called the stack. Cancel safe.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(super) fn handle_frame(&self, frame: PacketBuf) {
        self.stack.borrow_mut().handle_frame(self.wire, frame, self.now());
    }

    pub(super) fn handle_link(&self, is_up: bool) {
        self.is_up.set(is_up);
        self.stack.borrow_mut().handle_link(self.wire, is_up, self.now());
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&self) {
        let now = self.now();
        let mut stack = self.stack.borrow_mut();
        if stack.poll_timeout().is_some_and(|due| due <= now) {
            stack.handle_timeout(now);
        }
    }

    /// When [`Self::handle_timeout`] is to be called next.
    pub(super) fn next_timeout(&self) -> Option<Clock> {
        let due = self.stack.borrow().poll_timeout()?;
        Some(self.start + Duration::from_nanos(due.as_nanos()))
    }

    pub(super) fn next_frame(&self) -> Option<PacketBuf> {
        self.stack.borrow_mut().poll_frame().map(|(_, frame)| frame)
    }

    /// Takes the next event, and tells the client that waits for it.
    pub(super) fn next_event(&self) -> Option<Event> {
        let event = self.stack.borrow_mut().poll_event()?;
        self.waiting.borrow_mut().tell(&event);
        Some(event)
    }

    /// Forgets frames, as when the link is down, and hands out events.
    pub(super) fn drain(&self) {
        while self.next_frame().is_some() {}
        while self.next_event().is_some() {}
    }

    pub(super) fn set_wire_counts(&self, counts: Counts) {
        self.counts.set(counts);
    }

    pub(super) fn count_lost(&self) {
        self.lost.set(self.lost.get() + 1);
    }

    /// Begins to wait for events of a connection.
    pub(super) fn watch_tcp(&self, id: TcpId) -> Rc<Ready> {
        Rc::clone(self.waiting.borrow_mut().tcp.entry(id).or_default())
    }

    /// Gives a connection up: see [`moorline_stack::tcp::Engine::close`].
    pub(super) fn close_tcp(&self, id: TcpId) {
        self.waiting.borrow_mut().tcp.remove(&id);
        // The name may be gone already.
        let _ = self.stack().tcp_close(id, self.now());
    }

    /// Resets all connections of clients.
    pub(super) fn abort_all(&self) {
        for id in self.waiting.borrow().tcp.keys() {
            // The connection may be over already.
            let _ = self.stack().tcp_abort(*id, self.now());
        }
    }

    pub(super) fn watch_listener(&self, id: ListenerId) -> Rc<Ready> {
        Rc::clone(self.waiting.borrow_mut().listeners.entry(id).or_default())
    }

    pub(super) fn close_listener(&self, id: ListenerId) {
        self.waiting.borrow_mut().listeners.remove(&id);
        // The name may be gone already.
        let _ = self.stack().tcp_unlisten(id, self.now());
    }

    pub(super) fn watch_udp(&self, id: UdpId) -> Rc<Ready> {
        Rc::clone(self.waiting.borrow_mut().udp.entry(id).or_default())
    }

    pub(super) fn close_udp(&self, id: UdpId) {
        self.waiting.borrow_mut().udp.remove(&id);
        // The name may be gone already.
        let _ = self.stack().udp_close(id, self.now());
    }

    /// Keeps an accepted connection until a client takes it. Returns its number.
    pub(super) fn keep(&self, id: TcpId) -> u64 {
        let mut waiting = self.waiting.borrow_mut();
        waiting.tcp.entry(id).or_default();
        waiting.next += 1;
        let number = waiting.next;
        waiting.accepted.insert(number, id);
        number
    }

    /// Takes a connection that was kept.
    pub(super) fn take(&self, number: u64) -> Option<TcpId> {
        self.waiting.borrow_mut().accepted.remove(&number)
    }

    /// Whether no client has taken the connection yet.
    pub(super) fn is_kept(&self, number: u64) -> bool {
        self.waiting.borrow().accepted.contains_key(&number)
    }

    /// Tells a client of the outcome of an Echo Request.
    pub(super) fn tell_ping(&self, identifier: u16, outcome: EchoOutcome) {
        self.waiting.borrow().tell_ping(identifier, outcome);
    }

    /// Begins pings. Returns their identifier, and where their outcomes come.
    pub(super) fn begin_pings(&self) -> Option<(u16, mpsc::Receiver<EchoOutcome>)> {
        let mut waiting = self.waiting.borrow_mut();
        let identifier = (1..=u16::MAX).find(|known| !waiting.pings.contains_key(known))?;
        let (send, receive) = mpsc::channel(OUTCOMES);
        waiting.pings.insert(identifier, send);
        Some((identifier, receive))
    }

    pub(super) fn note_ping(&self, identifier: u16, sequence: u16) {
        self.waiting.borrow_mut().pinged.insert((identifier, sequence), Clock::now());
    }

    pub(super) fn end_pings(&self, identifier: u16) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.pings.remove(&identifier);
        waiting.pinged.retain(|(known, _), _| *known != identifier);
    }

    /// The state of the host, for clients.
    pub(super) fn show(&self) -> Value {
        let stack = self.stack.borrow();
        let mut shown = tell::netstat(&stack.netstat(self.now()));
        let (wire, mac, mtu) = &self.interface;
        let counts = self.counts.get();
        shown["interface"] = json!({
            "wire": wire,
            "mac": mac.to_string(),
            "mtu": mtu,
            "state": if self.is_up.get() { "up" } else { "down" },
            "received": counts.received,
            "sent": counts.sent,
            "refused": counts.too_short + counts.too_long + counts.not_understood,
            "lost": counts.lost + self.lost.get(),
        });
        let waiting = self.waiting.borrow();
        let connections = waiting.tcp.keys().filter_map(|id| connection(&stack, *id));
        shown["connections"] = connections.collect();
        let sockets = waiting.udp.keys().filter_map(|id| stack.udp_local(*id).ok());
        shown["udp"] =
            sockets.map(|(address, port)| json!({ "address": address, "port": port })).collect();
        shown
    }
}

fn connection(stack: &Stack, id: TcpId) -> Option<Value> {
    let flow = stack.tcp_flow(id).ok()?;
    Some(json!({
        "local": flow.local.0,
        "local_port": flow.local.1,
        "peer": flow.peer.0,
        "peer_port": flow.peer.1,
        "state": format!("{:?}", stack.tcp_state(id).ok()?),
    }))
}

impl Waiting {
    fn tell(&mut self, event: &Event) {
        match event {
            Event::Tcp(event) => self.tell_tcp(*event),
            Event::Udp(socket) => {
                if let Some(ready) = self.udp.get(socket) {
                    ready.readable.notify_one();
                }
            }
            Event::EchoReply(reply) => {
                let sent = self.pinged.get(&(reply.identifier, reply.sequence));
                let rtt = sent.map(Clock::elapsed).unwrap_or_default();
                let outcome = EchoOutcome::Reply {
                    from: reply.from,
                    seq: reply.sequence,
                    size: reply.size,
                    hop_limit: reply.hop_limit,
                    rtt_us: u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX),
                };
                self.tell_ping(reply.identifier, outcome);
            }
            Event::EchoError { identifier, sequence, from, cause, .. } => {
                let error = tell::cause_text(*cause);
                self.tell_ping(
                    *identifier,
                    EchoOutcome::Error { from: *from, seq: *sequence, error },
                );
            }
            Event::AddressReady(..)
            | Event::AddressDuplicate(..)
            | Event::AddressDeprecated(..)
            | Event::AddressRemoved(..)
            | Event::Disabled(_)
            | Event::RouterFound(..)
            | Event::RouterLost(..)
            | Event::DnsChanged(_)
            | Event::UdpError { .. }
            | Event::PathMtu(..) => {}
        }
    }

    fn tell_tcp(&self, event: tcp::Event) {
        match event {
            tcp::Event::Acceptable(id) => {
                if let Some(ready) = self.listeners.get(&id) {
                    ready.readable.notify_one();
                }
            }
            tcp::Event::Readable(id) => self.notify(id, true, false),
            tcp::Event::Writable(id) => self.notify(id, false, true),
            tcp::Event::Established(id) | tcp::Event::Closed(id, _) => self.notify(id, true, true),
            tcp::Event::Reachable(_) => {}
        }
    }

    fn notify(&self, id: TcpId, is_readable: bool, is_writable: bool) {
        let Some(ready) = self.tcp.get(&id) else { return };
        if is_readable {
            ready.readable.notify_one();
        }
        if is_writable {
            ready.writable.notify_one();
        }
    }

    /// A client that does not read loses outcomes, as there may be many for a ping of a group.
    fn tell_ping(&self, identifier: u16, outcome: EchoOutcome) {
        if let Some(client) = self.pings.get(&identifier) {
            let _ = client.try_send(outcome);
        }
    }
}

/// Largest number of outcomes of pings that wait for a client.
const OUTCOMES: usize = 1024;
