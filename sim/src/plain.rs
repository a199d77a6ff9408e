//! A node that speaks ILNPv6 by RFC 6740 to 6744 alone: no handshake, no numbers in Locator Updates. The node is
//! written from the RFCs, and shares neither machine nor codecs with Moorline.

mod host;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use moorline_types::Instant;

pub(crate) use host::PlainHost;

/// A locator in octets.
pub(crate) type L64 = [u8; 8];
/// Protocol and ports of a socket, its own port first.
pub(crate) type SocketKey = (u8, [u8; 4]);
/// The addresses of two ends.
pub(crate) type Ends = [[u8; 16]; 2];

/// The node, with one correspondent.
#[derive(Debug)]
pub(crate) struct PlainNode {
    nonce: [u8; 4],
    /// Locators, the best one first.
    locators: Vec<L64>,
    /// Whether all packets have the nonce (RFC 6744 s6: "MAY").
    always: bool,
    correspondent: Option<Correspondent>,
    /// Addresses of all sockets, by protocol and ports.
    sockets: BTreeMap<SocketKey, Ends>,
    /// All locators that the node has named to its correspondent.
    named: BTreeSet<L64>,
    /// Messages to send.
    pub(crate) out: VecDeque<Vec<u8>>,
}

/// Path of the packets that the node sends for a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlainPath {
    /// Source and destination.
    pub(crate) wire: Ends,
    /// The node's nonce.
    pub(crate) own_nonce: [u8; 4],
    /// The correspondent's nonce; `None` if the correspondent has shown none.
    pub(crate) nonce: Option<Vec<u8>>,
    /// Whether the correspondent has acknowledged the node's locators.
    pub(crate) is_told: bool,
}

#[derive(Debug)]
struct Correspondent {
    /// Addresses of the first socket: ours and the remote one. The identifiers in them are the session's.
    ends: Ends,
    /// The correspondent's nonce; `None` if the correspondent has shown none.
    nonce: Option<Vec<u8>>,
    /// The correspondent's locators by preference.
    locators: Vec<L64>,
    /// Time until which all packets have our nonce.
    attach_until: Instant,
    update: Option<Update>,
    /// Whether the correspondent has ever acknowledged a Locator Update.
    has_read: bool,
}

/// A Locator Update that waits for its acknowledgement.
#[derive(Debug)]
struct Update {
    locators: Vec<L64>,
    pause: Duration,
    next: Instant,
}

impl PlainNode {
    pub(crate) fn new(nonce: [u8; 4], always: bool) -> Self {
        let (locators, sockets, named) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        Self { nonce, locators, always, correspondent: None, sockets, named, out: VecDeque::new() }
    }

    /// Opens a socket between these addresses. A socket that only receives is known in no other way.
    pub(crate) fn open(&mut self, key: SocketKey, ends: Ends) {
        self.sockets.insert(key, ends);
    }

    /// Remembers the locators that the node has named before a restart.
    #[cfg(test)]
    pub(crate) fn restarted(mut self, before: Option<Self>) -> Self {
        self.named.extend(before.into_iter().flat_map(|node| node.named));
        self
    }

    #[cfg(test)]
    pub(crate) fn has_named(&self, l64: L64) -> bool {
        self.named.contains(&l64)
    }

