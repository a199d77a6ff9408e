use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use moorline_wire::MessageType;
use moorline_wire::ip6::Ip6;

use crate::capture::Frame;
use crate::hop::ETHERNET_LEN;

/// Times of the messages that establish a context (RFC 5533 s7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// Time of the first I1, even if it was sent again.
    i1: Duration,
    /// Time of the last I2.
    i2: Duration,
    r2: Duration,
    pub(super) i2_octets: usize,
}

impl Exchange {
    pub(super) fn i1_to_r2(&self) -> Duration {
        self.r2.saturating_sub(self.i1)
    }

    pub(super) fn i2_to_r2(&self) -> Duration {
        self.r2.saturating_sub(self.i2)
    }
}

/// The complete exchanges, in the order of their ends.
pub(super) fn exchanges(frames: &[Frame]) -> Vec<Exchange> {
    let mut begun: BTreeMap<Pair, (Duration, Option<(Duration, usize)>)> = BTreeMap::new();
    let mut ended = Vec::new();
    for frame in frames {
        let Some((Ip6 { source, destination, .. }, kind)) = frame.control_message() else {
            continue;
        };
        match kind {
            MessageType::I1 => {
                begun.entry([source, destination]).or_insert((frame.at, None));
            }
            MessageType::I2 => {
                if let Some((_, i2)) = begun.get_mut(&[source, destination]) {
                    *i2 = Some((frame.at, frame.octets.len() - ETHERNET_LEN));
                }
            }
            MessageType::R2 => {
                if let Some((i1, Some((i2, i2_octets)))) = begun.remove(&[destination, source]) {
                    ended.push(Exchange { i1, i2, r2: frame.at, i2_octets });
                }
            }
            _ => {}
        }
    }
    ended
}

/// Source and destination.
type Pair = [Ipv6Addr; 2];

#[cfg(test)]
mod tests {
    use super::*;
    use moorline_wire::PROTOCOL;

    const I1: u8 = MessageType::I1.value();
    const I2: u8 = MessageType::I2.value();
    const R2: u8 = MessageType::R2.value();

    fn frame(at: u64, from: u8, to: u8, kind: u8, length: usize) -> Frame {
        let mut octets = vec![0; 14 + 40 + length.max(3)];
        octets[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        octets[14 + 6] = PROTOCOL;
        octets[14 + 23] = from;
        octets[14 + 39] = to;
        octets[14 + 42] = kind;
        octets.truncate(14 + 40 + length);
        Frame { length: octets.len(), octets, at: Duration::from_micros(at) }
    }

    #[test]
    fn the_first_i1_and_the_last_i2_count() {
        let r1 = 2;
        let frames = [
            frame(10, 1, 2, I1, 16),
            frame(20, 1, 2, I1, 16),
            frame(30, 2, 1, r1, 40),
            frame(40, 1, 2, I2, 400),
            frame(50, 1, 2, I2, 408),
            frame(90, 2, 1, R2, 300),
            frame(99, 2, 1, R2, 300),
        ];
        let [one] = exchanges(&frames)[..] else { panic!() };
        assert_eq!(one.i1_to_r2(), Duration::from_micros(80));
        assert_eq!((one.i2_to_r2(), one.i2_octets), (Duration::from_micros(40), 448));
    }

    #[test]
    fn pairs_of_addresses_are_told_apart_and_may_come_again() {
        let frames = [
            frame(1, 1, 2, I1, 16),
            frame(2, 1, 3, I1, 16),
            frame(3, 1, 3, I2, 100),
            frame(4, 1, 2, I2, 100),
            frame(5, 3, 1, R2, 100),
            frame(7, 2, 1, R2, 100),
            frame(11, 1, 2, I1, 16),
            frame(12, 1, 2, I2, 100),
            frame(14, 2, 1, R2, 100),
            // An I1 without an answer, a payload packet, and a cut frame.
            frame(20, 1, 4, I1, 16),
            frame(21, 1, 2, 0x80 | I1, 16),
            frame(22, 1, 2, I1, 2),
        ];
        let times: Vec<_> = exchanges(&frames).iter().map(Exchange::i1_to_r2).collect();
        assert_eq!(times, [3, 6, 3].map(Duration::from_micros));
    }
}
