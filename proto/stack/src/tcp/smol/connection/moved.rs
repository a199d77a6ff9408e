//! Connections whose packets leave by other locators from now on.

use core::time::Duration;

use moorline_ip::PacketBuf;
use moorline_types::Instant;
use smoltcp::iface::Interface;

use super::super::super::{Flags, Outgoing, Segment, Seq, Spares};
use super::{Connection, from_smoltcp, to_smoltcp};

/// The first segment that was unacknowledged at a move. It goes again until the peer acknowledges octets of it.
pub(super) struct Repeat {
    first: Outgoing,
    /// SND.UNA at the move.
    unacknowledged: Seq,
    /// `None`: the timer of smoltcp goes on alone.
    at: Option<Instant>,
    wait: Duration,
}

impl Connection {
    /// Sends all that is unacknowledged by the new path. Returns the first segment.
    ///
    /// The segment or its answer may still take the path that the peer has not left yet. So the segment goes again after 200 ms, 400 ms
    /// and so on, until the peer acknowledges octets: the timer of smoltcp has backed off on the old path.
    pub(in super::super) fn handle_move(
        &mut self,
        interface: &mut Interface,
        spares: &mut Spares,
        mss: u16,
        now: Instant,
    ) -> Option<Outgoing> {
        let unacknowledged = self.unacknowledged;
        // smoltcp begins anew once.
        let known = self.repeat.take().filter(|repeat| repeat.unacknowledged == unacknowledged);
        let first = match known {
            Some(repeat) => repeat.first,
            None => self.send_again(interface, spares, mss, now)?,
        };
        let (again, at) = (first.clone(), Some(now + FIRST_WAIT));
        self.repeat = Some(Repeat { first: again, unacknowledged, at, wait: FIRST_WAIT });
        Some(first)
    }

    /// The first segment, if it is time to send it again after a move.
    pub(super) fn repeat_move(&mut self, now: Instant) -> Option<Outgoing> {
        self.repeat.take_if(|repeat| repeat.unacknowledged != self.unacknowledged);
        let repeat = self.repeat.as_mut().filter(|repeat| repeat.at.is_some_and(|at| at <= now))?;
        repeat.wait *= 2;
        repeat.at = (repeat.wait <= LAST_WAIT).then(|| now + repeat.wait);
        Some(repeat.first.clone())
    }

    /// When a segment is sent again after a move.
    pub(super) fn repeats_at(&self) -> Option<Instant> {
        let is_due = |repeat: &&Repeat| repeat.unacknowledged == self.unacknowledged;
        self.repeat.as_ref().filter(is_due)?.at
    }

    /// Makes smoltcp retransmit all that is unacknowledged, from now on. Returns the first segment. A SYN, or a FIN without octets, is sent
    /// again as it is: smoltcp sends those by its timer alone. It has no call for other segments.
    ///
    /// Three duplicate acknowledgments, behind one that they duplicate, make smoltcp send the first segment. After that it would wait for
    /// its timer, because a fast retransmission is of one segment. So the timer goes off before its time: smoltcp begins anew behind the
    /// last acknowledgment, in slow start, as on a path that it does not know (RFC 5681 s3.1). The copy of the first segment that comes of
    /// this is thrown away. If the timer has gone off more than once, smoltcp has begun anew already.
    fn send_again(
        &mut self,
        interface: &mut Interface,
        spares: &mut Spares,
        mss: u16,
        now: Instant,
    ) -> Option<Outgoing> {
        if self.unacknowledged == self.next {
            return None;
        }
        if !self.is_synchronized() {
            return self.syn.clone().map(|syn| self.to_peer(syn));
        }
        if self.socket().send_queue() == 0 {
            return Some(self.to_peer(self.fin()));
        }
        for _ in 0..4 {
            self.ingest(interface, &mut self.segment_of_peer(), now);
        }
        let first = self.poll(interface, spares, mss, now);
        let expiry = interface.poll_at(to_smoltcp(now), &self.sockets).map(from_smoltcp);
        if let Some(expiry) =
            expiry.filter(|at| first.is_some() && at.since(now) <= BACKED_OFF_ONCE)
        {
            let _copy = self.poll(interface, spares, mss, expiry.max(now));
        }
        first
    }

    /// The FIN again. All octets before it are acknowledged.
    fn fin(&self) -> PacketBuf {
        let segment = Segment {
            source_port: self.flow.local.1,
            destination_port: self.flow.peer.1,
            sequence: self.unacknowledged,
            acknowledgment: self.acknowledged,
            flags: Flags::FIN.with(Flags::ACK),
            window: self.announced,
            options: &[],
            payload: &[],
        };
        segment.to_packet()
    }

    /// An acknowledgment without octets, as the peer would send it.
    fn segment_of_peer(&self) -> PacketBuf {
        let segment = Segment {
            source_port: self.flow.peer.1,
            destination_port: self.flow.local.1,
            sequence: self.received,
            acknowledgment: self.unacknowledged,
            flags: Flags::ACK,
            window: self.window,
            options: &[],
            payload: &[],
        };
        segment.to_packet()
    }
}

/// Time after which a segment is first sent again after a move. Not configurable.
const FIRST_WAIT: Duration = Duration::from_millis(200);
/// Longest such time. After it the timer of smoltcp goes on alone. Not configurable.
const LAST_WAIT: Duration = Duration::from_millis(3200);
/// Retransmission timer of smoltcp that has gone off at most once: its least value is one second.
const BACKED_OFF_ONCE: Duration = Duration::from_secs(2);
