//! The target of the study: a host that gets all frames of an interface, its timings and its counters.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use moorline_link::FrameReceiver;
use moorline_types::Ilv;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::Test;
use super::host::Host;
use crate::hop::{ETHERNET_LEN, Hop};
use crate::netns::{Namespace, Worker};

/// What was seen of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Nanoseconds of the network layer for each packet that came.
    pub(super) received: Vec<u32>,
    /// Of the way down for each answer.
    pub(super) sent: Vec<u32>,
    /// Nanoseconds of the echo service.
    pub(super) service: u64,
    /// Processor time of all.
    pub(super) cpu: Duration,
    /// For how long.
    pub(super) time: Duration,
    /// Packets that came to it, and those of them that found the ring full.
    pub(super) packets: u64,
    pub(super) dropped: u64,
    /// Echo requests that were answered.
    pub(super) served: u64,
    pub(super) entries: usize,
    pub(super) seconds: Vec<Second>,
}

/// A second of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Second {
    /// In the cache at its end.
    pub(super) entries: usize,
    /// Packets dropped in it.
    pub(super) dropped: u64,
    /// Mean of the network layer in it.
    pub(super) latency_us: Option<f64>,
}

/// Starts a host at work; finished, it has worked through all that came before. The interface must be one that the kernel does
/// not use for IPv6 itself.
pub(super) fn start(
    namespace: &Namespace,
    hop: Hop,
    me: Ilv,
    test: Test,
    room: usize,
) -> anyhow::Result<Worker<Tally>> {
    let receiver = namespace.enter(|| {
        FrameReceiver::open(&hop.interface, RING)
            .with_context(|| format!("packet socket at {}", hop.interface))
    })?;
    namespace.work("target", move |stop| {
        let host = Host::new(test.policy, room, me, test.layer.port());
        Work { host, receiver, hop, tally: Tally::default(), in_second: (0, 0) }.run(stop)
    })
}

struct Work {
    host: Host,
    receiver: FrameReceiver,
    hop: Hop,
    tally: Tally,
    /// Packets of this second and their nanoseconds.
    in_second: (u64, u64),
}

impl Work {
    fn run(mut self, stop: &AtomicBool) -> anyhow::Result<Tally> {
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
        if self.in_second.0 > 0 {
            self.end_second()?;
        }
        self.tally.cpu = cpu_time().saturating_sub(cpu);
        self.tally.time = begin.elapsed();
        self.tally.entries = self.host.entries();
        Ok(self.tally)
    }

    fn take(&mut self, packet: &mut Vec<u8>) {
        // The first look at the clock after a pause takes long, and is no work of the host's.
        black_box(Instant::now());
        let begin = Instant::now();
        let is_for_service = self.host.receive(packet, begin);
        let received = begin.elapsed();
        self.in_second.0 += 1;
        self.in_second.1 += u64::from(nanos(received));
        self.tally.received.push(nanos(received));
        if !is_for_service {
            return;
        }
        let begin = Instant::now();
        let answer = self.host.answer(packet);
        self.tally.service += u64::from(nanos(begin.elapsed()));
        let Some(mut answer) = answer else { return };
        let begin = Instant::now();
        let goes = self.host.send(&mut answer, begin);
        self.tally.sent.push(nanos(begin.elapsed()));
        if goes {
            self.transmit(&answer);
        }
        self.tally.served += 1;
    }

    fn transmit(&self, packet: &[u8]) {
        let mut frame = self.hop.header().to_vec();
        frame.extend_from_slice(packet);
        self.receiver.send(&frame);
    }

    fn end_second(&mut self) -> anyhow::Result<()> {
        let (packets, dropped) = self.receiver.statistics()?;
        self.tally.packets += packets;
        self.tally.dropped += dropped;
        let (count, nanos) = std::mem::take(&mut self.in_second);
        let latency_us = (count > 0).then(|| nanos as f64 / count as f64 / 1e3);
        let entries = self.host.entries();
        self.tally.seconds.push(Second { entries, dropped, latency_us });
        Ok(())
    }
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

const SECOND: Duration = Duration::from_secs(1);
const LOOK_AROUND: Duration = Duration::from_millis(20);
/// Frames that may wait: the four rings of 256 descriptors of the study's target.
const RING: u16 = 1024;
const MAX_FRAME: usize = 2048;
const BATCH: usize = 64;
