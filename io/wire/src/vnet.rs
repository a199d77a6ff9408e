//! The notes that Linux puts in front of a frame: `struct virtio_net_hdr` (linux/virtio_net.h), in the byte order of this machine.
//!
//! The notes say which work on the frame is left for a network adapter: a checksum, and the cutting of a large segment.

/// The notes in front of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Checksum that is not complete yet.
    pub checksum: Option<PartialChecksum>,
    /// How to cut the frame; `None` if the frame is not to be cut.
    pub segmentation: Option<Segmentation>,
}

/// A checksum that is not complete yet: its field holds the sum of the pseudo-header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Octet of the frame at which the sum begins: the start of the upper layer.
    pub start: u16,
    /// Offset of the field behind `start`.
    pub offset: u16,
}

/// How to cut a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// What the frame carries.
    pub kind: Kind,
    /// Octets of payload of each segment but the last.
    pub size: u16,
    /// Octets of all headers, from the Ethernet header to the upper layer's. A hint: the kernel sometimes gives more.
    pub header_len: u16,
}

/// Upper layer and IP version of a frame to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// Datagrams of UDP, over either version.
    Udp,
}

/// Reason why notes are not valid, or not for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotesError {
    /// Fewer than [`LEN`] octets.
    Truncated,
    /// A way to cut that this crate does not know, such as the fragmentation of UDP.
    Segmentation,
}

impl Notes {
    /// Reads the notes in front of a frame.
    ///
    /// # Errors
    /// See [`NotesError`].
    pub fn parse(octets: &[u8]) -> Result<Self, NotesError> {
        let &[flags, kind, ref fields @ ..] =
            octets.first_chunk::<LEN>().ok_or(NotesError::Truncated)?;
        let field = |at: usize| u16::from_ne_bytes([fields[at], fields[at + 1]]);
        let needs_checksum = flags & NEEDS_CHECKSUM != 0;
        let checksum =
            needs_checksum.then(|| PartialChecksum { start: field(4), offset: field(6) });
        let kind = match kind & !GSO_ECN {
            GSO_NONE => return Ok(Self { checksum, segmentation: None }),
            GSO_TCP4 => Kind::Tcp4,
            GSO_TCP6 => Kind::Tcp6,
            GSO_UDP_L4 => Kind::Udp,
            _ => return Err(NotesError::Segmentation),
        };
        let segmentation = Some(Segmentation { kind, size: field(2), header_len: field(0) });
        Ok(Self { checksum, segmentation })
    }

    /// The octets of the notes.
    #[must_use]
    pub fn octets(&self) -> [u8; LEN] {
        let mut octets = [0; LEN];
        let mut put = |at: usize, field: u16| {
            octets[at..at + 2].copy_from_slice(&field.to_ne_bytes());
        };
        if let Some(checksum) = self.checksum {
            put(6, checksum.start);
            put(8, checksum.offset);
        }
        if let Some(segmentation) = self.segmentation {
            put(2, segmentation.header_len);
            put(4, segmentation.size);
        }
        octets[0] = if self.checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
        octets[1] = self.segmentation.map_or(GSO_NONE, |segmentation| match segmentation.kind {
            Kind::Tcp4 => GSO_TCP4,
            Kind::Tcp6 => GSO_TCP6,
            Kind::Udp => GSO_UDP_L4,
        });
        octets
    }
}

/// Octets of the notes.
pub const LEN: usize = 10;

/// Flag: the checksum is not complete (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
const NEEDS_CHECKSUM: u8 = 1;
/// The frame is not to be cut (`VIRTIO_NET_HDR_GSO_NONE`).
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Bit beside a kind of TCP: the frame has the flag CWR, for the first segment alone (RFC 3168 s6.1.2).
const GSO_ECN: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_have_the_layout_of_linux() {
        // flags, gso_type, hdr_len, gso_size, csum_start, csum_offset.
        let mut octets = vec![1, 4];
        for field in [74_u16, 1440, 54, 16] {
            octets.extend(field.to_ne_bytes());
        }
        let notes = Notes {
            checksum: Some(PartialChecksum { start: 54, offset: 16 }),
            segmentation: Some(Segmentation { kind: Kind::Tcp6, size: 1440, header_len: 74 }),
        };
        assert_eq!(Notes::parse(&octets), Ok(notes));
        assert_eq!(&notes.octets()[..], octets);
        octets[1] |= 0x80;
        assert_eq!(Notes::parse(&octets), Ok(notes), "CWR changes nothing but the first segment");
    }

    #[test]
    fn plain_frames_have_zeros() {
        assert_eq!(Notes::default().octets(), [0; LEN]);
        assert_eq!(Notes::parse(&[0; LEN]), Ok(Notes::default()));
        // VIRTIO_NET_HDR_F_DATA_VALID: the adapter has checked the sum.
        assert_eq!(Notes::parse(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Ok(Notes::default()));
    }

    #[test]
    fn each_kind_round_trips_and_others_are_refused() {
        for kind in [Kind::Tcp4, Kind::Tcp6, Kind::Udp] {
            let segmentation = Some(Segmentation { kind, size: 1, header_len: 2 });
            let notes = Notes { checksum: None, segmentation };
            assert_eq!(Notes::parse(&notes.octets()), Ok(notes));
        }
        assert_eq!(Notes::parse(&[0; LEN - 1]), Err(NotesError::Truncated));
        // 3 is the fragmentation of UDP.
        assert_eq!(Notes::parse(&[1, 3, 0, 0, 0, 0, 0, 0, 0, 0]), Err(NotesError::Segmentation));
    }
}
