use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use moorline_datapath::ilnp::Socket;
use moorline_types::{DropReason, IlvPair, Instant, L64};

use super::attack::{
    EVIL, echo_request, guessed_packet, guessed_update, is_locator_update, made_up, namesake, syn,
};
use super::host::{DESTINATION_OPTIONS, Received, SimHost, l64, owner};
use super::plan::{
    FALSE_LOCATORS, IlnpChange, IlnpOutcome, IlnpPlan, IlnpTraffic, Pretended, QUEUE_PERIOD,
};
use super::sockets::{SimSocket, number, read, sockets_of};
use crate::packet::{ICMPV6, TCP, UDP};
use crate::queue::Queue;
use crate::rng::Rng;

/// Plays a plan.
#[must_use]
pub(super) fn run(plan: &IlnpPlan) -> IlnpOutcome {
    let mut world = World::new(plan);
    while let Some((at, what)) = world.queue.pop_until(world.end) {
        world.now = at;
        world.step(what);
    }
    world.finish()
}

#[derive(Debug)]
enum What {
    Arrive(Vec<u8>),
    /// The machine of this host reads a control message.
    Read(usize, Vec<u8>),
    /// The application of this host sends.
    Send(usize),
    Wake(usize),
    Change(IlnpChange),
    Flood,
    Forge,
    Namesake,
    Pretend,
}

struct World<'a> {
    plan: &'a IlnpPlan,
    now: Instant,
    end: Instant,
    hosts: [SimHost; 2],
    queue: Queue<What>,
    rng: Rng,
    outcome: IlnpOutcome,
    /// Numbers that each socket has received.
    seen: [BTreeSet<u64>; 2],
    last_received: [Option<Instant>; 2],
    /// Locator Updates that an attacker has seen.
    captured: Vec<Vec<u8>>,
    /// The last ICMPv6 message to a namesake that had a nonce.
    asked: Option<Vec<u8>>,
    /// Senders, and the locators at either end with which their packets are lost.
    cut: BTreeSet<(usize, L64)>,
    /// Packets lost, of a thousand, by locators at either end.
    weak: BTreeMap<L64, u32>,
    /// Number of next Locator Updates of each host that are lost.
    lost_updates: [u32; 2],
    /// Time of the next timer of each host that is in the queue.
    wakes: [Option<Instant>; 2],
    is_closed: bool,
}

impl<'a> World<'a> {
    fn new(plan: &'a IlnpPlan) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut rng = Rng::new(plan.seed, 77);
        let hosts = [0, 1].map(|host| SimHost::new(host, &plan.hosts[host], rng.seed(), now));
        let mut world = Self {
            plan,
            now,
            end: now + plan.duration,
            hosts,
            queue: Queue::new(),
            rng,
            outcome: IlnpOutcome::default(),
            seen: [BTreeSet::new(), BTreeSet::new()],
            last_received: [None; 2],
            captured: Vec::new(),
            asked: None,
            cut: BTreeSet::new(),
            weak: BTreeMap::new(),
            lost_updates: [0; 2],
            wakes: [None; 2],
            is_closed: false,
        };
        world.open_sockets();
        world.later(Duration::ZERO, What::Send(0));
        for (after, change) in &plan.changes {
            world.later(*after, What::Change(*change));
        }
        if plan.flood > 0 {
            world.later(START_OF_ATTACKS, What::Flood);
        }
        if plan.namesakes > 0 {
            world.later(START_OF_ATTACKS, What::Namesake);
        }
        if plan.pretended.is_some() {
            world.later(START_OF_ATTACKS, What::Pretend);
        }
        if plan.forgeries > 0 {
            world.later(START_OF_ATTACKS, What::Forge);
        }
        world
    }

