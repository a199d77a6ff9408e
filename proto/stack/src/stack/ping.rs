use alloc::collections::VecDeque;
use core::net::Ipv6Addr;

/// The Echo Requests of the host that may still be answered, the oldest first. A reply that answers none of them is
/// dropped.
#[derive(Debug, Default)]
pub(super) struct Pings {
    sent: VecDeque<Ping>,
}

/// An Echo Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ping {
    pub(super) destination: Ipv6Addr,
    pub(super) identifier: u16,
    pub(super) sequence: u16,
}

impl Pings {
    /// Notes a request. If there are [`MAX_PINGS`] already, the oldest one is forgotten.
    pub(super) fn note(&mut self, ping: Ping) {
        if self.sent.len() == MAX_PINGS {
            self.sent.pop_front();
        }
        self.sent.push_back(ping);
    }

    /// Whether a node answers a request. A request to a multicast address has many answers, and each answer is one to
    /// keep; any other request has one.
    pub(super) fn answer(&mut self, from: Ipv6Addr, identifier: u16, sequence: u16) -> bool {
        let is_it = |ping: &Ping| {
            (ping.identifier, ping.sequence) == (identifier, sequence)
                && (ping.destination == from || ping.destination.is_multicast())
        };
        let Some(at) = self.sent.iter().position(is_it) else { return false };
        if self.sent.get(at).is_some_and(|ping| !ping.destination.is_multicast()) {
            self.sent.remove(at);
        }
        true
    }

    /// Whether the host has sent this request, and it has not been answered.
    pub(super) fn is_sent(&self, ping: Ping) -> bool {
        self.sent.contains(&ping)
    }
}

/// Largest number of requests that may still be answered.
const MAX_PINGS: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const A: Ipv6Addr = Ipv6Addr::LOCALHOST;
    const ALL: Ipv6Addr = moorline_ip::address::ALL_NODES;

    //= rfc4443#4.2-7 (test)
    #[test]
    fn a_request_has_one_answer_and_one_to_a_group_has_many() {
        let mut pings = Pings::default();
        pings.note(Ping { destination: A, identifier: 1, sequence: 2 });
        pings.note(Ping { destination: ALL, identifier: 1, sequence: 3 });
        assert!(!pings.answer(A, 2, 2) && !pings.answer(ALL, 1, 2));
        assert!(pings.answer(A, 1, 2) && !pings.answer(A, 1, 2));
        assert!(pings.answer(A, 1, 3) && pings.answer(A, 1, 3));
    }

    #[test]
    fn the_oldest_request_is_forgotten_first() {
        let mut pings = Pings::default();
        for sequence in 0..=1024 {
            pings.note(Ping { destination: A, identifier: 1, sequence });
        }
        assert!(!pings.answer(A, 1, 0) && pings.answer(A, 1, 1));
    }
}
