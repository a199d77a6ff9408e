//! A cable between two interfaces with delay and loss. It replaces netem where that is missing.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::frames::{FrameSocket, NOTES, favour_this_thread, wait};
use crate::impairment::{Channel, Impairment};

/// Carries frames between two interfaces of the network namespace in which it is opened. Each interface is the near
/// end of a veth pair.
///
/// Frames come with the kernel's notes on checksums and segmentation (`PACKET_VNET_HDR`), and leave with them. A
/// segment that is not cut yet stays in one piece, and a checksum that is not computed yet is computed by a later
/// node.
#[derive(Debug)]
pub struct Wire {
    ways: [Way; 2],
    sockets: [FrameSocket; 2],
    start: Instant,
}

/// One direction, from one socket to the other.
#[derive(Debug)]
struct Way {
    channel: Channel,
    under_way: VecDeque<(Duration, Vec<u8>)>,
    octets: usize,
}

impl Wire {
    /// Opens both interfaces.
    ///
    /// # Errors
    /// There is no such interface, or CAP_NET_RAW is missing.
    pub fn open(interfaces: [&str; 2], plan: Impairment) -> io::Result<Self> {
        let [left, right] = interfaces;
        let way = |direction| Way {
            channel: Channel::new(plan, direction),
            under_way: VecDeque::new(),
            octets: 0,
        };
        Ok(Self {
            ways: [way(0), way(1)],
            sockets: [FrameSocket::with_notes(left)?, FrameSocket::with_notes(right)?],
            start: Instant::now(),
        })
    }

    /// Carries frames until `stop` is set, on a thread of its own with a high priority.
    ///
    /// # Errors
    /// An interface is gone for good.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        favour_this_thread();
        let mut buffer = vec![0; MAX_FRAME];
        while !stop.load(Ordering::Relaxed) {
            let is_busy = self.take(&mut buffer)?;
            let next = self.deliver();
            if !is_busy {
                let idle = next.map_or(LOOK_AROUND, |next| next.saturating_sub(self.now()));
                wait(self.sockets.each_ref(), idle.min(LOOK_AROUND))?;
            }
        }
        Ok(())
    }

    /// Takes waiting frames. True if there may be more.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let mut is_busy = false;
        for (socket, way) in self.sockets.iter().zip(&mut self.ways) {
            for _ in 0..BATCH {
                let Some(length) = socket.receive(buffer)? else { break };
                is_busy = true;
                way.admit(&buffer[..length], self.start.elapsed());
            }
        }
        Ok(is_busy)
    }

    /// Sends the frames that are due. Returns the time until the next one.
    fn deliver(&mut self) -> Option<Duration> {
        let now = self.now();
        for (to, way) in self.sockets.iter().rev().zip(&mut self.ways) {
            while let Some((_, frame)) = way.under_way.pop_front_if(|(due, _)| *due <= now) {
                way.octets -= frame.len();
                to.send(&frame);
            }
        }
        self.ways.iter().filter_map(|way| way.under_way.front()).map(|(due, _)| *due).min()
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }
}

impl Way {
    fn admit(&mut self, frame: &[u8], now: Duration) {
        let on_wire = frame.len().saturating_sub(NOTES);
        let Some(due) = self.channel.admit(on_wire, now) else { return };
        if self.octets + frame.len() <= MAX_UNDER_WAY {
            self.octets += frame.len();
            self.under_way.push_back((due, frame.to_vec()));
        }
    }
}

/// Octets of the largest segment that is not cut, with its headers and the kernel's notes.
const MAX_FRAME: usize = 66_000;
/// Octets on the way in one direction: 1 Gbit/s for half a second.
const MAX_UNDER_WAY: usize = 64 << 20;
/// Number of frames that are read from one side before the other side has its turn.
const BATCH: usize = 64;
/// Interval in which an idle cable checks whether it should stop.
const LOOK_AROUND: Duration = Duration::from_millis(50);
