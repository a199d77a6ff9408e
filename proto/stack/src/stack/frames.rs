//! The frames that wait for the caller.

use alloc::boxed::Box;
use alloc::collections::VecDeque;

use moorline_ip::ethernet::{self, Ethernet};
use moorline_ip::{Header, PacketBuf, header};

use super::WireId;
use crate::tcp::{Segments, Spares};

/// A queue of frames. A super-segment waits whole, and is cut when the caller takes its frames one by one: so a frame is still in the
/// first cache of the processor when the caller reads it, and the next one gets its memory.
#[derive(Debug, Default)]
pub(super) struct Frames(VecDeque<(WireId, Waiting)>);

#[derive(Debug)]
enum Waiting {
    Frame(PacketBuf),
    Cut(Box<Cut>),
}

/// A super-segment, and the headers in front of each of its segments. They differ by the length alone.
#[derive(Debug)]
pub(super) struct Cut {
    segments: Segments,
    headers: [u8; ethernet::LEN + header::LEN],
}

impl Frames {
    pub(super) fn push(&mut self, wire: WireId, frame: PacketBuf) {
        self.0.push_back((wire, Waiting::Frame(frame)));
    }

    pub(super) fn push_cut(&mut self, wire: WireId, cut: Cut) {
        self.0.push_back((wire, Waiting::Cut(Box::new(cut))));
    }

    /// The next frame. The memory of a super-segment goes to `spares` behind its last frame.
    pub(super) fn pop(&mut self, spares: &mut Spares) -> Option<(WireId, PacketBuf)> {
        loop {
            if let (wire, Waiting::Cut(cut)) = self.0.front_mut()?
                && let Some(frame) = cut.next_frame()
            {
                return Some((*wire, frame));
            }
            match self.0.pop_front()? {
                (wire, Waiting::Frame(frame)) => return Some((wire, frame)),
                (_, Waiting::Cut(cut)) => {
                    if let Some(spent) = cut.segments.into_spent() {
                        spares.give(spent);
                    }
                }
            }
        }
    }
}

impl Cut {
    pub(super) fn new(segments: Segments, header: &Header, link: Ethernet) -> Self {
        let mut headers = [0; ethernet::LEN + header::LEN];
        headers[..ethernet::LEN].copy_from_slice(&link.octets());
        headers[ethernet::LEN..].copy_from_slice(&header.octets());
        Self { segments, headers }
    }

    fn next_frame(&mut self) -> Option<PacketBuf> {
        let mut frame = self.segments.next_behind(&self.headers)?;
        // The packet of which the segment is a part had a length, too.
        let payload_len = u16::try_from(frame.len() - self.headers.len()).ok()?;
        frame[PAYLOAD_LEN..PAYLOAD_LEN + 2].copy_from_slice(&payload_len.to_be_bytes());
        Some(frame)
    }
}

/// Where a frame has the Payload Length of its packet.
const PAYLOAD_LEN: usize = ethernet::LEN + 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{Flags, LARGEST, Segment, Seq, cut, is_checksum_right};
    use core::net::Ipv6Addr;
    use moorline_ip::Mac;
    use moorline_ip::ip6::TCP;

    #[test]
    fn the_frames_of_a_super_segment_go_before_later_ones_and_leave_its_memory() {
        let whole = Segment {
            source_port: 1,
            destination_port: 2,
            sequence: Seq(7),
            acknowledgment: Seq(0),
            flags: Flags::ACK,
            window: 1,
            options: &[],
            payload: &[9; 2500],
        };
        let mut memory = PacketBuf::with_capacity(LARGEST);
        memory.extend(&whole.to_packet());
        let [source, destination] = [1, 2].map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n));
        let header = Header::new(source, destination, TCP, 64, 0);
        let link =
            Ethernet { destination: Mac([2; 6]), source: Mac([4; 6]), ether_type: ethernet::IPV6 };
        let segments = cut(memory, 1000, source, destination);
        assert_eq!(segments.len(), 3);
        let (mut frames, mut spares) = (Frames::default(), Spares::default());
        frames.push_cut(WireId(1), Cut::new(segments, &header, link));
        frames.push(WireId(2), PacketBuf::copy_of(b"later"));
        for (number, payload) in [(7, 1000), (1007, 1000), (2007, 500)] {
            let (wire, frame) = frames.pop(&mut spares).expect("a segment");
            let packet = frame.strip_prefix(&link.octets()).expect("the header of the link");
            let read = Header::parse(packet).expect("a packet");
            assert_eq!((wire, read.source, read.packet_len()), (WireId(1), source, packet.len()));
            assert!(is_checksum_right(&read, &packet[header::LEN..]));
            let segment = Segment::parse(&packet[header::LEN..]).expect("a segment");
            assert_eq!((segment.sequence, segment.payload.len()), (Seq(number), payload));
            assert!(spares.take().is_none(), "there is one more frame");
        }
        assert_eq!(frames.pop(&mut spares), Some((WireId(2), PacketBuf::copy_of(b"later"))));
        assert_eq!((frames.pop(&mut spares), spares.take().map(|it| it.len())), (None, Some(2520)));
    }
}
