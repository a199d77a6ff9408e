//! The target of the study: a host that receives all frames of an interface, its timings and its counters.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use moorline_link::FrameSocket;
use moorline_types::Ilv;
use rustix::time::{ClockId, clock_gettime};

use super::host::Host;
use super::seen::{Second, Seen};
use super::{Test, answers};
use crate::experiment::programs::Runs;
use crate::hop::{ETHERNET_LEN, Hop};
use crate::interrupt;
use crate::lab::Lab;
use crate::load::{Load, NONCE};
use crate::netns::{Namespace, Worker};
use crate::processors::{self, on_processor};
use crate::topology::{HOSTS, SHARED_LINK, shared_address, shared_link};
use crate::workload::Generator;

/// Runs one test: from one host to the other over a cable without other traffic.
pub(super) fn once(test: Test, room: usize, load: &Load) -> anyhow::Result<Seen> {
    let lab = Lab::build(shared_link(1))?;
    let [source, victim] = HOSTS.map(|host| lab.namespace(host));
    let (source, victim) = (source?, victim?);
    let out = Hop::across((source, SHARED_LINK), (victim, SHARED_LINK))?;
    let back = Hop::across((victim, SHARED_LINK), (source, SHARED_LINK))?;
    for host in [source, victim] {
        // The kernel sends nothing on the cable.
        host.sysctl(&format!("ipv6/conf/{SHARED_LINK}/disable_ipv6"), "1")?;
    }
    let [from, to] = HOSTS.map(|host| shared_address(host, 0));
    let [own, others] = processors::of_two_hosts()?;
    let at_work = on_processor(own, || start(victim, back, Ilv::of(to), test, room))?;
    let answered = answers::count(source, SHARED_LINK)?;
    let streams = load.streams(Ilv::of(from), to, &out, NONCE);
    let begin = Instant::now();
    let generator =
        on_processor(others, || Generator::start(source, SHARED_LINK, streams, load.length))?;
    while begin.elapsed() < load.length || !generator.is_finished() {
        interrupt::check()?;
        thread::sleep(interrupt::TICK);
    }
    let counts = load.counts(&generator.finish()?);
    let seen = at_work.finish()?;
    Ok(Seen { load: counts, answers: answered.finish()?, ..seen })
}

/// Starts a host as a worker. After `finish`, the host has handled all frames that came before. The kernel must not use
/// the interface for IPv6 itself.
pub(super) fn start(
    namespace: &Namespace,
    hop: Hop,
    me: Ilv,
    test: Test,
    room: usize,
) -> anyhow::Result<Worker<Seen>> {
    let receiver = namespace.enter(|| {
        FrameSocket::receiver(&hop.interface, RING)
            .with_context(|| format!("packet socket at {}", hop.interface))
    })?;
    namespace.work("target", move |stop| {
        let host = Host::new(test.policy, room, me, test.layer.port());
        Work { host, receiver, hop, seen: Seen::default(), in_second: Runs::default() }.run(stop)
    })
}

struct Work {
    host: Host,
    receiver: FrameSocket,
    hop: Hop,
    seen: Seen,
    /// Runs for the packets of this second.
    in_second: Runs,
}

impl Work {
    fn run(mut self, stop: &AtomicBool) -> anyhow::Result<Seen> {
        let begin = Instant::now();
        let mut next = begin + SECOND;
        let mut frame = [0; MAX_FRAME];
        let mut packet = Vec::with_capacity(MAX_FRAME);
        let cpu = cpu_time();
        loop {
            let mut is_busy = false;
            for _ in 0..BATCH {
                let Some(length) = self.receiver.receive(&mut frame)? else { break };
                is_busy = true;
                packet.clear();
                packet.extend_from_slice(&frame[..length.min(MAX_FRAME)][ETHERNET_LEN..]);
                self.take(&mut packet);
            }
            self.host.look_at_timers();
            while let Some(message) = self.host.poll_transmit() {
                self.transmit(&message);
            }
            if Instant::now() >= next {
                next += SECOND;
                self.end_second()?;
            }
            if !is_busy {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                self.receiver.wait(LOOK_AROUND)?;
            }
        }
        if self.in_second.count > 0 {
            self.end_second()?;
        }
        self.seen.cpu = Some(cpu_time().saturating_sub(cpu));
        self.seen.time = begin.elapsed();
        self.seen.entries = self.host.entries();
        Ok(self.seen)
    }

    fn take(&mut self, packet: &mut Vec<u8>) {
        // The first look at the clock after a pause takes long. The time of this look is no work of the host.
        black_box(Instant::now());
        let begin = Instant::now();
        let is_for_service = self.host.receive(packet, begin);
        let received = Runs::one(begin.elapsed());
        self.in_second = self.in_second.plus(received);
        self.seen.received.push(received);
        let Some(mut answer) = is_for_service.then(|| self.host.answer(packet)).flatten() else {
            return;
        };
        let begin = Instant::now();
        let goes = self.host.send(&mut answer, begin);
        self.seen.sent = self.seen.sent.plus(Runs::one(begin.elapsed()));
        if goes {
            self.transmit(&answer);
        }
    }

    fn transmit(&self, packet: &[u8]) {
        let mut frame = self.hop.header().to_vec();
        frame.extend_from_slice(packet);
        self.receiver.send(&frame);
    }

    fn end_second(&mut self) -> anyhow::Result<()> {
        let (packets, dropped) = self.receiver.statistics()?;
        self.seen.packets += packets;
        self.seen.dropped += dropped;
        let latency_us = std::mem::take(&mut self.in_second).mean().map(|nanos| nanos / 1e3);
        let entries = self.host.entries();
        self.seen.seconds.push(Second { entries, dropped, latency_us });
        Ok(())
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

const SECOND: Duration = Duration::from_secs(1);
const LOOK_AROUND: Duration = Duration::from_millis(20);
/// Frames that may wait: as many as in the four rings of 256 descriptors of the study's target.
const RING: u16 = 1024;
const MAX_FRAME: usize = 2048;
const BATCH: usize = 64;
