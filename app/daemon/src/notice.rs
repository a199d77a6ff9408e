use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use anyhow::Context as _;
use moorline_bpf::{StalledSocket, StalledSockets};
use moorline_link::{Icmp6Sender, Segment};
use moorline_types::{Instant, UlidPair};

use crate::clock;

/// Sender of notices to TCP sockets, so that TCP retransmits at once after a move and does not wait for its doubled timer.
///
/// A pass lists the waiting sockets between moved ULIDs. For each doubling of its timer a socket gets a notice. Further passes
/// follow at growing intervals, for sockets that were busy and for segments lost before the peer had moved, too. The passes end
/// when all sockets have an acknowledgement, or after [`LAST`]. Passes that begin [`SENDS_AFTER`] or later also have sockets send
/// that could not send before.
#[derive(Default)]
pub(crate) struct Notices {
    means: Option<Means>,
    pairs: BTreeMap<UlidPair, Move>,
    /// Sockets of the current pass, each with the MTU to report.
    queue: VecDeque<(StalledSocket, Option<u32>)>,
    /// Interval of the passes.
    gap: Duration,
    /// Time of the next pass, or of the rest of this pass.
    due: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Move {
    at: Instant,
    /// MTU of the new path, if sockets do not know it yet.
    mtu: Option<u32>,
    /// Whether sockets send that could not send before.
    sends: bool,
}

struct Means {
    sockets: StalledSockets,
    sender: Icmp6Sender,
}

impl Notices {
    /// Opens the sender. Without `wanted`, or if the kernel lacks a feature, it sends nothing.
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

    /// Handles a move of a pair. `mtu`: MTU of the new path, if it may be smaller.
    pub(crate) fn on_moved(&mut self, ulids: UlidPair, mtu: Option<u32>, now: Instant) {
        let Some(means) = &self.means else { return };
        if let Err(error) = means.sockets.watch(ulids) {
            // The table has no room for another pair.
            tracing::debug!(%error, "no notices to TCP");
            return;
        }
        self.pairs.insert(ulids, Move { at: now, mtu, sends: false });
        self.gap = FIRST_GAP;
        self.due = Some(now);
    }

    /// Returns the time when [`Self::handle_timeout`] is due; changes after that call and after [`Self::on_moved`].
    #[must_use]
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Sends the due notices, to at most [`BATCH`] sockets.
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
            // Listing very many sockets takes long, so pause in proportion.
            let took = clock::now().since(now);
            self.due = Some(now + self.gap.max(took * REST));
            self.gap = (self.gap * 2).min(LAST_GAP);
        }
    }

    /// Fills the queue, and forgets the pairs that need no more notices.
    fn look(&mut self, now: Instant) {
        let Some(means) = &self.means else { return };
        let is_late = |moved: &&mut Move| !moved.sends && now.since(moved.at) >= SENDS_AFTER;
        for (ulids, moved) in self.pairs.iter_mut().filter(|(_, moved)| is_late(moved)) {
            moved.sends = true;
            if let Err(error) = means.sockets.watch_and_send(*ulids) {
                tracing::debug!(%error, "TCP sends when its own timer runs out");
            }
        }
        let stalled = means.sockets.list().unwrap_or_else(|error| {
            tracing::warn!(%error, "no notices to TCP");
            Vec::new()
        });
        let is_waiting = |socket: &&StalledSocket| socket.retransmits > 0 || socket.is_unsent();
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
        let is_to_tell = |socket: &StalledSocket, mtu: Option<u32>| {
            !socket.is_unsent() && (socket.backoff > 0 || mtu.is_some())
        };
        self.queue = told.filter(|(socket, mtu)| is_to_tell(socket, *mtu)).collect();
    }
}

//= rfc5534#4.2-1
/// Notifies a socket. One notice takes back one doubling of the timer (RFC 6069 s4.1), so the function sends a notice for each
/// doubling at once. A notice after an acknowledgement has no effect. If segments are too long for the new path, a Packet Too
/// Big comes first, so that TCP retransmits before its timer expires.
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

/// Interval between the first two passes; each further interval is twice as long.
const FIRST_GAP: Duration = Duration::from_millis(2);
/// Longest interval between two passes.
const LAST_GAP: Duration = Duration::from_millis(64);
/// Time after a move when sockets send that could not send before. By then the peer has moved as well. Segments
/// of the peer to the address before are lost, and the peer's TCP has no doubled timer that a notice could take back.
const SENDS_AFTER: Duration = Duration::from_millis(300);
/// Time after a move when passes end: by then TCP's timer of minimal length has expired.
const LAST: Duration = Duration::from_secs(1);
/// Length of the pause after a pass, in lengths of the pass.
const REST: u32 = 10;
/// Number of sockets that get notices before the daemon handles other work.
const BATCH: u32 = 256;
/// Largest number of notices to a socket in a pass: `net.ipv4.tcp_retries2` allows hardly more doublings.
const MAX_NOTICES: u8 = 16;
