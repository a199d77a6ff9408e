use core::time::Duration;
use std::vec;
use std::vec::Vec;

use moorline_datapath::ilnp::{Report, SessionEntry, Sockets, Update};
use moorline_types::{DropReason, Ilv, IlvPair, Instant, L64};
use moorline_wire::ilnp::{
    Admission, AdmissionTypes, Control, ECHO_REQUEST, Echo, LocatorUpdate, NonceHeader,
};

use super::ilv;
use crate::{Config, Event, LocalLocator, LocalState, Machine, Question, SessionView, Socket};

pub(super) const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// Two machines, and the messages between them.
pub(super) struct Duo {
    pub(super) machines: Vec<Machine>,
    /// The socket of each host for the traffic.
    pub(super) sockets: [Socket; 2],
    pub(super) updates: [Vec<Update>; 2],
    pub(super) transcript: Vec<Vec<u8>>,
    pub(super) now: Instant,
    pub(super) events: [Vec<Event>; 2],
    waiting: [Vec<Vec<u8>>; 2],
}

pub(super) struct Always(pub(super) Socket);

impl Sockets for Always {
    fn kind(&self, _pair: IlvPair, _protocol: u8, _ports: (u16, u16)) -> Socket {
        self.0
    }

    fn any_between(&self, _pair: IlvPair) -> bool {
        self.0 == Socket::Connected
    }
}

impl Duo {
    pub(super) fn new() -> Self {
        Self::seeded(1)
    }

    pub(super) fn seeded(seed: u8) -> Self {
        Self::with(&Config::default(), seed)
    }

    pub(super) fn with(config: &Config, seed: u8) -> Self {
        let machine = |host: u8| {
            let mut machine = Machine::new(config.clone(), [seed + 100 * host; 32], NOW);
            let ilv = ilv(host.into());
            let locators = vec![LocalLocator::new(ilv.l64)];
            machine.handle_local(
                &LocalState { nids: vec![ilv.nid], locators, ..LocalState::default() },
                NOW,
            );
            machine
        };
        Self {
            machines: vec![machine(0), machine(1)],
            sockets: [Socket::Connected; 2],
            updates: [Vec::new(), Vec::new()],
            transcript: Vec::new(),
            now: NOW,
            events: [Vec::new(), Vec::new()],
            waiting: [Vec::new(), Vec::new()],
        }
    }

    pub(super) fn established() -> Self {
        let mut duo = Self::new();
        duo.traffic(Socket::Connected);
        duo.play();
        duo
    }

    /// Runs a handshake up to the third message. Returns that message, the Confirm.
    pub(super) fn at_confirm() -> (Self, Vec<u8>) {
        let mut duo = Self::new();
        duo.traffic(Socket::Connected);
        let propose = duo.take(0);
        duo.give(1, &propose);
        let accept = duo.take(1);
        duo.give(0, &accept);
        let confirm = duo.take(0).pop().expect("a Confirm");
        (duo, confirm)
    }

    pub(super) fn ilv(&self, host: usize) -> Ilv {
        ilv(host)
    }

    /// Sends a packet of the first host.
    pub(super) fn traffic(&mut self, socket: Socket) {
        self.traffic_of(0, socket);
    }

    pub(super) fn withdraw(&mut self, host: usize) {
        self.machines[host].withdraw(IlvPair::new(ilv(host), ilv(1 - host)));
        self.drain(host);
    }

    pub(super) fn traffic_of(&mut self, host: usize, socket: Socket) {
        let report = Report::Candidate {
            pair: IlvPair::new(ilv(host), ilv(1 - host)),
            protocol: 17,
            ports: if host == 0 { (40_000, 7) } else { (7, 40_000) },
            socket,
            inbound: false,
            nonce: None,
        };
        self.report(host, report);
    }

    pub(super) fn report(&mut self, host: usize, report: Report) {
        self.machines[host].handle_report(report, self.now);
        self.drain(host);
    }

    pub(super) fn end(&mut self, host: usize) {
        self.machines[host].handle_end();
        self.drain(host);
    }

    pub(super) fn roam(&mut self, host: usize, l64s: &[u64]) {
        let locators: Vec<_> = l64s.iter().map(|l64| LocalLocator::new(L64(*l64))).collect();
        self.place(host, locators);
    }

    pub(super) fn place(&mut self, host: usize, locators: Vec<LocalLocator>) {
        let state = LocalState { nids: vec![ilv(host).nid], locators, ..LocalState::default() };
        self.set_local(host, &state);
    }

    pub(super) fn set_local(&mut self, host: usize, state: &LocalState) {
        self.machines[host].handle_local(state, self.now);
        self.drain(host);
    }

