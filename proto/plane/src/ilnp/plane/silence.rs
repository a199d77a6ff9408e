//! Silence of a correspondent (decisions 207 and 211).
//!
//! A session has two waits. A packet that leaves begins the first wait, if the correspondent has sent lately, and any packet of
//! the session ends it. A TCP segment with data or FIN and without SYN, or a datagram whose flow has a known label, begins
//! the second wait. Only a packet that shows knowledge of the traffic ends the second wait: a host off the path can send
//! others in the name of the correspondent. The second wait also ends by itself, some time after its report.

use moorline_datapath::ilnp::{SILENCE, SILENCE_AGAIN, SessionEntry, USED_INTERVAL};
use moorline_types::Instant;

use crate::shim6::contexts::FlowTables;
use crate::shim6::hint::Awaited;
use crate::shim6::tcp::{Flow, Payload, Segments, Tcp};

/// Notes of the plane about the answers of a correspondent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// Time when a packet of the correspondent last came, was first missed, or was last reported as missing.
    pub(super) heard: Option<Instant>,
    /// The wait for any packet. A packet that comes ends it.
    waits: Option<Waits>,
    /// The wait for proof.
    asks: Option<Asks>,
    /// Whether a datagram has left whose flow has no label yet.
    wants_label: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waits {
    /// When the first packet of the wait left.
    since: Instant,
    /// Whether the silence has been reported.
    is_told: bool,
}

#[derive(Clone, Copy, Debug)]
struct Asks {
    waits: Waits,
    /// The flow of the packet that began the wait; `None`: an answer has the nonce.
    flow: Option<Awaited>,
}

/// A packet that leaves, as its socket sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) payload: Payload,
    pub(super) octets: usize,
}

/// A packet that comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) payload: Payload,
    /// Whether the packet has the nonce of the correspondent.
    pub(super) is_authenticated: bool,
}

impl Silence {
    /// Notes a packet that leaves. Returns whether to report that the correspondent is silent.
    pub(super) fn on_sent(
        &mut self,
        entry: &SessionEntry,
        sent: Seen,
        flows: &mut FlowTables,
        now: Instant,
    ) -> bool {
        // Only a correspondent that has sent lately is expected to send.
        let is_expected = self.heard.is_some_and(|heard| now.since(heard) < USED_INTERVAL);
        self.asks = self.asks.filter(|asks| !asks.waits.is_told_long_ago(now));
        self.ask(entry, sent, flows, is_expected.then_some(now));
        self.waits = self.waits.filter(|waits| Some(waits.since) > self.heard);
        if self.waits.is_none() && is_expected && Some(now) > self.heard {
            self.waits = Some(Waits { since: now, is_told: false });
        }
        let waits = self.waits.as_mut();
        let asks = self.asks.as_mut().map(|asks| &mut asks.waits);
        let mut waits: [_; 2] = [waits, asks];
        let is_silent = waits.iter().flatten().any(|waits| waits.is_over(now));
        waits.iter_mut().flatten().for_each(|waits| waits.is_told |= is_silent);
        is_silent
    }

    /// Notes a packet that comes.
    pub(super) fn on_received(
        &mut self,
        entry: &SessionEntry,
        came: Came,
        flows: &mut FlowTables,
        now: Instant,
    ) {
        self.heard = Some(now);
        let wants_label = self.wants_label && matches!(came.payload, Payload::Datagram(_));
        if self.asks.is_none() && !wants_label {
            return;
        }
        let is_proof = self.is_proof(entry, came.payload, flows) || came.is_authenticated;
        self.asks = self.asks.filter(|asks| !is_proof && asks.can_compare(flows));
    }

