use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use anyhow::Context as _;
use moorline_bpf::{StalledSocket, StalledSockets};
use moorline_link::{Icmp6Sender, Segment};
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
    pairs: BTreeMap<UlidPair, Move>,
    /// Of the pass under way: whom to notify, and of what MTU.
    queue: VecDeque<(StalledSocket, Option<u32>)>,
    /// Between the passes.
    gap: Duration,
    /// Of the next pass, or the rest of this one.
    due: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Move {
    at: Instant,
    /// Of the new path, if sockets have still to be told.
    mtu: Option<u32>,
}

struct Means {
    sockets: StalledSockets,
    sender: Icmp6Sender,
}

impl Notices {
    /// Without `wanted`, or where the kernel lacks what is needed, nothing will be sent.
    pub(crate) fn open(wanted: bool) -> anyhow::Result<Self> {
        if !wanted {
            return Ok(Self::default());
        }
        let sender = Icmp6Sender::open().context("raw socket for notices to TCP")?;
        let means = match StalledSockets::open() {
            Ok(sockets) => Some(Means { sockets, sender }),
            Err(error) => {
                tracing::warn!(%error, "TCP will go on after a move when its own timer runs out");
                None
            }
        };
        Ok(Self { means, ..Self::default() })
    }

    /// Traffic of this pair takes another path from now on, of this MTU if it may be smaller.
    pub(crate) fn on_moved(&mut self, ulids: UlidPair, mtu: Option<u32>, now: Instant) {
        let Some(means) = &self.means else { return };
        if let Err(error) = means.sockets.watch(ulids) {
            // More pairs than the table holds.
            tracing::debug!(%error, "no notices to TCP");
            return;
        }
        self.pairs.insert(ulids, Move { at: now, mtu });
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
            let Some((socket, mtu)) = self.queue.pop_front() else { break };
            notify(&means.sender, &socket, mtu);
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
        let is_waiting = |socket: &&StalledSocket| socket.retransmits > 0;
        let waiting: BTreeSet<_> =
            stalled.iter().filter(is_waiting).map(|socket| socket.ulids).collect();
        let mut smaller = BTreeMap::new();
        self.pairs.retain(|ulids, moved| {
            smaller.extend(moved.mtu.take().map(|mtu| (*ulids, mtu)));
            let goes_on = now.since(moved.at) < LAST && waiting.contains(ulids);
            if !goes_on && let Err(error) = means.sockets.unwatch(*ulids) {
                tracing::debug!(%error, "still looking for TCP sockets of a pair");
            }
            goes_on
        });
        tracing::debug!(sockets = stalled.len(), pairs = self.pairs.len(), "TCP waits");
        let told = stalled.into_iter().map(|socket| (socket, smaller.get(&socket.ulids).copied()));
        self.queue = told.filter(|(socket, mtu)| socket.backoff > 0 || mtu.is_some()).collect();
    }
}

//= rfc5534#4.2-1
/// One notice takes back one doubling (RFC 6069 s4.1): all of them at once, for the timer may have been
/// doubled often. Those that come after an acknowledgement do nothing. A timer that has not run out yet is
/// not waited for where segments have become too long.
fn notify(sender: &Icmp6Sender, socket: &StalledSocket, mtu: Option<u32>) {
    let segment = Segment {
        source: socket.ulids.local.0,
        destination: socket.ulids.peer.0,
        source_port: socket.local_port,
        destination_port: socket.peer_port,
        sequence: socket.snd_una,
    };
    let too_big = mtu.map(|mtu| sender.too_big(&segment, mtu));
    let reverts = (0..socket.backoff.min(MAX_NOTICES)).map(|_| sender.unreachable(&segment));
    if let Err(error) = too_big.into_iter().chain(reverts).collect::<Result<(), _>>() {
        tracing::debug!(%error, "no notice to a TCP socket");
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
