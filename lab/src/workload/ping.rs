//! Datagrams with timed answers.

use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::Endpoint;
use super::socket::{datagram_sockets, receive_datagrams, send_datagrams};
use crate::netns::Worker;

/// Datagrams that one end sends and the other end echoes, over connected sockets.
#[derive(Debug)]
pub struct Pings {
    noted: Noted,
    sender: Worker<u64>,
    /// The echo at the second end, and the receiver of answers at the first.
    receivers: [Worker<()>; 2],
}

/// The log of all pings.
#[derive(Clone, Debug)]
struct Noted {
    begin: Instant,
    all: Arc<Mutex<Vec<Ping>>>,
}

/// A datagram and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ping {
    /// Time of sending, since the start.
    pub sent: Duration,
    /// Round trip time. `None` without an answer so far.
    pub round_trip: Option<Duration>,
}

impl Pings {
    /// Starts to send `per_second` datagrams a second from the first end.
    ///
    /// # Errors
    /// A socket could not be made.
    pub fn start(ends: &[Endpoint; 2], per_second: u32) -> anyhow::Result<Self> {
        let [first, second] = ends;
        let [client, server] = datagram_sockets([first, second], LOOK_AROUND)?;
        let answers = client.try_clone().context("socket")?;
        let noted = Noted { begin: Instant::now(), all: Arc::default() };
        let [sent, came] = [noted.clone(), noted.clone()];
        let send = move |stop: &_| send_datagrams(&client, 8, per_second, stop, || sent.sent());
        let come_back =
            move |stop: &_| receive_datagrams(&answers, LAST, stop, |it, _| came.came(it));
        Ok(Self {
            receivers: [
                second.namespace.work("echo", move |stop| echo(&server, stop))?,
                first.namespace.work("ping answers", come_back)?,
            ],
            sender: first.namespace.work("pings", send)?,
            noted,
        })
    }

    /// Time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.noted.begin.elapsed()
    }

    /// All pings so far.
    #[must_use]
    pub fn all(&self) -> Vec<Ping> {
        self.noted.lock().clone()
    }

    /// Ends the pings.
    ///
    /// # Errors
    /// A socket failed.
    pub fn finish(self) -> anyhow::Result<()> {
        self.sender.finish()?;
        self.receivers.iter().for_each(Worker::stop);
        self.receivers.into_iter().try_for_each(Worker::join)
    }
}

impl Noted {
    fn sent(&self) {
        self.lock().push(Ping { sent: self.begin.elapsed(), round_trip: None });
    }

    fn came(&self, datagram: &[u8]) {
        let Ok(number) = datagram.try_into().map(u64::from_be_bytes) else { return };
        let (now, mut all) = (self.begin.elapsed(), self.lock());
        if let Some(ping) = usize::try_from(number).ok().and_then(|at| all.get_mut(at)) {
            ping.round_trip.get_or_insert(now.saturating_sub(ping.sent));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Ping>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn echo(socket: &UdpSocket, stop: &AtomicBool) -> anyhow::Result<()> {
    receive_datagrams(socket, LAST, stop, |datagram, _| drop(socket.send(datagram)))
}

const LOOK_AROUND: Duration = Duration::from_millis(20);
/// Longer than any round trip time in a lab.
const LAST: Duration = Duration::from_secs(1);
