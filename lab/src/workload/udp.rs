//! A UDP flow with sequence numbers, in one direction or both.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::socket::{self, POLL, receive_datagrams, send_datagrams};
use super::{Arrivals, Endpoint, Pattern};
use crate::netns::{Namespace, Worker};

/// Directions of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Datagrams from the first end only.
    OneWay,
    /// Datagrams from both ends, independently.
    BothWays,
}

/// Options of a flow.
#[derive(Clone, Debug)]
pub struct UdpOptions {
    /// The two ends. The first one always sends.
    pub ends: [Endpoint; 2],
    /// Directions of the flow.
    pub direction: Direction,
    /// Datagrams a second in each direction.
    pub per_second: u32,
    /// Octets of UDP payload of a datagram, at least 8.
    pub size: usize,
}

/// A running flow.
#[derive(Debug)]
pub struct UdpFlow {
    ways: Vec<Way>,
}

#[derive(Debug)]
struct Way {
    arrivals: Arrivals,
    sender: Worker<u64>,
    receiver: Worker<UdpOutcome>,
}

/// Result of a flow in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpOutcome {
    /// Datagrams sent.
    pub sent: u64,
    /// Different datagrams received.
    pub received: u64,
    /// Datagrams received more than once.
    pub duplicates: u64,
    /// Different datagrams that arrived after a later one.
    pub reordered: u64,
    /// Datagrams with a wrong octet or a wrong length.
    pub damaged: u64,
}

#[derive(Clone, Debug, Default)]
struct Received {
    seen: Vec<bool>,
    outcome: UdpOutcome,
}

impl UdpFlow {
    /// Starts a flow.
    ///
    /// # Errors
    /// A socket could not be made.
    pub fn start(options: &UdpOptions) -> anyhow::Result<Self> {
        ensure!(options.size >= 8, "a datagram needs 8 octets for its number");
        let [first, second] = &options.ends;
        let [one, two] = socket::datagram_sockets([first, second], POLL)?;
        let mut ways = vec![Way::start(&first.namespace, &one, &two, options)?];
        if options.direction == Direction::BothWays {
            ways.push(Way::start(&first.namespace, &two, &one, options)?);
        }
        Ok(Self { ways })
    }

    /// Arrivals by direction. The first entry is at the second end.
    #[must_use]
    pub fn arrivals(&self) -> Vec<&Arrivals> {
        self.ways.iter().map(|way| &way.arrivals).collect()
    }

    /// Ends the flow and gives its counts.
    ///
    /// # Errors
    /// A socket failed.
    pub fn finish(self) -> anyhow::Result<Vec<UdpOutcome>> {
        self.ways.into_iter().map(Way::finish).collect()
    }
}

impl Way {
    fn start(
        namespace: &Namespace,
        from: &UdpSocket,
        to: &UdpSocket,
        options: &UdpOptions,
    ) -> anyhow::Result<Self> {
        let (from, to) = (from.try_clone().context("socket")?, to.try_clone().context("socket")?);
        let &UdpOptions { size, per_second, .. } = options;
        let arrivals = Arrivals::default();
        let noted = arrivals.clone();
        let send = move |stop: &_| send_datagrams(&from, size, per_second, stop, || ());
        let receive = move |stop: &_| {
            let mut received = Received::default();
            // The first read timeout after the end is the end: datagrams on their way have arrived by then.
            receive_datagrams(&to, Duration::ZERO, stop, |datagram, _| {
                received.take(datagram, size);
                noted.note(datagram.len() as u64);
            })?;
            Ok(received.outcome)
        };
        Ok(Self {
            arrivals,
            sender: namespace.work("udp send", send)?,
            receiver: namespace.work("udp receive", receive)?,
        })
    }

    fn finish(self) -> anyhow::Result<UdpOutcome> {
        let sent = self.sender.finish()?;
        Ok(UdpOutcome { sent, ..self.receiver.finish()? })
    }
}

impl Received {
    fn take(&mut self, datagram: &[u8], size: usize) {
        let outcome = &mut self.outcome;
        let number = datagram.first_chunk().map_or(0, |head| u64::from_be_bytes(*head));
        if datagram.len() != size || !Pattern::new(number).matches(0, &datagram[8..]) {
            outcome.damaged += 1;
            return;
        }
        let Ok(index) = usize::try_from(number) else { return };
        let is_late = index < self.seen.len();
        if !is_late {
            self.seen.resize(index + 1, false);
        }
        if std::mem::replace(&mut self.seen[index], true) {
            outcome.duplicates += 1;
        } else {
            outcome.received += 1;
            outcome.reordered += u64::from(is_late);
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
        let mut received = Received::default();
        let mut damaged = datagram(9);
        damaged[20] ^= 0x40;
        for octets in [datagram(0), datagram(2), datagram(1), datagram(2), damaged] {
            received.take(&octets, 32);
        }
        received.take(&datagram(3)[..31], 32);
        assert_eq!(received.seen, [true, true, true]);
        let UdpOutcome { received, duplicates, reordered, damaged, .. } = received.outcome;
        assert_eq!((received, duplicates, reordered, damaged), (3, 1, 1, 2));
    }
}
