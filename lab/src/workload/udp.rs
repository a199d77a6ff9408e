//! A UDP flow with sequence numbers, one way or both ways.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::{Arrivals, Endpoint, Pattern, socket};
use crate::netns::{Namespace, Task};

/// Which ends send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The first end only.
    OneWay,
    /// Both, independently.
    BothWays,
}

/// What to send.
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// The two ends; the first one sends in any case.
    pub ends: [Endpoint; 2],
    /// Which ends send.
    pub direction: Direction,
    /// Datagrams a second, each way.
    pub per_second: u32,
    /// Octets of UDP payload in each, at least 8.
    pub size: usize,
}

/// A flow that runs.
#[derive(Debug)]
pub struct UdpFlow {
    stop: Arc<AtomicBool>,
    ways: Vec<Way>,
}

#[derive(Debug)]
struct Way {
    arrivals: Arrivals,
    sender: Task<u64>,
    receiver: Task<Received>,
}

/// How a flow went in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpOutcome {
    /// Datagrams sent.
    pub sent: u64,
    /// Different datagrams received.
    pub received: u64,
    /// Datagrams received more than once.
    pub duplicates: u64,
    /// Datagrams that came after one sent later.
    pub reordered: u64,
    /// Datagrams with a wrong octet or length.
    pub damaged: u64,
}

#[derive(Clone, Debug, Default)]
struct Received {
    seen: Vec<bool>,
    duplicates: u64,
    reordered: u64,
    damaged: u64,
}

impl UdpFlow {
    /// Starts it.
    ///
    /// # Errors
    /// A socket could not be made.
    pub fn start(options: &UdpOptions) -> anyhow::Result<Self> {
        ensure!(options.size >= 8, "a datagram needs 8 octets for its number");
        let [first, second] = &options.ends;
        let [one, two] = socket::datagram_sockets([first, second], socket::POLL)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut ways = vec![way(&first.namespace, &one, &two, options, &stop)?];
        if options.direction == Direction::BothWays {
            ways.push(way(&first.namespace, &two, &one, options, &stop)?);
        }
        Ok(Self { stop, ways })
    }

    /// Arrivals in each direction that is used; the first is at the second end.
    #[must_use]
    pub fn arrivals(&self) -> Vec<&Arrivals> {
        self.ways.iter().map(|way| &way.arrivals).collect()
    }

    /// Ends it and counts.
    ///
    /// # Errors
    /// A socket failed.
    pub fn finish(self) -> anyhow::Result<Vec<UdpOutcome>> {
        self.stop.store(true, Ordering::Relaxed);
        self.ways.into_iter().map(Way::finish).collect()
    }
}

impl Way {
    fn finish(self) -> anyhow::Result<UdpOutcome> {
        let sent = self.sender.join()?;
        let Received { seen, duplicates, reordered, damaged } = self.receiver.join()?;
        let received = seen.iter().filter(|&&seen| seen).count() as u64;
        Ok(UdpOutcome { sent, received, duplicates, reordered, damaged })
    }
}

fn way(
    namespace: &Namespace,
    from: &UdpSocket,
    to: &UdpSocket,
    options: &UdpOptions,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Way> {
    let (from, to) = (from.try_clone().context("socket")?, to.try_clone().context("socket")?);
    let (size, per_second) = (options.size, options.per_second);
    let arrivals = Arrivals::default();
    let (noted, sending, receiving) = (arrivals.clone(), Arc::clone(stop), Arc::clone(stop));
    Ok(Way {
        arrivals,
        sender: namespace.spawn("udp send", move || send(&from, size, per_second, &sending))?,
        receiver: namespace.spawn("udp receive", move || receive(&to, size, &noted, &receiving))?,
    })
}

fn send(
    socket: &UdpSocket,
    size: usize,
    per_second: u32,
    stop: &AtomicBool,
) -> anyhow::Result<u64> {
    let start = Instant::now();
    let mut datagram = vec![0; size];
    let mut number: u64 = 0;
    while !stop.load(Ordering::Relaxed) {
        datagram[..8].copy_from_slice(&number.to_be_bytes());
        Pattern::new(number).fill(0, &mut datagram[8..]);
        // A route that is gone for the moment, or an ICMP error, is a lost datagram and no more.
        let _ = socket.send(&datagram);
        number += 1;
        let due = std::time::Duration::from_secs_f64(number as f64 / f64::from(per_second));
        thread::sleep(due.saturating_sub(start.elapsed()));
    }
    Ok(number)
}

fn receive(
    socket: &UdpSocket,
    size: usize,
    arrivals: &Arrivals,
    stop: &AtomicBool,
) -> anyhow::Result<Received> {
    let mut received = Received::default();
    let (mut buffer, mut scratch) = (vec![0; size + 1], Vec::new());
    // The first silence after the end is the end: what was on its way has come.
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                received.take(&buffer[..length], size, &mut scratch);
                arrivals.note(length as u64);
            }
            Err(error) if socket::is_timeout(&error) && !stop.load(Ordering::Relaxed) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
            Err(error) if socket::is_timeout(&error) => return Ok(received),
            Err(error) => return Err(error).context("receive"),
        }
    }
}

impl Received {
    fn take(&mut self, datagram: &[u8], size: usize, scratch: &mut Vec<u8>) {
        let Some((head, content)) = datagram.split_first_chunk::<8>() else {
            self.damaged += 1;
            return;
        };
        let number = u64::from_be_bytes(*head);
        if datagram.len() != size || !Pattern::new(number).matches(0, content, scratch) {
            self.damaged += 1;
            return;
        }
        let Ok(index) = usize::try_from(number) else { return };
        if index < self.seen.len() {
            self.reordered += 1;
        } else {
            self.seen.resize(index + 1, false);
        }
        if std::mem::replace(&mut self.seen[index], true) {
            self.duplicates += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(number: u64) -> Vec<u8> {
        let mut octets = vec![0; 32];
        octets[..8].copy_from_slice(&number.to_be_bytes());
        Pattern::new(number).fill(0, &mut octets[8..]);
        octets
    }

    #[test]
    fn each_kind_of_trouble_has_its_count() {
        let (mut received, mut scratch) = (Received::default(), Vec::new());
        let mut damaged = datagram(9);
        damaged[20] ^= 0x40;
        for octets in [datagram(0), datagram(2), datagram(1), datagram(2), damaged] {
            received.take(&octets, 32, &mut scratch);
        }
        received.take(&datagram(3)[..31], 32, &mut scratch);
        assert_eq!(received.seen, [true, true, true]);
        assert_eq!((received.duplicates, received.reordered, received.damaged), (1, 2, 2));
    }
}
