//! Two engines, back to back on a virtual clock, with a wire that loses, copies and reorders segments by its seed.

mod close;
mod cut;
mod errors;
mod handshake;
mod hostile;
mod transfer;

use super::*;
use crate::tcp::{Engine, is_checksum_right, reset_for};
use alloc::vec;
use alloc::vec::Vec;
use moorline_ip::Header;
use moorline_ip::ip6::TCP;
use rand_core::SeedableRng as _;

use super::super::{Event, State};

const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const FLOW: Flow = Flow { local: (A, 50_000), peer: (B, 80) };

/// A segment on the wire.
#[derive(Clone, Debug, PartialEq)]
struct Sent {
    at: Instant,
    header: Header,
    octets: PacketBuf,
}

impl Sent {
    fn segment(&self) -> Segment<'_> {
        Segment::parse(&self.octets).unwrap()
    }
}

/// Faults of the wire, each in thousandths of the segments.
#[derive(Clone, Copy, Default)]
struct Faults {
    loss: u32,
    copy: u32,
    delay: u32,
}

struct Host {
    engine: SmolEngine,
    events: Vec<Event>,
    drops: Drops,
}

struct Net {
    now: Instant,
    hosts: [Host; 2],
    wire: BTreeMap<(Instant, u64), (usize, Sent)>,
    /// All segments that were sent, also those that the wire lost; kept if `is_logged`.
    log: Vec<Sent>,
    is_logged: bool,
    /// MSS of the path.
    mss: u16,
    /// Octets of the largest super-segment.
    largest: usize,
    faults: Faults,
    /// The wire loses all segments towards this host.
    cut: Option<usize>,
    delay: Duration,
    rng: ChaCha20Rng,
    serial: u64,
}

fn engine(seed: u64) -> SmolEngine {
    SmolEngine::new(Config::default(), ChaCha20Rng::seed_from_u64(seed))
}

impl Net {
    fn new(seed: u64) -> Self {
        Self::with(engine(seed), engine(seed + 1), seed)
    }

    fn with(a: SmolEngine, b: SmolEngine, seed: u64) -> Self {
        let host = |engine| Host { engine, events: Vec::new(), drops: Drops::default() };
        Self {
            now: Instant::from_nanos(1_000_000_000),
            hosts: [host(a), host(b)],
            wire: BTreeMap::new(),
            log: Vec::new(),
            is_logged: true,
            mss: DEFAULT_MSS,
            largest: 0,
            faults: Faults::default(),
            cut: None,
            delay: Duration::from_millis(5),
            rng: ChaCha20Rng::seed_from_u64(seed ^ 0xfa),
            serial: 0,
        }
    }

    fn a(&mut self) -> &mut SmolEngine {
        &mut self.hosts[0].engine
    }

    fn b(&mut self) -> &mut SmolEngine {
        &mut self.hosts[1].engine
    }

    fn chance(&mut self, thousandths: u32) -> bool {
        self.rng.next_u32() % 1_000 < thousandths
    }

    /// Puts a segment on the wire, towards `host`.
    fn put(&mut self, host: usize, header: Header, octets: PacketBuf) {
        let sent = Sent { at: self.now, header, octets };
        if self.is_logged {
            self.log.push(sent.clone());
        }
        let faults = self.faults;
        if self.cut == Some(host) || self.chance(faults.loss) {
            return;
        }
        for _ in 0..if self.chance(faults.copy) { 2 } else { 1 } {
            let extra = if self.chance(faults.delay) { self.delay / 2 } else { Duration::ZERO };
            self.serial += 1;
            self.wire.insert((self.now + self.delay + extra, self.serial), (host, sent.clone()));
        }
    }

    /// Lets the hosts send what they have, and tell their events.
    fn flush(&mut self) {
        for host in 0..2 {
            while let Some(outgoing) = self.hosts[host].engine.poll_segment(self.now) {
                let header = Header::new(outgoing.source, outgoing.destination, TCP, 64, 0);
                self.largest = self.largest.max(outgoing.segment.len());
                let segments: Vec<PacketBuf> = outgoing.into_segments(self.mss).collect();
                for octets in segments {
                    self.put(1 - host, header, octets);
                }
            }
            while let Some(event) = self.hosts[host].engine.poll_event() {
                self.hosts[host].events.push(event);
            }
        }
    }

