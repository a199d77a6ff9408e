//! Datagrams to and fro, each timed.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::socket::datagram_sockets;
use super::{Endpoint, Pacer};
use crate::netns::Task;

/// Datagrams that a program sends over a connected socket and another sends back over one.
#[derive(Debug)]
pub struct Pings {
    begin: Instant,
    stop: Arc<AtomicBool>,
    noted: Arc<Mutex<Vec<Ping>>>,
    tasks: Vec<Task<()>>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ping {
    /// When it was sent, since the start.
    pub sent: Duration,
    /// How long it took to come back, if it has.
    pub round_trip: Option<Duration>,
}

impl Pings {
    /// Starts: so many a second, from the first end.
    ///
    /// # Errors
    /// A socket could not be made.
    pub fn start(ends: &[Endpoint; 2], per_second: u32) -> anyhow::Result<Self> {
        let [first, second] = ends;
        let [client, server] = datagram_sockets([first, second], LOOK_AROUND)?;
        let (begin, stop) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let noted = Arc::new(Mutex::new(Vec::new()));
        let mut pings = Self { begin, stop, noted, tasks: Vec::new() };
        let (receiver, sender) = (client.try_clone().context("socket")?, client);
        let stop = Arc::clone(&pings.stop);
        pings.spawn(second, "echo", move || echo(&server, &stop))?;
        let (stop, noted) = (Arc::clone(&pings.stop), Arc::clone(&pings.noted));
        pings.spawn(first, "ping answers", move || note(&receiver, begin, &noted, &stop))?;
        let (stop, noted) = (Arc::clone(&pings.stop), Arc::clone(&pings.noted));
        pings.spawn(first, "pings", move || ping(&sender, begin, per_second, &noted, &stop))?;
        Ok(pings)
    }

    /// Since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// How many have come back.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.all().iter().filter(|ping| ping.round_trip.is_some()).count()
    }

    /// Those sent so far.
    #[must_use]
    pub fn all(&self) -> Vec<Ping> {
        self.noted.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Ends them.
    ///
    /// # Errors
    /// A socket failed.
    pub fn finish(mut self) -> anyhow::Result<Vec<Ping>> {
        self.stop.store(true, Ordering::Relaxed);
        for task in std::mem::take(&mut self.tasks) {
            task.join()?;
        }
        Ok(self.all())
    }

    fn spawn(
        &mut self,
        at: &Endpoint,
        what: &str,
        work: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        self.tasks.push(at.namespace.spawn(what, work)?);
        Ok(())
    }
}

impl Drop for Pings {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn ping(
    socket: &UdpSocket,
    begin: Instant,
    per_second: u32,
    noted: &Mutex<Vec<Ping>>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let pacer = Pacer::start(per_second.into());
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(pacer.wait(number));
        let sent = begin.elapsed();
        noted
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(Ping { sent, round_trip: None });
        // One that the kernel does not take is lost as one on the way is.
        let _ = socket.send(&number.to_be_bytes());
        number += 1;
    }
    // What is on its way may still come back.
    thread::sleep(LAST);
    Ok(())
}

fn echo(socket: &UdpSocket, stop: &AtomicBool) -> anyhow::Result<()> {
    let mut datagram = [0; 64];
    let mut ends = None;
    loop {
        if let Some(length) = receive(socket, &mut datagram)? {
            let _ = socket.send(&datagram[..length]);
        }
        if is_over(stop, &mut ends) {
            return Ok(());
        }
    }
}

fn note(
    socket: &UdpSocket,
    begin: Instant,
    noted: &Mutex<Vec<Ping>>,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let mut datagram = [0; 64];
    let mut ends = None;
    loop {
        if let Some(length) = receive(socket, &mut datagram)?
            && let Ok(number) = datagram[..length].try_into().map(u64::from_be_bytes)
        {
            let now = begin.elapsed();
            let mut noted = noted.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(ping) = usize::try_from(number).ok().and_then(|at| noted.get_mut(at)) {
                ping.round_trip.get_or_insert(now.saturating_sub(ping.sent));
            }
        }
        if is_over(stop, &mut ends) {
            return Ok(());
        }
    }
}

/// Whether the time for late ones is over, too.
fn is_over(stop: &AtomicBool, ends: &mut Option<Instant>) -> bool {
    stop.load(Ordering::Relaxed)
        && Instant::now() >= *ends.get_or_insert_with(|| Instant::now() + LAST)
}

fn receive(socket: &UdpSocket, datagram: &mut [u8]) -> anyhow::Result<Option<usize>> {
    match socket.recv(datagram) {
        Ok(length) => Ok(Some(length)),
        // Nothing there yet, or word of one that did not arrive: the next may.
        Err(error) if PASSING.contains(&error.kind()) => Ok(None),
        Err(error) => Err(error).context("receive a ping"),
    }
}

const PASSING: [ErrorKind; 7] = [
    ErrorKind::WouldBlock,
    ErrorKind::TimedOut,
    ErrorKind::Interrupted,
    ErrorKind::ConnectionRefused,
    ErrorKind::ConnectionReset,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
];
const LOOK_AROUND: Duration = Duration::from_millis(20);
/// Longer than any round trip in a lab.
const LAST: Duration = Duration::from_secs(1);