    fn open_sockets(&mut self) {
        let (protocol, kinds) = match self.plan.traffic {
            IlnpTraffic::Segments => (TCP, [Socket::Connected; 2]),
            IlnpTraffic::Datagrams => (UDP, [Socket::Connected; 2]),
            IlnpTraffic::Server | IlnpTraffic::Requests => {
                (UDP, [Socket::Connected, Socket::Unconnected])
            }
            IlnpTraffic::Unconnected => (UDP, [Socket::Unconnected; 2]),
        };
        let pair = IlvPair::new(self.hosts[0].ilv(0), self.hosts[1].ilv(0));
        let ends = [(pair, (CLIENT, SERVER)), (pair.reversed(), (SERVER, CLIENT))];
        for ((host, (pair, ports)), kind) in self.hosts.iter_mut().zip(ends).zip(kinds) {
            let padding = self.plan.padding;
            let label = 0x1_0000 | u32::from(ports.0);
            let (sent, received, next) = (0, 0, 0);
            host.socket = Some(SimSocket {
                pair,
                protocol,
                ports,
                kind,
                padding,
                sent,
                received,
                next,
                label,
            });
        }
    }

    fn later(&mut self, after: Duration, what: What) {
        self.queue.push(self.now + after, what);
    }

    fn step(&mut self, what: What) {
        let question = match &what {
            What::Arrive(packet) | What::Read(_, packet) => Some(packet.clone()),
            What::Send(_)
            | What::Wake(_)
            | What::Change(_)
            | What::Flood
            | What::Forge
            | What::Namesake
            | What::Pretend => None,
        };
        match what {
            What::Arrive(packet) => self.arrive(packet),
            What::Read(host, packet) => self.hosts[host].read_control(&packet, self.now),
            What::Send(host) => {
                self.send(host);
                if !self.is_closed && !self.only_answers(host) {
                    let factor = if self.hosts[host].pretends { FEW } else { 1 };
                    self.later(self.plan.interval * factor, What::Send(host));
                }
            }
            What::Wake(host) => self.wake(host),
            What::Change(change) => self.change(change),
            What::Flood => {
                let to = self.hosts[1].ilv(0);
                let packet = made_up(to, SERVER, &mut self.rng);
                self.later(Duration::ZERO, What::Arrive(packet));
                self.later(Duration::from_secs(1) / self.plan.flood, What::Flood);
            }
            What::Namesake => {
                self.act_as_namesake();
                self.later(Duration::from_secs(1) / self.plan.namesakes, What::Namesake);
            }
            What::Pretend => self.pretend(),
            What::Forge => {
                self.forge();
                self.later(Duration::from_secs(1) / self.plan.forgeries, What::Forge);
            }
        }
        for host in 0..2 {
            self.hosts[host].drain(&mut self.outcome, self.now);
            let sent = std::mem::take(&mut self.hosts[host].out);
            if let Some(question) = &question {
                self.check_answers(host, question, &sent);
            }
            for packet in sent {
                self.check_nonce(host, &packet);
                self.transmit(host, packet);
            }
            self.set_timer(host);
        }
        if self.outcome.agreed.is_none() && self.hosts.iter().all(|host| host.has_agreed(self.now))
        {
            self.outcome.agreed = Some(self.elapsed());
        }
    }

    /// Checks answers. If no handshake has shown that the sender is at its address, a message causes no more octets
    /// than it has, and with the nonce of a session no more than three times as many (decision 192). An error of RFC
    /// 4443 quotes the message.
    fn check_answers(&mut self, host: usize, question: &[u8], sent: &[Vec<u8>]) {
        let protocol = |packet: &[u8]| match packet[6] {
            DESTINATION_OPTIONS => packet[40],
            protocol => protocol,
        };
        let is_error = |packet: &[u8]| packet[6] == ICMPV6 && packet[40] < 128;
        let is_answer = |packet: &&Vec<u8>| packet[24..40] == question[8..24] && !is_error(packet);
        let octets: usize = sent.iter().filter(is_answer).map(Vec::len).sum();
        let has_plain = self.hosts.iter().any(|host| host.plain.is_some());
        let asked = question.len() * if self.hosts[host].takes(question, self.now) { 3 } else { 1 };
        if has_plain && protocol(question) == ICMPV6 && octets > asked {
            self.outcome.violations.push(format!("host {host}: {octets} octets answer {asked}"));
        }
    }

    /// Checks RFC 6744 s7: the nonce of a session is for the correspondent alone.
    fn check_nonce(&mut self, host: usize, packet: &[u8]) {
        let Some(plain) = &self.hosts[1 - host].plain else { return };
        let to: [u8; 8] = packet[24..32].try_into().expect("an IPv6 packet");
        if self.hosts[host].shows_nonce(packet, self.now) && !plain.has_named(to) {
            let at = self.elapsed();
            self.outcome.violations.push(format!("{at:?}: our nonce goes to {to:02x?}"));
        }
    }

