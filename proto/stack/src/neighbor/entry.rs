use alloc::collections::VecDeque;
use alloc::vec;
use core::net::Ipv6Addr;

use moorline_ip::ip6::MIN_MTU;
use moorline_ip::nd::NeighborAdvertisement;
use moorline_ip::{Mac, PacketBuf};
use moorline_types::Instant;

use super::budget::Budget;
use super::table::Keys;
use super::times::Times;
use super::{
    DELAY_FIRST_PROBE_TIME, MAX_MULTICAST_SOLICIT, MAX_QUEUE, Neighbor, Output, REACHABLE_TIME,
    State,
};
use crate::{Drop, Drops};

/// One neighbor.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) link: Link,
    pub(super) is_router: bool,
    /// Whether the neighbor has ever answered a solicitation, or an upper layer has confirmed that packets reach it.
    pub(super) is_proven: bool,
    /// Whether the link-layer address has changed since the neighbor last answered a solicitation.
    pub(super) is_changed: bool,
    /// Whether the host has the neighbor as a router.
    pub(super) is_kept: bool,
    /// Time at which the entry was made.
    pub(super) created: Instant,
    /// Time of the last packet to the neighbor, without answers to solicitations.
    pub(super) used: Option<Instant>,
    pub(super) timer: Option<Instant>,
    /// Keys by which the table has indexed the entry.
    pub(super) keys: Keys,
    /// Time of the last solicitation.
    pub(super) solicited: Option<Instant>,
    /// Source of the packet that prompted solicitations.
    pub(super) source_hint: Option<Ipv6Addr>,
}

/// Knowledge of the link-layer address.
#[derive(Debug)]
pub(super) enum Link {
    /// The address is not known. `sent` solicitations have been sent.
    Incomplete {
        queue: VecDeque<PacketBuf>,
        sent: u8,
    },
    Known {
        mac: Mac,
        reach: Reach,
    },
}

/// Knowledge of the way to a link-layer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Reachable {
        until: Instant,
    },
    Stale,
    Delay,
    Probe {
        sent: u8,
    },
    /// `is_used`: a packet has been sent since the last solicitation.
    Unreachable {
        sent: u32,
        is_used: bool,
    },
}

/// The machine around an entry.
pub(super) struct Context<'a> {
    pub(super) neighbor: Ipv6Addr,
    pub(super) now: Instant,
    /// Octets that may wait for the neighbor in more packets than [`MAX_QUEUE`].
    pub(super) queue_octets: usize,
    pub(super) times: &'a mut Times,
    pub(super) budget: &'a mut Budget,
    pub(super) outputs: &'a mut VecDeque<Output>,
    pub(super) drops: &'a mut Drops,
}

impl Entry {
    pub(super) fn incomplete(now: Instant) -> Self {
        Self::new(Link::Incomplete { queue: VecDeque::new(), sent: 0 }, false, now)
    }

    pub(super) fn stale(mac: Mac, is_router: bool, now: Instant) -> Self {
        Self::new(Link::Known { mac, reach: Reach::Stale }, is_router, now)
    }

    fn new(link: Link, is_router: bool, created: Instant) -> Self {
        Self {
            link,
            is_router,
            is_proven: false,
            is_changed: false,
            is_kept: false,
            created,
            used: None,
            timer: None,
            keys: Keys::default(),
            solicited: None,
            source_hint: None,
        }
    }

    pub(super) fn state(&self, now: Instant) -> State {
        match self.link {
            Link::Incomplete { .. } => State::Incomplete,
            Link::Known { reach, .. } => reach.state(now),
        }
    }

    /// The link-layer address, if the neighbor is reachable.
    pub(super) fn reachable_station(&self, now: Instant) -> Option<Mac> {
        match self.link {
            Link::Known { mac, reach: Reach::Reachable { until } } if now < until => Some(mac),
            Link::Known { .. } | Link::Incomplete { .. } => None,
        }
    }

    pub(super) const fn is_incomplete(&self) -> bool {
        matches!(self.link, Link::Incomplete { .. })
    }

    pub(super) fn shown(&self, address: Ipv6Addr, now: Instant) -> Neighbor {
        let mac = match self.link {
            Link::Incomplete { .. } => None,
            Link::Known { mac, .. } => Some(mac),
        };
        Neighbor {
            address,
            mac,
            state: self.state(now),
            is_router: self.is_router,
            used: self.used,
        }
    }

    /// The packets that wait for the link-layer address.
    pub(super) fn into_packets(self) -> impl Iterator<Item = PacketBuf> {
        match self.link {
            Link::Incomplete { queue, .. } => queue,
            Link::Known { .. } => VecDeque::new(),
        }
        .into_iter()
    }