    /// Sets the locators. RFC 6743 s4: the node tells the correspondent a change until it acknowledges. RFC 6744 s4:
    /// meanwhile all packets have the nonce.
    pub(crate) fn set_locators(&mut self, locators: Vec<L64>, now: Instant) {
        if self.locators.is_empty() {
            // The first packet shows the first locator of the node.
            self.named.extend(locators.first());
        }
        if self.locators == locators || locators.is_empty() {
            return;
        }
        self.locators = locators;
        let Some(correspondent) = &mut self.correspondent else { return };
        if correspondent.nonce.is_some() {
            correspondent.attach_until = now + AFTER_CHANGE;
            let locators = self.locators.clone();
            correspondent.update = Some(Update { locators, pause: FIRST_PAUSE, next: now });
            self.handle_timeout(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        Some(self.correspondent.as_ref()?.update.as_ref()?.next)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        let Some(correspondent) = &mut self.correspondent else { return };
        let wire = correspondent.wire(correspondent.ends, &self.locators);
        let Some(update) = correspondent.update.as_mut().filter(|update| update.next <= now) else {
            return;
        };
        update.next = now + update.pause;
        update.pause = (update.pause * 2).min(LONGEST_PAUSE);
        self.named.extend(&update.locators);
        // RFC 6743 s3: Num of Locs, Operation "advertisement", then a locator of 64 bits, preference and lifetime for
        // each.
        let count = u8::try_from(update.locators.len()).expect("few");
        let mut message = vec![LOCATOR_UPDATE, 0, 0, 0, count, ADVERTISEMENT, 0, 0];
        for (l64, preference) in update.locators.iter().zip(1_u16..) {
            message.extend(l64);
            message.extend(preference.to_be_bytes());
            message.extend(600_u16.to_be_bytes());
        }
        let message = with_nonce(wire, self.nonce, ICMPV6, &summed(wire, ICMPV6, message));
        self.out.push_back(message);
    }

    /// The packet of the socket on the wire. RFC 6741 s11.1: the transport's checksum covers the identifiers alone.
    pub(crate) fn send(&mut self, packet: &[u8], now: Instant) -> Vec<u8> {
        let ends = [address(packet, 8), address(packet, 24)];
        let known = self.correspondent.get_or_insert_with(|| Correspondent::new(ends, now));
        let has_nonce = self.always
            || known.nonce.is_none()
            || known.update.is_some()
            || now < known.attach_until;
        self.sockets.insert((packet[6], ports_of(&packet[40..])), ends);
        let wire = known.wire(ends, &self.locators);
        let upper = summed(nids_of(ends), packet[6], packet[40..].to_vec());
        let sent = match has_nonce {
            true => with_nonce(wire, self.nonce, packet[6], &upper),
            false => ip6(wire, packet[6], &upper),
        };
        with_label_of(packet, sent)
    }

    /// Takes a packet from the network. Returns the packet for the socket.
    pub(crate) fn receive(&mut self, packet: &[u8], now: Instant) -> Option<Vec<u8>> {
        let from_to = [address(packet, 8), address(packet, 24)];
        let (nonce, protocol, upper) = opened(packet)?;
        if protocol == ICMPV6 {
            self.receive_message(from_to, nonce, upper, now);
            return None;
        }
        let ends = [from_to[1], from_to[0]];
        let known = self.correspondent.get_or_insert_with(|| Correspondent::new(ends, now));
        if !known.may_have_sent(from_to[0], nonce, now) {
            return None;
        }
        let [a, b, c, d] = ports_of(upper);
        let socket = self.sockets.get(&(protocol, [c, d, a, b])).copied();
        let to_socket = socket.map_or(from_to, |[own, remote]| [remote, own]);
        if known.nonce.is_none() {
            return (from_to == to_socket).then(|| packet.to_vec());
        }
        let is_whole = checksum(nids_of(from_to), protocol, upper) == 0;
        let upper = summed(to_socket, protocol, upper.to_vec());
        is_whole.then(|| with_label_of(packet, ip6(to_socket, protocol, &upper)))
    }

    /// The path of packets for a socket with these addresses; `None` if there was no traffic.
    pub(crate) fn path(&self, ends: Ends) -> Option<PlainPath> {
        let known = self.correspondent.as_ref()?;
        Some(PlainPath {
            wire: known.wire(ends, &self.locators),
            own_nonce: self.nonce,
            nonce: known.nonce.clone(),
            is_told: known.update.is_none(),
        })
    }

    fn receive_message(
        &mut self,
        from_to: Ends,
        nonce: Option<&[u8]>,
        message: &[u8],
        now: Instant,
    ) {
        let Some(known) = &mut self.correspondent else { return };
        let is_whole = checksum(from_to, ICMPV6, message) == 0;
        // RFC 6744 s7: an ICMPv6 message without the nonce is not believed.
        let Some(nonce) = nonce.filter(|_| is_whole && message.len() >= 8) else { return };
        if !known.may_have_sent(from_to[0], Some(nonce), now) {
            return;
        }
        let back = [from_to[1], from_to[0]];
        let mut answer = message.to_vec();
        match (message[0], message[5]) {
            (ECHO_REQUEST, _) => answer[0] = ECHO_REPLY,
            (LOCATOR_UPDATE, ADVERTISEMENT) => {
                let mut locators: Vec<_> = message[8..].chunks_exact(12).collect();
                locators.sort_by_key(|entry| [entry[8], entry[9]]);
                known.locators =
                    locators.iter().map(|entry| entry[..8].try_into().expect("eight")).collect();
                answer[5] = ACKNOWLEDGEMENT;
            }
            (LOCATOR_UPDATE, ACKNOWLEDGEMENT) => {
                let told = message[8..].chunks_exact(12).map(|entry| entry[..8].to_vec());
                let told: Vec<_> = told.collect();
                if known.update.as_ref().is_some_and(|update| told == update.locators) {
                    (known.update, known.has_read) = (None, true);
                    known.attach_until = now + AFTER_ACKNOWLEDGEMENT;
                }
                return;
            }
            // RFC 4443 s2.4 (b): the node does not know the type of Moorline's handshake.
            _ => return,
        }
        let answer = summed(back, ICMPV6, answer);
        self.out.push_back(with_nonce(back, self.nonce, ICMPV6, &answer));
    }
}

impl Correspondent {
    fn new(ends: Ends, now: Instant) -> Self {
        let locators = vec![l64_of(ends[1])];
        Self { ends, nonce: None, locators, attach_until: now, update: None, has_read: false }
    }

    /// Source and destination of packets to the correspondent, for a socket with these addresses.
    fn wire(&self, ends: Ends, locators: &[L64]) -> Ends {
        if self.nonce.is_none() {
            // The correspondent does not know that another locator is this node's.
            return ends;
        }
        // Until the correspondent has read of other locators, it knows that of the socket.
        let is_known = !self.has_read && locators.contains(&l64_of(ends[0]));
        let best = locators.first().filter(|_| !is_known);
        let own = best.map_or(ends[0], |own| at(ends[0], *own));
        [own, self.locators.first().map_or(ends[1], |l64| at(ends[1], *l64))]
    }

    /// Whether a packet with this nonce is the correspondent's. RFC 6744 s3 and s6: the first nonce is the
    /// correspondent's, and any other is a forgery. RFC 6741 s5.4: without a nonce, the locator has to be one that
    /// the correspondent has named.
    fn may_have_sent(&mut self, source: [u8; 16], nonce: Option<&[u8]>, now: Instant) -> bool {
        if source[8..] != self.ends[1][8..] {
            return false;
        }
        match (nonce, &self.nonce) {
            (Some(nonce), None) => {
                self.nonce = Some(nonce.to_vec());
                self.attach_until = now + FIRST_PACKETS;
                true
            }
            (Some(nonce), Some(known)) => nonce == known,
            (None, Some(_)) => self.locators.contains(&l64_of(source)),
            (None, None) => true,
        }
    }
}

/// A nonce, the protocol behind Destination Options, and the octets of that protocol.
type Opened<'a> = (Option<&'a [u8]>, u8, &'a [u8]);

/// Reads a packet with at most one extension header (RFC 6744 s2).
fn opened(packet: &[u8]) -> Option<Opened<'_>> {
    let rest = packet.get(40..)?;
    if packet[6] != DESTINATION_OPTIONS {
        return Some((None, packet[6], rest));
    }
    let len = 8 * (usize::from(*rest.get(1)?) + 1);
    let (mut options, upper) = (rest.get(2..len)?, rest.get(len..)?);
    while let [kind, behind @ ..] = options {
        if *kind == PAD1 {
            options = behind;
            continue;
        }
        let (len, data) = behind.split_first()?;
        let (data, next) = data.split_at_checked(usize::from(*len))?;
        if *kind == NONCE {
            return Some((Some(data), rest[0], upper));
        }
        options = next;
    }
    Some((None, rest[0], upper))
}

fn with_nonce(ends: Ends, nonce: [u8; 4], protocol: u8, upper: &[u8]) -> Vec<u8> {
    let [a, b, c, d] = nonce;
    ip6(ends, DESTINATION_OPTIONS, &[&[protocol, 0, NONCE, 4, a, b, c, d], upper].concat())
}

fn ip6([source, destination]: Ends, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).expect("a packet").to_be_bytes();
    let header = [0x60, 0, 0, 0, len[0], len[1], next_header, 64];
    [&header[..], &source, &destination, payload].concat()
}