    /// Sends a packet of the namesake, which knows the addresses of both hosts.
    fn act_as_namesake(&mut self) {
        let victim = usize::from(self.hosts[0].plain.is_some());
        let pair = IlvPair::new(self.hosts[1 - victim].ilv(0), self.hosts[victim].ilv(0));
        let ports = if victim == 0 { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
        let packet = namesake(pair, ports, self.asked.as_deref(), &mut self.rng);
        self.later(Duration::ZERO, What::Arrive(packet));
    }

    fn elapsed(&self) -> Duration {
        self.plan.duration.saturating_sub(self.end.since(self.now))
    }

    fn send(&mut self, host: usize) {
        let Some(socket) = &mut self.hosts[host].socket else { return };
        let packet = socket.packet();
        self.outcome.sent += 1;
        self.hosts[host].send(packet, &mut self.outcome, self.now);
    }

    fn transmit(&mut self, from: usize, packet: Vec<u8>) {
        let lost = self.rng.below(1000) < u64::from(self.plan.loss);
        let delay = self.plan.delay + self.queued() + self.rng.duration(self.plan.jitter);
        let Some((pair, ..)) = read(&packet) else { return };
        let lost = lost || pair.l64s().iter().any(|l64| self.cut.contains(&(from, *l64)));
        let weak = pair.l64s().iter().filter_map(|l64| self.weak.get(l64)).max().copied();
        let lost = lost || weak.is_some_and(|loss| self.rng.below(1000) < u64::from(loss));
        // A host sends nothing from a locator that it has lost: no router would take it.
        let is_there = owner(pair.local.l64).is_some_and(|(host, locator)| {
            host == from && self.hosts[from].locators.contains(&locator)
        });
        let is_there = is_there || self.hosts[from].pretends && pair.local.l64 == EVIL;
        if self.hosts[from].pretends {
            self.outcome.pretender_sent += packet.len();
        }
        if is_locator_update(&packet) {
            self.outcome.updates += 1;
            if self.captured.len() < MAX_CAPTURED {
                self.captured.push(packet.clone());
            }
            if self.lost_updates[from] > 0 {
                self.lost_updates[from] -= 1;
                return;
            }
        }
        let lost = lost || self.plan.no_options && packet.get(6) == Some(&DESTINATION_OPTIONS);
        if !lost && is_there && !self.hosts[from].is_gone {
            self.later(delay, What::Arrive(packet));
        }
    }

    /// The delay of the queue now. It changes so slowly that no packet overtakes another.
    fn queued(&self) -> Duration {
        let half = QUEUE_PERIOD / 2;
        let phase = self.elapsed().as_nanos() % QUEUE_PERIOD.as_nanos();
        let level = phase.min(QUEUE_PERIOD.as_nanos() - phase);
        let level = u32::try_from(level * 1000 / half.as_nanos()).expect("at most 1,000");
        self.plan.queue * level / 1000
    }

    fn arrive(&mut self, packet: Vec<u8>) {
        let Some((pair, ..)) = read(&packet) else { return };
        if pair.remote.l64 == EVIL {
            self.outcome.third_party_got += packet.len();
            let request = read(&packet).filter(|(_, next, _)| *next == DESTINATION_OPTIONS);
            self.asked = request.and_then(|(.., rest)| {
                Some(rest.get(8 * (usize::from(*rest.get(1)?) + 1)..)?.to_vec())
            });
            return;
        }
        let Some((to, locator)) = owner(pair.remote.l64) else { return };
        let is_from_evil = pair.local.l64 == EVIL;
        let host = &mut self.hosts[to];
        if host.is_gone || !host.locators.contains(&locator) {
            return;
        }
        match host.receive(packet, &mut self.outcome, self.now) {
            Received::Socket(packet) if !is_from_evil => self.hand_over(to, &packet),
            Received::Machine(packet) if self.plan.core_delay.is_zero() => {
                host.read_control(&packet, self.now);
            }
            Received::Machine(packet) => self.later(self.plan.core_delay, What::Read(to, packet)),
            Received::Socket(_) | Received::Nothing => {}
        }
    }

    fn hand_over(&mut self, host: usize, packet: &[u8]) {
        let sent_by_peer = self.hosts[1 - host].socket.as_ref().map_or(0, |socket| socket.sent);
        let Some(socket) = &mut self.hosts[host].socket else { return };
        let Some((pair, protocol, ports, number)) = number(packet) else {
            if !self.is_closed {
                let elapsed = self.elapsed();
                self.outcome.wrong_checksums.push(elapsed);
            }
            return;
        };
        if (pair, protocol, ports) != (socket.pair, socket.protocol, socket.ports) {
            self.outcome.violations.push(format!("host {host}: a socket sees {pair:?}"));
            return;
        }
        if number >= sent_by_peer || !self.seen[host].insert(number) {
            self.outcome
                .violations
                .push(format!("host {host}: {number} was not sent, or came twice"));
            return;
        }
        socket.received += 1;
        socket.next = socket.next.max(number + 1);
        self.outcome.received += 1;
        let last = self.last_received[host].replace(self.now);
        if host == 1 && (last.is_none() || self.only_answers(host)) {
            // The other side answers from now on.
            self.later(Duration::ZERO, What::Send(1));
        }
        if let Some(last) = last {
            let pause = self.now.since(last);
            if pause >= Duration::from_secs(1) {
                self.outcome.last_pause_at = self.elapsed();
            }
            if pause > self.outcome.longest_pause {
                let at = self.elapsed();
                (self.outcome.longest_pause, self.outcome.longest_pause_at) = (pause, at);
            }
        }
    }

    fn only_answers(&self, host: usize) -> bool {
        host == 1 && self.plan.traffic == IlnpTraffic::Requests
    }

    /// Sends a packet to each host in the name of the other, for each of their two locators.
    fn pretend(&mut self) {
        let Some((kind, rate)) = self.plan.pretended else { return };
        self.later(Duration::from_secs(1) / rate, What::Pretend);
        for (to, locator) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let pair = IlvPair::new(self.hosts[1 - to].ilv(locator), self.hosts[to].ilv(locator));
            let Some(socket) = &self.hosts[1 - to].socket else { continue };
            let packet = match kind {
                Pretended::Echoes => echo_request(pair),
                Pretended::Syns => syn(pair, &mut self.rng),
                Pretended::Ports => {
                    guessed_packet(pair, socket.protocol, socket.ports, &mut self.rng)
                }
            };
            self.later(Duration::ZERO, What::Arrive(packet));
        }
    }