    /// Sends or queues a packet that shows that the host uses the neighbor.
    pub(super) fn on_packet(&mut self, packet: PacketBuf, context: &mut Context<'_>) {
        self.used = Some(context.now);
        self.on_answer(packet, context);
    }

    /// Sends or queues a packet. An answer to a solicitation shows no use: everybody can ask for one.
    //= rfc4861#7.2.2-5 rfc4861#7.2.2-9
    pub(super) fn on_answer(&mut self, packet: PacketBuf, context: &mut Context<'_>) {
        match &mut self.link {
            Link::Incomplete { queue, sent } => {
                // RFC 4861 s7.2.2: "When a queue overflows, the new arrival SHOULD replace the oldest entry."
                let mut octets = room_of(&packet) + queue.iter().map(room_of).sum::<usize>();
                while queue.len() >= MAX_QUEUE && octets > context.queue_octets {
                    octets -= queue.pop_front().as_ref().map_or(0, room_of);
                    context.drops.count(Drop::NeighborQueue);
                }
                if *sent == 0 {
                    *sent = 1;
                    self.source_hint = source_of(&packet);
                    queue.push_back(packet);
                    self.solicit(None, context);
                } else {
                    queue.push_back(packet);
                }
            }
            Link::Known { mac, reach } => {
                let (mac, reach) = (*mac, *reach);
                self.on_use(reach, &packet, context);
                context.outputs.push_back(Output::Send { mac, packet });
            }
        }
    }

    /// Changes the state because a packet goes to a known link-layer address.
    fn on_use(&mut self, reach: Reach, packet: &PacketBuf, context: &mut Context<'_>) {
        match reach {
            Reach::Reachable { until } if context.now < until => {}
            // RFC 4861 s7.3.3: "The first time a node sends a packet to a neighbor whose entry is STALE, the sender changes
            // the state to DELAY and sets a timer".
            Reach::Reachable { .. } | Reach::Stale => {
                self.source_hint = source_of(packet);
                self.enter(Reach::Delay, Some(context.now + DELAY_FIRST_PROBE_TIME));
            }
            Reach::Delay | Reach::Probe { .. } | Reach::Unreachable { is_used: true, .. } => {}
            Reach::Unreachable { sent, is_used: false } => {
                self.source_hint = source_of(packet);
                // The link-layer address was wrong, and nobody has told a new one: a sender learns of it, once for each
                // solicitation.
                if sent > MAX_MULTICAST_SOLICIT.into() {
                    let packets = vec![packet.clone()];
                    let neighbor = context.neighbor;
                    context.outputs.push_back(Output::Unreachable { neighbor, packets });
                }
                let timer = self.timer.or(Some(context.now));
                self.enter(Reach::Unreachable { sent, is_used: true }, timer);
            }
        }
    }

    /// Takes a link-layer address from a message that confirms nothing.
    //= rfc4861#6.3.4-15 rfc4861#7.2.3-4 rfc4861#7.3.3-4 rfc4861#8.3-4
    pub(super) fn on_link_layer(&mut self, mac: Mac, context: &mut Context<'_>) {
        match &mut self.link {
            Link::Incomplete { queue, .. } => {
                let queue = core::mem::take(queue);
                self.resolve(mac, Reach::Stale, queue, context);
            }
            Link::Known { mac: cached, .. } if *cached == mac => {}
            // RFC 4861 s7.2.3: "the cached address should be replaced by the received address, and the entry's
            // reachability state MUST be set to STALE".
            Link::Known { mac: cached, .. } => {
                *cached = mac;
                self.is_changed = true;
                self.enter(Reach::Stale, None);
            }
        }
    }