    /// Takes the packets that the host has sent since the last call.
    pub(super) fn take(&mut self, host: usize) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.waiting[host])
    }

    pub(super) fn give(&mut self, host: usize, packets: &[Vec<u8>]) {
        for packet in packets {
            self.machines[host].handle_control(packet, self.now);
            self.answer_all(host);
        }
    }

    /// Gives packets to a host whose sockets do not answer. Returns the questions of its machine.
    pub(super) fn ask(&mut self, host: usize, packets: &[Vec<u8>]) -> Vec<Question> {
        for packet in packets {
            self.machines[host].handle_control(packet, self.now);
        }
        self.drain(host);
        core::iter::from_fn(|| self.machines[host].poll_question()).collect()
    }

    /// Runs the due timers of a host whose sockets do not answer. Returns the questions of its machine.
    pub(super) fn ask_due(&mut self, host: usize) -> Vec<Question> {
        self.machines[host].handle_timeout(self.now);
        self.ask(host, &[])
    }

    pub(super) fn answer(&mut self, host: usize, question: Question) {
        let (machine, socket) = (&mut self.machines[host], self.sockets[host]);
        match question {
            Question::Socket { id, .. } => machine.handle_socket(id, socket, self.now),
            Question::Connected { id, .. } => {
                machine.handle_connected(id, socket == Socket::Connected, self.now);
            }
        }
        self.drain(host);
    }

    /// Delivers messages until neither host has any to send.
    pub(super) fn play(&mut self) {
        while self.waiting.iter().any(|waiting| !waiting.is_empty()) {
            for host in 0..2 {
                let packets = self.take(host);
                self.give(1 - host, &packets);
            }
        }
    }

    /// Delivers messages on a path with this one-way delay. Timers stand still.
    pub(super) fn play_over(&mut self, delay: Duration) {
        while self.waiting.iter().any(|waiting| !waiting.is_empty()) {
            let packets = [0, 1].map(|host| self.take(host));
            self.now = self.now + delay;
            for (host, packets) in packets.iter().enumerate() {
                self.give(1 - host, packets);
            }
        }
    }

    /// Runs the next timer of a host.
    pub(super) fn fire(&mut self, host: usize) {
        self.now = self.machines[host].poll_timeout().expect("a timer").max(self.now);
        self.fire_due(host);
    }

    pub(super) fn fire_due(&mut self, host: usize) {
        self.machines[host].handle_timeout(self.now);
        self.answer_all(host);
    }

    fn answer_all(&mut self, host: usize) {
        self.machines[host].answer_all(&Always(self.sockets[host]), self.now);
        self.drain(host);
    }

    /// Runs the timers of a host for this time, and loses all its packets. Returns how many packets it has sent.
    pub(super) fn alone(&mut self, host: usize, time: Duration) -> usize {
        let end = self.now + time;
        let mut sent = self.take(host).len();
        while self.machines[host].poll_timeout().is_some_and(|next| next <= end) {
            self.fire(host);
            sent += self.take(host).len();
        }
        sent
    }

    pub(super) fn session(&self, host: usize) -> SessionView {
        self.machines[host].sessions(self.now).next().expect("a session")
    }

    /// Whether both hosts have the one session, and each sends the nonce that the other expects.
    pub(super) fn is_agreed(&self) -> bool {
        let nonces = |host| (Some(self.entry(host).send_nonce), self.entry(host).receive_nonce);
        let (one, other) = (nonces(0), nonces(1));
        self.machines.iter().all(|machine| machine.session_count() == 1)
            && one == (other.1, other.0)
    }

    /// The data plane's entry of the session.
    pub(super) fn entry(&self, host: usize) -> SessionEntry {
        let upserts = self.updates[host].iter().rev().filter_map(|update| match update {
            Update::Upsert(entry) => Some(entry.clone()),
            Update::Remove { .. } => None,
        });
        upserts.take(1).next().expect("an entry")
    }

    pub(super) fn has_event(&self, host: usize, is_it: impl Fn(&Event) -> bool) -> bool {
        self.events[host].iter().any(is_it)
    }

    pub(super) fn drops(&self, host: usize, reason: DropReason) -> u64 {
        self.machines[host]
            .drops()
            .find(|(dropped, _)| *dropped == reason)
            .map_or(0, |(_, count)| count)
    }

    fn drain(&mut self, host: usize) {
        let machine = &mut self.machines[host];
        while let Some(update) = machine.poll_update() {
            self.updates[host].push(update);
        }
        while let Some(event) = machine.poll_event() {
            self.events[host].push(event);
        }
        while let Some(transmit) = machine.poll_transmit() {
            self.transcript.push(transmit.packet.clone());
            self.waiting[host].push(transmit.packet);
        }
    }
}

/// A message of the handshake, from `pair.local`.
pub(super) fn control(pair: IlvPair, message: &Admission) -> Vec<u8> {
    let (src, dst) = (pair.local.address(), pair.remote.address());
    ip6(pair, 58, &message.emit(AdmissionTypes::default(), src, dst))
}

/// A Locator Update with the nonce that the owner of `entry` sends.
pub(super) fn of_session(
    entry: &SessionEntry,
    from: Ilv,
    to: Ilv,
    sequence: Option<u32>,
    update: &LocatorUpdate,
) -> Vec<u8> {
    let header = NonceHeader { next_header: 58, nonce: entry.send_nonce, sequence };
    let mut payload = header.emit();
    payload.extend(update.emit(from.address(), to.address()));
    ip6(IlvPair::new(from, to), 60, &payload)
}

/// Whether a packet is an Echo Request: a question at a locator.
pub(super) fn is_question(packet: &[u8]) -> bool {
    let control = Control::read(packet).expect("ours");
    control.message.first() == Some(&ECHO_REQUEST)
}

/// The answer to an Echo Request, with the nonce that the owner of `entry` sends.
pub(super) fn answer(entry: &SessionEntry, question: &[u8]) -> Vec<u8> {
    let Control { pair, message, .. } = Control::read(question).expect("ours");
    let (src, dst) = (pair.remote.address(), pair.local.address());
    let echo = Echo::parse_request(message, src, dst).expect("a question");
    let mut payload =
        NonceHeader { next_header: 58, nonce: entry.send_nonce, sequence: None }.emit();
    payload.extend(echo.emit_reply(dst, src));
    ip6(pair, 60, &payload)
}

/// A Locator Update without a nonce.
pub(super) fn bare(from: Ilv, to: Ilv, update: &LocatorUpdate) -> Vec<u8> {
    ip6(IlvPair::new(from, to), 58, &update.emit(from.address(), to.address()))
}

pub(super) fn ip6(pair: IlvPair, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(payload.len()).expect("small").to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend(pair.local.address().octets());
    packet.extend(pair.remote.address().octets());
    packet.extend(payload);
    packet
}
