use alloc::vec::Vec;
use core::fmt;
use core::num::NonZeroU16;
use core::ops::{Deref, DerefMut};

/// A packet with room in front of it, so that headers are put in front without moving the rest.
///
/// The packet is what the buffer dereferences to.
#[derive(Clone, Default)]
pub struct PacketBuf {
    octets: Vec<u8>,
    start: usize,
    segment_size: Option<NonZeroU16>,
}

impl PacketBuf {
    /// Creates an empty packet with [`HEADROOM`] octets of room in front, and room for `capacity` octets.
    #[inline]
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut octets = Vec::with_capacity(HEADROOM + capacity);
        octets.resize(HEADROOM, 0);
        Self { octets, start: HEADROOM, segment_size: None }
    }

    /// Octets of payload of each TCP segment but the last into which the wire is to cut this packet, whose TCP checksum is not there yet. `None`
    /// for a packet that goes as it is.
    #[inline]
    #[must_use]
    pub const fn segment_size(&self) -> Option<NonZeroU16> {
        self.segment_size
    }

    /// Leaves the cutting of the packet to the wire: see [`Self::segment_size`].
    #[inline]
    pub const fn set_segment_size(&mut self, size: Option<NonZeroU16>) {
        self.segment_size = size;
    }

    /// Creates a packet with these octets.
    #[must_use]
    pub fn copy_of(packet: &[u8]) -> Self {
        let mut buffer = Self::with_capacity(packet.len());
        buffer.extend(packet);
        buffer
    }

    /// Makes a packet of `len` octets in the memory of this one, with [`HEADROOM`] octets of room in front. The octets are those that the
    /// memory has, or zero.
    pub fn reset(&mut self, len: usize) {
        self.start = HEADROOM;
        self.segment_size = None;
        self.octets.resize(HEADROOM + len, 0);
    }

    /// Octets that the packet can hold without more memory, beside the room in front.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.octets.capacity().saturating_sub(HEADROOM)
    }

    /// Octets of memory that the packet keeps, with the room in front and behind.
    #[inline]
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.octets.capacity()
    }

    /// Appends octets.
    #[inline]
    pub fn extend(&mut self, octets: &[u8]) {
        self.octets.extend_from_slice(octets);
    }

    /// Appends what `write` appends to the octets of the buffer.
    #[inline]
    pub fn append_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.octets);
    }

    /// Puts a header in front of the packet. If the room in front is too small, the packet moves.
    #[inline]
    pub fn prepend(&mut self, header: &[u8]) {
        if self.start < header.len() {
            let more = header.len() - self.start + HEADROOM;
            self.octets.splice(0..0, core::iter::repeat_n(0, more));
            self.start += more;
        }
        self.start -= header.len();
        self.octets[self.start..self.start + header.len()].copy_from_slice(header);
    }

    /// Takes up to `len` octets off the front; they become room.
    #[inline]
    pub fn strip(&mut self, len: usize) {
        self.start = (self.start + len).min(self.octets.len());
    }

    /// Cuts the packet to its first `len` octets. A shorter packet stays as it is.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.octets.truncate(self.start + len);
    }

    /// The octets of the packet, without the room in front.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        self.octets.drain(..self.start);
        self.octets
    }
}

impl Deref for PacketBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.octets[self.start..]
    }
}

impl DerefMut for PacketBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.octets[self.start..]
    }
}

/// A buffer that holds the octets as they are, without room in front.
impl From<Vec<u8>> for PacketBuf {
    fn from(octets: Vec<u8>) -> Self {
        Self { octets, start: 0, segment_size: None }
    }
}

impl PartialEq for PacketBuf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for PacketBuf {}

impl fmt::Debug for PacketBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketBuf({} octets)", self.len())
    }
}

/// Octets of room in front of a new packet: for the headers of Ethernet, IPv6, Shim6 and ESP, or for the Nonce option.
pub const HEADROOM: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_go_in_front_and_come_off_again() {
        let mut packet = PacketBuf::copy_of(b"data");
        packet.prepend(b"udp ");
        packet.prepend(b"ip6 ");
        assert_eq!(&*packet, b"ip6 udp data");
        packet.strip(4);
        packet.truncate(6);
        assert_eq!(packet.into_vec(), b"udp da");
    }

    #[test]
    fn a_packet_in_old_memory_has_its_length_and_room() {
        let mut packet = PacketBuf::copy_of(b"octets of before");
        packet.strip(3);
        packet.reset(4);
        assert_eq!((&*packet, packet.start), (&b"octe"[..], HEADROOM));
        packet.reset(20);
        assert_eq!((packet[..4].len(), &packet[4..]), (4, &[0; 16][..]));
        assert!(packet.capacity() >= 20);
        assert_eq!(PacketBuf::default().capacity(), 0);
    }

    #[test]
    fn a_header_that_finds_no_room_moves_the_packet() {
        let mut packet = PacketBuf::from(b"data".to_vec());
        packet.prepend(b"ip6 ");
        packet.prepend(&[b'x'; HEADROOM + 1]);
        assert_eq!(packet.len(), HEADROOM + 1 + 8);
        packet.strip(HEADROOM + 1);
        assert_eq!(&*packet, b"ip6 data");
        packet.strip(100);
        assert!(packet.is_empty());
    }
}
