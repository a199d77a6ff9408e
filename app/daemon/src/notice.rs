use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use anyhow::Context as _;
use moorline_datapath::{StalledSocket, StalledSockets};
use moorline_link::{NoticeSocket, Segment};
use moorline_types::{Instant, UlidPair};

use crate::clock;

/// Has TCP go on at once after a move, instead of when its doubled retransmission timer runs out.
///
/// A pass lists the sockets between ULIDs that have moved and wait, and sends each as many notices as its
/// timer was doubled. More passes follow, ever more rarely, for those that were busy and for what was lost
/// before the peer had moved too; they end with an acknowledgement to all, or after [`LAST`].
#[derive(Default)]
pub(crate) struct Notices {
    means: Option<Means>,
    /// Moved at these times.
    pairs: BTreeMap<UlidPair, Instant>,
    /// Of the pass under way: whom to notify.
    queue: VecDeque<StalledSocket>,
    /// Between the passes.
    gap: Duration,
    /// Of the next pass, or the rest of this one.
    due: Option<Instant>,
}

struct Means {
    sockets: StalledSockets,
    sender: NoticeSocket,
}

impl Notices {
    /// Without `wanted`, or where the kernel lacks what is needed, nothing will be sent.
    pub(crate) fn open(wanted: bool) -> anyhow::Result<Self> {
        if !wanted {
            return Ok(Self::default());
        }
        let sender = NoticeSocket::open().context("raw socket for notices to TCP")?;
        let means = match StalledSockets::open() {
            Ok(sockets) => Some(Means { sockets, sender }),
            Err(error) => {
                tracing::warn!(%error, "TCP will go on after a move when its own timer runs out");
                None
            }
        };
        Ok(Self { means, ..Self::default() })
    }

    /// Traffic of this pair takes another path from now on.
    pub(crate) fn on_moved(&mut self, ulids: UlidPair, now: Instant) {
        let Some(means) = &self.means else { return };
        if let Err(error) = means.sockets.watch(ulids) {
            // More pairs than the table holds.
            tracing::debug!(%error, "no notices to TCP");
            return;
        }
        self.pairs.insert(ulids, now);
        self.gap = FIRST_GAP;
        self.due = Some(now);
    }

    /// When [`Self::handle_timeout`] is due; changes with it and with [`Self::on_moved`].
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Sends what is due, not more at a time than [`BATCH`] sockets get.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        if self.queue.is_empty() {
            self.look(now);
        }
        let Some(means) = &self.means else { return };
        for _ in 0..BATCH {
            let Some(socket) = self.queue.pop_front() else { break };
            notify(&means.sender, &socket);
        }
        if !self.queue.is_empty() {
            self.due = Some(now);
        } else if self.pairs.is_empty() {
            self.due = None;
        } else {
            // A host with very many sockets has other things to do than to look through them.
            let took = clock::now().since(now);
            self.due = Some(now + self.gap.max(took * REST));
            self.gap = (self.gap * 2).min(LAST_GAP);
        }
    }

    /// Fills the queue, and forgets the pairs that need no more.
    fn look(&mut self, now: Instant) {
        let Some(means) = &self.means else { return };
        let stalled = means.sockets.list().unwrap_or_else(|error| {
            tracing::warn!(%error, "no notices to TCP");
            Vec::new()
        });
        let waiting: BTreeSet<_> = stalled.iter().map(|socket| socket.ulids).collect();
        self.pairs.retain(|ulids, moved| {
            let goes_on = now.since(*moved) < LAST && waiting.contains(ulids);
            if !goes_on && let Err(error) = means.sockets.unwatch(*ulids) {
                tracing::debug!(%error, "still looking for TCP sockets of a pair");
            }
            goes_on
        });
        tracing::debug!(sockets = stalled.len(), pairs = self.pairs.len(), "TCP waits");
        self.queue = stalled.into_iter().filter(|socket| socket.backoff > 0).collect();
    }
}

//= rfc5534#4.2-1
/// One notice takes back one doubling (RFC 6069 s4.1): all of them at once, for the timer may have been
/// doubled often. Those that come after an acknowledgement do nothing.
fn notify(sender: &NoticeSocket, socket: &StalledSocket) {
    let segment = Segment {
        source: socket.ulids.local.0,
        destination: socket.ulids.peer.0,
        source_port: socket.local_port,
        destination_port: socket.peer_port,
        sequence: socket.snd_una,
    };
    for _ in 0..socket.backoff.min(MAX_NOTICES) {
        if let Err(error) = sender.unreachable(&segment) {
            tracing::debug!(%error, "no notice to a TCP socket");
            return;
        }
    }
}

/// Between the first two passes; then twice as long each time.
const FIRST_GAP: Duration = Duration::from_millis(2);
/// At most so long between two passes.
const LAST_GAP: Duration = Duration::from_millis(64);
/// So long after a move TCP is left to itself: it has had a timer of its least length by then.
const LAST: Duration = Duration::from_secs(1);
/// A pass is followed by a rest of so many times its length.
const REST: u32 = 10;
/// Sockets that get notices before the daemon looks after other things.
const BATCH: u32 = 256;
/// To a socket in a pass: `net.ipv4.tcp_retries2` allows hardly more doublings.
const MAX_NOTICES: u8 = 16;
