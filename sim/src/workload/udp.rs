use moorline_stack::socket::Error;
use moorline_stack::stack::{Carried, Stack};
use moorline_stack::udp::{Options, UdpId};
use moorline_types::{Instant, UlidPair};

use super::numbered::{Back, Numbered};
use super::{Application, End, Side};
use crate::plan::{Kind, Pace};

/// Numbered datagrams by the sockets of the host stack, which cuts them into fragments and puts them together.
#[derive(Debug)]
pub(crate) struct Udp {
    port: u16,
    ulids: UlidPair,
    numbered: Numbered,
    ends: [End; 2],
    /// `None` while a host that has restarted has no socket yet.
    sockets: [Option<UdpId>; 2],
}

impl Udp {
    /// Opens a socket at both ends. `None` if an end does not have its address, or no way to the other end.
    pub(crate) fn open(
        port: u16,
        ends: [End; 2],
        ulids: UlidPair,
        (kind, pace): (Kind, Pace),
        until: Option<Instant>,
        now: Instant,
    ) -> Option<Self> {
        let numbered = Numbered::new(port, pace, Back::of(kind), [Some(now), until]);
        let mut udp = Self { port, ulids, numbered, ends, sockets: [None; 2] };
        if Side::BOTH.into_iter().all(|side| udp.open_socket(side, now)) {
            return Some(udp);
        }
        Side::BOTH.into_iter().for_each(|side| udp.close_socket(side, now));
        None
    }

    /// Opens the socket of a side, which is connected unless it is that of a server. Returns whether there is one.
    fn open_socket(&mut self, side: Side, now: Instant) -> bool {
        let UlidPair { local, peer } = side.pair(self.ulids);
        let (port, is_server) = (self.port, self.numbered.answers(side));
        let opened = self.ends[side as usize].with(now, |stack| {
            let socket = stack.udp_bind(Some(local.0), Some(port))?;
            let connected =
                if is_server { Ok(()) } else { stack.udp_connect(socket, (peer.0, port), now) };
            if connected.is_err() {
                stack.udp_close(socket, now)?;
            }
            connected.map(|()| socket)
        });
        self.sockets[side as usize] = opened.ok();
        opened.is_ok()
    }

    fn close_socket(&mut self, side: Side, now: Instant) {
        if let Some(socket) = self.sockets[side as usize].take() {
            // A socket of a host that has restarted is not there.
            let _ = self.ends[side as usize].with(now, |stack| stack.udp_close(socket, now));
        }
    }

    fn send(&mut self, side: Side, now: Instant) {
        let data = self.numbered.next(side);
        let UlidPair { peer, .. } = side.pair(self.ulids);
        let (to, options) = (Some((peer.0, self.port)), Options::default());
        let end = &mut self.ends[side as usize];
        let Some(socket) = self.sockets[side as usize].filter(|_| !end.is_asleep()) else { return };
        let send = |stack: &mut Stack| stack.udp_send_to(socket, &data, to, options, now);
        // The first call may report an error about an earlier datagram. Nobody sends a lost datagram again.
        if end.with(now, send).is_err() {
            let _ = end.with(now, send);
        }
    }

    /// Takes what has come. `None` if the other side has not sent it.
    fn receive(&mut self, side: Side, now: Instant) -> Option<usize> {
        let Some(socket) = self.sockets[side as usize] else { return Some(0) };
        let UlidPair { local, peer } = side.pair(self.ulids);
        let mut new = 0;
        loop {
            let received = match self.ends[side as usize].with(now, |stack| stack.udp_recv(socket))
            {
                Ok(received) => received,
                Err(Error::WouldBlock | Error::BadHandle) => return Some(new),
                // An error about an earlier datagram.
                Err(_) => continue,
            };
            let ends = (received.destination, received.source, received.source_port);
            if ends != (local.0, peer.0, self.port) {
                return None;
            }
            let octets = self.numbered.accept(side, &received.payload)?;
            new += octets;
            if octets > 0 && self.numbered.answers(side) {
                self.send(side, now);
            }
        }
    }
}

impl Application for Udp {
    fn handle_packet(&mut self, side: Side, packet: &[u8], now: Instant) -> Option<usize> {
        self.ends[side as usize].handle_packet(packet, now);
        self.receive(side, now)
    }

    fn advance(&mut self, side: Side, now: Instant) -> Option<usize> {
        self.receive(side, now)
    }

    fn handle_too_big(&mut self, side: Side, packet: &[u8], now: Instant) {
        self.ends[side as usize].handle_packet(packet, now);
    }

    fn follow_path(&mut self, side: Side, carried: Option<Carried>) {
        self.ends[side as usize].follow_path(side.pair(self.ulids), carried);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
        while let Some(side) = self.numbered.take_due(now) {
            self.send(side, now);
        }
    }

    fn poll_packet(&mut self) -> Option<(Side, Vec<u8>)> {
        End::poll_packet(&mut self.ends)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.ends.iter().filter_map(End::poll_timeout).chain(self.numbered.poll_timeout()).min()
    }

    fn is_finished(&self) -> bool {
        self.numbered.poll_timeout().is_none()
    }

    fn has_sockets(&self) -> bool {
        self.sockets.iter().all(Option::is_some)
    }

    fn handle_reboot(&mut self, side: Side, _now: Instant) -> bool {
        self.sockets[side as usize] = None;
        true
    }

    fn reopen(&mut self, side: Side, end: End, now: Instant) -> bool {
        if self.sockets[side as usize].is_some() {
            return true;
        }
        self.ends[side as usize] = end;
        self.open_socket(side, now)
    }
}
