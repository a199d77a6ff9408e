//! Generator of frames. Each frame is made from the frame before. The rate is fixed, or as high as possible.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use moorline_link::FrameSender;

use super::Pacer;
use crate::netns::{Namespace, Worker};

/// Changes a frame into the next one.
pub type Vary = Box<dyn FnMut(&mut [u8]) + Send>;

/// Frames of one kind.
pub struct Stream {
    /// The first frame.
    pub frame: Vec<u8>,
    /// Makes the next frame from a frame.
    pub vary: Vary,
    /// Frames a second. `None` for as many as a thread can send.
    pub rate: Option<u64>,
}

/// Sends streams out of an interface, each on its own thread, until `finish` or a time limit.
#[derive(Debug)]
pub struct Generator {
    streams: Vec<(Arc<AtomicU64>, Worker<()>)>,
}

impl Generator {
    /// Starts the streams. The streams end after `limit` at the latest.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(
        namespace: &Namespace,
        interface: &str,
        streams: Vec<Stream>,
        limit: Duration,
    ) -> anyhow::Result<Self> {
        let end = Instant::now() + limit;
        let start = |stream| {
            let sent = Arc::new(AtomicU64::new(0));
            let (count, interface) = (Arc::clone(&sent), interface.to_owned());
            let work = move |stop: &_| send(&interface, stream, end, stop, &count);
            Ok((sent, namespace.work("load generator", work)?))
        };
        let streams = streams.into_iter().map(start).collect::<anyhow::Result<_>>()?;
        Ok(Self { streams })
    }

    /// Frames of all streams that the interface has taken so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.streams.iter().map(|(sent, _)| sent.load(Ordering::Relaxed)).sum()
    }

    /// Whether all streams have ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.streams.iter().all(|(_, worker)| worker.is_finished())
    }

    /// Ends the streams. Gives the number of frames sent, by stream.
    ///
    /// # Errors
    /// A stream could not be sent.
    pub fn finish(self) -> anyhow::Result<Vec<u64>> {
        self.streams.iter().for_each(|(_, worker)| worker.stop());
        let finish = |(sent, worker): (Arc<AtomicU64>, Worker<()>)| {
            worker.join().map(|()| sent.load(Ordering::Relaxed))
        };
        self.streams.into_iter().map(finish).collect()
    }
}

fn send(
    interface: &str,
    mut stream: Stream,
    end: Instant,
    stop: &AtomicBool,
    sent: &AtomicU64,
) -> anyhow::Result<()> {
    let mut sender =
        FrameSender::open(interface).with_context(|| format!("packet socket at {interface}"))?;
    let mut frames = vec![stream.frame; FrameSender::BATCH];
    let pacer = stream.rate.map(Pacer::start);
    let mut made = 0;
    while !stop.load(Ordering::Relaxed) && Instant::now() < end {
        let due = pacer.map_or(u64::MAX, |pacer| pacer.due(made));
        let batch = FrameSender::BATCH.min(usize::try_from(due).unwrap_or(usize::MAX));
        if batch == 0 {
            thread::sleep(pacer.map_or(LOOK_AROUND, |pacer| pacer.wait(made + 1)).min(LOOK_AROUND));
            continue;
        }
        for frame in &mut frames[..batch] {
            (stream.vary)(frame);
        }
        made += batch as u64;
        let taken = sender.send(&frames[..batch]).context("send frames")?;
        sent.fetch_add(taken as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Interval at which a waiting stream checks whether it should stop.
const LOOK_AROUND: Duration = Duration::from_millis(20);