/// The packet with the Flow Label of another one.
fn with_label_of(other: &[u8], mut packet: Vec<u8>) -> Vec<u8> {
    packet[..4].copy_from_slice(&other[..4]);
    packet
}

/// The octets of the upper layer with the checksum for these addresses.
fn summed(ends: Ends, protocol: u8, mut upper: Vec<u8>) -> Vec<u8> {
    let at = match protocol {
        TCP => 16,
        UDP => 6,
        _ => 2,
    };
    upper[at..at + 2].fill(0);
    let sum = match checksum(ends, protocol, &upper) {
        0 if protocol == UDP => 0xffff,
        sum => sum,
    };
    upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    upper
}

/// The checksum of RFC 8200 s8.1.
fn checksum(ends: Ends, protocol: u8, upper: &[u8]) -> u16 {
    let len = u32::try_from(upper.len()).expect("a packet").to_be_bytes();
    let all = [ends[0].as_slice(), &ends[1], &len, &[0, 0, 0, protocol], upper].concat();
    let words =
        all.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

/// The ports of a TCP or UDP packet, source first.
fn ports_of(upper: &[u8]) -> [u8; 4] {
    upper.first_chunk().copied().unwrap_or_default()
}

fn address(packet: &[u8], from: usize) -> [u8; 16] {
    packet[from..from + 16].try_into().expect("an IPv6 packet")
}

fn l64_of(address: [u8; 16]) -> L64 {
    address[..8].try_into().expect("eight")
}

fn at(address: [u8; 16], l64: L64) -> [u8; 16] {
    std::array::from_fn(|n| if n < 8 { l64[n] } else { address[n] })
}

/// The addresses with zero locators, for the checksum of a transport.
fn nids_of(ends: Ends) -> Ends {
    ends.map(|end| at(end, [0; 8]))
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;
const PAD1: u8 = 0;
const NONCE: u8 = 0x8b;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
const LOCATOR_UPDATE: u8 = 156;
const ADVERTISEMENT: u8 = 1;
const ACKNOWLEDGEMENT: u8 = 2;
/// Time of "the first few packets" (RFC 6744 s6), which have the nonce.
const FIRST_PACKETS: Duration = Duration::from_secs(2);
/// Time with the nonce after a change (RFC 6744 s4: "such as 1 minute").
const AFTER_CHANGE: Duration = Duration::from_secs(60);
/// Time with the nonce after an acknowledgement (RFC 6744 s4: three round trips).
const AFTER_ACKNOWLEDGEMENT: Duration = Duration::from_millis(300);
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