    fn forge(&mut self) {
        let pair = IlvPair::new(self.hosts[0].ilv(0), self.hosts[1].ilv(0));
        // A node of the RFCs takes any first nonce for its correspondent's. Its Locator Updates have no numbers, so a
        // repetition is taken (decision 072).
        let plain = self.hosts.iter().position(|host| host.plain.is_some());
        let is_to_second = plain.map_or_else(|| self.rng.below(2) == 0, |plain| plain == 0);
        let pair = if is_to_second { pair } else { pair.reversed() };
        let index = self.rng.index(self.captured.len());
        let captured = self.captured.get(index).filter(|_| plain.is_none());
        let packet = match captured {
            Some(old) if self.rng.below(2) == 0 => old.clone(),
            _ => guessed_update(pair, &mut self.rng),
        };
        self.later(Duration::ZERO, What::Arrive(packet));
    }

    fn change(&mut self, change: IlnpChange) {
        match change {
            IlnpChange::Gain { host, locator } => {
                self.hosts[host].locators.retain(|known| *known != locator);
                self.hosts[host].locators.push(locator);
                self.hosts[host].tell_local(self.now);
            }
            IlnpChange::Mislead { host } => {
                self.hosts[host].locators.extend(FALSE_LOCATORS);
                let all = FALSE_LOCATORS.flat_map(|one| [0, 1].map(|from| (from, l64(host, one))));
                self.cut.extend(all);
                self.hosts[host].tell_local(self.now);
            }
            IlnpChange::Lose { host, locator } => {
                self.hosts[host].locators.retain(|known| *known != locator);
                self.hosts[host].tell_local(self.now);
            }
            IlnpChange::Cut { host, locator } => {
                self.cut.extend([0, 1].map(|from| (from, l64(host, locator))));
            }
            IlnpChange::CutIsp { locator, from } => {
                let ends = from.iter().flat_map(|from| [0, 1].map(|host| (*from, host)));
                self.cut.extend(ends.map(|(from, host)| (from, l64(host, locator))));
            }
            IlnpChange::Weaken { hosts, locator, loss } => {
                self.weak.extend(hosts.iter().map(|host| (l64(*host, locator), loss)));
            }
            IlnpChange::Heal { host, locator } => {
                self.cut.retain(|(_, cut)| *cut != l64(host, locator));
            }
            IlnpChange::LoseUpdate { host } => self.lost_updates[host] += 1,
            IlnpChange::BeginAnew { host } => {
                let seed = self.rng.seed();
                self.hosts[host].begin_anew(&self.plan.hosts[host], seed, self.now);
            }
            IlnpChange::End { host, says_so } => {
                self.hosts[host].end(says_so, &mut self.outcome, self.now);
            }
            IlnpChange::Classic { host } => self.hosts[host].become_classic(),
            IlnpChange::Vanish { host } => self.hosts[host].is_gone = true,
            IlnpChange::Pretend { host } => {
                self.hosts[host].pretends = true;
                for host in &mut self.hosts {
                    let sockets = host.socket.iter_mut();
                    let padding = if host.pretends { 0 } else { FULL };
                    sockets.for_each(|socket| socket.padding = padding);
                }
                self.hosts[host].tell_local(self.now);
            }
            IlnpChange::Close => {
                self.is_closed = true;
                self.hosts.iter_mut().for_each(|host| host.socket = None);
            }
        }
    }