    /// Begins the wait for proof, if an answer to the packet can be told from packets of others. A TCP segment takes the wait
    /// of datagrams over: the label of a datagram may be an attacker's. `begin`: the time now, if an answer is expected.
    fn ask(
        &mut self,
        entry: &SessionEntry,
        sent: Seen,
        flows: &mut FlowTables,
        begin: Option<Instant>,
    ) {
        let (secret, has_nonces) = (secret(entry), has_nonces(entry));
        let flow = match sent.payload {
            Payload::Tcp(tcp) => {
                let flow = Flow::of(secret, tcp.source, tcp.destination);
                calls_for_acknowledgement(flow, &tcp, tcp.span(sent.octets), &mut flows.segments)
                    .then_some(Awaited::Tcp(flow))
            }
            Payload::Datagram(datagram) if self.asks.is_none() && !has_nonces => {
                let flow = Flow::of(secret, datagram.source, datagram.destination);
                let is_known = flows.labels.on_sent(flow);
                self.wants_label |= !is_known;
                is_known.then_some(Awaited::Datagrams(flow))
            }
            Payload::Datagram(_) | Payload::Cut | Payload::Other => None,
        };
        let has_datagrams =
            self.asks.is_some_and(|asks| matches!(asks.flow, Some(Awaited::Datagrams(_))));
        let takes_over = has_datagrams && matches!(flow, Some(Awaited::Tcp(_)));
        let may_begin = (self.asks.is_none() || takes_over) && (flow.is_some() || has_nonces);
        if let Some(since) = begin.filter(|_| may_begin) {
            let waits = Waits { since, is_told: false };
            self.asks = Some(Asks { waits, flow: flow.filter(|_| !has_nonces) });
        }
    }

    /// Whether the sender of a packet without a nonce knows the traffic. Also learns the labels of datagrams.
    fn is_proof(&mut self, entry: &SessionEntry, payload: Payload, flows: &mut FlowTables) -> bool {
        match payload {
            Payload::Tcp(tcp) => {
                let flow = Flow::of(secret(entry), tcp.destination, tcp.source);
                flows.segments.is_acknowledged(flow, &tcp)
            }
            Payload::Datagram(datagram) => {
                let flow = Flow::of(secret(entry), datagram.destination, datagram.source);
                let was_known = flows.labels.knows(flow);
                let has_label = flows.labels.on_received(flow, datagram.label);
                self.wants_label &= was_known || !has_label;
                // A label of another flow is no proof: a service of this host may answer datagrams of an attacker, and
                // so have a flow with its label.
                let awaited = self.asks.and_then(|asks| asks.flow);
                has_label && awaited == Some(Awaited::Datagrams(flow))
            }
            Payload::Cut | Payload::Other => false,
        }
    }
}

impl Waits {
    fn is_over(&self, now: Instant) -> bool {
        !self.is_told && now.since(self.since) >= SILENCE
    }

    /// Whether a wait for proof that has been reported ends, so that a later silence is reported as well.
    fn is_told_long_ago(&self, now: Instant) -> bool {
        self.is_told && now.since(self.since) >= SILENCE_AGAIN
    }
}

impl Asks {
    /// Whether answers can be told from other packets. False once another flow has taken the place of this one.
    fn can_compare(&self, flows: &FlowTables) -> bool {
        match self.flow {
            None => true,
            Some(Awaited::Tcp(flow)) => flows.segments.has(flow),
            Some(Awaited::Datagrams(flow)) => flows.labels.knows(flow),
        }
    }
}

/// Notes a TCP segment that leaves. True if it calls for an acknowledgement. Anybody can have a listening socket send a
/// segment with SYN, which the correspondent does not acknowledge. So such a segment calls for none.
fn calls_for_acknowledgement(flow: Flow, tcp: &Tcp, span: u32, segments: &mut Segments) -> bool {
    if span == 0 {
        return false;
    }
    segments.note(flow, tcp, span);
    !tcp.is_syn()
}

/// Whether all packets of the correspondent have the nonce. One without the handshake may not know that we want it.
fn has_nonces(entry: &SessionEntry) -> bool {
    entry.always && entry.maps_tcp
}

/// The secret that keeps others from choosing ports that collide in the tables: octets of our nonce.
fn secret(entry: &SessionEntry) -> u64 {
    let mut octets = entry.send_nonce.octets().iter().copied();
    u64::from_le_bytes(core::array::from_fn(|_| octets.next().unwrap_or_default()))
}