    fn deliver(&mut self, host: usize, sent: &Sent) -> Result<(), Drop> {
        assert!(is_checksum_right(&sent.header, &sent.octets));
        let mut octets = sent.octets.clone();
        let handled = self.hosts[host].engine.handle_segment(&sent.header, &mut octets, self.now);
        let Err(reason) = handled else { return Ok(()) };
        self.hosts[host].drops.count(reason);
        if reason == Drop::NoSocket
            && let Some(reset) = reset_for(&sent.header, &sent.octets)
        {
            let Header { source, destination, .. } = sent.header;
            self.put(1 - host, Header::new(destination, source, TCP, 64, 0), reset);
        }
        Err(reason)
    }

    /// When something happens next.
    fn next(&self) -> Option<Instant> {
        let timeouts = self.hosts.iter().filter_map(|host| host.engine.poll_timeout());
        timeouts.chain(self.wire.keys().next().map(|(at, _)| *at)).min()
    }

    /// Goes to the next time at which something happens; `false` if nothing will happen before `end`.
    fn step(&mut self, end: Instant) -> bool {
        self.flush();
        let Some(next) = self.next().filter(|next| *next <= end) else { return false };
        self.now = self.now.max(next);
        while let Some((&key, _)) = self.wire.first_key_value().filter(|((at, _), _)| *at <= next) {
            let (host, sent) = self.wire.remove(&key).unwrap();
            let _ = self.deliver(host, &sent);
        }
        for host in &mut self.hosts {
            host.engine.handle_timeout(self.now);
        }
        self.flush();
        true
    }

    /// Lets time pass.
    fn run(&mut self, time: Duration) {
        let end = self.now + time;
        let mut steps = 0;
        while self.step(end) {
            steps += 1;
            assert!(steps < 1_000_000, "the hosts spin");
        }
        self.now = end;
    }

    /// Runs until a condition holds.
    fn until(&mut self, mut condition: impl FnMut(&mut Self) -> bool) {
        let mut steps = 0;
        while !condition(self) {
            steps += 1;
            assert!(steps < 200_000, "the condition never holds");
            assert!(self.step(Instant::from_nanos(u64::MAX)), "nothing happens any more");
        }
    }

    /// A connection from A to B, and its names at both ends.
    fn connected(&mut self) -> (TcpId, TcpId) {
        let listener = self.b().listen(None, 80, 16).unwrap();
        self.connected_to(listener, FLOW)
    }

    fn connected_to(&mut self, listener: ListenerId, flow: Flow) -> (TcpId, TcpId) {
        let now = self.now;
        let a = self.a().connect(flow.local, flow.peer, now).unwrap();
        let mut b = None;
        self.until(|net| {
            b = b.or_else(|| net.b().accept(listener).unwrap());
            b.is_some()
        });
        (a, b.unwrap())
    }

    /// What B can read now, and how its stream ends.
    fn read(&mut self, host: usize, id: TcpId) -> (Vec<u8>, Result<usize, Error>) {
        let (mut read, mut buffer) = (Vec::new(), vec![0; 65_536]);
        loop {
            match self.hosts[host].engine.recv(id, &mut buffer) {
                Ok(octets) if octets > 0 => read.extend_from_slice(&buffer[..octets]),
                end => return (read, end),
            }
        }
    }

    /// Gives the engine of B a segment of A.
    fn inject(&mut self, segment: Segment<'_>) -> Result<(), Drop> {
        self.inject_from(A, segment)
    }

    fn inject_from(&mut self, source: Ipv6Addr, segment: Segment<'_>) -> Result<(), Drop> {
        let now = self.now;
        let header = Header::new(source, B, TCP, 64, 0);
        self.b().handle_segment(&header, &mut segment.to_packet(), now)
    }
}

fn segment(flags: Flags, sequence: Seq, acknowledgment: Seq) -> Segment<'static> {
    Segment {
        source_port: FLOW.local.1,
        destination_port: FLOW.peer.1,
        sequence,
        acknowledgment,
        flags,
        window: 1_000,
        options: &[],
        payload: &[],
    }
}

fn pattern(octets: usize, seed: u64) -> Vec<u8> {
    let mut stream = vec![0; octets];
    ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut stream);
    stream
}