    /// Handles a Neighbor Advertisement as RFC 4861 s7.2.5 says. Its appendix C leaves the state unchanged where the
    /// option is missing; the text of the section does not, and it has the key words.
    //= rfc4861#7.2.5-2 rfc4861#7.2.5-3 rfc4861#7.2.5-4 rfc4861#7.2.5-5 rfc4861#7.2.5-6
    //= rfc4861#7.2.5-7 rfc4861#7.3.1-2
    pub(super) fn on_advertisement(
        &mut self,
        advertisement: &NeighborAdvertisement,
        mac: Option<Mac>,
        context: &mut Context<'_>,
    ) -> Result<(), Drop> {
        let fresh = advertisement.is_solicited.then(|| self.answered(context));
        let is_answer = advertisement.is_solicited && self.is_asked(context);
        match &mut self.link {
            Link::Incomplete { queue, .. } => {
                // RFC 4861 s7.2.5: without the option, "the receiving node SHOULD silently discard" the advertisement.
                let mac = mac.ok_or(Drop::AdvertisementValue)?;
                let queue = core::mem::take(queue);
                self.is_proven = advertisement.is_solicited;
                self.resolve(mac, fresh.unwrap_or(Reach::Stale), queue, context);
            }
            Link::Known { mac: cached, reach } => {
                let other = mac.filter(|mac| mac != cached);
                if other.is_some() && !advertisement.overrides {
                    // RFC 4861 s7.2.5 I: "If the state of the entry is REACHABLE, set it to STALE". Otherwise the
                    // advertisement "MUST NOT update the cache".
                    if reach.state(context.now) != State::Reachable {
                        return Err(Drop::AdvertisementValue);
                    }
                    *reach = Reach::Stale;
                    return Ok(());
                }
                *cached = other.unwrap_or(*cached);
                self.is_changed = !is_answer && (self.is_changed || other.is_some());
                // RFC 4861 s7.2.5 II: REACHABLE if solicited, else STALE if the address is another one.
                if let Some(reach) = fresh.or(other.map(|_| Reach::Stale)) {
                    self.enter(reach, None);
                }
                // An answer that nobody has asked for proves nothing: a stranger may have made it up.
                self.is_proven |= advertisement.is_solicited && self.solicited.is_some();
            }
        }
        self.on_router_flag(advertisement.is_router, context);
        Ok(())
    }

    /// The state after an answer. RFC 4861 s7.2.5 has REACHABLE also for an answer that nobody has asked for. A stranger may
    /// have made that one up, with a false link-layer address, and routers can set a Reachable Time of an hour. So it holds
    /// for [`REACHABLE_TIME`] at most.
    fn answered(&self, context: &mut Context<'_>) -> Reach {
        let time = context.times.reachable(context.now);
        let time = if self.is_asked(context) { time } else { time.min(REACHABLE_TIME) };
        Reach::Reachable { until: context.now + time }
    }

    /// Whether the host has sent a solicitation in the last Retrans Timer.
    fn is_asked(&self, context: &Context<'_>) -> bool {
        let retrans = context.times.retrans();
        self.solicited.is_some_and(|at| context.now.since(at) <= retrans)
    }

    //= rfc4861#7.2.5-8 rfc4861#7.2.5-9 rfc4861#7.3.3-5
    fn on_router_flag(&mut self, is_router: bool, context: &mut Context<'_>) {
        if self.is_router && !is_router {
            context.outputs.push_back(Output::RouterLost(context.neighbor));
        }
        self.is_router = is_router;
    }

    /// Takes the word of an upper layer that packets arrive. The packets may have left for a link-layer address that a
    /// stranger has replaced since, so after a change a solicitation decides.
    //= rfc4861#7.3.1-1
    pub(super) fn on_progress(&mut self, context: &mut Context<'_>) {
        // RFC 4861 s7.3.3: "upper-layer advice has no effect on entries in the INCOMPLETE state".
        if !self.is_incomplete() && !self.is_changed {
            self.is_proven = true;
            self.enter(reachable(context), None);
        }
    }

    /// Records the first link-layer address, and sends the packets that waited for it. In the state STALE these count as
    /// the first packets, so the state becomes DELAY.
    fn resolve(
        &mut self,
        mac: Mac,
        reach: Reach,
        queue: VecDeque<PacketBuf>,
        context: &mut Context<'_>,
    ) {
        self.link = Link::Known { mac, reach };
        self.timer = None;
        for packet in queue {
            self.on_answer(packet, context);
        }
    }

    pub(super) fn enter(&mut self, new: Reach, timer: Option<Instant>) {
        if let Link::Known { reach, .. } = &mut self.link {
            *reach = new;
            self.timer = timer;
        }
    }
}

impl Reach {
    fn state(self, now: Instant) -> State {
        match self {
            Self::Reachable { until } if now < until => State::Reachable,
            Self::Reachable { .. } | Self::Stale => State::Stale,
            Self::Delay => State::Delay,
            Self::Probe { .. } => State::Probe,
            Self::Unreachable { .. } => State::Unreachable,
        }
    }
}

fn reachable(context: &mut Context<'_>) -> Reach {
    Reach::Reachable { until: context.now + context.times.reachable(context.now) }
}

/// Octets that a packet takes in a queue.
fn room_of(packet: &PacketBuf) -> usize {
    packet.len().max(MIN_MTU.into())
}

/// Source address of an IPv6 packet.
fn source_of(packet: &[u8]) -> Option<Ipv6Addr> {
    let source: &[u8; 16] = packet.get(8..)?.first_chunk()?;
    Some(Ipv6Addr::from(*source))
}