    fn wake(&mut self, host: usize) {
        let host = &mut self.hosts[host];
        host.plain.iter_mut().for_each(|plain| plain.handle_timeout(self.now));
        let Some(core) = host.core.as_mut().filter(|_| !host.is_gone) else { return };
        core.machine.handle_timeout(self.now);
        core.machine.answer_all(sockets_of(host.socket.as_ref()), self.now);
        if core.machine.poll_timeout().is_some_and(|next| next <= self.now) {
            self.outcome.violations.push("a timer does not advance".into());
        }
    }

    fn set_timer(&mut self, host: usize) {
        let SimHost { core, plain, .. } = &self.hosts[host];
        let next = core.as_ref().and_then(|core| core.machine.poll_timeout());
        let next = next.or_else(|| plain.as_ref()?.poll_timeout());
        // An earlier timer fires as well, and finds nothing due.
        let waits = self.wakes[host].is_some_and(|at| at > self.now);
        let is_first = |next: &Instant| !waits || Some(*next) < self.wakes[host];
        let is_due_later = |next: &Instant| *next > self.now && *next <= self.end;
        if let Some(next) = next.filter(is_due_later).filter(is_first) {
            self.wakes[host] = Some(next);
            self.later(next.since(self.now), What::Wake(host));
        }
    }

    fn finish(mut self) -> IlnpOutcome {
        let pauses = self
            .last_received
            .iter()
            .map(|last| last.map_or(self.plan.duration, |last| self.end.since(last)));
        self.outcome.pause_at_end = pauses.max().unwrap_or_default();
        let mut drops: BTreeMap<DropReason, u64> = BTreeMap::new();
        for (number, host) in self.hosts.iter().enumerate() {
            for (reason, count) in host.drops() {
                *drops.entry(reason).or_default() += count;
            }
            let count = host.core.as_ref().map_or(0, |core| core.machine.session_count());
            self.outcome.sessions[number] = count;
            if self.outcome.most_sessions[number] > self.plan.hosts[number].max_sessions {
                self.outcome
                    .violations
                    .push(format!("host {number}: the cache is above its bound"));
            }
        }
        self.outcome.drops = drops.into_iter().collect();
        self.outcome
    }
}

const CLIENT: u16 = 40_000;
const SERVER: u16 = 7;
const START_OF_ATTACKS: Duration = Duration::from_secs(1);
const MAX_CAPTURED: usize = 1000;
/// Factor of the time between two packets of a host that pretends.
const FEW: u32 = 10;
/// Padding of full packets.
const FULL: usize = 1200;
